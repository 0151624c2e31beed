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

use crate::world::{Endpoint, MS, World, address, closed, constant, plan};

thread_local! {
    static COUNTING: Cell<bool> = const { Cell::new(false) };
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

fn count() {
    // Not while the thread goes away, when its locals are gone already.
    let counting = COUNTING.try_with(Cell::get).unwrap_or(false);
    if counting {
        ALLOCATIONS.with(|allocations| allocations.set(allocations.get() + 1));
    }
}

// SAFETY: every call is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `alloc` above, so from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
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
fn the_counter_counts() {
    COUNTING.with(|counting| counting.set(true));
    let boxed = std::hint::black_box(Box::new(5));
    COUNTING.with(|counting| counting.set(false));
    assert!(*boxed == 5 && ALLOCATIONS.with(Cell::get) > 0);
}
