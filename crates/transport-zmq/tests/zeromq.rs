//! Conversations with the `zeromq` crate, which speaks ZMTP 3.0.
#![expect(clippy::unwrap_used, reason = "a test")]

mod interop;

use std::sync::mpsc::TryRecvError;

use interop::{Job, Line, MESSAGES, Place, message};
use zeromq::{
    DealerSocket, PullSocket, PushSocket, RouterSocket, Socket, SocketRecv, SocketSend, ZmqMessage,
};

async fn settle(socket: &mut impl Socket, place: &Place, line: &Line) {
    match place {
        Place::Connect(address) => socket.connect(address).await.unwrap(),
        Place::Bind(address) => {
            let endpoint = socket.bind(address).await.unwrap();
            line.address.send(endpoint.to_string()).unwrap();
        }
    }
}

/// A runtime that ends drops what its tasks have not sent yet.
async fn over(line: &Line) {
    while line.over.try_recv() != Err(TryRecvError::Disconnected) {
        tokio::task::yield_now().await;
    }
}

/// Sends; while nobody is there that fails at once, so it is tried again.
async fn send(socket: &mut impl SocketSend, message: ZmqMessage) {
    while socket.send(message.clone()).await.is_err() {
        tokio::task::yield_now().await;
    }
}

async fn echo(socket: &mut (impl SocketSend + SocketRecv)) {
    for number in 0..MESSAGES {
        let came = socket.recv().await.unwrap();
        let last = came.iter().last().unwrap();
        assert!(last[..] == message(number), "message {number}");
        socket.send(came).await.unwrap();
    }
}

async fn job(job: Job, place: &Place, line: &Line) {
    match job {
        Job::Pull => {
            let mut socket = PullSocket::new();
            settle(&mut socket, place, line).await;
            for number in 0..MESSAGES {
                let came = socket.recv().await.unwrap();
                assert!(
                    came.get(0).unwrap()[..] == message(number),
                    "message {number}"
                );
            }
        }
        Job::Push => {
            let mut socket = PushSocket::new();
            settle(&mut socket, place, line).await;
            for number in 0..MESSAGES {
                send(&mut socket, message(number).into()).await;
            }
            over(line).await;
            drop(socket);
        }
        Job::RouterEcho => {
            let mut socket = RouterSocket::new();
            settle(&mut socket, place, line).await;
            echo(&mut socket).await;
            over(line).await;
            drop(socket);
        }
        Job::DealerEcho => {
            let mut socket = DealerSocket::new();
            settle(&mut socket, place, line).await;
            echo(&mut socket).await;
            over(line).await;
            drop(socket);
        }
    }
}

fn foreign(what: Job, place: &Place, line: &Line) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().unwrap();
    runtime.block_on(job(what, place, line));
}

#[test]
fn every_kind_talks_to_the_zeromq_crate() {
    interop::converse(foreign);
}
