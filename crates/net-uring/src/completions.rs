//! What the kernel answers: receives, sends, and the rarer rest.

use std::io;

use io_uring::cqueue;
use ridgeline_clock::{Arrival, Nanos, stamped};
use ridgeline_net::{Sink, Turn};

use crate::driver::UringDriver;
use crate::message;
use crate::orders::cause_of;
use crate::slot::{NO_FILE, Op, Phase, Receiving, Sending, Slot, Tag};

impl UringDriver {
    #[inline]
    pub(crate) fn on_receive<S: Sink>(
        &mut self,
        tag: Tag,
        completion: &cqueue::Entry,
        sink: &mut S,
        turn: &mut Turn,
    ) -> io::Result<()> {
        let (flags, mut result) = (completion.flags(), completion.result());
        let slot = &mut self.slots[tag.index as usize];
        assert_eq!(
            slot.generation, tag.generation,
            "a slot outlives its operations"
        );
        if let Some(buffer) = cqueue::buffer_select(flags) {
            let lent = self
                .buffers
                .bytes(buffer, usize::try_from(result).unwrap_or(0));
            let (stamp, bytes) = if slot.stamped {
                message::parse(lent)
            } else {
                (None, lent)
            };
            if bytes.is_empty() {
                result = 0;
            } else if slot.delivers() {
                let arrival = match &mut self.stamps {
                    Some(stamps) if slot.stamped => {
                        let at = stamp.and_then(|wall| stamps.map(wall, turn.reaped));
                        self.counters.stamps_discarded += u64::from(at.is_none());
                        arrival(slot, at, turn.reaped)
                    }
                    _ => Arrival::reaped(turn.reaped),
                };
                self.counters.reads += 1;
                self.counters.received_bytes += bytes.len() as u64;
                turn.completions += 1;
                sink.received(&mut self.commands, slot.token(tag.index), bytes, arrival);
            }
            self.buffers.give(buffer);
        }
        if cqueue::more(flags) {
            return Ok(());
        }
        self.ring.retire();
        slot.in_flight -= 1;
        slot.receiving = Receiving::Off;
        self.on_receive_end(tag.index, result, sink, turn)
    }

    /// A multishot receive is over: for lack of something (`result` above 0, or an error that says
    /// so), at the end of the stream (0), or by an error.
    fn on_receive_end<S: Sink>(
        &mut self,
        index: u32,
        result: i32,
        sink: &mut S,
        turn: &mut Turn,
    ) -> io::Result<()> {
        let slot = &mut self.slots[index as usize];
        if !slot.carries() {
            self.settle(index);
            return Ok(());
        }
        match -result {
            wants if wants < 0 || is_passing(wants) => {
                self.counters.out_of_buffers += u64::from(wants == libc::ENOBUFS);
                if slot.paused {
                    return self.on_paused(index);
                }
                slot.receiving = Receiving::Queued;
                self.hungry.push_back(slot.token(index));
                Ok(())
            }
            _ if slot.phase == Phase::Draining => self.tear_down(index),
            0 => {
                slot.ended = true;
                if slot.delivers() {
                    turn.completions += 1;
                    let (token, at) = (slot.token(index), Arrival::reaped(turn.reaped));
                    sink.ended(&mut self.commands, token, at);
                }
                Ok(())
            }
            errno => self.fail(index, &io::Error::from_raw_os_error(errno)),
        }
    }

    /// Nothing is read any more. Of a connection whose sends fail nothing else will come to pass.
    #[cold]
    fn on_paused(&mut self, index: u32) -> io::Result<()> {
        if self.slots[index as usize].phase == Phase::Draining {
            return self.tear_down(index);
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn on_send<S: Sink>(
        &mut self,
        tag: Tag,
        result: i32,
        sink: &mut S,
        turn: &mut Turn,
    ) -> io::Result<()> {
        self.ring.retire();
        let slot = &mut self.slots[tag.index as usize];
        slot.in_flight -= 1;
        let left = slot.front.as_ref().map_or(0, |message| {
            (message.head.len() + message.body.len()).saturating_sub(slot.offset)
        });
        match usize::try_from(result) {
            Ok(sent) if sent >= left => {
                let Some(message) = slot.take_front() else {
                    return Ok(());
                };
                let token = slot.token(tag.index);
                turn.completions += 1;
                sink.sent(&mut self.commands, token, message.head, turn.reaped);
                if slot.phase != Phase::Open {
                    self.settle(tag.index);
                    return Ok(());
                }
                if slot.front.is_some() || slot.close.is_some() {
                    return self.send_next(tag.index);
                }
                Ok(())
            }
            Ok(sent) if sent > 0 && slot.phase == Phase::Open => {
                slot.offset += sent;
                self.push_send(tag.index)
            }
            _ => self.on_send_error(tag.index, result),
        }
    }

    /// A send failed, and with it the connection. Bytes that came before the failure are still in
    /// the socket, perhaps the peer's reason: shut down, the receive delivers them and ends.
    #[cold]
    fn on_send_error(&mut self, index: u32, result: i32) -> io::Result<()> {
        let slot = &mut self.slots[index as usize];
        slot.sending = Sending::Idle;
        if slot.phase != Phase::Open {
            self.settle(index);
            return Ok(());
        }
        // A send of more than nothing that sends nothing: no error has a name for it.
        let errno = if result < 0 { -result } else { libc::EIO };
        let error = io::Error::from_raw_os_error(errno);
        if slot.ended || slot.receiving == Receiving::Off {
            return self.fail(index, &error);
        }
        slot.cause.get_or_insert_with(|| cause_of(&error));
        slot.phase = Phase::Draining;
        self.push_shutdown(index, libc::SHUT_RDWR)
    }

    /// Tells of a closing slot that nothing is in flight any more.
    #[inline]
    fn settle(&mut self, index: u32) {
        let slot = &self.slots[index as usize];
        if slot.phase == Phase::Closing && slot.in_flight == 0 {
            self.finished.push(index);
        }
    }

    pub(crate) fn on_rare<S: Sink>(
        &mut self,
        tag: Tag,
        completion: &cqueue::Entry,
        sink: &mut S,
        turn: &mut Turn,
    ) -> io::Result<()> {
        match tag.op {
            Op::Accept => return self.on_accept(tag.index, completion, sink, turn),
            Op::Wake => {
                self.ring.retire();
                turn.woken = true;
                self.waker.heard();
                return self.arm_wake();
            }
            Op::Silent | Op::Receive | Op::Send => return Ok(()),
            Op::Socket | Op::Bind | Op::Connect | Op::Shutdown | Op::Close => {}
        }
        self.ring.retire();
        let slot = &mut self.slots[tag.index as usize];
        slot.in_flight -= 1;
        if tag.op == Op::Socket && completion.result() >= 0 {
            slot.file = completion.result().cast_unsigned();
        }
        slot.shutting &= tag.op != Op::Shutdown;
        self.files_freed |= tag.op == Op::Close;
        match slot.phase {
            Phase::Closing if slot.file != NO_FILE => self.tear_down(tag.index),
            Phase::Closing => {
                self.settle(tag.index);
                Ok(())
            }
            Phase::Opening => self.on_step(tag, completion.result(), sink, turn),
            // A shutdown: its failure means that the connection is gone, which the receive tells.
            _ => Ok(()),
        }
    }

    /// A step on the way to an open connection.
    fn on_step<S: Sink>(
        &mut self,
        tag: Tag,
        result: i32,
        sink: &mut S,
        turn: &mut Turn,
    ) -> io::Result<()> {
        if result < 0 {
            return self.fail(tag.index, &io::Error::from_raw_os_error(-result));
        }
        let slot = &mut self.slots[tag.index as usize];
        slot.floor = turn.reaped;
        let call = &mut self.calls[tag.index as usize];
        match tag.op {
            Op::Socket => {
                let way = call.way.as_ref();
                let is_tcp = way.is_some_and(|way| !way.peer.is_unix());
                let binds = is_tcp && way.is_some_and(|way| way.source.is_some());
                if is_tcp {
                    self.set_options(tag.index)?;
                }
                if binds {
                    self.push_bind(tag.index)
                } else {
                    self.push_connect(tag.index)
                }
            }
            Op::Bind => self.push_connect(tag.index),
            _ => {
                call.way = None;
                slot.phase = Phase::Open;
                turn.completions += 1;
                sink.opened(&mut self.commands, slot.token(tag.index), turn.reaped);
                if !self.slots[tag.index as usize].paused {
                    self.arm_receive(tag.index)?;
                }
                self.send_next(tag.index)
            }
        }
    }

    fn on_accept<S: Sink>(
        &mut self,
        number: u32,
        completion: &cqueue::Entry,
        sink: &mut S,
        turn: &mut Turn,
    ) -> io::Result<()> {
        let result = completion.result();
        let listener = &mut self.listeners[number as usize];
        if !cqueue::more(completion.flags()) {
            self.ring.retire();
            listener.armed = false;
            // No file, no memory: another try makes sense when something is freed.
            let passes = matches!(-result, libc::ECONNABORTED | libc::EPROTO | libc::EINTR);
            listener.starved = result < 0 && !passes;
        }
        let Ok(file) = u32::try_from(result) else {
            return Ok(());
        };
        let stamped = listener.stamped;
        turn.completions += 1;
        let Some(token) = sink.accepted(&mut self.commands, number, turn.reaped) else {
            self.files_freed = true;
            return self.refuse(file);
        };
        let slot = &mut self.slots[token.index as usize];
        slot.start(token.generation, Phase::Open, file, stamped);
        self.arm_receive(token.index)
    }
}

/// A receive that ended with this errno is armed again: it lacked something, or it was cancelled
/// because nothing was to be read.
fn is_passing(errno: i32) -> bool {
    matches!(
        errno,
        libc::ENOBUFS | libc::EAGAIN | libc::EINTR | libc::ECANCELED
    )
}

/// When a stamped read came.
#[inline]
fn arrival(slot: &mut Slot, at: Option<Nanos>, reaped: Nanos) -> Arrival {
    stamped(&mut slot.floor, slot.submitted, at, reaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(floor: u64, submitted: u64) -> Slot {
        Slot {
            floor: Nanos(floor),
            submitted: Nanos(submitted),
            ..Slot::free()
        }
    }

    #[test]
    fn a_read_lies_between_the_stamp_before_and_its_own() {
        let mut slot = slot(100, 0);
        let first = arrival(&mut slot, Some(Nanos(300)), Nanos(350));
        assert_eq!(
            (first.not_before, first.at, first.reaped),
            (Nanos(100), Nanos(300), Nanos(350))
        );
        let second = arrival(&mut slot, Some(Nanos(400)), Nanos(450));
        assert_eq!((second.not_before, second.at), (Nanos(300), Nanos(400)));
    }

    #[test]
    fn an_answer_does_not_come_before_what_it_answers() {
        let mut slot = slot(100, 250);
        assert_eq!(
            arrival(&mut slot, Some(Nanos(300)), Nanos(350)).not_before,
            Nanos(250)
        );
        // What came before the send is no answer to it.
        slot.submitted = Nanos(900);
        assert_eq!(
            arrival(&mut slot, Some(Nanos(400)), Nanos(950)).not_before,
            Nanos(300)
        );
    }

    #[test]
    fn the_stamps_of_a_stream_do_not_go_back() {
        let mut slot = slot(500, 0);
        let read = arrival(&mut slot, Some(Nanos(480)), Nanos(600));
        assert_eq!((read.not_before, read.at), (Nanos(500), Nanos(500)));
    }

    #[test]
    fn without_a_stamp_the_time_of_reaping_counts() {
        let mut slot = slot(100, 0);
        assert_eq!(
            arrival(&mut slot, None, Nanos(600)),
            Arrival::reaped(Nanos(600))
        );
        // The next read may hold bytes that came before that reaping.
        assert_eq!(
            arrival(&mut slot, Some(Nanos(650)), Nanos(700)).not_before,
            Nanos(100)
        );
        let mut fresh = Slot::free();
        assert_eq!(
            arrival(&mut fresh, Some(Nanos(5)), Nanos(9)).not_before,
            Nanos(5)
        );
    }
}
