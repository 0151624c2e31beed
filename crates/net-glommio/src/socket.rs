use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::net;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use futures_io::{AsyncRead, AsyncWrite};
use glommio::net::TcpStream;
use ridgeline_net_tasks::{Runtime, Socket};

/// glommio, as tasks see it.
#[derive(Debug)]
pub(crate) struct Glommio;

/// A stream socket in the hands of glommio's `TcpStream`, which does the same for all kinds. It is borrowed for the length
/// of a poll.
#[derive(Debug)]
pub(crate) struct GlommioSocket(RefCell<TcpStream>);

impl Runtime for Glommio {
    type Socket = GlommioSocket;

    fn spawn(task: impl Future<Output = ()> + 'static) {
        drop(glommio::spawn_local(task).detach());
    }

    fn adopt(socket: OwnedFd) -> io::Result<GlommioSocket> {
        let socket = socket2_04::Socket::from(net::TcpStream::from(socket));
        Ok(GlommioSocket(RefCell::new(TcpStream::from(socket))))
    }

    /// glommio polls a socket before it reads for the first time, and a socket that listens can't be read: the error is
    /// the answer.
    async fn readable(socket: OwnedFd) -> io::Result<()> {
        let socket = Self::adopt(socket)?;
        let _ = socket.read(vec![0]).await;
        Ok(())
    }

    /// A send of nothing waits as long as the handshake does.
    async fn writable(socket: OwnedFd) -> io::Result<()> {
        let socket = Self::adopt(socket)?;
        socket.write_some(&[]).await.map(drop)
    }
}

impl AsRawFd for GlommioSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.borrow().as_raw_fd()
    }
}

impl Socket for GlommioSocket {
    async fn read(&self, mut buffer: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        let read = poll_fn(|context| {
            let mut stream = self.0.borrow_mut();
            Pin::new(&mut *stream).poll_read(context, &mut buffer)
        });
        (read.await, buffer)
    }

    async fn write(&self, bytes: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
        (self.write_all(&bytes).await, bytes)
    }

    async fn write_shared(&self, bytes: Bytes) -> io::Result<()> {
        self.write_all(&bytes).await
    }
}

impl GlommioSocket {
    async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write_some(bytes).await {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write_some(&self, bytes: &[u8]) -> impl Future<Output = io::Result<usize>> {
        poll_fn(move |context| -> Poll<io::Result<usize>> {
            let mut stream = self.0.borrow_mut();
            Pin::new(&mut *stream).poll_write(context, bytes)
        })
    }
}
