use std::future::Future;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use bytes::Bytes;

/// What a driver needs of a runtime. Everything here is called while the runtime runs something on this
/// thread.
pub trait Runtime: 'static {
    /// A socket in its hands.
    type Socket: Socket;

    /// Starts a task that nobody waits for.
    fn spawn(task: impl Future<Output = ()> + 'static);

    /// Takes a connected stream socket in blocking mode over, TCP or one of the file system.
    ///
    /// # Errors
    /// When the runtime can't hold it.
    fn adopt(socket: OwnedFd) -> io::Result<Self::Socket>;

    /// Waits until a listening socket has something to accept, or is shut down.
    fn readable(socket: OwnedFd) -> impl Future<Output = io::Result<()>>;

    /// Waits until a socket is connected, or can't be.
    fn writable(socket: OwnedFd) -> impl Future<Output = io::Result<()>>;
}

/// A connected socket. A future that is dropped gives up what it was about: bytes may be lost, so that this is
/// done to connections that are over only.
pub trait Socket: AsRawFd + 'static {
    /// Reads once, up to the capacity of `buffer`. The bytes are the first ones of what comes back; 0 of them
    /// are the end.
    fn read(&self, buffer: Vec<u8>) -> impl Future<Output = (io::Result<usize>, Vec<u8>)>;

    /// Sends all of it.
    fn write(&self, bytes: Vec<u8>) -> impl Future<Output = (io::Result<()>, Vec<u8>)>;

    /// Sends all of it.
    fn write_shared(&self, bytes: Bytes) -> impl Future<Output = io::Result<()>>;
}
