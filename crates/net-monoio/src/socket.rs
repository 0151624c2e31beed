use std::future::Future;
use std::io;
use std::net;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use bytes::Bytes;
use monoio::buf::IoBuf;
use monoio::net::udp::UdpSocket;
use ridgeline_net_tasks::{Runtime, Socket};

/// monoio, as tasks see it.
#[derive(Debug)]
pub(crate) struct Monoio;

/// A stream socket in the hands of monoio's `UdpSocket`: of its sockets the one that is read and written at the same time
/// without halves, whose drop would send a FIN before a reset. RECV and SENDMSG are the same for all kinds.
#[derive(Debug)]
pub(crate) struct MonoioSocket(UdpSocket);

impl Runtime for Monoio {
    type Socket = MonoioSocket;

    fn spawn(task: impl Future<Output = ()> + 'static) {
        drop(monoio::spawn(task));
    }

    fn adopt(socket: OwnedFd) -> io::Result<MonoioSocket> {
        let socket = UdpSocket::from_std(net::UdpSocket::from(socket))?;
        Ok(MonoioSocket(socket))
    }

    async fn readable(socket: OwnedFd) -> io::Result<()> {
        Self::adopt(socket)?.0.readable(false).await
    }

    async fn writable(socket: OwnedFd) -> io::Result<()> {
        Self::adopt(socket)?.0.writable(false).await
    }
}

impl AsRawFd for MonoioSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Socket for MonoioSocket {
    fn read(&self, buffer: Vec<u8>) -> impl Future<Output = (io::Result<usize>, Vec<u8>)> {
        self.0.recv(buffer)
    }

    fn write(&self, bytes: Vec<u8>) -> impl Future<Output = (io::Result<()>, Vec<u8>)> {
        self.write_all(bytes)
    }

    async fn write_shared(&self, bytes: Bytes) -> io::Result<()> {
        self.write_all(bytes).await.0
    }
}

impl MonoioSocket {
    async fn write_all<T: IoBuf>(&self, mut bytes: T) -> (io::Result<()>, T) {
        let (mut written, all) = (0, bytes.bytes_init());
        while written < all {
            let (result, rest) = self.0.send(bytes.slice(written..)).await;
            bytes = rest.into_inner();
            match result {
                Ok(0) => return (Err(io::ErrorKind::WriteZero.into()), bytes),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (Err(error), bytes),
            }
        }
        (Ok(()), bytes)
    }
}
