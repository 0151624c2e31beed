//! The operations: each makes one entry and pushes it.

use std::io;
use std::mem::size_of;
use std::os::fd::AsRawFd;
use std::ptr;

use io_uring::types::{CancelBuilder, DestinationSlot, Fixed};
use io_uring::{opcode, squeue};
use socket2::SockAddr;

use crate::buffers::GROUP;
use crate::driver::UringDriver;
use crate::slot::{Op, Receiving, Tag};

/// Where the waker's event lies in the file table.
pub(crate) const WAKE_FILE: u32 = 0;

/// Where the listeners start.
pub(crate) const LISTENER_FILES: u32 = 1;

/// Software stamps of received bytes: made (RX_SOFTWARE) and reported (SOFTWARE).
pub(crate) static STAMPS: u32 =
    libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;

static ON: libc::c_int = 1;

static LINGER_NONE: libc::linger = libc::linger {
    l_onoff: 1,
    l_linger: 0,
};

/// What a slot's operations point to besides the bytes: never moves, and is written to only while
/// no operation that uses the field is in flight.
pub(crate) struct Call {
    /// There until the connection is up: addresses are large, and open connections many.
    pub(crate) way: Option<Box<Way>>,
    /// There from the first send of two parts on: small requests have one.
    parts: Option<Box<Parts>>,
}

/// A message of two parts.
struct Parts {
    header: libc::msghdr,
    parts: [libc::iovec; 2],
}

/// Where a connection goes, and from where.
pub(crate) struct Way {
    pub(crate) peer: SockAddr,
    pub(crate) source: Option<SockAddr>,
}

impl Call {
    pub(crate) fn new() -> Self {
        Self {
            way: None,
            parts: None,
        }
    }
}

impl Parts {
    fn new() -> Self {
        let part = libc::iovec {
            iov_base: ptr::null_mut(),
            iov_len: 0,
        };
        Self {
            header: header(0),
            parts: [part; 2],
        }
    }
}

/// A message header that has room for `control` bytes and nothing else.
pub(crate) fn header(control: usize) -> libc::msghdr {
    libc::msghdr {
        msg_name: ptr::null_mut(),
        msg_namelen: 0,
        msg_iov: ptr::null_mut(),
        msg_iovlen: 0,
        msg_control: ptr::null_mut(),
        msg_controllen: control,
        msg_flags: 0,
    }
}

/// The operations of one slot. Each counts as in flight until its last completion.
impl UringDriver {
    #[inline]
    fn push(&mut self, op: Op, index: u32, entry: squeue::Entry) -> io::Result<()> {
        let slot = &mut self.slots[index as usize];
        slot.in_flight += 1;
        let tag = Tag {
            op,
            index,
            generation: slot.generation,
        };
        // SAFETY: the invariant: every caller, below, says why.
        unsafe { self.ring.push(&entry.user_data(tag.pack())) }
    }

    #[inline]
    fn file(&self, index: u32) -> Fixed {
        Fixed(self.slots[index as usize].file)
    }

    /// Arms the multishot receive.
    pub(crate) fn arm_receive(&mut self, index: u32) -> io::Result<()> {
        let slot = &mut self.slots[index as usize];
        slot.receiving = Receiving::Armed;
        let file = Fixed(slot.file);
        // The invariant: bytes go to provided buffers, and the template is boxed.
        let entry = if slot.stamped {
            opcode::RecvMsgMulti::new(file, &raw const *self.template, GROUP).build()
        } else {
            opcode::RecvMulti::new(file, GROUP).build()
        };
        self.push(Op::Receive, index, entry)
    }

    /// Hands over what is left of the front send.
    ///
    /// The kernel goes on by itself after a part (MSG_WAITALL), and tells of a peer that is gone by
    /// an error (MSG_NOSIGNAL).
    #[inline]
    pub(crate) fn push_send(&mut self, index: u32) -> io::Result<()> {
        const FLAGS: libc::c_int = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
        let slot = &self.slots[index as usize];
        let Some(message) = &slot.front else {
            return Ok(());
        };
        let file = Fixed(slot.file);
        let head = &message.head[slot.offset.min(message.head.len())..];
        let body = &message.body[slot.offset.saturating_sub(message.head.len())..];
        // The invariant: the message stays where it is, unchanged, until the slot's `take_front`
        // after the last completion: heap bytes don't move with the `Vec` or the `Bytes`.
        let entry = if head.is_empty() || body.is_empty() {
            let bytes = if head.is_empty() { body } else { head };
            // What doesn't fit 31 bits is sent as a part.
            let len = u32::try_from(bytes.len())
                .unwrap_or(u32::MAX)
                .min(i32::MAX as u32);
            opcode::Send::new(file, bytes.as_ptr(), len)
                .flags(FLAGS)
                .build()
        } else {
            let call = &mut self.calls[index as usize];
            // Boxed: it stays where it is. The last send that used it is over, as one is under way at a time.
            let call = call.parts.get_or_insert_with(|| Box::new(Parts::new()));
            for (part, bytes) in call.parts.iter_mut().zip([head, body]) {
                part.iov_base = bytes.as_ptr().cast_mut().cast();
                part.iov_len = bytes.len();
            }
            call.header.msg_iov = call.parts.as_mut_ptr();
            call.header.msg_iovlen = 2;
            let flags = FLAGS.cast_unsigned();
            opcode::SendMsg::new(file, &raw const call.header)
                .flags(flags)
                .build()
        };
        self.push(Op::Send, index, entry)
    }

    /// Makes a socket at a place of the file table that the kernel chooses.
    pub(crate) fn push_socket(&mut self, index: u32) -> io::Result<()> {
        let way = self.calls[index as usize].way.as_ref();
        let family = way.map_or(libc::AF_INET, |way| i32::from(way.peer.family()));
        let entry = opcode::Socket::new(family, libc::SOCK_STREAM, 0)
            .file_index(Some(DestinationSlot::auto_target()))
            .build();
        self.push(Op::Socket, index, entry)
    }

    pub(crate) fn push_bind(&mut self, index: u32) -> io::Result<()> {
        let file = self.file(index);
        let way = self.calls[index as usize].way.as_ref();
        let Some(source) = way.and_then(|way| way.source.as_ref()) else {
            return Ok(());
        };
        // The invariant: the address is the call's, which keeps it until the connection is up.
        let entry = opcode::Bind::new(file, source.as_ptr().cast(), source.len()).build();
        self.push(Op::Bind, index, entry)
    }

    pub(crate) fn push_connect(&mut self, index: u32) -> io::Result<()> {
        let file = self.file(index);
        let Some(way) = &self.calls[index as usize].way else {
            return Ok(());
        };
        let peer = &way.peer;
        // The invariant: the address is the call's, which keeps it until the connection is up.
        let entry = opcode::Connect::new(file, peer.as_ptr().cast(), peer.len()).build();
        self.push(Op::Connect, index, entry)
    }

    pub(crate) fn push_shutdown(&mut self, index: u32, how: libc::c_int) -> io::Result<()> {
        self.slots[index as usize].shutting = true;
        let entry = opcode::Shutdown::new(self.file(index), how).build();
        self.push(Op::Shutdown, index, entry)
    }

    pub(crate) fn push_close(&mut self, index: u32) -> io::Result<()> {
        let entry = opcode::Close::new(self.file(index)).build();
        self.push(Op::Close, index, entry)
    }
}

/// The operations that nobody waits for.
impl UringDriver {
    /// # Safety
    /// Every pointer in `entry` is to a `static`.
    unsafe fn push_silent(&mut self, entry: squeue::Entry) -> io::Result<()> {
        let tag = Tag {
            op: Op::Silent,
            index: 0,
            generation: 0,
        };
        // SAFETY: the caller's promise.
        unsafe { self.ring.push_silent(entry.user_data(tag.pack())) }
    }

    fn set_option<T: Copy>(
        &mut self,
        file: Fixed,
        level: libc::c_int,
        name: libc::c_int,
        value: &'static T,
    ) -> io::Result<()> {
        let bytes = u32::try_from(size_of::<T>()).map_err(io::Error::other)?;
        let (level, name) = (level.cast_unsigned(), name.cast_unsigned());
        let value = ptr::from_ref(value).cast();
        let entry = opcode::SetSockOpt::new(file, level, name, value, bytes).build();
        // SAFETY: the value is a static.
        unsafe { self.push_silent(entry) }
    }

    /// The options of a new TCP socket.
    pub(crate) fn set_options(&mut self, index: u32) -> io::Result<()> {
        let file = self.file(index);
        self.set_option(file, libc::IPPROTO_TCP, libc::TCP_NODELAY, &ON)?;
        if self.slots[index as usize].stamped {
            self.set_option(file, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &STAMPS)?;
        }
        let way = self.calls[index as usize].way.as_ref();
        if way.is_some_and(|way| way.source.is_some()) {
            // The port is chosen when the peer is known: many peers can share one.
            self.set_option(file, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, &ON)?;
        }
        Ok(())
    }

    /// Makes the close that follows a reset.
    pub(crate) fn set_linger_none(&mut self, file: u32) -> io::Result<()> {
        self.set_option(Fixed(file), libc::SOL_SOCKET, libc::SO_LINGER, &LINGER_NONE)
    }

    /// Cancels what is in flight on a file. By file, not by user data: some kernels don't find a
    /// multishot by the latter (liburing issue 1375).
    pub(crate) fn cancel(&mut self, file: u32) -> io::Result<()> {
        let entry = opcode::AsyncCancel2::new(CancelBuilder::fd(Fixed(file)).all()).build();
        // SAFETY: it points to nothing.
        unsafe { self.push_silent(entry) }
    }

    /// Cancels the armed receives by their user data: each is found by a hash. Some kernels don't find
    /// them (see `cancel`); what they leave is left.
    pub(crate) fn cancel_receives(&mut self) -> io::Result<()> {
        for index in 0..self.slots.len() {
            if self.slots[index].receiving == Receiving::Armed {
                self.cancel_receive(u32::try_from(index).map_err(io::Error::other)?)?;
            }
        }
        Ok(())
    }

    /// Cancels one, as `cancel_receives` does.
    pub(crate) fn cancel_receive(&mut self, index: u32) -> io::Result<()> {
        let tag = Tag {
            op: Op::Receive,
            index,
            generation: self.slots[index as usize].generation,
        };
        let entry = opcode::AsyncCancel2::new(CancelBuilder::user_data(tag.pack())).build();
        // SAFETY: it points to nothing.
        unsafe { self.push_silent(entry) }
    }

    /// Of each operation the kernel looks at all that it has cancelled before: for many, first
    /// `cancel_receives`.
    pub(crate) fn cancel_everything(&mut self) -> io::Result<()> {
        let entry = opcode::AsyncCancel2::new(CancelBuilder::any()).build();
        // SAFETY: it points to nothing.
        unsafe { self.push_silent(entry) }
    }

    /// Resets a connection that has no slot.
    pub(crate) fn refuse(&mut self, file: u32) -> io::Result<()> {
        self.set_linger_none(file)?;
        self.close_silently(file)
    }

    /// Closes a file that is no slot's.
    pub(crate) fn close_silently(&mut self, file: u32) -> io::Result<()> {
        let entry = opcode::Close::new(Fixed(file)).build();
        // SAFETY: it points to nothing.
        unsafe { self.push_silent(entry) }
    }
}

/// The operations of the driver as a whole.
impl UringDriver {
    pub(crate) fn arm_accept(&mut self, listener: u32) -> io::Result<()> {
        let file = Fixed(LISTENER_FILES + listener);
        let tag = Tag {
            op: Op::Accept,
            index: listener,
            generation: 0,
        };
        let entry = opcode::AcceptMulti::new(file)
            .allocate_file_index(true)
            .build();
        // SAFETY: the invariant: it points to nothing.
        unsafe { self.ring.push(&entry.user_data(tag.pack())) }
    }

    pub(crate) fn arm_wake(&mut self) -> io::Result<()> {
        let tag = Tag {
            op: Op::Wake,
            index: 0,
            generation: 0,
        };
        let cell = (&raw mut *self.wake_cell).cast();
        let entry = opcode::Read::new(Fixed(WAKE_FILE), cell, 8).build();
        // SAFETY: the invariant: the cell is boxed, and nobody else reads or writes it.
        unsafe { self.ring.push(&entry.user_data(tag.pack())) }
    }

    /// Puts the waker's event at its place of the file table.
    pub(crate) fn register_waker(&self) -> io::Result<()> {
        let event = self.waker.event().as_raw_fd();
        self.ring
            .io()
            .submitter()
            .register_files_update(WAKE_FILE, &[event])
            .map(|_| ())
    }
}
