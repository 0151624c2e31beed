//! The real engine on a virtual network and a virtual clock: faster than real time, from a seed.
#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "../replay/mod.rs"]
mod replay; // the cases: their scripts and what their records must say

mod allocations; // nothing is allocated between warm-up and drain
mod cases; // every black-box case, on the virtual network
mod closed; // closed loop and offline: counts, times, warm-up, stop rules, drain
mod connections; // servers that close: retries on fresh connections, retirement in time
mod endpoints; // several of them: who gets which request, and what each did
mod faults; // resets, refusals, stalls, silence, ports: outcomes, and nothing is lost
mod fed; // queries from outside: order, first tokens, back-pressure, drain
mod http2; // connections that carry many streams: lost for a reason of the system
mod open; // open loop: schedule, lag, cap, what was never sent, coordinated omission
mod overload; // a server of fixed capacity, below it and above: what queueing theory says, and who limits
mod search; // knees and highest rates of a queue, found by the engine on its own
mod secure; // through TLS: times, cut records, resumption, certificates, truncation, handshakes that fail
mod waits; // timeouts of parts of a request, and requests that are cancelled on purpose
mod world; // a plan, a network and a scripted endpoint in a few lines
