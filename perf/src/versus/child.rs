use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::machine::{self, Ended};

/// What a program printed and used.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) ended: Ended,
    /// From starting the program to its end.
    pub(crate) wall: Nanos,
    pub(crate) stdout: String,
}

/// Runs a program on one core, start-up included, for at most `limit`.
pub(crate) fn run(command: &mut Command, core: usize, limit: Nanos) -> io::Result<Finished> {
    let mut stdout = tempfile::tempfile()?;
    let mut stderr = tempfile::tempfile()?;
    command
        .stdin(Stdio::null())
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?);
    let start = MonotonicClock.now();
    let (ended, in_time) = run_pinned(command, core, limit)?;
    let wall = MonotonicClock.now() - start;
    let said = |file: &mut File| -> io::Result<String> {
        let mut text = String::new();
        file.rewind()?;
        file.read_to_string(&mut text)?;
        Ok(text)
    };
    // At its ceiling a client is its own limit, and ridgeline says so by this code.
    let says_invalid = ended.status.code() == Some(3);
    if !in_time || !(ended.status.success() || says_invalid) {
        let what = if in_time {
            ended.status.to_string()
        } else {
            format!("no end in {limit}")
        };
        let text = said(&mut stderr)?;
        return Err(io::Error::other(format!(
            "{command:?}: {what}: {}",
            text.trim()
        )));
    }
    Ok(Finished {
        ended,
        wall,
        stdout: said(&mut stdout)?,
    })
}

/// Starts the program from a thread that is kept to the core, so that every thread of it is.
fn run_pinned(command: &mut Command, core: usize, limit: Nanos) -> io::Result<(Ended, bool)> {
    let running = |command: &mut Command| {
        machine::pin(core)?;
        let name = command.get_program().to_owned();
        let mut child = command.spawn().map_err(|error| {
            io::Error::other(format!("cannot start {}: {error}", name.display()))
        })?;
        let in_time = ends_within(&child, limit);
        if !matches!(in_time, Ok(true)) {
            child.kill()?;
        }
        let ended = machine::reap(child.id())?;
        Ok((ended, in_time?))
    };
    thread::scope(|scope| scope.spawn(|| running(command)).join())
        .map_err(|_| io::Error::other("the thread that waits for a program panicked"))?
}

fn ends_within(child: &Child, limit: Nanos) -> io::Result<bool> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("a process id out of range"))?;
    let descriptor = pidfd_open(pid, PidfdFlags::empty())?;
    let deadline = MonotonicClock.now() + limit;
    loop {
        let left = deadline - MonotonicClock.now();
        let left = Timespec::try_from(std::time::Duration::from(left)).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&left)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A running bare-server. It ends with its standard input: when this is dropped, or this process
/// is gone.
#[derive(Debug)]
pub(crate) struct Served {
    child: Child,
    /// As `127.0.0.1:PORT`.
    pub(crate) address: String,
}

impl Served {
    pub(crate) fn start(program: &Path, core: usize, args: &[String]) -> io::Result<Self> {
        let mut child = Command::new(program)
            .args(["--attached", "--core", &core.to_string()])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| io::Error::other(format!("cannot start {}: {e}", program.display())))?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let address = line
            .trim()
            .strip_prefix("listening on http://")
            .unwrap_or_default();
        if address.is_empty() {
            child.kill()?;
            let status = child.wait()?;
            return Err(io::Error::other(format!(
                "{} did not start: {status}",
                program.display()
            )));
        }
        let address = address.to_owned();
        Ok(Self { child, address })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // Nothing could be done about a failure.
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_program_is_measured_to_its_end() {
        let core = rustix::thread::sched_getcpu();
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo said";
        let finished = run(&mut sh(script), core, Nanos::from_secs(60)).unwrap();
        assert_eq!(finished.stdout, "said\n");
        assert!(finished.ended.cpu.total_ns() > 0 && finished.wall > Nanos::ZERO);
        let failed = run(&mut sh("echo why >&2; exit 7"), core, Nanos::from_secs(60)).unwrap_err();
        assert!(
            failed.to_string().contains("exit status: 7: why"),
            "{failed}"
        );
        let endless = run(&mut sh("exec cat /dev/zero"), core, Nanos::ZERO).unwrap_err();
        assert!(endless.to_string().contains("no end in"), "{endless}");
        assert!(
            run(&mut sh("true"), 5000, Nanos::from_secs(60)).is_err(),
            "no such core"
        );
    }
}
