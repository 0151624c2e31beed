//! Programs that are run to their end, on one core and for a bounded time.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use ridgeline_perf::machine;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// What a program did.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    /// CPU time of the whole process, start-up included.
    pub(crate) cpu: Nanos,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    /// The program itself if it ended well, or else an error that quotes it. `also`: another exit code
    /// that is as good as 0.
    pub(crate) fn expect_success(self, name: &str, also: Option<i32>) -> io::Result<Self> {
        if self.status.success() || (also.is_some() && self.status.code() == also) {
            return Ok(self);
        }
        let said = self.stderr.trim();
        Err(io::Error::other(format!("{name}: {}: {said}", self.status)))
    }
}

/// Runs a program on one core, start-up included, for at most `limit`.
pub(crate) fn run(command: &mut Command, core: usize, limit: Nanos) -> io::Result<Finished> {
    let mut stdout = tempfile::tempfile()?;
    let mut stderr = tempfile::tempfile()?;
    command
        .stdin(Stdio::null())
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?);
    let mut child = spawn_pinned(command, core)?;
    let in_time = ends_within(&child, limit);
    if !matches!(in_time, Ok(true)) {
        child.kill()?;
    }
    let ended = machine::reap(child.id())?;
    let stderr = said(&mut stderr)?;
    if !in_time? {
        let text = format!("{command:?}: no end in {limit}: {}", stderr.trim());
        return Err(io::Error::other(text));
    }
    Ok(Finished {
        status: ended.status,
        cpu: Nanos(ended.cpu.total_ns()),
        stdout: said(&mut stdout)?,
        stderr,
    })
}

fn said(file: &mut File) -> io::Result<String> {
    let mut text = String::new();
    file.rewind()?;
    file.read_to_string(&mut text)?;
    Ok(text)
}

/// Starts the program from a thread that is kept to the core, so that every thread of it is.
fn spawn_pinned(command: &mut Command, core: usize) -> io::Result<Child> {
    let spawning = |command: &mut Command| {
        machine::pin(core)?;
        command.spawn().map_err(|error| {
            let program = command.get_program().display();
            io::Error::other(format!("cannot start {program}: {error}"))
        })
    };
    thread::scope(|scope| scope.spawn(|| spawning(command)).join())
        .map_err(|_| io::Error::other("the thread that starts a program panicked"))?
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

/// A server that ends with its standard input, and so with this process. It is ended when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    /// As `127.0.0.1:PORT`.
    pub(crate) address: String,
}

impl Server {
    /// Starts it on one core and waits until it says `listening on http://ADDRESS`.
    pub(crate) fn start(command: &mut Command, core: usize) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = spawn_pinned(command, core)?;
        let mut server = Self {
            child,
            address: String::new(),
        };
        let mut line = String::new();
        if let Some(stdout) = server.child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        match line.trim().strip_prefix("listening on http://") {
            Some(address) => address.clone_into(&mut server.address),
            None => return Err(io::Error::other(format!("{command:?} does not listen"))),
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It holds nothing that an end without notice could harm, and may be gone already.
        let _ = self.child.kill();
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

    fn core() -> usize {
        rustix::thread::sched_getcpu()
    }

    #[test]
    fn a_program_is_run_to_its_end_and_accounted_for() {
        let script =
            "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo said; echo why >&2; exit 3";
        let finished = run(&mut sh(script), core(), Nanos::from_secs(60)).unwrap();
        assert_eq!((&*finished.stdout, &*finished.stderr), ("said\n", "why\n"));
        assert!(finished.cpu > Nanos::ZERO);
        let finished = finished.expect_success("sh", Some(3)).unwrap();
        let refused = finished.expect_success("sh", None).unwrap_err();
        assert!(refused.to_string().ends_with("3: why"), "{refused}");
    }

    #[test]
    fn a_program_without_end_is_ended() {
        let endless = run(&mut sh("exec cat /dev/zero"), core(), Nanos::ZERO).unwrap_err();
        assert!(endless.to_string().contains("no end in"), "{endless}");
    }

    #[test]
    fn a_server_is_one_that_says_where_it_listens() {
        let script = "echo listening on http://127.0.0.1:9; read line";
        let server = Server::start(&mut sh(script), core()).unwrap();
        assert_eq!(server.address, "127.0.0.1:9");
        let silent = Server::start(&mut sh("echo no"), core()).unwrap_err();
        assert!(silent.to_string().contains("does not listen"), "{silent}");
    }
}
