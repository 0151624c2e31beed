//! The mock server as a child process, on a port that the system chose. Killed when dropped.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

#[derive(Debug)]
pub(crate) struct Mock {
    child: Child,
    /// What it says after its first line.
    out: BufReader<ChildStdout>,
    pub(crate) url: String,
}

impl Mock {
    pub(crate) fn start(flags: &[&str]) -> Self {
        // A socket in the file system has no port.
        let port = ["--port", "0"].into_iter();
        let port = port.filter(|_| !flags.contains(&"--listen"));
        let mut child = Command::new(env!("CARGO_BIN_EXE_ridgeline"))
            .arg("mock-server")
            .args(port)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut out = BufReader::new(child.stdout.take().expect("its output is piped"));
        let mut line = String::new();
        out.read_line(&mut line).expect("its output is readable");
        let url = line.trim_end().strip_prefix("listening on ");
        let url = url.expect("it says where it listens").to_owned();
        Self { child, out, url }
    }

    /// Ends it in good order. What it says then.
    pub(crate) fn stop(mut self) -> String {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).expect("it is running");
        let mut said = String::new();
        let read = self.out.read_to_string(&mut said);
        read.expect("its output is readable");
        assert!(self.child.wait().expect("it ends").success(), "{said}");
        said
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        // Already over, when the test went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
