use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::client::ResponseFuture;
use h2::{Error, Reason, RecvStream, SendStream};
use ridgeline_wire::http1::Head;

use crate::answer::{Abort, head_of};
use crate::wakes::{PlaceWake, Wakes};

/// What of a response is to come.
#[derive(Debug)]
enum Answer {
    /// The place is free.
    None,
    Head(ResponseFuture),
    Body(RecvStream),
    Trailers(RecvStream),
}

/// A place for one stream.
#[derive(Debug)]
pub(crate) struct Place {
    /// The number of its stream; 0 when it is free.
    pub(crate) number: u32,
    pub(crate) wake: Arc<PlaceWake>,
    waker: Waker,
    answer: Answer,
    send: Option<SendStream<Bytes>>,
    /// What of the request is to be sent.
    body: Bytes,
    /// Whether that waits for a window.
    is_stalled: bool,
}

/// What was found on a stream.
#[derive(Debug)]
pub(crate) enum Found {
    Head(Head),
    Data(Bytes),
    End,
    Aborted(Abort),
    /// Not what was to come, but a fault that h2 found.
    Failed {
        error: Error,
        has_begun: bool,
    },
}

impl Place {
    pub(crate) fn new(index: u32, wakes: &Arc<Wakes>) -> Self {
        let wake = PlaceWake::new(index, wakes);
        Self {
            number: 0,
            waker: Waker::from(Arc::clone(&wake)),
            wake,
            answer: Answer::None,
            send: None,
            body: Bytes::new(),
            is_stalled: false,
        }
    }

    /// A request was queued; `body` is still to be.
    pub(crate) fn begin(
        &mut self,
        response: ResponseFuture,
        mut send: SendStream<Bytes>,
        body: Bytes,
    ) {
        self.number = response.stream_id().as_u32();
        self.answer = Answer::Head(response);
        if !body.is_empty() {
            send.reserve_capacity(body.len());
        }
        self.send = Some(send);
        self.body = body;
        self.is_stalled = false;
    }

    /// Tells the server that nobody waits for the rest.
    pub(crate) fn reset(&mut self, reason: Reason) {
        if let Some(send) = &mut self.send {
            send.send_reset(reason);
        }
    }

    /// The place is free. What was not said yet on either side never will be.
    pub(crate) fn free(&mut self) {
        self.number = 0;
        self.answer = Answer::None;
        self.send = None;
        self.body = Bytes::new();
        self.is_stalled = false;
    }

    /// Whether some of the request is still to be queued.
    pub(crate) fn has_body(&self) -> bool {
        !self.body.is_empty()
    }

    /// Queues as much of the request's body as the server's windows allow. Whether it must wait for them
    /// from now on, and did not before.
    pub(crate) fn push_body(&mut self) -> bool {
        let Some(send) = &mut self.send else {
            return false;
        };
        let mut cx = Context::from_waker(&self.waker);
        while !self.body.is_empty() {
            let allowed = send.capacity().min(self.body.len());
            if allowed > 0 {
                let piece = self.body.split_to(allowed);
                let is_last = self.body.is_empty();
                self.is_stalled = false;
                if send.send_data(piece, is_last).is_err() {
                    self.body = Bytes::new();
                } else if !is_last {
                    send.reserve_capacity(self.body.len());
                }
                continue;
            }
            match send.poll_capacity(&mut cx) {
                Poll::Ready(Some(Ok(_))) => {}
                // The stream is over: how, the answer tells.
                Poll::Ready(_) => self.body = Bytes::new(),
                Poll::Pending => return !std::mem::replace(&mut self.is_stalled, true),
            }
        }
        false
    }

    /// The same wait as before has not been one for a window.
    pub(crate) fn excuse(&mut self) {
        self.is_stalled = false;
    }

    /// The next that is to come, if it has.
    pub(crate) fn poll(&mut self) -> Option<Found> {
        let has_begun = !matches!(self.answer, Answer::Head(_));
        let found = self.poll_answer();
        found.unwrap_or_else(|error| Some(Found::Failed { error, has_begun }))
    }

    fn poll_answer(&mut self) -> Result<Option<Found>, Error> {
        let mut cx = Context::from_waker(&self.waker);
        loop {
            match &mut self.answer {
                Answer::None => return Ok(None),
                Answer::Head(response) => {
                    let Poll::Ready(response) = Pin::new(response).poll(&mut cx) else {
                        return Ok(None);
                    };
                    let response = response?;
                    let head = head_of(&response);
                    self.answer = Answer::Body(response.into_body());
                    return Ok(Some(head.map_or_else(Found::Aborted, Found::Head)));
                }
                Answer::Body(body) => match body.poll_data(&mut cx) {
                    Poll::Pending => return Ok(None),
                    Poll::Ready(Some(data)) => {
                        let data = data?;
                        // Nobody keeps it: the window is given back at once. It can't be more than was taken.
                        let _ = body.flow_control().release_capacity(data.len());
                        if !data.is_empty() {
                            return Ok(Some(Found::Data(data)));
                        }
                    }
                    Poll::Ready(None) => {
                        let answer = std::mem::replace(&mut self.answer, Answer::None);
                        if let Answer::Body(body) = answer {
                            self.answer = Answer::Trailers(body);
                        }
                    }
                },
                Answer::Trailers(body) => {
                    let Poll::Ready(trailers) = body.poll_trailers(&mut cx) else {
                        return Ok(None);
                    };
                    trailers?;
                    return Ok(Some(Found::End));
                }
            }
        }
    }
}
