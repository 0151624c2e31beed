//! The provided buffers: where the kernel puts received bytes.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::IoUring;
use io_uring::types::BufRingEntry;

/// The only buffer group.
pub(crate) const GROUP: u16 = 0;

/// The kernel wants the buffer ring on a page boundary.
const PAGE: usize = 4_096;

/// Buffers and the ring by which they are lent to the kernel.
///
/// INVARIANT: a buffer is either the kernel's (between `give` and the completion that names it) or
/// ours (from that completion to the next `give`), never both.
pub(crate) struct Buffers {
    entries: NonNull<BufRingEntry>,
    data: NonNull<u8>,
    count: u16,
    /// Bytes of one buffer.
    stride: usize,
    /// The next free place of the ring; wraps around.
    tail: u16,
    leaked: bool,
}

impl Buffers {
    /// `count` (a power of two, at most 32,768) buffers of `stride` bytes, all of them the kernel's.
    pub(crate) fn new(io: &IoUring, count: u16, stride: usize) -> io::Result<Self> {
        assert!(count.is_power_of_two(), "{count} buffers");
        assert!(stride > 0, "buffers hold something");
        let (ring_layout, data_layout) = layouts(count, stride);
        let entries = allocate(ring_layout).cast();
        let data = allocate(data_layout);
        let mut buffers = Self {
            entries,
            data,
            count,
            stride,
            tail: 0,
            leaked: false,
        };
        let address = entries.as_ptr() as u64;
        // SAFETY: the ring's memory is zeroed, on a page boundary, of `count` entries, and freed
        // only after it is unregistered (`Drop` of the driver) or never.
        unsafe {
            io.submitter()
                .register_buf_ring_with_flags(address, count, GROUP, 0)
        }?;
        for id in 0..count {
            buffers.give(id);
        }
        Ok(buffers)
    }

    pub(crate) fn count(&self) -> u16 {
        self.count
    }

    /// Never frees the memory: the kernel may still write to it.
    pub(crate) fn leak(&mut self) {
        self.leaked = true;
    }

    /// The first `len` bytes of a buffer that a completion named.
    #[inline]
    pub(crate) fn bytes(&self, id: u16, len: usize) -> &[u8] {
        assert!(
            id < self.count && len <= self.stride,
            "buffer {id}, {len} bytes"
        );
        // SAFETY: `id` is below `count`, so the start lies within the data.
        let start = unsafe { self.data.add(usize::from(id) * self.stride) };
        // SAFETY: `len` is at most a stride; the bytes are initialized (zeroed at first); the
        // buffer is ours until it is given, which takes `&mut self`.
        unsafe { slice::from_raw_parts(start.as_ptr(), len) }
    }

    /// Gives a buffer back to the kernel.
    #[inline]
    pub(crate) fn give(&mut self, id: u16) {
        let place = usize::from(self.tail & (self.count - 1));
        // SAFETY: `id` is one of ours, so the start lies within the data.
        let start = unsafe { self.data.add(usize::from(id) * self.stride) };
        // SAFETY: the place is below `count`.
        let entry = unsafe { self.entries.add(place) };
        // SAFETY: places from the tail on are not read by the kernel; there is one free place for
        // each buffer that is ours. Nothing else refers to the entry.
        let entry = unsafe { &mut *entry.as_ptr() };
        entry.set_addr(start.as_ptr() as u64);
        entry.set_len(u32::try_from(self.stride).unwrap_or(u32::MAX));
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the pointer is to the first entry of the ring, which is initialized.
        let tail = unsafe { BufRingEntry::tail(self.entries.as_ptr()) };
        // SAFETY: aligned, alive as long as the ring, and written by us alone; the kernel only
        // reads it.
        let tail = unsafe { AtomicU16::from_ptr(tail.cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        if self.leaked {
            return;
        }
        let (ring_layout, data_layout) = layouts(self.count, self.stride);
        // SAFETY: allocated with this layout; unregistered before (the driver's `Drop`).
        unsafe { dealloc(self.entries.as_ptr().cast(), ring_layout) };
        // SAFETY: allocated with this layout; no receive is in flight (the driver's `Drop`).
        unsafe { dealloc(self.data.as_ptr(), data_layout) };
    }
}

fn layouts(count: u16, stride: usize) -> (Layout, Layout) {
    let ring = usize::from(count) * size_of::<BufRingEntry>();
    let data = usize::from(count) * stride;
    let layout = |bytes| Layout::from_size_align(bytes, PAGE).expect("at most 32,768 x 4 GiB");
    (layout(ring), layout(data))
}

fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: the layout has a size above zero.
    let memory = unsafe { alloc_zeroed(layout) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}
