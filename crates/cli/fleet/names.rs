use std::thread;
use std::time::Duration;

use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use ridgeline_engine::Control;
use ridgeline_transport_zmq::Address;

use crate::complaint::Complaint;
use crate::terminal;

/// Between two looks at a name that nobody knows yet.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Waits until the names in `addresses` are known: that of a machine that is still being started, as a pod
/// of Kubernetes, is not. Whether anybody answers there is for later.
///
/// # Errors
/// One that is not known at `by`, or a signal.
pub(super) fn wait(
    addresses: &[Address],
    by: Nanos,
    control: &Control,
    quiet: bool,
) -> Result<(), Complaint> {
    for address in addresses {
        let mut told = quiet;
        while let Err(error) = address.resolve() {
            if control.is_stopped() || control.is_cancelled() {
                return Err(Complaint::new("interrupted before the run began"));
            }
            if MonotonicClock.now() >= by {
                return Err(Complaint::new(format!(
                    "the worker {error}; --join-timeout is how long it may take to come"
                )));
            }
            if !told {
                terminal::note(&format!("note: waiting for the worker {error}"));
                told = true;
            }
            thread::park_timeout(LOOK_EVERY);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_nobody_knows_is_told_when_the_time_is_over() {
        let control = Control::new(1);
        let addresses = |text: &str| vec![text.parse().unwrap()];
        let wait = |text: &str| wait(&addresses(text), Nanos::ZERO, &control, true);
        assert!(wait("tcp://127.0.0.1:7000").is_ok() && wait("ipc:///tmp/w").is_ok());
        // Reserved for names that nobody has (RFC 6761).
        let error = wait("tcp://worker-0.invalid:7000").unwrap_err().to_string();
        assert!(error.contains("worker-0.invalid:7000"), "{error}");
        assert!(error.contains("--join-timeout"), "{error}");
        control.cancel();
        let error = wait("tcp://worker-0.invalid:7000").unwrap_err().to_string();
        assert!(error.contains("interrupted"), "{error}");
    }
}
