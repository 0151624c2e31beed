use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use ridgeline_transport_zmq::Address;

use crate::complaint::Complaint;

/// How long a worker may take to end once it was told that the run is over.
const END_MAX: Nanos = Nanos::from_secs(5);

/// Between two looks at whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Worker processes of this machine, and the folder of their sockets, which only this user can enter. What
/// still runs when this is dropped is ended.
#[derive(Debug)]
pub(super) struct Children {
    folder: PathBuf,
    children: Vec<Child>,
}

impl Children {
    /// Starts `count` of them.
    pub(super) fn start(count: u32, run_id: u32) -> Result<Self, Complaint> {
        let cannot = |error: io::Error| Complaint::new(format!("cannot start a worker: {error}"));
        let pid = std::process::id();
        let folder = std::env::temp_dir().join(format!("ridgeline-{pid}-{run_id:08x}"));
        let made = fs::DirBuilder::new().mode(0o700).create(&folder);
        made.map_err(cannot)?;
        let mut this = Self {
            folder,
            children: Vec::new(),
        };
        let program = std::env::current_exe().map_err(cannot)?;
        for worker in 0..count {
            let mut command = Command::new(&program);
            command
                .args(["worker", "--once", "--quiet", "--listen"])
                .arg(this.address(worker).to_string())
                .env_remove(super::token::VARIABLE)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                // Ctrl-C is for the coordinator, which tells them.
                .process_group(0);
            this.children.push(command.spawn().map_err(cannot)?);
        }
        Ok(this)
    }

    fn address(&self, worker: u32) -> Address {
        Address::Ipc(self.folder.join(format!("w{worker}.sock")))
    }

    /// Where they listen.
    pub(super) fn addresses(&self) -> Vec<Address> {
        let count = u32::try_from(self.children.len()).unwrap_or(u32::MAX);
        (0..count).map(|worker| self.address(worker)).collect()
    }

    /// How a worker's process ended, if it did.
    pub(super) fn ended(&mut self, worker: usize) -> Option<String> {
        let status = self.children.get_mut(worker)?.try_wait().ok()??;
        Some(words(status))
    }
}

fn words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("its process ended with exit code {code}"),
        (None, Some(signal)) => format!("its process was ended by signal {signal}"),
        (None, None) => "its process ended".to_owned(),
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        let by = MonotonicClock.now() + END_MAX;
        for child in &mut self.children {
            while MonotonicClock.now() < by && matches!(child.try_wait(), Ok(None)) {
                thread::park_timeout(LOOK_EVERY);
            }
            // Both fail for one that has ended.
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_process_is_told_in_words() {
        assert_eq!(
            words(ExitStatus::from_raw(9)),
            "its process was ended by signal 9"
        );
        assert_eq!(
            words(ExitStatus::from_raw(0x200)),
            "its process ended with exit code 2"
        );
    }
}
