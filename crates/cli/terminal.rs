//! Words to the user: results to stdout, everything else to stderr.

use std::io::{self, ErrorKind, IsTerminal, Write};

use crate::complaint::Complaint;

/// Columns where nobody says how many there are.
const WIDTH: usize = 80;

/// Writes a result. A reader that went away, as `head` does, is no mistake.
pub(crate) fn print(text: &str) -> Result<(), Complaint> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Complaint::new(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a line that is no result.
pub(crate) fn note(line: &str) {
    // With stderr gone there is nobody to tell.
    let _ = writeln!(io::stderr(), "{line}");
}

/// Columns of the terminal that stdout is.
pub(crate) fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stdout());
    size.map_or(WIDTH, |size| match size.ws_col {
        0 => WIDTH,
        columns => usize::from(columns),
    })
}

/// Whether stdout shows colours.
pub(crate) fn has_colour() -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    io::stdout().is_terminal()
        && set("NO_COLOR").is_none()
        && set("TERM").is_none_or(|term| term != "dumb")
}
