//! What h2 wants polled again. No task is behind these wakers: they leave notes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Wake;

use crate::pipe::lock;

/// The notes of one connection. As a waker it is the connection's own.
#[derive(Debug)]
pub(crate) struct Wakes {
    connection: AtomicBool,
    places: Mutex<Vec<u32>>,
}

impl Wakes {
    /// The connection wants to be polled: it never was.
    pub(crate) fn new(streams_max: u32) -> Arc<Self> {
        Arc::new(Self {
            connection: AtomicBool::new(true),
            places: Mutex::new(Vec::with_capacity(streams_max as usize)),
        })
    }

    /// The connection is to be polled.
    pub(crate) fn note_connection(&self) {
        self.connection.store(true, Ordering::Relaxed);
    }

    /// Whether the connection is to be polled; no longer after this.
    pub(crate) fn take_connection(&self) -> bool {
        self.connection.swap(false, Ordering::Relaxed)
    }

    /// Whether the connection is to be polled.
    pub(crate) fn has_connection(&self) -> bool {
        self.connection.load(Ordering::Relaxed)
    }

    /// Exchanges the noted places for `empty`, which has none.
    pub(crate) fn take_places(&self, empty: &mut Vec<u32>) {
        std::mem::swap(&mut *lock(&self.places), empty);
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.note_connection();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.note_connection();
    }
}

/// The waker of a stream's place.
#[derive(Debug)]
pub(crate) struct PlaceWake {
    place: u32,
    /// Whether the place is noted already.
    is_noted: AtomicBool,
    wakes: Arc<Wakes>,
}

impl PlaceWake {
    pub(crate) fn new(place: u32, wakes: &Arc<Wakes>) -> Arc<Self> {
        Arc::new(Self {
            place,
            is_noted: AtomicBool::new(false),
            wakes: Arc::clone(wakes),
        })
    }

    /// Notes the place, once.
    pub(crate) fn note(&self) {
        if !self.is_noted.swap(true, Ordering::Relaxed) {
            lock(&self.wakes.places).push(self.place);
        }
    }

    /// The note was read.
    pub(crate) fn clear(&self) {
        self.is_noted.store(false, Ordering::Relaxed);
    }
}

impl Wake for PlaceWake {
    fn wake(self: Arc<Self>) {
        self.note();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.note();
    }
}
