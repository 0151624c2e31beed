use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::args::MockServerArgs;
use crate::run::ServerError;

/// The whole command: starts the server, prints `listening on URL` as the first line, and serves
/// until SIGINT or SIGTERM.
///
/// # Errors
/// When the server can't start, or had to end.
pub fn command(args: &MockServerArgs) -> Result<(), ServerError> {
    let running = args.start()?;
    let stopper = running.stopper();
    let mut signals = signals()?;
    std::thread::Builder::new()
        .name("mock-server-signals".to_owned())
        .spawn(move || {
            // A byte per signal; an error can only mean that none will come any more.
            if signals.read_exact(&mut [0]).is_ok() {
                stopper.stop();
            }
        })
        .map_err(|source| ServerError::Os {
            what: "start a thread",
            source,
        })?;
    say(format_args!("listening on {}", running.url()))?;
    let why = running
        .fallback()
        .map_or_else(String::new, |why| format!(" ({why})"));
    let connections_max = running.connections_max();
    say(format_args!(
        "driver: {}{why}, up to {connections_max} connections a thread",
        running.driver()
    ))?;
    let served = running.join()?;
    say(format_args!(
        "served {} requests on {} connections: {} refused, {} cut off, {} tokens",
        served.requests,
        served.connections,
        served.requests_refused,
        served.answers_cut,
        served.tokens,
    ))
}

/// The end of a socket at which every SIGINT and SIGTERM puts a byte.
fn signals() -> Result<UnixStream, ServerError> {
    let failed = |source| ServerError::Os {
        what: "wait for signals",
        source,
    };
    let (read, write) = UnixStream::pair().map_err(failed)?;
    for signal in [SIGINT, SIGTERM] {
        let write = write.try_clone().map_err(failed)?;
        signal_hook::low_level::pipe::register(signal, write).map_err(failed)?;
    }
    Ok(read)
}

fn say(line: std::fmt::Arguments<'_>) -> Result<(), ServerError> {
    let mut out = io::stdout().lock();
    // A reader that went away after the first line is no reason to end.
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(ServerError::Os {
            what: "write to stdout",
            source: error,
        }),
        _ => Ok(()),
    }
}
