//! Programs on the machines: what they say, as they say it, and how they end.

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

/// Longer than every deadline of what is run here: what takes longer hangs.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// A running program. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Program {
    name: String,
    child: Child,
    lines: Receiver<String>,
    /// What it said so far.
    said: String,
}

impl Program {
    /// Starts it. The name is for messages.
    pub(crate) fn start(name: &str, mut command: Command) -> Self {
        let child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{name}: {error}"));
        let (sender, lines) = mpsc::channel();
        read(child.stdout.take().expect("it is piped"), sender.clone());
        read(child.stderr.take().expect("it is piped"), sender);
        Self {
            name: name.to_owned(),
            child,
            lines,
            said: String::new(),
        }
    }

    /// Waits for a line that has `part`, and returns it.
    pub(crate) fn line(&mut self, part: &str) -> String {
        self.line_that(&|line| line.contains(part))
    }

    /// Waits for a line that is so, and returns it.
    pub(crate) fn line_that(&mut self, is_it: &dyn Fn(&str) -> bool) -> String {
        loop {
            match self.lines.recv_timeout(WAIT_MAX) {
                Ok(line) => {
                    self.said.push_str(&line);
                    self.said.push('\n');
                    if is_it(&line) {
                        return line;
                    }
                }
                Err(error) => panic!(
                    "{}: the line that is waited for does not come ({error}). It said:\n{}",
                    self.name, self.said
                ),
            }
        }
    }

    /// Waits for its end: the exit code, and all that it said.
    pub(crate) fn end(mut self) -> (i32, String) {
        loop {
            match self.lines.recv_timeout(WAIT_MAX) {
                Ok(line) => {
                    self.said.push_str(&line);
                    self.said.push('\n');
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("{} hangs. It said:\n{}", self.name, self.said)
                }
            }
        }
        let status = self.child.wait().expect("it can be waited for");
        let said = std::mem::take(&mut self.said);
        (status.code().unwrap_or(-1), said)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Already over, when the test went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Hands on what comes, line by line.
fn read(from: impl Read + Send + 'static, to: Sender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n') {
            let Ok(line) = line else { return };
            if to
                .send(String::from_utf8_lossy(&line).into_owned())
                .is_err()
            {
                return;
            }
        }
    });
}
