//! Bytes: HTTP heads and chunks, event streams and JSON bodies, in many dialects.
//!
//! Everything is appended to a buffer that the caller reuses; nothing here allocates but the
//! construction of a [`Voice`] (and log probabilities of whole answers).
//!
//! A dialect is data (`habits`): templates of events and bodies, forms of lines, spellings of HTTP.
//! They are compiled once per dialect, endpoint and model into literal bytes and holes. How to add
//! one: `dialects`.
//!
//! Every habit that the black-box cases know, faults aside, and what has it:
//!
//! | habit | dialect | case |
//! | --- | --- | --- |
//! | role, deltas, reason, usage, `[DONE]` | `vllm`, `openai` | sse-lf-baseline, keep-alive-reuse |
//! | usage details | `openai`, `openrouter` | usage-details |
//! | chunk of empty choices first, content_filter | `azure`, `azure-filtered` | azure-prompt-filter-first |
//! | comments before and between events | `openrouter`, `comments`, `sse-starlette` | comment-keep-alives |
//! | `reasoning`, alone too | `vllm`, `openrouter`, `ollama` | reasoning-field |
//! | `reasoning_content`, beside null content | `sglang`, `azure`, `tgi`, `llama-cpp` | reasoning-content-then-content |
//! | no `[DONE]` | `transformers` | finish-without-done |
//! | reason with the last token | `tgi`, `finish-with-last` | completions-stream, finish-without-done |
//! | `[DONE]`, no reason | `gemini` | done-without-finish |
//! | several choices in turn | any, `n` of the request | two-choices-interleaved |
//! | log probabilities, their `content` before and after the delta | any, `logprobs` of the request; `white-space`, `llama-cpp` | logprobs-with-content-word |
//! | CRLF | `sse-starlette` | sse-crlf |
//! | CR and LF apart | `crlf-split` | crlf-split-between-cr-and-lf |
//! | CR | `cr-only` | sse-cr-only |
//! | all line ends | `mixed-line-ends` | sse-mixed-line-ends |
//! | byte order mark, no space, several data lines | `bom`, `no-space`, `multi-line` | data-line-forms |
//! | ids, retry, unknown and bare fields, empty data | `fields` | event-id-retry-and-unknown-fields |
//! | events after `[DONE]` | `after-done` | events-after-done |
//! | text after a reason, reason twice | `after-finish` | events-after-finish |
//! | usage in every chunk | `usage-always`; `vllm` with `continuous_usage_stats` | usage-in-every-chunk |
//! | usage after the last token | `vllm` | usage-chunk-does-not-move-last-token |
//! | nulls | `nulls`, `sglang` | nulls-everywhere |
//! | order, white space, decoys | `white-space` | field-order-and-white-space |
//! | escapes | `escapes` | escapes-in-content |
//! | text that looks like the protocol | any, echoing such a prompt | lookalikes-in-content |
//! | empty deltas | `empty-chunks` | role-and-empty-chunks-are-not-tokens |
//! | tokens without text | `no-text` | tokens-without-text |
//! | tool calls, fragments by index | any with `tools`; `calls-first` | tool-calls-interleaved |
//! | JSON in reply to streaming | `json-reply` | json-reply-to-streaming |
//! | a stream in reply to a plain request | `sse-reply` | sse-reply-to-nonstreaming |
//! | a plain answer, whole and in chunks | `vllm`, `split-chunks` | nonstream-chat, nonstream-completions-chunked |
//! | chunk boundaries anywhere | `split-chunks`, `byte-chunks` | chunk-boundary-inside-event, every-byte-alone |
//! | several events in a chunk | `shared-chunks` | many-events-in-one-chunk |
//! | several events in a write, an event in several | any, by the mode's flags | coalesced-thousand-events, event-split-in-time, large-event-200k |
//! | spellings of chunk sizes | `chunk-spellings` | chunk-size-spellings |
//! | trailers | `trailers` | chunked-trailers |
//! | chunks and a length | `chunked-and-length` | chunked-wins-over-content-length |
//! | end of the connection | `close-delimited`, `http10` | close-delimited-fin, http10-close |
//! | a stream with its length | `buffered` | content-length-sse |
//! | `Connection: close` | `connection-close` | connection-close-then-next |
//! | spellings of header fields | `header-spellings` | header-spellings |
//! | interim responses | `interim` | continue-100-before-200 |

mod dialect;
mod dialects;
mod fill;
mod framing;
mod habits;
mod json;
mod letters;
mod logprobs;
mod responses;
mod template;
#[cfg(test)]
mod tests;
mod voice;

pub use dialect::Dialect;
pub(crate) use dialect::UnknownDialect;
pub(crate) use framing::{Content, Framing, Reply, head};
pub(crate) use habits::Http;
pub(crate) use voice::{Stamp, Telling, Voice};
