//! How the programs here end.

use std::error::Error;
use std::process::ExitCode;

/// The code a program ends with; an error is said in one line and gives 1.
#[must_use]
#[expect(clippy::print_stderr, reason = "the last words of a program")]
pub fn end(result: Result<ExitCode, Box<dyn Error>>) -> ExitCode {
    result.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}
