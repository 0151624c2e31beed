//! What every [`Transport`](crate::Transport) must do, as properties that a transport's tests run.
//!
//! What this is: one function per property, generic over a [`Lab`] (where two ends that are each other's
//! peer are made), and the macro [`transport_conformance!`](crate::transport_conformance!) that makes a
//! test of each. Both ends are turned in alternation on one thread, bounded by the lab's clock.
//!
//! What this is not: a test of a protocol's bytes, or a benchmark. Nothing asserts how fast anything is.
//!
//! ```
//! use ridgeline_transport::conformance::{InProcessLab, messages};
//! messages::in_order(&mut InProcessLab);
//! ```

pub mod bounds;
mod lab;
mod log;
pub mod messages;
mod pair;
pub mod peers;
pub mod turns;

pub use lab::{InProcessLab, Lab};
pub use log::{Log, pattern};
pub use pair::Pair;

/// Makes a `#[test]` of every property. The argument is an expression for a new
/// [`Lab`](crate::conformance::Lab).
#[macro_export]
macro_rules! transport_conformance {
    ($lab:expr) => {
        $crate::transport_conformance!(@ $lab, messages: in_order, every_size, both_ways, shared,
            large_and_small, named_peer);
        $crate::transport_conformance!(@ $lab, bounds: full_at_messages, full_at_bytes,
            full_until_there_is_room, a_held_receiver_blocks_the_sender, hold_after_each,
            held_from_the_start, too_long, the_longest_always_fits, sends_go_on_while_held);
        $crate::transport_conformance!(@ $lab, peers: joined, nobody_there, dropped_end, parted,
            gone_is_refused, what_was_sent_before_leaving_arrives, unsent_is_counted);
        $crate::transport_conformance!(@ $lab, turns: woken_from_another_thread, wakes_count_as_one,
            deadline, passed_deadline, woken_while_held);
    };
    (@ $lab:expr, $module:ident: $($property:ident),+) => {
        mod $module {
            use super::*;
            $(#[test]
            fn $property() {
                $crate::conformance::$module::$property(&mut $lab);
            })+
        }
    };
}
