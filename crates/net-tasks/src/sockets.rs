//! Sockets before a runtime has them, and what runtimes do not do with them.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::task::{Poll, Waker};
use std::time::Duration;

use ridgeline_net::Peer;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use socket2::{Domain, SockAddr, Socket, Type};
use socket2_04::SockRef;

/// Connections that wait to be accepted; the kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 4_096;

/// Reads of what nobody wants any more, so that the close is a FIN and not a reset.
const DRAIN_MAX: u32 = 64;
const DRAIN_BYTES: usize = 16 << 10;

/// Starts to connect. The handshake is done when the socket is writable.
pub(crate) fn connect(peer: &Peer, source: Option<IpAddr>) -> io::Result<OwnedFd> {
    let socket = match peer {
        Peer::Tcp(address) => {
            let socket = new_socket(Domain::for_address(*address))?;
            socket.set_tcp_nodelay(true)?;
            if let Some(source) = source {
                socket.bind(&SocketAddr::new(source, 0).into())?;
            }
            start(&socket, &(*address).into())?;
            socket
        }
        Peer::Unix(path) => {
            let socket = new_socket(Domain::UNIX)?;
            start(&socket, &SockAddr::unix(path)?)?;
            socket
        }
    };
    // To io_uring a socket that does not block is one that does not wait.
    socket.set_nonblocking(false)?;
    Ok(socket.into())
}

fn new_socket(domain: Domain) -> io::Result<Socket> {
    Socket::new(domain, Type::STREAM.nonblocking().cloexec(), None)
}

fn start(socket: &Socket, address: &SockAddr) -> io::Result<()> {
    match socket.connect(address) {
        Err(error) if error.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => Ok(()),
        done => done,
    }
}

/// Another descriptor of the same socket.
pub(crate) fn duplicate(socket: &impl AsRawFd) -> io::Result<OwnedFd> {
    let raw = socket.as_raw_fd();
    let socket = SockRef::from(&raw).try_clone()?;
    Ok(std::net::TcpStream::from(socket).into())
}

/// Sends FIN. Fails only if the connection is gone, which its next read says.
pub(crate) fn finish(socket: &impl AsRawFd) {
    let raw = socket.as_raw_fd();
    let _ = SockRef::from(&raw).shutdown(Shutdown::Write);
}

/// Makes the close a reset. Sockets of the file system have none.
pub(crate) fn abort(socket: &impl AsRawFd) {
    let raw = socket.as_raw_fd();
    // Without it the close is a FIN, or a reset if bytes are unread.
    let _ = SockRef::from(&raw).set_linger(Some(Duration::ZERO));
}

/// Throws away what has arrived: a socket closed with bytes unread sends a reset, which may overtake what was
/// sent.
pub(crate) fn drain(socket: &impl AsRawFd) {
    let raw = socket.as_raw_fd();
    let socket = SockRef::from(&raw);
    let flags = i32::try_from(RecvFlags::DONTWAIT.bits()).unwrap_or(0);
    let mut bytes = [MaybeUninit::uninit(); DRAIN_BYTES];
    for _ in 0..DRAIN_MAX {
        if !matches!(socket.recv_with_flags(&mut bytes, flags), Ok(1..)) {
            return;
        }
    }
}

/// A listening socket. One of the file system is removed from it with the listener.
pub(crate) struct Listener {
    socket: Socket,
    path: Option<Box<Path>>,
    stopped: Cell<bool>,
    /// A descriptor may have become free.
    room: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

impl Listener {
    pub(crate) fn bind(peer: &Peer, shared: bool) -> io::Result<(Self, Peer)> {
        let (socket, path, bound) = match peer {
            Peer::Tcp(address) => {
                let socket = new_socket(Domain::for_address(*address))?;
                socket.set_reuse_address(true)?;
                socket.set_reuse_port(shared)?;
                socket.bind(&(*address).into())?;
                let bound = socket.local_addr()?.as_socket();
                let bound = bound.ok_or(io::ErrorKind::AddrNotAvailable)?;
                (socket, None, Peer::Tcp(bound))
            }
            Peer::Unix(path) => {
                let socket = new_socket(Domain::UNIX)?;
                socket.bind(&SockAddr::unix(path)?)?;
                (socket, Some(Box::from(&**path)), peer.clone())
            }
        };
        socket.listen(BACKLOG)?;
        let listener = Self {
            socket,
            path,
            stopped: Cell::new(false),
            room: Cell::new(false),
            waker: Cell::new(None),
        };
        Ok((listener, bound))
    }

    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        Ok(self.socket.try_clone()?.into())
    }

    pub(crate) fn accept(&self) -> io::Result<OwnedFd> {
        let (socket, _) = self.socket.accept()?;
        if self.path.is_none() {
            // A connection that is gone already is told so by its first read.
            let _ = socket.set_tcp_nodelay(true);
        }
        Ok(socket.into())
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.get()
    }

    /// Refuses from now on, whoever still holds the descriptor.
    pub(crate) fn stop(&self) {
        self.stopped.set(true);
        // Fails only on a socket that does not listen.
        let _ = self.socket.shutdown(Shutdown::Both);
        self.make_room();
    }

    pub(crate) fn make_room(&self) {
        self.room.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Waits until a connection of the driver is gone.
    pub(crate) async fn room(&self) {
        self.room.set(false);
        poll_fn(|context| {
            if self.room.get() || self.stopped.get() {
                return Poll::Ready(());
            }
            self.waker.set(Some(context.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // Somebody else may have removed it.
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_too_long_for_a_socket_is_an_error() {
        let path: String = "x".repeat(200);
        let peer = Peer::Unix(Path::new(&path).into());
        assert!(connect(&peer, None).is_err());
        assert!(Listener::bind(&peer, false).is_err());
    }
}
