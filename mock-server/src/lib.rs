//! An OpenAI-compatible server whose answers and times are known beforehand.
//!
//! What this is: HTTP/1.1 on the [`Driver`](ridgeline_net::Driver) seam. [`Server`] is one shard:
//! connections, requests and answers, without a clock or a socket of its own; [`serve`] is the loop
//! around it and a driver; [`start`] runs shards on threads of their own, for whoever embeds the
//! server; [`command`] is the whole program.
//!
//! - `POST /v1/chat/completions`, `/v1/completions` and `/v1/responses` answer with [`text`],
//!   streamed or whole, of exactly as many tokens as were asked for (`max_completion_tokens`,
//!   `max_tokens`, `max_output_tokens`, else a default), in the words of a [`Dialect`], which a
//!   request may name in `X-Mock-Dialect`; `POST /v1/embeddings` with vectors of length 1, and
//!   `POST /tokenize` in vLLM's form; `GET /v1/models` and one of them by name, `GET /health`.
//!   Everything else is an error in OpenAI's form. With [`ServerConfig::echo`] the answer is the prompt.
//! - What a body can decide: `n`; `stop` (never in the first `min_tokens` tokens; the tokens of the
//!   stop string are generated, not said); `seed` (where in the list of words the answer begins);
//!   `ignore_eos`, where answers may end by themselves ([`OutputTokens`]); `stream_options` with
//!   `include_usage` and `continuous_usage_stats`; `tools`, `tool_choice` and `parallel_tool_calls`
//!   (asked for: every tool is called once), with arguments that the tool's schema allows;
//!   `reasoning_effort` or `reasoning` (a share of the tokens comes first: 10, 20, 50, 80, 95 % from
//!   minimal to xhigh); `logprobs` and `top_logprobs`. The same body always gets the same answer.
//!   Fields that are not named here, `response_format` too, are accepted and ignored.
//! - `GET /metrics` has vLLM's families with vLLM's buckets, measured: from the arrival of a
//!   request's last byte, and from the clock reading before each write's system call. All shards
//!   are one engine, number 0. Only streams have a time to first token, gaps and phases; gaps
//!   are per content event.
//! - `GET /admin/config` has all flags; POST, PUT or PATCH of an object of flags changes those it
//!   names for every request that comes after, answers under way keep theirs; `POST /admin/reset`
//!   makes `/metrics` count from 0. There is none with `--no-admin`, nor for a server that was started
//!   without flags.
//! - A server that is asked to drain ([`Stopper::drain`], SIGTERM, SIGINT) refuses connections,
//!   closes idle ones, answers 503 to requests that were not complete, and ends when all others are
//!   answered, or after `--drain-timeout`.
//! - In instant mode answers are built once and then sent as they are, so that the server outruns
//!   any client. In model mode every token has its time, see [`PaceConfig`]: times are absolute, and
//!   how late writes were is counted ([`Lateness`]).
//!   In replay mode a recorded run gives times, tokens and errors: see [`replay`].
//! - What goes wrong on purpose is asked for by [`FaultRule`]s, or by the header fields `X-Mock-Fault`
//!   and `X-Return-Error` of a request, and counted in [`Served::faults`].
//! - Usage is exact: `completion_tokens` by construction, every word of [`text`] being one token of
//!   `o200k_base` and of `cl100k_base`; `prompt_tokens` by the [`Vocabulary`], of each text of the
//!   prompt on its own (roles, templates and images have none). What a body means is remembered, so
//!   that a prompt costs its tokens once.
//! - `X-Request-Id` is echoed if it has at most 128 visible bytes. A modelled answer's `id` is that
//!   of its request if it is plain, else a serial number; prebuilt answers share one `id`.
//! - Under `--truth` every request and write is written down, with its time: see [`truth`].
//! - Requests may be pipelined, and cut anywhere. A peer that ends its side still gets its answers;
//!   one that goes away frees its slot at once, or with the first send that fails.
//!
//! - With [`SecureArgs`] it speaks TLS 1.3 and 1.2; what is said of sockets above is then said of what goes
//!   through it.
//!
//! What this is not: a model, or a server for anything but tests and measurements. It
//! has no idle timeout.
//!
//! ```
//! use ridgeline_clock::{Arrival, Nanos};
//! use ridgeline_mock_server::{Server, ServerConfig};
//! use ridgeline_net::{Command, Commands, Sink};
//!
//! let mut server = Server::new(&ServerConfig::default(), Nanos::ZERO);
//! let mut commands = Commands::default();
//! let token = server.accepted(&mut commands, 0, Nanos::ZERO).expect("the first has room");
//! let request = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 29\r\n\r\n\
//!     {\"prompt\":\"x\",\"max_tokens\":3}";
//! server.received(&mut commands, token, request, Arrival::reaped(Nanos::ZERO));
//! // 20 ms to the first token, and twice 5 ms.
//! assert_eq!(server.step(Nanos::ZERO, &mut commands), Nanos::from_millis(30));
//! assert!(commands.is_empty());
//! server.step(Nanos::from_millis(30), &mut commands);
//! let Some(Command::Send { head, .. }) = commands.drain().next() else { panic!() };
//! assert!(String::from_utf8_lossy(&head).contains("A quiet river"));
//! ```
#![forbid(unsafe_code)]

mod admin;
mod answer;
mod args;
mod ask;
mod cache;
mod command;
mod composer;
mod config;
mod connection;
mod control;
mod exchange;
mod fault;
mod gauges;
mod id;
mod ledger;
mod pace;
mod refusal;
mod repeat;
pub mod replay;
mod route;
mod run;
mod served;
mod server;
mod timers;
pub mod truth;
mod wording;

pub use answer::{text, token};
pub use args::{
    AnswerArgs, Cores, EventsPerWrite, ListenArgs, MockServerArgs, ModeKind, SecureArgs,
};
pub use ask::{OutputTokens, Vocabulary};
pub use command::command;
pub use config::{ApiKey, Limits, Mode, ServerConfig};
pub use fault::{FailureType, FaultArgs, FaultCounts, FaultError, FaultRule, Faults, Share};
pub use pace::{
    KvCache, LateTally, Latency, Lateness, Law, PaceArgs, PaceConfig, PaceError, Packing, Prefill,
    TOKENS_PER_EVENT_MAX, TokensPerEvent,
};
pub use replay::{Replay, ReplayArgs, ReplayError};
pub use run::{DriverKind, Placement, Running, ServerError, Stopper, start};
pub use served::Served;
pub use server::{Server, serve};
pub use truth::TruthArgs;
pub use wording::Dialect;
