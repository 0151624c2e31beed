//! What every [`Driver`](crate::Driver) must do, as properties that a driver's tests run.
//!
//! What this is: one function per property, generic over a [`Lab`] (where drivers of this kind are
//! made and which addresses they can use), and the macro [`conformance!`](crate::conformance!) that
//! makes a test of each. The peer is a second driver of the same kind on the same thread: both are
//! turned in alternation, bounded by the lab's clock. Real drivers also meet sockets of `std::net`
//! ([`foreign`]), so that a mistake made at both ends cannot cancel out.
//!
//! What this is not: a benchmark, or a test of the kernel. Nothing asserts how fast anything is.
//!
//! Every property also checks what the sinks see throughout (the rules of [`Log`]): `closed` once
//! and last, sends given back in order and unchanged, no bytes after the end, times in order.
//!
//! ```
//! use ridgeline_net::conformance::{SimLab, connect};
//! connect::opened(&mut SimLab::default());
//! ```
//!
//! A driver crate's `tests/conformance.rs` is one line for the sockets of this machine:
//!
//! ```text
//! ridgeline_net::conformance!(Loopback::new(|connections_max| MyDriver::new(connections_max)));
//! ```

pub mod bytes;
pub mod connect;
pub mod ends;
pub mod foreign;
mod lab;
mod log;
mod pair;
pub mod reading;
pub mod turns;

pub use lab::{Lab, Loopback, SimLab};
pub use log::{Connection, Log, Role, pattern};
pub use pair::Pair;

/// Makes a `#[test]` of every property. The argument is an expression for a new
/// [`Lab`](crate::conformance::Lab).
#[macro_export]
macro_rules! conformance {
    ($lab:expr) => {
        $crate::conformance!(@ $lab, connect: opened, refused, timed_out, listener_refuses,
            address_in_use, stopped_listening, cancelled, cancelled_at_once, churn, unix, unix_deserted);
        $crate::conformance!(@ $lab, bytes: larger_than_the_socket_buffer, queued_sends_keep_order,
            empty_sends, sent_before_opened, lent_in_every_size, echoed_in_order,
            many_receive_at_once);
        $crate::conformance!(@ $lab, reading: stopped_reading_blocks_the_sender,
            on_and_off_loses_nothing, fin_waits_for_reading, closed_while_not_reading,
            off_from_the_start, sends_go_on);
        $crate::conformance!(@ $lab, ends: half_close, fin_flushes, reset, reset_drops_sends,
            reset_of_a_stuck_fin, close_with_data_in_flight, token_reuse, dead_token,
            closed_once, ended_then_sending, unix_ends, dropped_driver);
        $crate::conformance!(@ $lab, turns: woken_from_another_thread, wakes_count_as_one,
            deadline, passed_deadline, submitted_before_arrival, counted);
        $crate::conformance!(@ $lab, foreign: server, client, resets, source_address);
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
