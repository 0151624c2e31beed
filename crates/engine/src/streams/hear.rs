//! What comes: told to the exchanges of its streams.

use ridgeline_clock::{Arrival, Nanos};
use ridgeline_http2::{Abort, AbortKind, Event};
use ridgeline_net::{Close, Commands};
use ridgeline_wire::exchange::{ErrorKind, Progress};
use ridgeline_wire::http1::Part;

use super::{Fate, HELD_BYTES_MAX, Place, Streams, UNPROCESSED_MAX};
use crate::connection::State;
use crate::shard::Shard;

impl Shard {
    /// Bytes came on a connection of HTTP/2.
    #[inline(never)]
    pub(crate) fn heard_streams(
        &mut self,
        index: u32,
        bytes: &[u8],
        arrival: Arrival,
        commands: &mut Commands,
    ) {
        let Some(mut streams) = self.connections[index as usize].streams.take() else {
            return;
        };
        streams.h2.received(bytes);
        self.tell_streams(index, &mut streams, arrival);
        let connection = &mut self.connections[index as usize];
        if streams.h2.held_bytes() > HELD_BYTES_MAX && !streams.is_paused {
            streams.is_paused = true;
            commands.read(connection.token(index), false);
        }
        connection.streams = Some(streams);
        self.go_on(index, arrival, commands);
        self.serve_waiting(arrival.reaped, commands);
    }

    /// Something was asked of a connection, or came: what there is to send is sent, and then it has room, or is
    /// over.
    pub(super) fn go_on(&mut self, index: u32, arrival: Arrival, commands: &mut Commands) {
        self.flush(index, commands);
        if !self.is_over(index) {
            return self.note_room(index, arrival.reaped, commands);
        }
        if let Some(mut streams) = self.connections[index as usize].streams.take() {
            // It may have ended by what was to be sent.
            self.tell_streams(index, &mut streams, arrival);
            self.connections[index as usize].streams = Some(streams);
        }
        if self.connections[index as usize].state == State::Idle {
            self.idle_ended(index, arrival.reaped);
        }
        self.close(index, Close::Fin, commands);
    }

    /// Whether a connection is of no more use: it ended, or nothing more may be sent and nothing is to come.
    fn is_over(&self, index: u32) -> bool {
        let streams = self.connections[index as usize].streams.as_ref();
        streams.is_some_and(|streams| {
            let h2 = &streams.h2;
            h2.how_it_ended().is_some() || !h2.is_open() && h2.active() == 0
        })
    }

    /// The connection ended, or was lost: so did its streams.
    pub(crate) fn streams_ended(&mut self, index: u32, fin: bool, arrival: Arrival) {
        let Some(mut streams) = self.connections[index as usize].streams.take() else {
            return;
        };
        streams.h2.ended(fin);
        self.tell_streams(index, &mut streams, arrival);
        self.connections[index as usize].streams = Some(streams);
    }

    /// Tells exchanges what came for them. Events of all streams in a read share its stamp, which is that of its
    /// last byte: of several, none is sure.
    pub(super) fn tell_streams(&mut self, index: u32, streams: &mut Streams, arrival: Arrival) {
        let mut count = 0;
        loop {
            let (stream, fate) = match streams.h2.next() {
                None => break,
                Some(Event::Part { stream, part }) => {
                    let place = &mut streams.places[stream.place as usize];
                    count += self.hear_part(place, part, arrival);
                    (stream, None)
                }
                Some(Event::Aborted { stream, abort }) => (stream, Some(Fate::Aborted(abort))),
            };
            let place = &mut streams.places[stream.place as usize];
            if place.fate.is_none() {
                place.fate = fate;
            }
            streams.touch(stream.place);
        }
        let mut touched = std::mem::take(&mut streams.touched);
        for place in touched.drain(..) {
            self.settle_stream(index, streams, place, arrival, count);
        }
        streams.touched = touched;
    }

    /// A part of a response. How many content events it brought.
    #[inline]
    fn hear_part(&mut self, place: &mut Place, part: Part<'_>, arrival: Arrival) -> u32 {
        let (Some(slot_index), None) = (place.slot, &place.fate) else {
            return 0;
        };
        let slot = &mut self.slots[slot_index as usize];
        let (pool, collector) = (&mut self.gap_pool, &mut self.collector);
        let mut observer = slot.seen.read(pool, collector, arrival);
        let progress = slot.exchange.part(
            part,
            &mut place.carry,
            &mut self.shared,
            arrival,
            &mut observer,
        );
        let count = observer.finish(self.stamped);
        place.count += count;
        if let Progress::Done { reusable } = progress {
            place.fate = Some(Fate::Done { reusable });
        }
        count
    }

    /// What a read of `count` content events in all means for one stream.
    fn settle_stream(
        &mut self,
        index: u32,
        streams: &mut Streams,
        place_index: u32,
        arrival: Arrival,
        count: u32,
    ) {
        let place = &mut streams.places[place_index as usize];
        place.is_touched = false;
        let own = std::mem::take(&mut place.count);
        let Some(slot_index) = place.slot else {
            place.fate = None;
            return;
        };
        if own > 0 && count > 1 {
            let seen = &mut self.slots[slot_index as usize].seen;
            seen.stamp_width_max = seen.stamp_width_max.max(arrival.width());
        }
        let fate = match place.fate.take() {
            Some(fate) => fate,
            None if self.hears(slot_index, own, arrival.reaped) => Fate::GivenUp,
            None => return,
        };
        place.slot = None;
        place.carry.clear(&mut self.shared.pool);
        match fate {
            Fate::Done { reusable } => {
                if !reusable {
                    streams.cancel(place_index);
                }
                self.finish(slot_index, arrival.reaped, false);
            }
            Fate::GivenUp => {
                streams.cancel(place_index);
                self.slots[slot_index as usize].given_up = true;
                self.finish(slot_index, arrival.reaped, true);
            }
            Fate::Aborted(abort) => self.stream_aborted(slot_index, index, abort, arrival.reaped),
        }
    }

    /// A stream ended before its answer did: its request goes out again, where nothing can have come of it, or
    /// has failed.
    fn stream_aborted(&mut self, slot_index: u32, index: u32, abort: Abort, at: Nanos) {
        let may_retry = match abort.kind {
            AbortKind::Unprocessed => self.slots[slot_index as usize].retries < UNPROCESSED_MAX,
            AbortKind::Lost => self.may_retry(slot_index, index),
            AbortKind::Reset | AbortKind::Protocol => false,
        };
        if may_retry {
            self.slots[slot_index as usize].retries += 1;
            return self.wait_again(slot_index, at);
        }
        let kind = match abort.kind {
            AbortKind::Protocol => ErrorKind::HttpProtocol,
            _ if self.has_answer_begun(slot_index) => ErrorKind::Truncated,
            _ => ErrorKind::Reset,
        };
        self.fail(slot_index, kind, abort.message, at);
    }
}
