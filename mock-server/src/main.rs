//! The mock server alone. Its flags are those of `ridgeline mock-server`.
#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use ridgeline_mock_server::{MockServerArgs, command};

/// An OpenAI-compatible server whose answers and times are known beforehand
#[derive(Parser)]
#[command(name = "ridgeline-mock-server", version)]
struct Flags {
    #[command(flatten)]
    args: MockServerArgs,
}

fn main() -> ExitCode {
    match command(&Flags::parse().args) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // With stderr gone too there is nobody to tell but the exit code.
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::from(2)
        }
    }
}
