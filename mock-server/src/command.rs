use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;

use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::args::MockServerArgs;
use crate::gauges::Stats;
use crate::run::{Running, ServerError};

/// The whole command: starts the server, prints `listening on URL` as the first line, and serves
/// until SIGINT or SIGTERM; the first of them lets answers under way end, the second ends at once.
/// Returns the exit code: 1 when the end cut off an answer, else 0.
///
/// # Errors
/// When the server can't start, or had to end.
pub fn command(args: &MockServerArgs) -> Result<u8, ServerError> {
    let running = args.start()?;
    let stopper = running.stopper();
    let mut signals = signals()?;
    spawn("mock-server-signals", move || {
        // A byte per signal; an error can only mean that none will come any more.
        if signals.read_exact(&mut [0]).is_ok() {
            stopper.drain();
        }
        if signals.read_exact(&mut [0]).is_ok() {
            stopper.stop();
        }
    })?;
    say(format_args!("listening on {}", running.url()))?;
    let why = running
        .fallback()
        .map_or_else(String::new, |why| format!(" ({why})"));
    say(format_args!(
        "driver: {}{why}, {} threads, up to {} connections each",
        running.driver(),
        running.threads(),
        running.connections_max(),
    ))?;
    let stats = args.listen.stats.then(|| watch(&running)).transpose()?;
    let served = running.join()?;
    if let Some(stats) = stats {
        stats.end();
    }
    if served.lateness.writes() > 0 {
        say(format_args!("{}", served.lateness))?;
    }
    if args.truth.truth.is_some() {
        say(format_args!(
            "truth: {} lines, {} dropped",
            served.truth_lines, served.truth_dropped
        ))?;
    }
    say(format_args!(
        "served {} requests on {} connections: {} refused, {} cut off, {} of them by the end, {} tokens",
        served.requests,
        served.connections,
        served.requests_refused,
        served.answers_cut,
        served.answers_abandoned,
        served.tokens,
    ))?;
    if served.faults.total() > 0 {
        say(format_args!("injected {}", served.faults))?;
    }
    Ok(u8::from(served.answers_abandoned > 0))
}

/// The thread behind `--stats`.
struct Watch {
    thread: JoinHandle<()>,
    /// Dropped to end it.
    ends: mpsc::Sender<()>,
}

/// From one line of `--stats` to the next.
const STATS_EVERY: Nanos = Nanos::from_secs(1);

/// Starts to print a line a second, from a thread that is none of the shards'.
fn watch(running: &Running) -> Result<Watch, ServerError> {
    let watched = running.watched();
    let (ends, ended) = mpsc::channel();
    let thread = spawn("mock-server-stats", move || {
        let start = MonotonicClock.now();
        let (mut last, mut before) = (start, watched.snapshot());
        let mut next = start + STATS_EVERY;
        loop {
            let wait = next - MonotonicClock.now();
            if ended.recv_timeout(wait.into()) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let (now, after) = (MonotonicClock.now(), watched.snapshot());
            let line = Stats::between(&before, &after, now - last, now - start);
            // With stderr gone there is nobody to tell.
            let _ = writeln!(io::stderr(), "{line}");
            (last, before) = (now, after);
            next += STATS_EVERY;
        }
    })?;
    Ok(Watch { thread, ends })
}

impl Watch {
    fn end(self) {
        drop(self.ends);
        // It has nothing to say about its end.
        let _ = self.thread.join();
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, ServerError> {
    let builder = std::thread::Builder::new().name(name.to_owned());
    builder.spawn(run).map_err(|source| ServerError::Os {
        what: "start a thread",
        source,
    })
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
