//! SIGINT and SIGTERM: the first ends the run early, the second at once.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use ridgeline_engine::Control;
use ridgeline_roofline::Interrupt;
use ridgeline_service::Stop;
use signal_hook::consts::{SIGINT, SIGTERM};

/// What requests in flight are given after the first signal.
pub(crate) const DRAIN: Nanos = Nanos::from_secs(2);

/// What signals are for. They are the process's, and so is this.
static WATCHED: Mutex<Watched> = Mutex::new(Watched {
    control: None,
    signals: 0,
    is_begun: false,
});

#[derive(Debug)]
struct Watched {
    /// The run that goes on, or the last one.
    control: Option<Arc<Control>>,
    /// Signals that came.
    signals: u32,
    is_begun: bool,
}

impl Watched {
    /// Has the run know how often it was asked to end.
    fn tell(&self) {
        match (&self.control, self.signals) {
            (Some(control), 1) => control.stop(MonotonicClock.now() + DRAIN),
            (Some(control), 2..) => control.cancel(),
            _ => {}
        }
    }
}

fn watched() -> MutexGuard<'static, Watched> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Watches for signals from now on, for a run. Of a series of runs the last that began is ended, and
/// those that begin later end at once.
pub(crate) fn watch(control: Arc<Control>) -> io::Result<()> {
    let mut current = watched();
    current.control = Some(control);
    current.tell();
    if !current.is_begun {
        heed(|_| each())?;
        current.is_begun = true;
    }
    Ok(())
}

/// Whether a signal has come to a run.
pub(crate) fn interrupted() -> bool {
    watched().signals > 0
}

fn each() {
    let mut current = watched();
    current.signals += 1;
    current.tell();
    match current.signals {
        1 => say("interrupted: waiting 2 s for requests in flight; again to end at once"),
        2 => say("interrupted again: ending now"),
        _ => std::process::exit(130),
    }
}

/// Watches for signals from now on, for a service: what was taken has `drain`, and then it is
/// cancelled; results that nobody takes have `grace` more.
pub(crate) fn watch_service(
    stop: Stop,
    control: Arc<Control>,
    drain: Nanos,
    grace: Nanos,
) -> io::Result<()> {
    heed(move |count| {
        let now = MonotonicClock.now();
        match count {
            1 => {
                control.stop(now + drain);
                stop.stop(now + drain + grace);
                say("ending: doing what was taken; again to cancel it");
            }
            2 => {
                control.cancel();
                stop.stop(now + grace);
                say("interrupted again: cancelling");
            }
            _ => std::process::exit(130),
        }
    })
}

/// Watches for signals from now on, for a roofline.
pub(crate) fn watch_roofline(interrupt: Interrupt) -> io::Result<()> {
    heed(move |count| match count {
        1 => {
            interrupt.now();
            say("interrupted: writing what was measured; again to end at once");
        }
        _ => std::process::exit(130),
    })
}

/// Calls `each` with the number of every signal that comes, on a thread of its own.
pub(crate) fn heed(mut each: impl FnMut(u32) + Send + 'static) -> io::Result<()> {
    let (mut read, write) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM] {
        signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
    }
    let watch = move || {
        for count in 1.. {
            // A byte per signal; an error can only mean that none will come any more.
            if read.read_exact(&mut [0]).is_err() {
                return;
            }
            each(count);
        }
    };
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(watch)?;
    Ok(())
}

fn say(line: &str) {
    // With stderr gone there is nobody to tell.
    let _ = writeln!(io::stderr(), "\n{line}");
}
