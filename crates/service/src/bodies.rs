use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// Buffers kept for the next messages, and the largest that is.
pub(crate) const KEPT_MAX: usize = 64;
pub(crate) const KEPT_BYTES_MAX: usize = 256 << 10;

/// Buffers for the bodies of one message each. They come back when the last of its requests is over.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bodies(Arc<Shelf>);

#[derive(Debug, Default)]
struct Shelf {
    free: Mutex<Vec<Vec<u8>>>,
    lent_bytes: AtomicUsize,
}

impl Bodies {
    /// An empty buffer.
    pub(crate) fn take(&self) -> Vec<u8> {
        let mut free = self.0.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.pop().unwrap_or_default()
    }

    /// Makes what a buffer holds into bytes that can be shared.
    pub(crate) fn share(&self, buffer: Vec<u8>) -> Bytes {
        let bytes = buffer.capacity();
        self.0.lent_bytes.fetch_add(bytes, Ordering::Relaxed);
        Bytes::from_owner(Lent {
            buffer,
            shelf: Arc::clone(&self.0),
        })
    }

    /// What is shared and still in use, in bytes of the whole buffers.
    pub(crate) fn lent_bytes(&self) -> usize {
        self.0.lent_bytes.load(Ordering::Relaxed)
    }
}

struct Lent {
    buffer: Vec<u8>,
    shelf: Arc<Shelf>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let bytes = buffer.capacity();
        self.shelf.lent_bytes.fetch_sub(bytes, Ordering::Relaxed);
        let mut free = self
            .shelf
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if free.len() < KEPT_MAX && bytes <= KEPT_BYTES_MAX {
            buffer.clear();
            free.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_lent_until_its_last_part_is_let_go_and_then_used_again() {
        let bodies = Bodies::default();
        let mut buffer = bodies.take();
        buffer.extend_from_slice(b"onetwo");
        let (capacity, place) = (buffer.capacity(), buffer.as_ptr());
        let whole = bodies.share(buffer);
        let (one, two) = (whole.slice(..3), whole.slice(3..));
        drop(whole);
        assert_eq!((&*one, &*two), (&b"one"[..], &b"two"[..]));
        drop(one);
        assert_eq!(bodies.lent_bytes(), capacity);
        drop(two);
        assert_eq!(bodies.lent_bytes(), 0);
        let again = bodies.take();
        assert!(again.is_empty() && again.as_ptr() == place);
        drop(bodies.share(Vec::with_capacity(KEPT_BYTES_MAX + 1)));
        assert_eq!(bodies.take().capacity(), 0, "too large to keep");
    }
}
