//! Requests on their way: made, handed to the driver, with the kernel.

use bytes::Bytes;
use ridgeline_clock::{Arrival, Nanos};
use ridgeline_net::Commands;

use super::{HELD_BYTES_MAX, Sent, Streams};
use crate::pool::take_head;
use crate::shard::Shard;

impl Shard {
    /// A connection begins to speak HTTP/2.
    pub(crate) fn begin_streams(&mut self, index: u32) {
        let Some(http2) = &self.plan.target.http2 else {
            return;
        };
        let streams = Streams::new(&http2.limits, self.plan.limits.carry_inline_bytes);
        self.connections[index as usize].streams = Some(Box::new(streams));
    }

    /// A request has a connection of HTTP/2.
    pub(crate) fn start_stream(
        &mut self,
        slot_index: u32,
        index: u32,
        now: Nanos,
        commands: &mut Commands,
    ) {
        self.put_stream(slot_index, index, now);
        self.go_on(index, Arrival::reaped(now), commands);
    }

    /// Puts a request on a stream of its own; without room for that it waits again.
    pub(crate) fn put_stream(&mut self, slot_index: u32, index: u32, now: Nanos) {
        if !self.try_stream(slot_index, index) {
            self.wait_again(slot_index, now);
        }
    }

    fn try_stream(&mut self, slot_index: u32, index: u32) -> bool {
        let session = self.session_of(slot_index);
        let slot = &self.slots[slot_index as usize];
        let (Some((head, body)), Some(streams)) = (
            self.requests.stream(slot),
            &mut self.connections[index as usize].streams,
        ) else {
            return false;
        };
        let Ok(stream) = streams.h2.request(head, body) else {
            return false;
        };
        let place = &mut streams.places[stream.place as usize];
        place.slot = Some(slot_index);
        place.number = stream.number;
        streams.session = session;
        streams.made.push(Sent {
            slot: slot_index,
            index: slot.index,
        });
        true
    }

    /// Hands what is to be sent to the driver, unless it has something already.
    pub(super) fn flush(&mut self, index: u32, commands: &mut Commands) {
        let streams = self.connections[index as usize].streams.as_ref();
        if streams.is_none_or(|streams| streams.sends > 0) {
            return;
        }
        let mut out = take_head(&mut self.heads, &self.plan.limits);
        self.write_output(index, &mut out);
        let connection = &mut self.connections[index as usize];
        let token = connection.token(index);
        match &mut connection.streams {
            Some(streams) if !out.is_empty() => {
                streams.sends += 1;
                commands.send(token, out, Bytes::new());
            }
            _ => self.heads.push(out),
        }
    }

    /// Appends what is to be sent to `out`, sealed where the connection goes through TLS.
    pub(crate) fn write_output(&mut self, index: u32, out: &mut Vec<u8>) {
        let connection = &mut self.connections[index as usize];
        let Some(streams) = &mut connection.streams else {
            return;
        };
        streams.under_way.append(&mut streams.made);
        streams.is_submitted = false;
        let Some(secure) = &mut connection.secure else {
            streams.h2.take_output(out);
            return;
        };
        let mut plain = std::mem::take(&mut self.request);
        plain.clear();
        if streams.h2.take_output(&mut plain) {
            secure.seal(&plain, out);
        }
        self.request = plain;
    }

    /// The driver has handed a send to the kernel.
    pub(crate) fn streams_submitted(&mut self, index: u32, at: Nanos) {
        let Some(streams) = &mut self.connections[index as usize].streams else {
            return;
        };
        if std::mem::replace(&mut streams.is_submitted, true) {
            return;
        }
        let under_way = std::mem::take(&mut streams.under_way);
        for &sent in &under_way {
            if self.is_still(sent, index) {
                self.mark_submitted(sent.slot, at);
            }
        }
        if let Some(streams) = &mut self.connections[index as usize].streams {
            streams.under_way = under_way;
        }
    }

    /// The kernel took a send.
    pub(crate) fn streams_sent(&mut self, index: u32, at: Nanos, commands: &mut Commands) {
        let Some(streams) = &mut self.connections[index as usize].streams else {
            return;
        };
        streams.sends = streams.sends.saturating_sub(1);
        if streams.sends > 0 {
            return;
        }
        let mut under_way = std::mem::take(&mut streams.under_way);
        for sent in under_way.drain(..) {
            if self.is_still(sent, index) {
                self.mark_sent(sent.slot, at);
            }
        }
        if let Some(streams) = &mut self.connections[index as usize].streams {
            streams.under_way = under_way;
        }
        self.flush(index, commands);
        self.read_on(index, at, commands);
        self.go_on(index, Arrival::reaped(at), commands);
        self.serve_waiting(at, commands);
    }

    /// Something was sent: what came and had to wait for that is told, and the connection is read from again.
    fn read_on(&mut self, index: u32, at: Nanos, commands: &mut Commands) {
        let connection = &mut self.connections[index as usize];
        let token = connection.token(index);
        let paused = connection.streams.take_if(|streams| streams.is_paused);
        let Some(mut streams) = paused else {
            return;
        };
        self.tell_streams(index, &mut streams, Arrival::reaped(at));
        if streams.h2.held_bytes() <= HELD_BYTES_MAX {
            streams.is_paused = false;
            commands.read(token, true);
        }
        self.connections[index as usize].streams = Some(streams);
    }

    fn is_still(&self, sent: Sent, index: u32) -> bool {
        let slot = &self.slots[sent.slot as usize];
        slot.index == sent.index && slot.connection == Some(index)
    }

    /// Resets the stream of a slot: an answer that nobody waits for. The connection goes on.
    pub(crate) fn give_up_stream(
        &mut self,
        slot_index: u32,
        index: u32,
        now: Nanos,
        commands: &mut Commands,
    ) {
        let Some(streams) = &mut self.connections[index as usize].streams else {
            return;
        };
        let mut places = streams.places.iter_mut().zip(0..);
        if let Some((place, place_index)) = places.find(|(place, _)| place.slot == Some(slot_index))
        {
            place.slot = None;
            place.carry.clear(&mut self.shared.pool);
            streams.cancel(place_index);
        }
        self.go_on(index, Arrival::reaped(now), commands);
    }
}
