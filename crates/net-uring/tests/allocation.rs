//! After the start the driver allocates nothing: sends, receives, turns, with and without stamps.
#![expect(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use bytes::Bytes;
use ridgeline_clock::{Arrival, Nanos};
use ridgeline_net::{Closed, Commands, Driver, Peer, Sink, Token};
use ridgeline_net_uring::{UringConfig, UringDriver};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: it hands everything to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise; `alloc` got it from there.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PAIRS: u32 = 8;
const BODY: Bytes = Bytes::from_static(&[7; 600]);

/// Clients ask with a head and a body; servers answer each request with their own head alone.
struct Exchange {
    accepted: u32,
    heads: [Option<Vec<u8>>; 2 * PAIRS as usize],
    got: [usize; 2 * PAIRS as usize],
    answers: u64,
}

impl Exchange {
    fn send(&mut self, commands: &mut Commands, token: Token) {
        let body = if token.index < PAIRS {
            BODY
        } else {
            Bytes::new()
        };
        if let Some(head) = self.heads[token.index as usize].take() {
            commands.send(token, head, body);
        }
    }
}

impl Sink for Exchange {
    fn accepted(&mut self, _: &mut Commands, _: u32, _: Nanos) -> Option<Token> {
        self.accepted += 1;
        Some(Token {
            index: PAIRS - 1 + self.accepted,
            generation: 0,
        })
    }
    fn opened(&mut self, commands: &mut Commands, token: Token, _: Nanos) {
        self.send(commands, token);
    }
    fn submitted(&mut self, _: Token, _: Nanos) {}
    fn sent(&mut self, commands: &mut Commands, token: Token, head: Vec<u8>, _: Nanos) {
        self.heads[token.index as usize] = Some(head);
        self.reply(commands, token);
    }
    fn received(&mut self, commands: &mut Commands, token: Token, bytes: &[u8], _: Arrival) {
        self.got[token.index as usize] += bytes.len();
        self.reply(commands, token);
    }
    fn ended(&mut self, _: &mut Commands, _: Token, _: Arrival) {}
    fn closed(&mut self, _: &mut Commands, token: Token, cause: Closed, _: Nanos) {
        panic!("{token:?} {cause:?}");
    }
}

impl Exchange {
    /// Once the whole message is there and the head is back, whichever comes last.
    fn reply(&mut self, commands: &mut Commands, token: Token) {
        let place = token.index as usize;
        let whole = if token.index < PAIRS {
            100
        } else {
            100 + BODY.len()
        };
        if self.got[place] == whole && self.heads[place].is_some() {
            self.got[place] = 0;
            self.answers += u64::from(token.index < PAIRS);
            self.send(commands, token);
        }
    }
}

#[test]
fn exchanges_allocate_nothing() {
    for rx_timestamps in [false, true] {
        let config = UringConfig {
            rx_timestamps,
            ..UringConfig::new(2 * PAIRS)
        };
        let mut driver = match UringDriver::new(config) {
            Ok(driver) => driver,
            Err(missing) => return println!("skipped: {missing}"),
        };
        let here = driver
            .listen(&Peer::Tcp("127.0.0.1:0".parse().unwrap()))
            .unwrap();
        for index in 0..PAIRS {
            driver.commands().open(
                Token {
                    index,
                    generation: 0,
                },
                here.clone(),
                None,
            );
        }
        let heads = std::array::from_fn(|_| Some(vec![1; 100]));
        let got = [0; 2 * PAIRS as usize];
        let mut exchange = Exchange {
            accepted: 0,
            heads,
            got,
            answers: 0,
        };
        while exchange.answers < 100 {
            driver.turn(Nanos::MAX, &mut exchange).unwrap();
        }
        let before = ALLOCATIONS.with(Cell::get);
        assert!(before > 0, "the start allocates, and that is counted");
        while exchange.answers < 5_000 {
            driver.turn(Nanos::MAX, &mut exchange).unwrap();
        }
        assert_eq!(ALLOCATIONS.with(Cell::get) - before, 0);
    }
}
