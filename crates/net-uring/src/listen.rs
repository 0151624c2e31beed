//! Listeners: made as ordinary sockets, then moved into the ring's file table.

use std::io;
use std::mem::{self, MaybeUninit, size_of_val};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;

use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use ridgeline_net::Peer;
use socket2::{Domain, MaybeUninitSlice, MsgHdrMut, SockAddr, Socket, Type};

use crate::driver::UringDriver;
use crate::message;
use crate::ops::{LISTENER_FILES, STAMPS};

/// Listeners of one driver.
pub(crate) const LISTENERS_MAX: u32 = 16;

/// Connections the kernel completes ahead of being accepted; it lowers this to
/// net.core.somaxconn.
const BACKLOG: i32 = 4_096;

/// One listener; its number is its place in the driver's list.
#[derive(Debug)]
pub(crate) struct Listener {
    /// Whether its connections carry kernel stamps.
    pub(crate) stamped: bool,
    pub(crate) armed: bool,
    /// Whether its accept ended because no file was free.
    pub(crate) starved: bool,
    /// Nobody listens there any more.
    pub(crate) closed: bool,
}

impl Listener {
    /// Its accept has ended, and is to be armed again.
    pub(crate) const fn is_owed(&self) -> bool {
        !self.armed && !self.closed
    }
}

impl UringDriver {
    pub(crate) fn open_listener(&mut self, peer: &Peer) -> io::Result<Peer> {
        let number = u32::try_from(self.listeners.len()).map_err(io::Error::other)?;
        if number >= LISTENERS_MAX {
            return Err(io::Error::other("a driver has at most 16 listeners"));
        }
        let stamped = self.config.rx_timestamps && matches!(peer, Peer::Tcp(_));
        let (socket, bound) = match peer {
            Peer::Tcp(address) => {
                let address = SockAddr::from(*address);
                let socket = Socket::new(address.domain(), Type::STREAM, None)?;
                socket.set_reuse_address(true)?;
                socket.set_reuse_port(self.config.reuse_port)?;
                // Both are passed on to accepted connections.
                socket.set_tcp_nodelay(true)?;
                if stamped {
                    ask_for_stamps(&socket)?;
                }
                socket.bind(&address)?;
                let bound = socket.local_addr()?.as_socket();
                (socket, bound.map_or_else(|| peer.clone(), Peer::Tcp))
            }
            Peer::Unix(path) => {
                let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
                socket.bind(&SockAddr::unix(path)?)?;
                (socket, peer.clone())
            }
        };
        socket.listen(BACKLOG)?;
        let place = LISTENER_FILES + number;
        self.ring
            .io()
            .submitter()
            .register_files_update(place, &[socket.as_raw_fd()])?;
        self.listeners.push(Listener {
            stamped,
            armed: true,
            starved: false,
            closed: false,
        });
        self.arm_accept(number)?;
        Ok(bound)
    }

    /// Takes the listeners out of the file table. An accept in flight holds its listener until the
    /// cancellation is reaped.
    pub(crate) fn close_listeners(&mut self) -> io::Result<()> {
        for number in 0..self.listeners.len() {
            let listener = &mut self.listeners[number];
            if mem::replace(&mut listener.closed, true) {
                continue;
            }
            let armed = listener.armed;
            let file = LISTENER_FILES + u32::try_from(number).map_err(io::Error::other)?;
            if armed {
                self.cancel(file)?;
            }
            self.close_silently(file)?;
        }
        Ok(())
    }
}

/// How long the kernel may take to switch stamping on; beyond it the first reads may lack stamps,
/// which is counted.
const STAMPING_WITHIN: Nanos = Nanos::from_millis(100);

/// A socket that asks for stamps, so that the kernel makes them: it switches stamping on for the
/// first socket that asks, but some time later. Writes to itself until a stamp is seen.
pub(crate) fn stamping_socket() -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    ask_for_stamps(&socket)?;
    socket.set_read_timeout(Some(Nanos::from_millis(1).into()))?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
    socket.connect(&socket.local_addr()?)?;
    let deadline = MonotonicClock.now() + STAMPING_WITHIN;
    while MonotonicClock.now() < deadline {
        socket.send(&[0])?;
        let mut control = [MaybeUninit::new(0); message::CONTROL];
        let mut byte = [MaybeUninit::uninit()];
        let mut parts = [MaybeUninitSlice::new(&mut byte)];
        let mut header = MsgHdrMut::new()
            .with_buffers(&mut parts)
            .with_control(&mut control);
        if socket.recvmsg(&mut header, 0).is_ok() && header.control_len() > 0 {
            break;
        }
    }
    Ok(socket)
}

fn ask_for_stamps(socket: &Socket) -> io::Result<()> {
    let value = (&raw const STAMPS).cast();
    let bytes = libc::socklen_t::try_from(size_of_val(&STAMPS)).map_err(io::Error::other)?;
    let (fd, level, name) = (socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPING);
    // SAFETY: the value is a static of `bytes` bytes.
    let result = unsafe { libc::setsockopt(fd, level, name, value, bytes) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
