//! Sockets: how they are made, and what their errors mean.

use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::path::Path;
use std::time::Duration;

use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use ridgeline_clock::Nanos;
use ridgeline_net::Peer;
use rustix::io::Errno;
use socket2::{Domain, SockAddr, SockRef, Socket, Type};

use crate::stamps::{self, Stamps};

/// Connections that wait to be accepted; the kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 4_096;

/// A connected, or connecting, socket.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Starts to connect. The handshake is done when the socket is writable.
    pub(crate) fn connect(peer: &Peer, source: Option<IpAddr>) -> io::Result<Self> {
        match peer {
            Peer::Tcp(address) => {
                let socket = new_socket(Domain::for_address(*address))?;
                socket.set_tcp_nodelay(true)?;
                if let Some(source) = source {
                    socket.bind(&SocketAddr::new(source, 0).into())?;
                }
                start(&socket, &(*address).into())?;
                Ok(Self::Tcp(TcpStream::from_std(socket.into())))
            }
            Peer::Unix(path) => {
                let socket = new_socket(Domain::UNIX)?;
                start(&socket, &SockAddr::unix(path)?)?;
                Ok(Self::Unix(UnixStream::from_std(socket.into())))
            }
        }
    }

    /// Whether the handshake is done: `None` while it goes on.
    pub(crate) fn is_up(&self) -> Result<Option<()>, io::Error> {
        if let Some(error) = self.take_error()? {
            return Err(error);
        }
        let known = match self {
            Self::Tcp(stream) => stream.peer_addr().map(drop),
            Self::Unix(stream) => stream.peer_addr().map(drop),
        };
        match known {
            Ok(()) => Ok(Some(())),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The error that the socket holds, if any.
    pub(crate) fn take_error(&self) -> io::Result<Option<io::Error>> {
        match self {
            Self::Tcp(stream) => stream.take_error(),
            Self::Unix(stream) => stream.take_error(),
        }
    }

    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }

    /// The same with the stamp of the last segment, by the wall clock.
    pub(crate) fn read_stamped(
        &mut self,
        buffer: &mut [u8],
        stamps: &mut Stamps,
    ) -> io::Result<(usize, Option<Nanos>)> {
        match self {
            Self::Tcp(stream) => stamps.read(stream, buffer),
            Self::Unix(stream) => stream.read(buffer).map(|count| (count, None)),
        }
    }

    /// Whether the kernel stamps what it receives from now on.
    pub(crate) fn ask_for_stamps(&self) -> bool {
        match self {
            Self::Tcp(stream) => stamps::ask(stream).is_ok(),
            Self::Unix(_) => false,
        }
    }

    pub(crate) fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write_vectored(slices),
            Self::Unix(stream) => stream.write_vectored(slices),
        }
    }

    /// Sends FIN.
    pub(crate) fn finish(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
    }

    /// Makes the close a reset. Sockets of the file system have none.
    pub(crate) fn abort(&self) {
        if let Self::Tcp(stream) = self {
            // Without it the close is a FIN, or a reset if bytes are unread.
            let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
        }
    }

    pub(crate) fn source(&mut self) -> &mut dyn Source {
        match self {
            Self::Tcp(stream) => stream,
            Self::Unix(stream) => stream,
        }
    }
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

/// A listening socket. One of the file system is removed from it with the listener.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, Box<Path>),
}

impl Listener {
    pub(crate) fn bind(peer: &Peer, shared: bool) -> io::Result<(Self, Peer)> {
        match peer {
            Peer::Tcp(address) => {
                let socket = new_socket(Domain::for_address(*address))?;
                socket.set_reuse_address(true)?;
                socket.set_reuse_port(shared)?;
                socket.bind(&(*address).into())?;
                socket.listen(BACKLOG)?;
                let listener = TcpListener::from_std(socket.into());
                let bound = Peer::Tcp(listener.local_addr()?);
                Ok((Self::Tcp(listener), bound))
            }
            Peer::Unix(path) => {
                let socket = new_socket(Domain::UNIX)?;
                socket.bind(&SockAddr::unix(path)?)?;
                let listener = UnixListener::from_std(socket.into());
                let listener = Self::Unix(listener, Box::from(&**path));
                if let Self::Unix(socket, _) = &listener {
                    SockRef::from(socket).listen(BACKLOG)?;
                }
                Ok((listener, peer.clone()))
            }
        }
    }

    pub(crate) fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                // A connection that is gone already is told so by its first read.
                let _ = stream.set_nodelay(true);
                Ok(Stream::Tcp(stream))
            }
            Self::Unix(listener, _) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
        }
    }

    pub(crate) fn source(&mut self) -> &mut dyn Source {
        match self {
            Self::Tcp(listener) => listener,
            Self::Unix(listener, _) => listener,
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
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
        assert!(Stream::connect(&peer, None).is_err());
        assert!(Listener::bind(&peer, false).is_err());
    }
}
