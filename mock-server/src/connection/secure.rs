//! What a connection does besides when it goes through TLS.

use bytes::Bytes;
use ridgeline_clock::Arrival;
use ridgeline_net::Commands;
use ridgeline_tls::Session;

use super::{Connection, Shared};
use crate::exchange::Buffers;

impl Connection {
    /// From now on it goes through TLS.
    pub(crate) fn secure(&mut self, session: Session) {
        self.session = Some(Box::new(session));
    }

    pub(crate) fn is_secure(&self) -> bool {
        self.session.is_some()
    }

    /// Bytes came that are TLS's.
    pub(crate) fn received_secure(
        &mut self,
        shared: &mut Shared,
        commands: &mut Commands,
        bytes: &[u8],
        arrival: Arrival,
    ) {
        let Some(session) = &mut self.session else {
            return;
        };
        let mut scratch = std::mem::take(&mut shared.scratch);
        let mut out = shared.buffers.take();
        let read = session.received(bytes, &mut scratch, &mut out);
        let is_ended = session.is_ended();
        if out.is_empty() {
            shared.buffers.put(out);
        } else {
            self.post(commands, out);
        }
        if !scratch.plain().is_empty() {
            self.received(shared, commands, scratch.plain(), arrival);
        }
        shared.scratch = scratch;
        if read.is_err() {
            self.hang_up(commands);
        } else if is_ended {
            self.ended(shared, commands, arrival.reaped);
        }
    }

    /// What is to be handed over in the place of `head` and `body`.
    pub(super) fn sealed(
        &mut self,
        buffers: &mut Buffers,
        head: Vec<u8>,
        body: Bytes,
    ) -> (Vec<u8>, Bytes) {
        let Some(session) = &mut self.session else {
            return (head, body);
        };
        let mut out = buffers.take();
        // What can't be said any more has no reader: the connection is at its end.
        let written = session.write(&head, &mut out);
        let _ = written.and_then(|()| session.write(&body, &mut out));
        buffers.put(head);
        (out, Bytes::new())
    }

    /// Tells the peer that nothing more is said, where TLS has a word for that.
    pub(super) fn say_goodbye(&mut self, commands: &mut Commands) {
        let Some(session) = &mut self.session else {
            return;
        };
        let mut out = Vec::new();
        session.close(&mut out);
        if !out.is_empty() {
            self.post(commands, out);
        }
    }

    /// Sends what belongs to no answer.
    fn post(&mut self, commands: &mut Commands, out: Vec<u8>) {
        self.sends += 1;
        self.queued_bytes += out.len();
        self.notes.push_back(None);
        commands.send(self.token, out, Bytes::new());
    }
}
