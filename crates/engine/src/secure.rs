use bytes::Bytes;
use ridgeline_clock::{Arrival, Nanos};
use ridgeline_net::{Close, Commands};
use ridgeline_tls::{Session, TlsError, TlsErrorKind};
use ridgeline_wire::exchange::ErrorKind;

use crate::connection::State;
use crate::pool::take_head;
use crate::shard::Shard;

/// A request up to this size is sealed in one piece, which is cheaper than two: a record holds as much.
const TOGETHER_BYTES_MAX: usize = 16 << 10;

/// What secures one connection.
#[derive(Debug, Default)]
pub(crate) struct Secure {
    /// From when the connection is up.
    session: Option<Session>,
    /// The slot that asked for the connection, until the handshake is over. It is not the connection's
    /// slot until then: what is sent meanwhile is no request.
    waiting: Option<u32>,
    /// When the connection was up.
    since: Nanos,
}

impl Secure {
    /// Appends what is said to `out`, sealed.
    pub(crate) fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) {
        if let Some(session) = &mut self.session {
            // What can't be said any more has ended the connection: that is told by what comes next.
            let _ = session.write(plain, out);
        }
    }

    /// Whether the handshake has begun.
    pub(crate) const fn has_begun(&self) -> bool {
        self.session.is_some()
    }
}

/// What connections that go through TLS do besides. The bytes of a read are decrypted first, all that is
/// whole, and then heard as one read: times and counts are those of the read that brought the last byte of
/// a record.
impl Shard {
    fn session(&mut self, index: u32) -> Option<&mut Session> {
        let secure = self.connections[index as usize].secure.as_mut()?;
        secure.session.as_mut()
    }

    /// A request has a connection: it is sent, or waits for the end of the handshake.
    pub(crate) fn start_secure(&mut self, slot_index: u32, index: u32, commands: &mut Commands) {
        let connection = &mut self.connections[index as usize];
        if connection.state == State::Connecting {
            if let Some(secure) = &mut connection.secure {
                secure.waiting = Some(slot_index);
            }
            return;
        }
        let mut out = take_head(&mut self.heads, &self.plan.limits);
        self.write_request(slot_index, index, &mut out);
        let token = self.connections[index as usize].token(index);
        commands.send(token, out, Bytes::new());
    }

    /// Puts a request on its connection, sealed: appended to `out`.
    fn write_request(&mut self, slot_index: u32, index: u32, out: &mut Vec<u8>) {
        let mut plain = std::mem::take(&mut self.request);
        let slot = &self.slots[slot_index as usize];
        let inline_bytes = self.plan.limits.send_inline_bytes;
        let body = match self.state.source.feed() {
            None => self.requests.write(&mut plain, slot),
            Some(feed) => feed.write(slot_index, slot.endpoint, &mut plain, inline_bytes),
        };
        let is_small = plain.len() + body.len() <= TOGETHER_BYTES_MAX;
        let rest: &[u8] = if is_small { &[] } else { &body };
        if is_small {
            plain.extend_from_slice(&body);
        }
        let connection = &mut self.connections[index as usize];
        connection.slot = Some(slot_index);
        connection.http.start();
        if let Some(session) = self.session(index) {
            // What can't be said any more has ended the connection: that is told by what comes next.
            let written = session.write(&plain, out);
            let _ = written.and_then(|()| session.write(rest, out));
        }
        self.request = plain;
    }

    /// A connection is up: the handshake begins.
    pub(crate) fn opened_secure(&mut self, index: u32, at: Nanos, commands: &mut Commands) {
        let connection = &mut self.connections[index as usize];
        let Some(client) = self.plan.target.tls_of(connection.endpoint).cloned() else {
            return;
        };
        let mut out = take_head(&mut self.heads, &self.plan.limits);
        let begun = client.session().and_then(|mut session| {
            session.begin(&mut out)?;
            Ok(session)
        });
        let Some(secure) = &mut connection.secure else {
            return;
        };
        secure.since = at;
        if let Some(slot_index) = secure.waiting {
            let slot = &mut self.slots[slot_index as usize];
            let span = at - connection.opening_since;
            slot.timeline.connect.get_or_insert(span);
            slot.connected.get_or_insert(at);
        }
        match begun {
            Ok(session) => {
                secure.session = Some(session);
                commands.send(connection.token(index), out, Bytes::new());
            }
            Err(error) => self.secure_failed(index, error, Arrival::reaped(at), commands),
        }
    }

    /// Bytes came on a connection that goes through TLS.
    #[inline(never)]
    pub(crate) fn received_secure(
        &mut self,
        index: u32,
        bytes: &[u8],
        arrival: Arrival,
        commands: &mut Commands,
    ) {
        let connection = &mut self.connections[index as usize];
        let session = connection.secure.as_mut();
        let Some(session) = session.and_then(|secure| secure.session.as_mut()) else {
            return;
        };
        let mut out = take_head(&mut self.heads, &self.plan.limits);
        let mut scratch = std::mem::take(&mut self.scratch);
        let read = session.received(bytes, &mut scratch, &mut out);
        let (is_ready, is_ended) = (session.is_ready(), session.is_ended());
        let secured =
            is_ready && self.connections[index as usize].state == State::Connecting && read.is_ok();
        let read = match read {
            Ok(()) if secured => self.secured(index, arrival, &mut out),
            read => read,
        };
        let connection = &mut self.connections[index as usize];
        if out.is_empty() {
            self.heads.push(out);
        } else {
            commands.send(connection.token(index), out, Bytes::new());
            if let Some(streams) = &mut connection.streams {
                streams.also_sends();
            }
        }
        if !scratch.plain().is_empty() {
            self.heard(index, scratch.plain(), arrival, commands);
        }
        self.scratch = scratch;
        let is_closing = self.connections[index as usize].state == State::Closing;
        match read {
            _ if is_closing => {}
            Err(error) => self.secure_failed(index, error, arrival, commands),
            Ok(()) if is_ended => {
                if !is_ready {
                    self.ended_in_handshake(index, arrival.reaped);
                }
                if self.connections[index as usize].state == State::Idle {
                    self.idle_ended(index, arrival.reaped);
                }
                self.exchange_ended(index, true, arrival);
                self.close(index, Close::Fin, commands);
            }
            Ok(()) if !secured => return,
            Ok(()) => {}
        }
        self.serve_waiting(arrival.reaped, commands);
    }

    /// The handshake is over: the request that waited for it is appended to what is sent.
    fn secured(&mut self, index: u32, arrival: Arrival, out: &mut Vec<u8>) -> Result<(), TlsError> {
        if self.choose(index)? {
            self.begin_streams(index);
        }
        let connection = &mut self.connections[index as usize];
        connection.state = State::Busy;
        self.connecting -= 1;
        let speaks_http2 = connection.streams.is_some();
        let Some(secure) = &mut connection.secure else {
            return Ok(());
        };
        let span = arrival.at - secure.since;
        let Some(slot_index) = secure.waiting.take() else {
            self.rest(index, arrival.reaped);
            return Ok(());
        };
        let slot = &mut self.slots[slot_index as usize];
        slot.timeline.tls.get_or_insert(span);
        slot.secured.get_or_insert(arrival.at);
        if speaks_http2 {
            self.put_stream(slot_index, index, arrival.reaped);
            self.write_output(index, out);
        } else {
            self.write_request(slot_index, index, out);
        }
        Ok(())
    }

    /// Whether a connection whose handshake is over speaks HTTP/2.
    fn choose(&mut self, index: u32) -> Result<bool, TlsError> {
        let Some(http2) = self.plan.target.http2 else {
            return Ok(false);
        };
        let session = self.session(index);
        let speaks_http2 = session.is_some_and(|session| session.protocol() == Some(b"h2"));
        if !speaks_http2 && http2.required {
            return Err(TlsError {
                kind: TlsErrorKind::Protocol,
                message: "the server does not choose HTTP/2 (ALPN): use --http auto or --http 1.1"
                    .into(),
            });
        }
        let endpoint = self.connections[index as usize].endpoint;
        self.endpoints.get_mut(endpoint).speech.spoken = Some(speaks_http2);
        if !speaks_http2 {
            self.settle_room(index);
        }
        Ok(speaks_http2)
    }

    /// A connection is of no use any more: what it carried fails.
    fn secure_failed(
        &mut self,
        index: u32,
        error: TlsError,
        arrival: Arrival,
        commands: &mut Commands,
    ) {
        while let Some(slot_index) = self.take_slot(index) {
            let kind = match error.kind {
                TlsErrorKind::Certificate => ErrorKind::Certificate,
                TlsErrorKind::Alert | TlsErrorKind::NotTls | TlsErrorKind::Protocol => {
                    ErrorKind::Tls
                }
            };
            let message = error.message.clone().into();
            self.fail(slot_index, kind, message, arrival.reaped);
        }
        self.close(index, Close::Fin, commands);
    }

    /// The server sent FIN before the handshake was over.
    pub(crate) fn ended_in_handshake(&mut self, index: u32, at: Nanos) {
        if let Some(slot_index) = self.take_slot(index) {
            let message = "the server closed the connection during the TLS handshake: does it speak TLS \
                           at this port?";
            self.fail(slot_index, ErrorKind::Tls, message.into(), at);
        }
    }

    /// The slot of a connection, which has it no longer; also one that waits for the handshake.
    pub(crate) fn take_slot(&mut self, index: u32) -> Option<u32> {
        let connection = &mut self.connections[index as usize];
        let waiting = connection.secure.as_mut();
        let waiting = waiting.and_then(|secure| secure.waiting.take());
        let slot = waiting.or_else(|| connection.slot.take());
        slot.or_else(|| connection.streams.as_mut()?.take_any())
    }

    /// Whether a connection is up and not yet secured.
    pub(crate) fn is_shaking_hands(&self, index: u32) -> bool {
        let connection = &self.connections[index as usize];
        let secure = connection.secure.as_ref();
        connection.state == State::Connecting && secure.is_some_and(|secure| secure.has_begun())
    }

    /// Whether the end of a connection now is one that the server did not announce in TLS.
    pub(crate) fn is_cut(&self, index: u32) -> bool {
        let secure = self.connections[index as usize].secure.as_ref();
        let session = secure.and_then(|secure| secure.session.as_ref());
        session.is_some_and(|session| !session.is_ended())
    }

    /// Whether a byte of an answer has come.
    pub(crate) fn has_answer_begun(&self, slot_index: u32) -> bool {
        let answer = self.slots[slot_index as usize].exchange.answer();
        answer.first_byte.is_some()
    }

    /// Tells the server that nothing more is said, where TLS has a word for that.
    pub(crate) fn say_goodbye(&mut self, index: u32, commands: &mut Commands) {
        let connection = &mut self.connections[index as usize];
        let Some(session) = connection
            .secure
            .as_mut()
            .and_then(|secure| secure.session.as_mut())
        else {
            return;
        };
        let mut out = take_head(&mut self.heads, &self.plan.limits);
        session.close(&mut out);
        if out.is_empty() {
            self.heads.push(out);
        } else {
            commands.send(connection.token(index), out, Bytes::new());
        }
    }
}
