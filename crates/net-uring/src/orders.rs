//! What the owner orders: opens, sends, closes.

use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use ridgeline_net::{Close, Closed, Command, Peer, Token};
use socket2::SockAddr;

use crate::driver::UringDriver;
use crate::ops::Way;
use crate::slot::{Message, NO_FILE, Phase, Receiving, Sending, Slot};

impl UringDriver {
    #[inline]
    pub(crate) fn apply(&mut self) -> io::Result<()> {
        if self.commands.is_empty() {
            return Ok(());
        }
        let mut orders = mem::take(&mut self.commands);
        for order in orders.drain() {
            match order {
                Command::Send { token, head, body } => self.order_send(token, head, body)?,
                Command::Open {
                    token,
                    peer,
                    source,
                } => self.order_open(token, &peer, source)?,
                Command::Close { token, how } => self.order_close(token, how)?,
                Command::Read { token, on } => self.order_read(token, on)?,
            }
        }
        // Nothing was queued meanwhile: the vector and its room come back.
        self.commands = orders;
        Ok(())
    }

    #[inline]
    fn find(&mut self, token: Token) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(token.index as usize)?;
        (slot.generation == token.generation && slot.phase != Phase::Free).then_some(slot)
    }

    #[inline]
    fn order_send(&mut self, token: Token, head: Vec<u8>, body: Bytes) -> io::Result<()> {
        let Some(slot) = self.find(token) else {
            self.dropped.push((token, head));
            return Ok(());
        };
        let dropped =
            slot.close.is_some() || matches!(slot.phase, Phase::Draining | Phase::Closing);
        slot.enqueue(Message {
            head,
            body,
            dropped,
        });
        if slot.sending == Sending::Idle && slot.phase == Phase::Open {
            self.send_next(token.index)?;
        }
        Ok(())
    }

    fn order_open(&mut self, token: Token, peer: &Peer, source: Option<IpAddr>) -> io::Result<()> {
        let stamped = self.config.rx_timestamps && matches!(peer, Peer::Tcp(_));
        let slot = &mut self.slots[token.index as usize];
        slot.start(token.generation, Phase::Opening, NO_FILE, stamped);
        match address_of(peer) {
            Ok(peer) => {
                let source = source.map(|address| SocketAddr::new(address, 0).into());
                let way = Some(Box::new(Way { peer, source }));
                self.calls[token.index as usize].way = way;
                self.push_socket(token.index)
            }
            Err(error) => self.fail(token.index, &error),
        }
    }

    fn order_close(&mut self, token: Token, how: Close) -> io::Result<()> {
        let Some(slot) = self.find(token) else {
            return Ok(());
        };
        if slot.phase == Phase::Closing {
            return Ok(());
        }
        match (how, slot.close) {
            (Close::Reset, _) => {
                slot.close = Some(Close::Reset);
                self.tear_down(token.index)
            }
            (Close::Fin, None | Some(Close::Half)) => {
                slot.close = Some(Close::Fin);
                self.settle_close(token.index)
            }
            (Close::Half, None) => {
                slot.close = Some(Close::Half);
                self.settle_close(token.index)
            }
            _ => Ok(()),
        }
    }

    fn order_read(&mut self, token: Token, on: bool) -> io::Result<()> {
        let Some(slot) = self.find(token) else {
            return Ok(());
        };
        slot.paused = !on;
        let (armed, off) = (
            slot.receiving == Receiving::Armed,
            slot.receiving == Receiving::Off,
        );
        if !on && armed {
            // Its completion finds the slot paused, or not any more.
            return self.cancel_receive(token.index);
        }
        if on && off && slot.carries() && !slot.ended {
            return self.arm_receive(token.index);
        }
        Ok(())
    }

    /// Makes the front send ready, past those that are dropped.
    #[inline]
    pub(crate) fn send_next(&mut self, index: u32) -> io::Result<()> {
        let slot = &mut self.slots[index as usize];
        let token = slot.token(index);
        while let Some(message) = &slot.front {
            if !message.dropped {
                slot.sending = Sending::Ready;
                self.ready.push(index);
                return Ok(());
            }
            self.dropped
                .extend(slot.take_front().map(|message| (token, message.head)));
        }
        if slot.close.is_some() {
            self.settle_close(index)
        } else {
            Ok(())
        }
    }

    /// Carries out the close that was asked for, once nothing is left to send.
    fn settle_close(&mut self, index: u32) -> io::Result<()> {
        let slot = &mut self.slots[index as usize];
        if slot.front.is_some() && matches!(slot.phase, Phase::Opening | Phase::Open) {
            return Ok(());
        }
        match (slot.close, slot.phase) {
            (Some(Close::Half), Phase::Open) => self.push_shutdown(index, libc::SHUT_WR),
            (Some(Close::Fin | Close::Reset), _) => self.tear_down(index),
            _ => Ok(()),
        }
    }

    /// Ends a connection for a cause that is not the owner's.
    pub(crate) fn fail(&mut self, index: u32, error: &io::Error) -> io::Result<()> {
        self.slots[index as usize]
            .cause
            .get_or_insert_with(|| cause_of(error));
        self.tear_down(index)
    }

    /// Cancels what is in flight and closes the socket. What is cancelled and closed holds the file
    /// until its completion; the connection is told gone after the last of them.
    pub(crate) fn tear_down(&mut self, index: u32) -> io::Result<()> {
        let slot = &mut self.slots[index as usize];
        slot.phase = Phase::Closing;
        slot.cause.get_or_insert(Closed::Local);
        if slot.sending == Sending::Ready {
            slot.sending = Sending::Idle;
        }
        let (file, busy, shutting) = (slot.file, slot.in_flight > 0, slot.shutting);
        let resets = slot.close == Some(Close::Reset);
        if file != NO_FILE {
            if resets {
                self.set_linger_none(file)?;
            }
            if busy {
                self.cancel(file)?;
            }
            if shutting {
                // Comes back here with the shutdown's completion.
                return Ok(());
            }
            self.push_close(index)?;
            self.slots[index as usize].file = NO_FILE;
        } else if !busy {
            self.finished.push(index);
        }
        Ok(())
    }
}

fn address_of(peer: &Peer) -> io::Result<SockAddr> {
    match peer {
        Peer::Tcp(address) => Ok((*address).into()),
        Peer::Unix(path) => SockAddr::unix(path),
    }
}

pub(crate) fn cause_of(error: &io::Error) -> Closed {
    match error.raw_os_error() {
        Some(libc::ECONNRESET | libc::EPIPE) => Closed::PeerReset,
        Some(libc::ECONNREFUSED | libc::ENOENT) => Closed::Refused,
        Some(libc::ETIMEDOUT) => Closed::TimedOut,
        Some(libc::EHOSTUNREACH | libc::ENETUNREACH) => Closed::Unreachable,
        Some(libc::EADDRNOTAVAIL | libc::EADDRINUSE) => Closed::NoPorts,
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => Closed::NoResources,
        Some(errno) => Closed::Os(errno),
        // An address that no socket can have: a unix path that is too long.
        None => Closed::Os(libc::EINVAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_errno_has_its_cause() {
        for (errno, cause) in [
            (libc::ECONNRESET, Closed::PeerReset),
            (libc::EPIPE, Closed::PeerReset),
            (libc::ECONNREFUSED, Closed::Refused),
            (libc::ENOENT, Closed::Refused),
            (libc::ETIMEDOUT, Closed::TimedOut),
            (libc::EHOSTUNREACH, Closed::Unreachable),
            (libc::ENETUNREACH, Closed::Unreachable),
            (libc::EADDRNOTAVAIL, Closed::NoPorts),
            (libc::EADDRINUSE, Closed::NoPorts),
            (libc::EMFILE, Closed::NoResources),
            (libc::ENFILE, Closed::NoResources),
            (libc::ENOBUFS, Closed::NoResources),
            (libc::ENOMEM, Closed::NoResources),
            (libc::EACCES, Closed::Os(libc::EACCES)),
        ] {
            assert_eq!(cause_of(&io::Error::from_raw_os_error(errno)), cause);
        }
        assert_eq!(
            cause_of(&io::Error::other("no errno")),
            Closed::Os(libc::EINVAL)
        );
    }
}
