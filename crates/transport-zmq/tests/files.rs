//! Sockets in the file system: what a killed process left is replaced, what is in use is not.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::os::unix::net::UnixListener;

use ridgeline_clock::MonotonicClock;
use ridgeline_net_epoll::{EpollConfig, EpollDriver};
use ridgeline_transport::Limits;
use ridgeline_transport_zmq::{Address, Kind, Zmq};

fn end() -> Zmq<EpollDriver, MonotonicClock> {
    let driver = EpollDriver::new(EpollConfig::default()).unwrap();
    Zmq::new(driver, MonotonicClock, Kind::Pull, Limits::data())
}

#[test]
fn a_socket_that_was_left_behind_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("left.sock");
    // Dropping a listener of the standard library leaves its file.
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let mut pull = end();
    pull.bind(&Address::Ipc(path.clone())).unwrap();
    drop(pull);
    assert!(!path.exists(), "an end removes its socket");
}

#[test]
fn a_socket_in_use_and_a_plain_file_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let used = folder.path().join("used.sock");
    let _listener = UnixListener::bind(&used).unwrap();
    assert!(end().bind(&Address::Ipc(used.clone())).is_err());
    assert!(used.exists());
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "text").unwrap();
    assert!(end().bind(&Address::Ipc(plain.clone())).is_err());
    assert_eq!(std::fs::read_to_string(plain).unwrap(), "text");
}
