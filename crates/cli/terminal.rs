//! Words to the user: results to stdout, everything else to stderr.

use std::io::{self, ErrorKind, IsTerminal, Write};

use crate::complaint::Complaint;

/// Columns where nobody says how many there are.
const WIDTH: usize = 80;

/// Where results go. A reader that went away, as `head` does, is no mistake: the rest is for
/// nobody.
#[derive(Debug)]
pub(crate) struct Results(io::StdoutLock<'static>);

impl Results {
    pub(crate) fn new() -> Self {
        Self(io::stdout().lock())
    }
}

impl Write for Results {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        heard(self.0.write(bytes), bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        heard(self.0.flush(), ())
    }
}

/// `written`, or `all` when the reader went away.
fn heard<T>(written: io::Result<T>, all: T) -> io::Result<T> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(all),
        Err(error) => Err(io::Error::new(
            error.kind(),
            format!("cannot write to stdout: {error}"),
        )),
        written => written,
    }
}

/// Writes a result.
pub(crate) fn print(text: &str) -> Result<(), Complaint> {
    let mut out = Results::new();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
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
