//! Counts what the data path allocates. The one place outside the drivers that holds `unsafe`: an
//! allocator can't be written without it.
#![expect(
    unsafe_code,
    reason = "a counting allocator implements an unsafe trait"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use ridgeline_clock::Clock;
use ridgeline_engine::{Load, drive, window};
use ridgeline_net::sim::{SimConfig, SimNet};
use ridgeline_tls::Scratch;

use crate::secure;
use crate::world::{Endpoint, MS, World, address, closed, constant, plan};

thread_local! {
    static COUNTING: Cell<bool> = const { Cell::new(false) };
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Bytes allocated and not given back while counting.
    static BYTES: Cell<i64> = const { Cell::new(0) };
}

struct Counting;

fn count(allocations: u64, more: usize, less: usize) {
    // Not while the thread goes away, when its locals are gone already.
    let counting = COUNTING.try_with(Cell::get).unwrap_or(false);
    if counting {
        ALLOCATIONS.with(|all| all.set(all.get() + allocations));
        let (more, less) = (i64::try_from(more), i64::try_from(less));
        let change = more.unwrap_or(0) - less.unwrap_or(0);
        BYTES.with(|bytes| bytes.set(bytes.get() + change));
    }
}

// SAFETY: every call is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size(), 0);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, 0, layout.size());
        // SAFETY: `pointer` came from `alloc` above, so from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, size, layout.size());
        // SAFETY: as for `dealloc`; the caller keeps the contract for `size`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of the measured phase, after a warm-up that touched every buffer once.
fn allocations_of(load: Load) -> u64 {
    let mut warmed = plan(load, 400);
    warmed.warmup_requests = 2_000;
    let mut config = SimConfig::default();
    // Cut events use the carries.
    config.shape.split_ppm = 200_000;
    let net = SimNet::new(config);
    net.listen(&address(), Endpoint::new(MS, MS, 20)).unwrap();
    let clock = net.clock();
    clock.advance_to(MS);
    let span = window(&warmed).unwrap();
    let mut world = World::new(net, warmed);
    world.shard.begin_warmup(clock.now()).unwrap();
    drive(&mut world.driver, &mut world.shard, &clock).unwrap();
    world.shard.begin_measured(clock.now(), span).unwrap();
    ALLOCATIONS.with(|allocations| allocations.set(0));
    COUNTING.with(|counting| counting.set(true));
    drive(&mut world.driver, &mut world.shard, &clock).unwrap();
    COUNTING.with(|counting| counting.set(false));
    assert_eq!(world.finish(clock.now()).counts().completed, 400);
    ALLOCATIONS.with(Cell::get)
}

#[test]
fn nothing_is_allocated_between_warm_up_and_drain() {
    assert_eq!(allocations_of(closed(16)), 0);
    assert_eq!(allocations_of(constant(2000.0, Some(16))), 0);
}

#[test]
fn a_session_takes_about_what_is_reckoned_with() {
    let (server, client) = secure::pair("10.0.0.1");
    let counted = |work: &mut dyn FnMut()| {
        COUNTING.with(|counting| counting.set(true));
        work();
        COUNTING.with(|counting| counting.set(false));
    };
    let mut theirs = server.session().unwrap();
    // What is not the session's own is there before.
    let (mut scratch, mut there) = (Scratch::default(), Vec::with_capacity(1 << 16));
    let (mut own, mut back) = (None, Vec::with_capacity(1 << 16));
    let warm = vec![0; 1 << 14];
    let _ = client
        .session()
        .unwrap()
        .received(&warm, &mut scratch, &mut there);
    there.clear();
    BYTES.with(|bytes| bytes.set(0));
    counted(&mut || {
        let mut session = Box::new(client.session().unwrap());
        session.begin(&mut there).unwrap();
        own = Some(session);
    });
    let own = own.as_mut().unwrap();
    while !(own.is_ready() && theirs.is_ready()) {
        let mut other = Scratch::default();
        theirs.received(&there, &mut other, &mut back).unwrap();
        there.clear();
        counted(&mut || own.received(&back, &mut scratch, &mut there).unwrap());
        back.clear();
    }
    let bytes = usize::try_from(BYTES.with(Cell::get)).unwrap();
    let reckoned = ridgeline_tls::SESSION_BYTES;
    assert!(
        (reckoned / 2..=reckoned).contains(&bytes),
        "{bytes}, not {reckoned}"
    );
}

#[test]
fn the_counter_counts() {
    COUNTING.with(|counting| counting.set(true));
    let boxed = std::hint::black_box(Box::new(5));
    COUNTING.with(|counting| counting.set(false));
    assert!(*boxed == 5 && ALLOCATIONS.with(Cell::get) > 0);
}
