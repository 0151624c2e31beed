use std::borrow::Cow;

use ridgeline_clock::{Arrival, Nanos};
use ridgeline_metrics::Phase;
use ridgeline_net::{Close, Closed, Commands, Sink, Token};
use ridgeline_wire::exchange::{ErrorKind, Progress};

use crate::connection::State;
use crate::shard::Shard;
use crate::slot::ReadObserver;
use crate::waits::Connections;

impl Shard {
    /// The place of the connection that a token names, unless it has moved on.
    fn place(&self, token: Token) -> Option<u32> {
        let connection = self.connections.get(token.index as usize)?;
        (connection.generation == token.generation && connection.state != State::Free)
            .then_some(token.index)
    }

    /// The exchange on a connection failed before it began.
    pub(crate) fn fail(
        &mut self,
        slot_index: u32,
        kind: ErrorKind,
        message: Cow<'static, str>,
        at: Nanos,
    ) {
        self.slots[slot_index as usize]
            .exchange
            .fail(kind, message, at);
        self.finish(slot_index, at, false);
    }

    /// Whether a request whose connection just ended may go out once more: the connection had
    /// been idle, so the endpoint may have closed it before the request reached it, and not a
    /// byte of an answer came.
    pub(crate) fn may_retry(&self, slot_index: u32, connection_index: u32) -> bool {
        let slot = &self.slots[slot_index as usize];
        self.connections[connection_index as usize].reused
            && slot.retries == 0
            && slot.exchange.answer().first_byte.is_none()
    }

    /// Ends the exchange on a connection that ended, or sends its request again elsewhere.
    pub(crate) fn exchange_ended(&mut self, index: u32, fin: bool, arrival: Arrival) {
        if self.connections[index as usize].streams.is_some() {
            return self.streams_ended(index, fin, arrival);
        }
        let Some(slot_index) = self.connections[index as usize].slot.take() else {
            return;
        };
        if self.may_retry(slot_index, index) {
            let slot = &mut self.slots[slot_index as usize];
            slot.retries += 1;
            if let Some(submitted) = slot.timeline.submitted {
                let connection = &self.connections[index as usize];
                let rest = submitted - connection.idle_since;
                let endpoint = self.endpoints.get_mut(connection.endpoint);
                endpoint.idle_limit.closed_after(rest);
            }
            self.wait_again(slot_index, arrival.reaped);
            return;
        }
        if fin && self.is_cut(index) && self.has_answer_begun(slot_index) {
            let message = "the connection ended inside the response without TLS's close_notify: anybody \
                           in between may have cut it";
            let kind = ErrorKind::TlsTruncated;
            return self.fail(slot_index, kind, message.into(), arrival.reaped);
        }
        let connection = &mut self.connections[index as usize];
        let slot = &mut self.slots[slot_index as usize];
        let mut observer = ReadObserver::new(
            &mut slot.seen,
            &mut self.gap_pool,
            &mut self.collector,
            arrival,
        );
        slot.exchange.ended(
            &mut connection.http,
            &mut connection.carry,
            &mut self.shared,
            fin,
            arrival,
            &mut observer,
        );
        observer.finish(self.stamped);
        self.finish(slot_index, arrival.reaped, false);
    }

    fn connect_failed(&mut self, index: u32, cause: Closed, at: Nanos) {
        let Some(slot_index) = self.take_slot(index) else {
            return;
        };
        if self.is_shaking_hands(index) {
            let message = format!("{} during the TLS handshake", lost_how(cause));
            return self.fail(slot_index, ErrorKind::Tls, message.into(), at);
        }
        let (kind, message) = match cause {
            Closed::NoPorts => {
                self.exhausted.ports = true;
                self.back_off(at);
                return self.wait_again(slot_index, at);
            }
            Closed::NoResources => {
                self.exhausted.descriptors = true;
                self.back_off(at);
                return self.wait_again(slot_index, at);
            }
            Closed::Refused => (ErrorKind::Connect, "connection refused".into()),
            Closed::Unreachable => (ErrorKind::Connect, "no route to the endpoint".into()),
            Closed::TimedOut => (
                ErrorKind::ConnectTimeout,
                "the endpoint did not answer the connect".into(),
            ),
            Closed::PeerReset => (
                ErrorKind::Connect,
                "connection reset while connecting".into(),
            ),
            Closed::Local => (
                ErrorKind::Connect,
                "connection closed while connecting".into(),
            ),
            Closed::Os(errno) => (
                ErrorKind::Connect,
                format!(
                    "connecting failed: {}",
                    std::io::Error::from_raw_os_error(errno)
                )
                .into(),
            ),
        };
        self.fail(slot_index, kind, message, at);
    }

    /// The answer on a connection is complete: the connection rests, or is closed.
    fn answer_complete(
        &mut self,
        index: u32,
        slot_index: u32,
        reusable: bool,
        reaped: Nanos,
        commands: &mut Commands,
    ) {
        self.finish(slot_index, reaped, false);
        let session = self.session_of(slot_index);
        let rests = reusable
            && match self.plan.connections {
                Connections::Reuse => true,
                Connections::PerSession => session.is_some(),
                Connections::PerRequest => false,
            };
        if !rests {
            return self.close(index, Close::Fin, commands);
        }
        let connection = &self.connections[index as usize];
        if let Some(seconds) = connection.http.idle_s() {
            let endpoint = self.endpoints.get_mut(connection.endpoint);
            endpoint.idle_limit.told(seconds);
        }
        match session {
            Some(session) => self.rest_for(session, index, reaped, commands),
            None => self.rest(index, reaped),
        }
    }
}

impl Sink for Shard {
    fn accepted(&mut self, _: &mut Commands, _: u32, _: Nanos) -> Option<Token> {
        None
    }

    fn opened(&mut self, commands: &mut Commands, token: Token, at: Nanos) {
        let Some(index) = self.place(token) else {
            return;
        };
        let connection = &mut self.connections[index as usize];
        if connection.state != State::Connecting {
            return;
        }
        if connection.secure.is_some() {
            return self.opened_secure(index, at, commands);
        }
        self.connecting -= 1;
        connection.state = State::Busy;
        let streams = connection.streams.as_ref();
        match connection.slot.or_else(|| streams?.any_slot()) {
            Some(slot_index) => {
                let span = at - connection.opening_since;
                let slot = &mut self.slots[slot_index as usize];
                slot.timeline.connect.get_or_insert(span);
                slot.connected.get_or_insert(at);
            }
            None => self.rest(index, at),
        }
        self.serve_waiting(at, commands);
    }

    #[inline]
    fn submitted(&mut self, token: Token, at: Nanos) {
        let Some(index) = self.place(token) else {
            return;
        };
        let connection = &self.connections[index as usize];
        match connection.slot {
            Some(slot_index) => self.mark_submitted(slot_index, at),
            None if connection.streams.is_some() => self.streams_submitted(index, at),
            None => {}
        }
    }

    #[inline]
    fn sent(&mut self, commands: &mut Commands, token: Token, head: Vec<u8>, at: Nanos) {
        self.heads.push(head);
        let connection = &mut self.connections[token.index as usize];
        if connection.state != State::Busy || connection.generation != token.generation {
            return;
        }
        match connection.slot {
            Some(slot_index) => self.mark_sent(slot_index, at),
            None if connection.streams.is_some() => self.streams_sent(token.index, at, commands),
            None => {}
        }
    }

    #[inline]
    fn received(&mut self, commands: &mut Commands, token: Token, bytes: &[u8], arrival: Arrival) {
        let Some(index) = self.place(token) else {
            return;
        };
        if self.connections[index as usize].secure.is_some() {
            self.received_secure(index, bytes, arrival, commands);
        } else {
            self.heard(index, bytes, arrival, commands);
        }
    }

    fn ended(&mut self, commands: &mut Commands, token: Token, arrival: Arrival) {
        let Some(index) = self.place(token) else {
            return;
        };
        match self.connections[index as usize].state {
            State::Closing => return,
            State::Idle => self.idle_ended(index, arrival.reaped),
            State::Free | State::Connecting | State::Busy => {}
        }
        if self.is_shaking_hands(index) {
            self.ended_in_handshake(index, arrival.reaped);
        }
        self.exchange_ended(index, true, arrival);
        self.close(index, Close::Fin, commands);
        self.serve_waiting(arrival.reaped, commands);
    }

    fn closed(&mut self, commands: &mut Commands, token: Token, cause: Closed, at: Nanos) {
        let Some(index) = self.place(token) else {
            return;
        };
        match self.connections[index as usize].state {
            State::Connecting => self.connect_failed(index, cause, at),
            State::Busy => self.connection_lost(index, cause, at),
            State::Idle => self.idle_ended(index, at),
            State::Free | State::Closing => {}
        }
        self.free(index);
        self.serve_waiting(at, commands);
    }
}

impl Shard {
    /// A request was handed to the kernel.
    #[inline]
    pub(crate) fn mark_submitted(&mut self, slot_index: u32, at: Nanos) {
        self.submits(slot_index, at);
        let slot = &mut self.slots[slot_index as usize];
        if slot.timeline.submitted.is_some() {
            return;
        }
        slot.timeline.submitted = Some(at);
        if slot.phase == Phase::Measured {
            self.occupy(at, true);
            self.submitted_in_window += u64::from(at <= self.state.window_end);
        }
    }

    /// The kernel took a request.
    #[inline]
    pub(crate) fn mark_sent(&mut self, slot_index: u32, at: Nanos) {
        let slot = &mut self.slots[slot_index as usize];
        // The submission of a second attempt is not known.
        if let (Some(submitted), 0) = (slot.timeline.submitted, slot.retries) {
            slot.send.get_or_insert(at - submitted);
        }
    }

    /// Bytes came of what the server says on a connection.
    #[inline]
    pub(crate) fn heard(
        &mut self,
        index: u32,
        bytes: &[u8],
        arrival: Arrival,
        commands: &mut Commands,
    ) {
        let connection = &mut self.connections[index as usize];
        let Some(slot_index) = connection.slot else {
            if connection.streams.is_some() {
                return self.heard_streams(index, bytes, arrival, commands);
            }
            // Bytes that belong to no request: whatever comes next on it can't be trusted.
            if connection.state != State::Closing {
                self.close(index, Close::Reset, commands);
            }
            return;
        };
        let slot = &mut self.slots[slot_index as usize];
        let (pool, collector) = (&mut self.gap_pool, &mut self.collector);
        let mut observer = slot.seen.read(pool, collector, arrival);
        let progress = slot.exchange.received(
            &mut connection.http,
            &mut connection.carry,
            &mut self.shared,
            bytes,
            arrival,
            &mut observer,
        );
        let count = observer.finish(self.stamped);
        if slot.announces {
            self.announce(slot_index);
        }
        if let Progress::Done { reusable } = progress {
            self.answer_complete(index, slot_index, reusable, arrival.reaped, commands);
        } else if self.hears(slot_index, count, arrival.reaped) {
            self.cancel_as_planned(slot_index, arrival.reaped, commands);
        }
    }

    /// A connection that carried a request is gone.
    fn connection_lost(&mut self, index: u32, cause: Closed, at: Nanos) {
        let arrival = Arrival::reaped(at);
        let slot = self.connections[index as usize].slot;
        let (Closed::Os(errno), Some(slot_index)) = (cause, slot) else {
            return self.exchange_ended(index, false, arrival);
        };
        if self.has_answer_begun(slot_index) {
            return self.exchange_ended(index, false, arrival);
        }
        self.connections[index as usize].slot = None;
        let error = std::io::Error::from_raw_os_error(errno);
        self.fail(
            slot_index,
            ErrorKind::Send,
            format!("sending failed: {error}").into(),
            at,
        );
    }
}

/// How a connection was lost, in words.
fn lost_how(cause: Closed) -> Cow<'static, str> {
    match cause {
        Closed::PeerReset => "the server reset the connection".into(),
        Closed::TimedOut => "the server no longer answered".into(),
        Closed::Os(errno) => {
            let error = std::io::Error::from_raw_os_error(errno);
            format!("the connection failed ({error})").into()
        }
        other => format!("the connection was lost ({other:?})").into(),
    }
}
