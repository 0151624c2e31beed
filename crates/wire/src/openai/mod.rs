//! What an OpenAI-compatible answer means: the JSON of one event, or of a whole body, for chat and
//! for completions.
//!
//! [`Chunk::parse`] reads one object in one pass without copying. [`Template`] recognises that an
//! event differs from an earlier one only in its text, so that it need not be parsed at all;
//! [`FamiliarBody`] the same of a whole body, whose counts may differ too.
//!
//! The rules, where answers of real servers differ:
//!
//! - A choice is known by its `index`; without one (or with null) it is choice 0. Only choice 0
//!   counts. An object that holds choice 0 several times says all of it, in order.
//! - A repeated key counts as its last value, as in a `serde_json::Value`.
//! - Text is `delta.content` (`message.content` where there is no delta) for chat, and `text` for
//!   completions. Content may be a string or a list of parts, of which `{"type": "text", "text"}`
//!   counts. A refusal is not text: it answers nothing, and the contract does not name it.
//! - Reasoning is `reasoning_content`, or `reasoning` when that is empty or absent: never both.
//! - Tool calls are `tool_calls`, merged by `index` (without one, by place); where there are none,
//!   the older `function_call` is tool call 0.
//! - `finish_reason` counts when it is a non-empty string, `usage` when it is an object with any
//!   member. A token count that is not a whole number of 32 bits is unknown.
//! - An object with a non-null `error`, or with `"object": "error"`, is an error.
//! - Valid JSON that is not an object says nothing.

mod chunk;
mod json;
mod message;
#[cfg(test)]
mod oracle;
mod reason;
mod template;
#[cfg(test)]
mod tests;
mod text;
mod tools;
mod whole;

pub use chunk::{Chunk, Slot, Usage};
pub use json::{DEPTH_MAX, JsonError};
pub use message::{error_message, excerpt};
pub use reason::{FinishReason, OtherReason};
pub use template::{Match, Template};
pub use text::Text;
pub use tools::{ToolCall, ToolCalls};
pub use whole::{FamiliarBody, Said};

/// Which of the two APIs is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndpointType {
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/completions`.
    Completions,
}

/// True for the data of the event that ends a stream.
#[must_use]
pub fn is_done(data: &[u8]) -> bool {
    data.trim_ascii() == b"[DONE]"
}
