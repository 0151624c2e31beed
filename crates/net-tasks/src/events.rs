//! What tasks leave for the driver.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use ridgeline_net::Token;

/// Something that happened.
#[derive(Debug)]
pub(crate) enum Event<S> {
    /// A connection is up, or can't be.
    Opened {
        token: Token,
        result: io::Result<()>,
    },
    /// A read ended; 0 bytes are the peer's FIN.
    Read {
        token: Token,
        result: io::Result<usize>,
        buffer: Vec<u8>,
    },
    /// The send at the front of the queue ended.
    Written {
        token: Token,
        result: io::Result<()>,
        joined: Vec<u8>,
    },
    /// A peer connected.
    Accepted { listener: u32, socket: S },
    /// Somebody rang the bell.
    Woken,
    /// The driver is to look at the clock.
    Nudged,
}

/// The queue, and who waits for it.
pub(crate) struct Events<S> {
    queue: RefCell<VecDeque<Event<S>>>,
    waiting: Cell<Option<Waker>>,
    /// Tasks that have not ended.
    tasks: Cell<usize>,
}

impl<S> Events<S> {
    pub(crate) fn new() -> Rc<Self> {
        Rc::new(Self {
            queue: RefCell::new(VecDeque::with_capacity(256)),
            waiting: Cell::new(None),
            tasks: Cell::new(0),
        })
    }

    pub(crate) fn push(&self, event: Event<S>) {
        self.queue.borrow_mut().push_back(event);
        if let Some(waker) = self.waiting.take() {
            waker.wake();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.borrow().is_empty()
    }

    /// Exchanges the queue for an empty one.
    pub(crate) fn take(&self, empty: VecDeque<Event<S>>) -> VecDeque<Event<S>> {
        mem::replace(&mut *self.queue.borrow_mut(), empty)
    }

    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<()> {
        if !self.is_empty() {
            return Poll::Ready(());
        }
        self.waiting.set(Some(context.waker().clone()));
        Poll::Pending
    }

    pub(crate) fn tasks(&self) -> usize {
        self.tasks.get()
    }

    /// Counts a task until what is returned is dropped.
    pub(crate) fn task(self: &Rc<Self>) -> Alive<S> {
        self.tasks.set(self.tasks.get() + 1);
        Alive(Rc::clone(self))
    }
}

impl<S> fmt::Debug for Events<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queued = self.queue.borrow().len();
        f.debug_struct("Events")
            .field("queued", &queued)
            .field("tasks", &self.tasks.get())
            .finish_non_exhaustive()
    }
}

/// A task that has not ended, with its way to the queue.
pub(crate) struct Alive<S>(Rc<Events<S>>);

impl<S> Alive<S> {
    pub(crate) fn tell(&self, event: Event<S>) {
        self.0.push(event);
    }
}

impl<S> Drop for Alive<S> {
    fn drop(&mut self) {
        self.0.tasks.set(self.0.tasks.get() - 1);
    }
}

/// Ends the driver's wait from a task of the runtime's own driver, a timer.
pub struct Nudge<S>(pub(crate) Alive<S>);

impl<S> Nudge<S> {
    /// Ends it.
    pub fn nudge(&self) {
        self.0.tell(Event::Nudged);
    }
}

impl<S> fmt::Debug for Nudge<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Nudge")
    }
}
