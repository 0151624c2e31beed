//! The provided buffer ring.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;

/// The one buffer group of a ring.
pub(crate) const GROUP: u16 = 0;

const PAGE: usize = 4096;

/// A provided buffer ring and its memory: the kernel takes a buffer from it whenever bytes come.
///
/// INVARIANT: buffer `id` is `memory[id * bytes ..][.. bytes]`. The kernel owns it from
/// `provide` until a completion names it, the program from then until the next `provide`.
pub(crate) struct Buffers {
    /// `count` entries; the tail that both sides read lies inside the first one.
    entries: NonNull<BufRingEntry>,
    memory: NonNull<u8>,
    count: u16,
    bytes: u32,
    /// How many buffers were ever provided; wraps.
    tail: u16,
}

impl fmt::Debug for Buffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffers")
            .field("count", &self.count)
            .field("bytes", &self.bytes)
            .finish()
    }
}

impl Buffers {
    /// `count` buffers (a power of two) of `bytes` each, all of them touched once so that no page
    /// is faulted in later.
    ///
    /// # Errors
    /// When `count` is no power of two up to 32768, or `bytes` is 0.
    pub(crate) fn new(count: u16, bytes: u32) -> io::Result<Self> {
        if !count.is_power_of_two() || bytes == 0 {
            let message = "buffers: the count must be a power of two, the size not 0";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let entries = allocate(Self::entries_layout(count)).cast();
        let memory = allocate(Self::memory_layout(count, bytes));
        let mut buffers = Self {
            entries,
            memory,
            count,
            bytes,
            tail: 0,
        };
        (0..count).for_each(|id| buffers.provide(id));
        Ok(buffers)
    }

    /// Makes the buffers known to a ring. They must outlive it: see the field order of `Ring`.
    pub(crate) fn register(&self, submitter: &Submitter<'_>) -> io::Result<()> {
        let address = self.entries.as_ptr().expose_provenance() as u64;
        // SAFETY: `address` is page aligned and holds `count` entries (see `new`); `Ring` drops
        // its buffers after the ring.
        unsafe { submitter.register_buf_ring_with_flags(address, self.count, GROUP, 0) }
    }

    /// The first `length` bytes of a buffer that a completion named.
    #[inline]
    pub(crate) fn filled(&self, id: u16, length: usize) -> &[u8] {
        assert!(
            id < self.count && length <= self.bytes as usize,
            "buffer {id}, {length} bytes"
        );
        let offset = usize::from(id) * self.bytes as usize;
        // SAFETY: `id < count`, so the offset lies inside the allocation.
        let start = unsafe { self.memory.as_ptr().add(offset) };
        // SAFETY: `length <= bytes`: inside the buffer, which was zeroed and then only written by
        // the kernel; the kernel does not write to it before `provide`, which needs `&mut self`.
        unsafe { slice::from_raw_parts(start, length) }
    }

    /// Gives a buffer (back) to the kernel.
    #[inline]
    pub(crate) fn provide(&mut self, id: u16) {
        assert!(id < self.count, "buffer {id}");
        let slot = usize::from(self.tail & (self.count - 1));
        let offset = usize::from(id) * self.bytes as usize;
        // SAFETY: `slot < count`, so the entry lies inside the allocation.
        let entry = unsafe { self.entries.as_ptr().add(slot) };
        // SAFETY: aligned, initialised (zeroed), and not read by the kernel before the tail moves:
        // there are `count` buffers, so the entry `count` places back has been taken.
        let entry = unsafe { &mut *entry };
        entry.set_addr((self.memory.as_ptr().expose_provenance() + offset) as u64);
        entry.set_len(self.bytes);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
        self.shared_tail().store(self.tail, Ordering::Release);
    }

    #[inline]
    fn shared_tail(&self) -> &AtomicU16 {
        // SAFETY: `entries` is the start of the ring, its first entry initialised.
        let tail = unsafe { BufRingEntry::tail(self.entries.as_ptr()) };
        // SAFETY: inside the allocation, aligned for u16; both sides use it as an atomic only.
        unsafe { AtomicU16::from_ptr(tail.cast_mut()) }
    }

    fn entries_layout(count: u16) -> Layout {
        let bytes = usize::from(count) * size_of::<BufRingEntry>();
        Layout::from_size_align(bytes, PAGE).expect("at most 32768 entries of 16 bytes")
    }

    fn memory_layout(count: u16, bytes: u32) -> Layout {
        let bytes = usize::from(count) * bytes as usize;
        Layout::from_size_align(bytes, PAGE).expect("below 2^48 bytes")
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout; the ring that used it is gone.
        unsafe {
            dealloc(
                self.entries.as_ptr().cast(),
                Self::entries_layout(self.count),
            )
        };
        // SAFETY: as above.
        unsafe {
            dealloc(
                self.memory.as_ptr(),
                Self::memory_layout(self.count, self.bytes),
            )
        };
    }
}

fn allocate(layout: Layout) -> NonNull<u8> {
    assert!(layout.size() > 0);
    // SAFETY: the size is not 0.
    let memory = unsafe { alloc_zeroed(layout) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}
