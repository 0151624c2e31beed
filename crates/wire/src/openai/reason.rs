//! Why a choice ended.

use std::fmt;
use std::str;

use super::text::Text;

/// `finish_reason` of choice 0. [`FinishReason::as_str`] gives back the server's own word.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum FinishReason {
    /// `stop`.
    Stop,
    /// `length`.
    Length,
    /// `tool_calls`.
    ToolCalls,
    /// `content_filter`.
    ContentFilter,
    /// `function_call`.
    FunctionCall,
    /// Any other word: exactly, up to [`OtherReason::BYTES_MAX`] bytes.
    Other(OtherReason),
}

/// A reason that OpenAI's API does not name.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct OtherReason {
    len: u8,
    bytes: [u8; Self::BYTES_MAX],
}

impl OtherReason {
    /// A longer word is shortened to this many bytes, at a character.
    pub const BYTES_MAX: usize = 47;

    /// The word.
    #[must_use]
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }
}

impl FinishReason {
    /// The reason in a JSON string.
    #[must_use]
    pub fn of(text: Text<'_>) -> Self {
        if let Some(reason) = Self::known(text.raw()) {
            return reason;
        }
        let mut other = OtherReason {
            len: 0,
            bytes: [0; OtherReason::BYTES_MAX],
        };
        let len = text.decode_start(&mut other.bytes);
        other.bytes[len..].fill(0);
        other.len = u8::try_from(len).unwrap_or(0);
        Self::known(&other.bytes[..len]).unwrap_or(Self::Other(other))
    }

    /// A word that the API names. None of them has an escape.
    fn known(word: &[u8]) -> Option<Self> {
        Some(match word {
            b"stop" => Self::Stop,
            b"length" => Self::Length,
            b"tool_calls" => Self::ToolCalls,
            b"content_filter" => Self::ContentFilter,
            b"function_call" => Self::FunctionCall,
            _ => return None,
        })
    }

    /// The server's word.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
            Self::FunctionCall => "function_call",
            Self::Other(other) => other.as_str(),
        }
    }
}

impl fmt::Debug for FinishReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FinishReason({})", self.as_str())
    }
}

impl fmt::Debug for OtherReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for FinishReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(raw: &str) -> FinishReason {
        FinishReason::of(Text::new(raw.as_bytes(), raw.contains('\\')))
    }

    #[test]
    fn every_word_comes_back_as_it_was() {
        for word in [
            "stop",
            "length",
            "tool_calls",
            "content_filter",
            "function_call",
            "eos",
            "é",
        ] {
            assert_eq!(of(word).as_str(), word);
        }
        assert_eq!(of("\\u0073top"), FinishReason::Stop);
        assert_eq!(of(&"é".repeat(40)).as_str(), "é".repeat(23));
        assert_eq!(of(&"x".repeat(47)).as_str(), "x".repeat(47));
    }
}
