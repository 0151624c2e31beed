//! Programs that are kept to one core: run to their end for a bounded time, or served from.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;

use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::machine::{self, Ended};

/// What a program printed and used.
#[derive(Debug)]
pub struct Finished {
    /// How it ended, and what it used, start-up included.
    pub ended: Ended,
    /// From starting the program to its end.
    pub wall: Nanos,
    /// What it printed.
    pub stdout: String,
    /// What it printed there.
    pub stderr: String,
}

impl Finished {
    /// The same if it ended well. `also`: another exit code that is as good as 0.
    ///
    /// # Errors
    /// When it did not, with what it said; the error begins with `name`.
    pub fn expect_success(self, name: &str, also: Option<i32>) -> io::Result<Self> {
        let status = self.ended.status;
        if status.success() || (also.is_some() && status.code() == also) {
            return Ok(self);
        }
        let said = self.stderr.trim();
        Err(io::Error::other(format!("{name}: {status}: {said}")))
    }
}

/// Runs a program on one core, start-up included, for at most `limit`.
///
/// # Errors
/// When it can't be started, or takes longer: it is killed then.
pub fn run(command: &mut Command, core: usize, limit: Nanos) -> io::Result<Finished> {
    run_by(command, |command| spawn_pinned(command, core), limit)
}

/// The same of a program that places its own threads.
///
/// # Errors
/// When it can't be started, or takes longer: it is killed then.
pub fn run_anywhere(command: &mut Command, limit: Nanos) -> io::Result<Finished> {
    run_by(command, spawn, limit)
}

fn run_by(
    command: &mut Command,
    spawn: impl Fn(&mut Command) -> io::Result<Child>,
    limit: Nanos,
) -> io::Result<Finished> {
    let mut stdout = tempfile::tempfile()?;
    let mut stderr = tempfile::tempfile()?;
    command
        .stdin(Stdio::null())
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?);
    let start = MonotonicClock.now();
    let mut child = spawn(command)?;
    let in_time = ends_within(&child, limit);
    if !matches!(in_time, Ok(true)) {
        child.kill()?;
    }
    let (ended, in_time) = (machine::reap(child.id())?, in_time?);
    let wall = MonotonicClock.now() - start;
    let stderr = said(&mut stderr)?;
    if !in_time {
        let text = format!("{command:?}: no end in {limit}: {}", stderr.trim());
        return Err(io::Error::other(text));
    }
    Ok(Finished {
        ended,
        wall,
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

fn spawn(command: &mut Command) -> io::Result<Child> {
    command.spawn().map_err(|error| {
        let program = command.get_program().display();
        io::Error::other(format!("cannot start {program}: {error}"))
    })
}

/// Starts the program from a thread that is kept to the core, so that every thread of it is.
fn spawn_pinned(command: &mut Command, core: usize) -> io::Result<Child> {
    let spawning = |command: &mut Command| {
        machine::pin(core)?;
        spawn(command)
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

/// How a server's address is learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listens {
    /// It says `listening on ADDRESS`, `http://` before it or not, on its first line.
    Says,
    /// It was given this one, and listens when it takes a connection.
    At(SocketAddr),
}

/// A running server. It ends when this is dropped; one that watches its standard input also when
/// this process is gone.
#[derive(Debug)]
pub struct Served {
    child: Child,
    /// What it says after its first line: there to be read at its end.
    stdout: Option<BufReader<ChildStdout>>,
    /// It was waited for: its id may be another process's by now.
    gone: bool,
    address: String,
}

/// How long a server may take to listen, and to end.
const START_MAX: Nanos = Nanos::from_secs(60);
const END_MAX: Nanos = Nanos::from_secs(10);
/// From one try to connect to the next.
const START_POLL: Nanos = Nanos::from_millis(20);

impl Served {
    /// Starts it on one core, start-up included, and waits until it listens.
    ///
    /// # Errors
    /// When there is no such core or program, or it ends or waits too long without listening.
    pub fn start(command: &mut Command, core: usize, listens: Listens) -> io::Result<Self> {
        let output = match listens {
            Listens::Says => Stdio::piped(),
            Listens::At(_) => Stdio::null(),
        };
        command.stdin(Stdio::piped()).stdout(output);
        let child = spawn_pinned(command, core)?;
        let mut served = Self {
            child,
            stdout: None,
            gone: false,
            address: String::new(),
        };
        let address = match listens {
            Listens::Says => served.first_line()?,
            Listens::At(address) => served.answers(address)?.then(|| address.to_string()),
        };
        match address {
            Some(address) => {
                served.address = address;
                Ok(served)
            }
            None => Err(io::Error::other(format!("{command:?} does not listen"))),
        }
    }

    fn first_line(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        if let Some(stdout) = self.child.stdout.take() {
            let stdout = self.stdout.insert(BufReader::new(stdout));
            stdout.read_line(&mut line)?;
        }
        let address = line.trim().strip_prefix("listening on ");
        Ok(address.map(|address| {
            address
                .strip_prefix("http://")
                .unwrap_or(address)
                .to_owned()
        }))
    }

    fn answers(&mut self, address: SocketAddr) -> io::Result<bool> {
        let deadline = MonotonicClock.now() + START_MAX;
        while TcpStream::connect(address).is_err() {
            if ends_within(&self.child, START_POLL)? || MonotonicClock.now() > deadline {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Where it listens, as `127.0.0.1:PORT`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The CPU time so far of the server, with its workers if it has any.
    ///
    /// # Errors
    /// When it has ended.
    pub fn cpu(&self) -> io::Result<Nanos> {
        machine::cpu_of(self.child.id())
    }

    /// See [`machine::go_first`].
    ///
    /// # Errors
    /// As there.
    pub fn goes_first(&self, thread: &str) -> io::Result<u32> {
        machine::go_first(self.child.id(), thread)
    }

    /// Ends it, and tells what it used in all, and what it said after its first line, if that line was
    /// read. It must not say more than a pipe holds.
    ///
    /// # Errors
    /// When it can't be waited for, or what it says can't be read.
    pub fn stop(mut self) -> io::Result<(Ended, String)> {
        self.end()?;
        self.gone = true;
        let ended = machine::reap(self.child.id())?;
        let mut said = String::new();
        if let Some(stdout) = &mut self.stdout {
            stdout.read_to_string(&mut said)?;
        }
        Ok((ended, said))
    }

    /// Asks the server to end, and makes it if it does not.
    fn end(&mut self) -> io::Result<()> {
        drop(self.child.stdin.take());
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // It may have ended with its input.
            let _ = kill_process(pid, Signal::TERM);
        }
        if !ends_within(&self.child, END_MAX)? {
            self.child.kill()?;
        }
        Ok(())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Nothing could be done about a failure.
        if !self.gone && self.end().is_ok() {
            let _ = self.child.wait();
        }
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
        let failed = run(&mut sh("echo why >&2; exit 7"), core, Nanos::from_secs(60)).unwrap();
        let failed = failed.expect_success("sh", None).unwrap_err();
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

    #[test]
    fn an_exit_code_can_be_as_good_as_none() {
        let core = rustix::thread::sched_getcpu();
        let script = "echo said; echo why >&2; exit 3";
        let finished = run(&mut sh(script), core, Nanos::from_secs(60)).unwrap();
        assert_eq!((&*finished.stdout, &*finished.stderr), ("said\n", "why\n"));
        let finished = finished.expect_success("sh", Some(3)).unwrap();
        let refused = finished.expect_success("sh", None).unwrap_err();
        assert!(refused.to_string().ends_with("3: why"), "{refused}");
    }

    #[test]
    fn a_server_that_does_not_say_where_it_listens_is_none() {
        let core = rustix::thread::sched_getcpu();
        let silent = Served::start(&mut sh("echo no"), core, Listens::Says).unwrap_err();
        assert!(silent.to_string().contains("does not listen"), "{silent}");
    }

    #[test]
    fn what_a_server_says_at_its_end_is_heard() {
        let core = rustix::thread::sched_getcpu();
        // Both lines in one write: the first is the sign that it may be ended.
        let script = "trap 'echo last; exit' TERM; printf 'listening on http://127.0.0.1:9\\nnext\\n'; \
            while :; do read line || kill -TERM $$; done";
        let served = Served::start(&mut sh(script), core, Listens::Says).unwrap();
        assert_eq!(served.address, "127.0.0.1:9");
        let (_, said) = served.stop().unwrap();
        assert_eq!(said, "next\nlast\n");
    }
}
