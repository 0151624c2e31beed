//! A foreign server on tokio, for as long as the test lasts.

use std::net::{SocketAddr, TcpListener};
use std::thread;

use tokio::net::TcpStream;
use tokio::task::{LocalSet, spawn_local};

/// Listens, and converses on each connection. Where.
pub(crate) fn listen<F: Future<Output = ()> + 'static>(
    converse: impl Fn(TcpStream) -> F + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build();
        LocalSet::new().block_on(&runtime.unwrap(), async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                spawn_local(converse(stream));
            }
        });
    });
    address
}
