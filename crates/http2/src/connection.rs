use std::collections::VecDeque;
use std::fmt;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use h2::client::{self, SendRequest};
use ridgeline_wire::http1::Part;

use crate::answer::{Abort, AbortKind, Around, Ended};
use crate::event::{Counters, Event, Refused, StreamId};
use crate::heads::Heads;
use crate::limits::{FRAME_BUDGET, Limits, SLICE_BYTES};
use crate::pipe::{Cut, End, Pipe, lock};
use crate::place::{Found, Place};
use crate::request::RequestHead;
use crate::wakes::Wakes;

/// How long, and for how many streams at most, frames that come after we have reset a stream are known to
/// be late, and no mistake of the server.
const LATE_FRAMES_FOR: Duration = Duration::from_secs(30);
const LATE_STREAMS_PER_PLACE: usize = 4;
/// Faults of single streams after which a server is taken for hostile.
const FAULTS_MAX: usize = 1 << 16;

/// A client's end of one connection.
///
/// After [`Connection::received`], [`Connection::ended`], [`Connection::request`] and
/// [`Connection::cancel`], call [`Connection::next`] until it has nothing to tell, and then send what
/// [`Connection::take_output`] gives, until that is nothing either.
pub struct Connection {
    h2: client::Connection<End, Bytes>,
    /// `None` after [`Connection::close`].
    sender: Option<SendRequest<Bytes>>,
    pipe: Arc<Mutex<Pipe>>,
    wakes: Arc<Wakes>,
    waker: Waker,
    places: Vec<Place>,
    free: Vec<u32>,
    /// Places to look at, the one that was looked at last first.
    current: Option<u32>,
    ready: VecDeque<u32>,
    /// Room for the notes of wakers.
    noted: Vec<u32>,
    /// The data that is lent.
    lent: Bytes,
    seen: Heads,
    numbers_used_up: bool,
    ended: Option<Ended>,
    counters: Counters,
    streams_max: u32,
    input_bytes_max: usize,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("active", &self.active())
            .field("ended", &self.ended)
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// `None` if h2 does not begin, which the limits rule out.
    fn begin(limits: &Limits) -> Option<Self> {
        let limits = limits.sane();
        let pipe = Arc::new(Mutex::new(Pipe::new(limits.output_bytes_max)));
        let wakes = Wakes::new(limits.streams_max);
        let waker = Waker::from(Arc::clone(&wakes));
        let builder = builder(&limits);
        let handshake = pin!(builder.handshake(End::new(&pipe)));
        let mut cx = Context::from_waker(&waker);
        let Poll::Ready(Ok((sender, h2))) = handshake.poll(&mut cx) else {
            return None;
        };
        Some(Self {
            h2,
            sender: Some(sender),
            places: (0..limits.streams_max)
                .map(|place| Place::new(place, &wakes))
                .collect(),
            free: (0..limits.streams_max).rev().collect(),
            current: None,
            ready: VecDeque::with_capacity(limits.streams_max as usize),
            noted: Vec::with_capacity(limits.streams_max as usize),
            lent: Bytes::new(),
            seen: Heads::new(&limits),
            numbers_used_up: false,
            ended: None,
            counters: Counters::default(),
            streams_max: limits.streams_max,
            input_bytes_max: limits.input_bytes_max,
            pipe,
            wakes,
            waker,
        })
    }

    /// A new one. The preface, the settings and the connection's window are to be sent first: by prior
    /// knowledge on a plain connection, and on one of TLS when `h2` was agreed on.
    ///
    /// # Panics
    /// Never: the preface fits into any output that the limits allow.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self::begin(limits).unwrap_or_else(|| unreachable!("the preface fits into the output"))
    }

    /// Bytes came. They are copied; what they say is told by [`Connection::next`].
    pub fn received(&mut self, bytes: &[u8]) {
        if self.ended.is_some() || bytes.is_empty() {
            return;
        }
        if self.held_bytes() > self.input_bytes_max {
            return self.end(Ended::flooded());
        }
        self.seen.received(bytes);
        lock(&self.pipe).push(bytes);
        self.wakes.note_connection();
    }

    /// No more bytes will come, by FIN or else by RST.
    pub fn ended(&mut self, fin: bool) {
        lock(&self.pipe).cut(if fin { Cut::Fin } else { Cut::Reset });
        self.wakes.note_connection();
    }

    /// How many more requests may be sent now. Until the server's settings have come and were confirmed
    /// (by what [`Connection::take_output`] gives) it is one: a server that allows few streams would refuse the
    /// others.
    #[must_use]
    pub fn room(&self) -> u32 {
        if !self.is_open() {
            return 0;
        }
        let allowed = if self.seen.has_settings() {
            u32::try_from(self.h2.max_concurrent_send_streams()).unwrap_or(u32::MAX)
        } else {
            1
        };
        allowed.min(self.streams_max).saturating_sub(self.active())
    }

    /// Whether requests can be sent on it, now or later.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.sender.is_some()
            && self.ended.is_none()
            && self.seen.last().is_none()
            && !self.numbers_used_up
    }

    /// Whether the server has said how many streams it takes, and that was confirmed.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.seen.has_settings()
    }

    /// Streams that are open.
    #[must_use]
    pub fn active(&self) -> u32 {
        self.streams_max
            .saturating_sub(u32::try_from(self.free.len()).unwrap_or(u32::MAX))
    }

    /// Whether and how it ended, once its streams have been told. The socket is to be closed when there is no
    /// output.
    #[must_use]
    pub fn how_it_ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    /// Bytes that came and of which nothing was made yet, because what is to be sent was not taken. The owner is to
    /// read no further before they are more than [`Limits::input_bytes_max`].
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        lock(&self.pipe).held_bytes()
    }

    /// What was counted so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            receive_stalls: self.seen.windows.stalls(),
            ..self.counters
        }
    }

    /// Sends a request. `body` is shared until it is sent.
    ///
    /// # Errors
    /// When there is no room. Nothing was sent then.
    pub fn request(&mut self, head: RequestHead, body: Bytes) -> Result<StreamId, Refused> {
        if !self.is_open() {
            return Err(Refused::Closing);
        }
        if self.room() == 0 {
            return Err(Refused::Full);
        }
        // A sender remembers a stream that waits to be opened, and keeps it; one of its own for each does not.
        let Some(mut sender) = self.sender.clone() else {
            return Err(Refused::Closing);
        };
        let Some(index) = self.free.pop() else {
            return Err(Refused::Full);
        };
        let Ok((response, send)) = sender.send_request(head.0, body.is_empty()) else {
            self.free.push(index);
            self.numbers_used_up = true;
            return Err(Refused::Closing);
        };
        let place = &mut self.places[index as usize];
        place.begin(response, send, body);
        place.wake.note();
        self.wakes.note_connection();
        self.counters.streams += 1;
        self.seen.windows.open(place.number);
        Ok(StreamId {
            place: index,
            number: place.number,
        })
    }

    /// Gives a stream up: the server is told, and nothing more of it is. Does nothing to one that is over.
    pub fn cancel(&mut self, stream: StreamId) {
        let Some(place) = self.places.get_mut(stream.place as usize) else {
            return;
        };
        if place.number == stream.number && stream.number != 0 {
            place.reset(Reason::CANCEL);
            self.free(stream.place);
        }
    }

    /// Sends no more requests. When the last stream is over the server is told, and the connection ends.
    pub fn close(&mut self) {
        self.sender = None;
        self.wakes.note_connection();
    }

    /// What is to be told next, if anything.
    #[expect(clippy::should_implement_trait, reason = "what it tells is lent")]
    pub fn next(&mut self) -> Option<Event<'_>> {
        let (stream, found) = self.find()?;
        let part = match found {
            Found::Head(head) => Part::Head(head),
            Found::Data(data) => {
                self.lent = data;
                Part::Data(&self.lent)
            }
            Found::End => Part::End,
            Found::Aborted(abort) => return Some(self.tell_abort(stream, abort)),
            Found::Failed { error, has_begun } => {
                let abort = Abort::of_stream(&error, stream.number, self.around(), has_begun);
                return Some(self.tell_abort(stream, abort));
            }
        };
        Some(Event::Part { stream, part })
    }

    /// Moves what is to be sent to the end of `out`, which takes it without a copy when it is empty. Whether
    /// that was anything. Output that isn't taken stays within [`Limits::output_bytes_max`]: who waits until a
    /// send is done before taking more bounds what waits in the driver, too.
    pub fn take_output(&mut self, out: &mut Vec<u8>) -> bool {
        self.turn();
        let from = out.len();
        let was_blocked = lock(&self.pipe).take(out);
        if was_blocked {
            self.wakes.note_connection();
            // Whether their bodies wait for windows could not be seen until now.
            for place in &self.places {
                if place.has_body() {
                    place.wake.note();
                }
            }
        }
        self.seen.sent(&out[from..]);
        out.len() > from
    }

    fn tell_abort(&mut self, stream: StreamId, abort: Abort) -> Event<'static> {
        match (abort.kind, &mut self.ended) {
            (AbortKind::Unprocessed, _) => self.counters.unprocessed += 1,
            (AbortKind::Lost, Some(ended)) => ended.is_clean = false,
            _ => {}
        }
        Event::Aborted { stream, abort }
    }

    /// The next thing found on any stream.
    fn find(&mut self) -> Option<(StreamId, Found)> {
        loop {
            if let Some(index) = self.current.take().or_else(|| self.ready.pop_front()) {
                if let Some(found) = self.look(index) {
                    return Some(found);
                }
                continue;
            }
            self.turn();
            if self.ready.is_empty() {
                // What h2 has read is taken out: it may read on.
                if self.ended.is_some() || !lock(&self.pipe).allow(SLICE_BYTES) {
                    return None;
                }
                self.wakes.note_connection();
            }
        }
    }

    /// What there is at a place.
    fn look(&mut self, index: u32) -> Option<(StreamId, Found)> {
        let place = &mut self.places[index as usize];
        if place.number == 0 {
            return None;
        }
        let stream = StreamId {
            place: index,
            number: place.number,
        };
        let found = match place.poll() {
            Some(found) => found,
            // Nothing will come of it any more.
            None if self.ended.is_some() => Found::Aborted(Abort::lost(lock(&self.pipe).ending())),
            None => return None,
        };
        match &found {
            Found::Head(_) | Found::Data(_) => self.current = Some(index),
            Found::Aborted(_) => {
                place.reset(Reason::CANCEL);
                self.free(index);
            }
            Found::End | Found::Failed { .. } => self.free(index),
        }
        Some((stream, found))
    }

    fn free(&mut self, index: u32) {
        let place = &mut self.places[index as usize];
        self.seen.windows.close(place.number);
        place.free();
        self.free.push(index);
        if self.current == Some(index) {
            self.current = None;
        }
        self.wakes.note_connection();
    }

    /// Lets h2 do what it wants to do, and finds out which places are to be looked at.
    fn turn(&mut self) {
        loop {
            if self.wakes.take_connection() && self.ended.is_none() {
                self.poll();
            }
            self.gather();
            if self.ended.is_some() || !self.wakes.has_connection() {
                return;
            }
        }
    }

    fn poll(&mut self) {
        let mut cx = Context::from_waker(&self.waker);
        let Poll::Ready(result) = Pin::new(&mut self.h2).poll(&mut cx) else {
            return;
        };
        let ended = Ended::new(result, self.around());
        self.end(ended);
    }

    /// Nothing more is made of what comes. What was found before is still told.
    fn end(&mut self, ended: Ended) {
        lock(&self.pipe).discard();
        self.ended = Some(ended);
        for place in &self.places {
            if place.number != 0 {
                place.wake.note();
            }
        }
    }

    fn around(&self) -> Around {
        Around {
            last: self.seen.last(),
            cut: lock(&self.pipe).ending(),
            is_foreign: self.seen.is_foreign(),
        }
    }

    /// Reads the wakers' notes; bodies are sent on.
    fn gather(&mut self) {
        let mut noted = std::mem::take(&mut self.noted);
        self.wakes.take_places(&mut noted);
        for index in noted.drain(..) {
            let place = &mut self.places[index as usize];
            place.wake.clear();
            if place.push_body() {
                // Without room for output it is not known what for.
                if lock(&self.pipe).is_blocked() {
                    place.excuse();
                } else {
                    self.counters.send_stalls += 1;
                }
            }
            self.ready.push_back(index);
        }
        self.noted = noted;
    }
}

fn builder(limits: &Limits) -> client::Builder {
    let late = limits.streams_max as usize * LATE_STREAMS_PER_PLACE;
    let mut builder = client::Builder::new();
    builder
        .enable_push(false)
        .initial_window_size(limits.stream_window_bytes)
        .initial_connection_window_size(limits.connection_window_bytes)
        .max_header_list_size(limits.head_bytes_max)
        // Bodies are shared, not copied: windows bound them, and not a buffer.
        .max_send_buffer_size(u32::MAX as usize)
        .data_frame_budget(FRAME_BUDGET)
        .max_concurrent_reset_streams(late)
        .reset_stream_duration(LATE_FRAMES_FOR)
        .max_local_error_reset_streams(Some(FAULTS_MAX));
    builder
}
