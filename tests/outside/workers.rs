//! Workers and coordinators as child processes that can be sent signals. Killed when dropped.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Child;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::program::{self, Exit};

/// Whatever is waited for comes within this long, or never.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// A child process and the lines that it says.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    lines: Receiver<String>,
    said: String,
}

impl Process {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut child = program::start(arguments);
        let (sender, lines) = mpsc::channel();
        let out: Box<dyn Read + Send> = Box::new(child.stdout.take().expect("it is piped"));
        let err: Box<dyn Read + Send> = Box::new(child.stderr.take().expect("it is piped"));
        for stream in [out, err] {
            let sender = sender.clone();
            thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    // The test may have ended.
                    let _ = sender.send(line);
                }
            });
        }
        Self {
            child,
            lines,
            said: String::new(),
        }
    }

    /// The next line that contains `part`.
    pub(crate) fn wait_for(&mut self, part: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(WAIT_MAX);
            let line = line.unwrap_or_else(|_| panic!("no `{part}` in:\n{}", self.said));
            self.said.push_str(&line);
            self.said.push('\n');
            if line.contains(part) {
                return line;
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it is running");
    }

    /// Waits for its end: both of its streams are closed then.
    pub(crate) fn end(&mut self) -> Exit {
        loop {
            match self.lines.recv_timeout(WAIT_MAX) {
                Ok(line) => {
                    self.said.push_str(&line);
                    self.said.push('\n');
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    self.said.push_str("no exit within a minute");
                    let _ = self.child.kill();
                }
            }
        }
        let status = self.child.wait().expect("it ends");
        Exit {
            code: status.code(),
            said: std::mem::take(&mut self.said),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail for one that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A worker that listens.
#[derive(Debug)]
pub(crate) struct Worker {
    process: Process,
    pub(crate) address: String,
}

impl Worker {
    /// `kept`: where it keeps records.
    pub(crate) fn start(address: &str, flags: &[&str], kept: &Path) -> Self {
        let kept = kept.to_str().expect("paths of tests are text");
        let mut arguments = vec!["worker", "--listen", address, "--output-dir", kept];
        arguments.extend(flags);
        let mut process = Process::start(&arguments);
        let line = process.wait_for("listening on ");
        let address = line.trim_start_matches("listening on ").to_owned();
        Self { process, address }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    pub(crate) fn wait_for(&mut self, part: &str) -> String {
        self.process.wait_for(part)
    }

    pub(crate) fn end(&mut self) -> Exit {
        self.process.end()
    }
}
