//! The program under test as a child process.

use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// A run that takes longer hangs.
const RUN_MAX: Duration = Duration::from_secs(60);

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Exit {
    /// `None` when a signal ended it.
    pub(crate) code: Option<i32>,
    /// What it printed, errors first.
    pub(crate) said: String,
}

/// Starts the program, nothing to read and its words to be read.
pub(crate) fn start(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_ridgeline"))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

/// Runs the program to its end. Ends it by force when it hangs, and says so.
pub(crate) fn run(arguments: &[&str]) -> Exit {
    let child = start(arguments);
    let pid = rustix::process::Pid::from_child(&child);
    let (ended, end) = mpsc::channel();
    let waiting = thread::spawn(move || {
        let output = child.wait_with_output();
        // Nobody listens any more after a hang.
        let _ = ended.send(());
        output
    });
    let hung = end.recv_timeout(RUN_MAX).is_err();
    if hung {
        // It may have ended just now.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    let output = waiting.join().expect("a wait does not panic");
    let output = output.expect("the output is readable");
    let mut said = String::from_utf8_lossy(&output.stderr).into_owned();
    said.push_str(&String::from_utf8_lossy(&output.stdout));
    if hung {
        said.push_str("\nno exit within a minute");
    }
    Exit {
        code: output.status.code(),
        said,
    }
}
