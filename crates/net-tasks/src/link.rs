//! What the driver and a connection's two tasks share.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

/// One socket, and a seat for each of its tasks.
pub(crate) struct Link<S> {
    pub(crate) socket: S,
    /// The connection is over: tasks drop what they do.
    stopped: Cell<bool>,
    /// A buffer is the permission to read once.
    pub(crate) reads: Seat<Vec<u8>>,
    pub(crate) writes: Seat<Parcel>,
}

/// What is to be sent.
#[derive(Debug)]
pub(crate) struct Parcel {
    /// First this: the head, and a short body with it.
    pub(crate) joined: Vec<u8>,
    /// Then this.
    pub(crate) body: Bytes,
}

/// Where a task waits for its next work.
#[derive(Default)]
pub(crate) struct Seat<T> {
    item: Cell<Option<T>>,
    waker: Cell<Option<Waker>>,
}

impl<T> Seat<T> {
    pub(crate) fn new() -> Self {
        Self {
            item: Cell::new(None),
            waker: Cell::new(None),
        }
    }

    pub(crate) fn put(&self, item: T) {
        self.item.set(Some(item));
        self.wake();
    }

    pub(crate) fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn wait(&self, context: &Context<'_>) {
        self.waker.set(Some(context.waker().clone()));
    }
}

impl<S> Link<S> {
    pub(crate) fn new(socket: S) -> Self {
        Self {
            socket,
            stopped: Cell::new(false),
            reads: Seat::new(),
            writes: Seat::new(),
        }
    }

    pub(crate) fn stop(&self) {
        self.stopped.set(true);
        self.reads.wake();
        self.writes.wake();
    }

    /// The seat's next item; none when the connection is over.
    pub(crate) async fn next<T>(&self, seat: &Seat<T>) -> Option<T> {
        poll_fn(|context| {
            if self.stopped.get() {
                return Poll::Ready(None);
            }
            if let Some(item) = seat.item.take() {
                return Poll::Ready(Some(item));
            }
            seat.wait(context);
            Poll::Pending
        })
        .await
    }

    /// What `work` comes to; none when the connection is over first.
    pub(crate) async fn unless_stopped<T, F: Future>(
        &self,
        seat: &Seat<T>,
        work: F,
    ) -> Option<F::Output> {
        let mut work = pin!(work);
        poll_fn(|context| {
            if self.stopped.get() {
                return Poll::Ready(None);
            }
            let polled = work.as_mut().poll(context);
            if polled.is_pending() {
                seat.wait(context);
            }
            polled.map(Some)
        })
        .await
    }
}
