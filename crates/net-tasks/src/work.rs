//! The tasks. They know their socket and the queue, and none of a driver's rules.

use std::io;
use std::os::fd::AsRawFd;
use std::rc::Rc;

use ridgeline_net::{Closed, Token};
use socket2_04::SockRef;

use crate::bell::TasksWaker;
use crate::events::{Alive, Event};
use crate::link::{Link, Parcel};
use crate::runtime::{Runtime, Socket};
use crate::sockets::{Listener, duplicate};

/// Connections accepted before others have their turn.
const ACCEPTS_MAX: u32 = 64;

/// Waits until the connection is up, if it is not yet; then reads whenever it is given a buffer.
pub(crate) async fn read<R: Runtime>(
    link: Rc<Link<R::Socket>>,
    token: Token,
    up: bool,
    alive: Alive<R::Socket>,
) {
    if !up {
        let coming = link.unless_stopped(&link.reads, come_up::<R>(&link.socket));
        let Some(result) = coming.await else { return };
        alive.tell(Event::Opened { token, result });
    }
    while let Some(buffer) = link.next(&link.reads).await {
        let reading = link.unless_stopped(&link.reads, link.socket.read(buffer));
        let Some((result, buffer)) = reading.await else {
            return;
        };
        alive.tell(Event::Read {
            token,
            result,
            buffer,
        });
    }
}

async fn come_up<R: Runtime>(socket: &R::Socket) -> io::Result<()> {
    loop {
        R::writable(duplicate(socket)?).await?;
        let raw = socket.as_raw_fd();
        let socket = SockRef::from(&raw);
        if let Some(error) = socket.take_error()? {
            return Err(error);
        }
        match socket.peer_addr() {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => {}
            Err(error) => return Err(error),
        }
    }
}

/// Sends what it is given.
pub(crate) async fn write<S: Socket>(link: Rc<Link<S>>, token: Token, alive: Alive<S>) {
    while let Some(Parcel { mut joined, body }) = link.next(&link.writes).await {
        let mut result = Ok(());
        if !joined.is_empty() {
            let writing = link.unless_stopped(&link.writes, link.socket.write(joined));
            let Some(written) = writing.await else { return };
            (result, joined) = written;
        }
        if result.is_ok() && !body.is_empty() {
            let writing = link.unless_stopped(&link.writes, link.socket.write_shared(body));
            let Some(written) = writing.await else { return };
            result = written;
        }
        alive.tell(Event::Written {
            token,
            result,
            joined,
        });
    }
}

/// Accepts until the listener is shut down.
pub(crate) async fn accept<R: Runtime>(
    listener: Rc<Listener>,
    number: u32,
    alive: Alive<R::Socket>,
) {
    while !listener.is_stopped() {
        // Another error is that of a connection that was gone before it was accepted.
        if let Err(error) = accept_some::<R>(&listener, number, &alive).await
            && Closed::of(&error) == Closed::NoResources
        {
            listener.room().await;
        }
    }
}

async fn accept_some<R: Runtime>(
    listener: &Listener,
    number: u32,
    alive: &Alive<R::Socket>,
) -> io::Result<()> {
    R::readable(listener.duplicate()?).await?;
    for _ in 0..ACCEPTS_MAX {
        let socket = match listener.accept() {
            Ok(socket) => R::adopt(socket)?,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        };
        alive.tell(Event::Accepted {
            listener: number,
            socket,
        });
    }
    Ok(())
}

/// Tells of every ring of the bell.
pub(crate) async fn listen<S: Socket>(link: Rc<Link<S>>, bell: TasksWaker, alive: Alive<S>) {
    let mut buffer = vec![0; 64];
    loop {
        let reading = link.unless_stopped(&link.reads, link.socket.read(buffer));
        let Some((result, back)) = reading.await else {
            return;
        };
        buffer = back;
        match result {
            Ok(0) => return,
            Ok(_) => {
                bell.heard();
                alive.tell(Event::Woken);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
