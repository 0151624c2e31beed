use clap::ValueEnum;

use super::dialects::{framings, objects, servers, streams};
use super::habits::{Habits, Http};
use crate::answer::{Answer, Output, Part};

/// Whose words the server uses, and in which form they travel.
///
/// The text, the tokens and the usage of an answer are the same in every dialect, but where a line
/// below says otherwise. [`crate::ServerConfig::dialect`] sets it for all requests; a request names
/// its own in the header field `X-Mock-Dialect`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, ValueEnum)]
#[non_exhaustive]
pub enum Dialect {
    /// vLLM: the role first, the reason in a chunk of its own, `reasoning`
    #[default]
    Vllm,
    /// OpenAI: all fields there, usage details, padding
    Openai,
    /// Azure: a chunk without choices first, content filter results
    Azure,
    /// Azure, where the answer was filtered: `finish_reason` is always content_filter
    AzureFiltered,
    /// OpenRouter: comments before the first token, usage in a chunk that has a choice
    Openrouter,
    /// LiteLLM: the role with the text, usage in a chunk with an empty delta
    Litellm,
    /// transformers serve: usage always, on the last chunk; no `[DONE]`
    Transformers,
    /// SGLang: nulls in every delta, `matched_stop`, `reasoning_content`
    Sglang,
    /// Text Generation Inference: no id, the reason with the last token
    Tgi,
    /// llama.cpp: fields by name, timings beside the usage
    LlamaCpp,
    /// Ollama: the role in every chunk
    Ollama,
    /// Proxies before Gemini: `[DONE]`, and never a `finish_reason`
    Gemini,
    /// sse-starlette: CRLF, and pings as comments
    SseStarlette,
    /// CRLF, with a chunk boundary between CR and LF
    CrlfSplit,
    /// A lone CR ends a line
    CrOnly,
    /// Lines end in LF, CR and CRLF
    MixedLineEnds,
    /// No space after `data:`
    NoSpace,
    /// The JSON of an event over many data lines
    MultiLine,
    /// A byte order mark first
    Bom,
    /// Event ids, retry, unknown fields, blocks without data
    Fields,
    /// Comments before and inside of events
    Comments,
    /// More events after `[DONE]`, to be ignored
    AfterDone,
    /// Usage in every chunk
    UsageAlways,
    /// Usage on the chunk that has the reason, and null before
    UsageOnFinish,
    /// Usage in a chunk of its own before that one
    UsageBeforeFinish,
    /// The reason with the last token
    FinishWithLast,
    /// Everything that is absent is null
    Nulls,
    /// White space in JSON, another order, unknown fields with the names of known ones
    WhiteSpace,
    /// Escapes in all text
    Escapes,
    /// Empty deltas between those with text
    EmptyChunks,
    /// Tokens without text: no content event; the answer's text is empty
    NoText,
    /// A `finish_reason` after each text, before the one that counts
    AfterFinish,
    /// Tool calls are all begun before the first goes on
    CallsFirst,
    /// One JSON document, even where a stream was asked for
    JsonReply,
    /// An event stream, even where none was asked for
    SseReply,
    /// Chunk boundaries inside of events, and of JSON bodies
    SplitChunks,
    /// A chunk for every byte
    ByteChunks,
    /// All events of a write in one chunk
    SharedChunks,
    /// Chunk sizes with leading zeros, in upper case, with extensions
    ChunkSpellings,
    /// Trailers after the last chunk
    Trailers,
    /// Chunks, and a Content-Length that does not count
    ChunkedAndLength,
    /// Streams end with their connection
    CloseDelimited,
    /// The same in HTTP/1.0
    #[value(name = "http10")]
    Http10,
    /// Streams come as one piece with a Content-Length
    Buffered,
    /// The connection ends with every response
    ConnectionClose,
    /// Header fields in any spelling that is allowed, and many of them
    HeaderSpellings,
    /// Interim responses before the one that counts
    Interim,
}

/// A name that is none of a dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnknownDialect;

impl Dialect {
    /// What it is made of.
    pub(super) fn habits(self) -> &'static Habits {
        match self {
            Self::Vllm => &servers::VLLM,
            Self::Openai => &servers::OPENAI,
            Self::Azure => &servers::AZURE,
            Self::AzureFiltered => &servers::AZURE_FILTERED,
            Self::Openrouter => &servers::OPENROUTER,
            Self::Litellm => &servers::LITELLM,
            Self::Transformers => &servers::TRANSFORMERS,
            Self::Sglang => &servers::SGLANG,
            Self::Tgi => &servers::TGI,
            Self::LlamaCpp => &servers::LLAMA_CPP,
            Self::Ollama => &servers::OLLAMA,
            Self::Gemini => &servers::GEMINI,
            Self::SseStarlette => &servers::SSE_STARLETTE,
            Self::CrlfSplit => &streams::CRLF_SPLIT,
            Self::CrOnly => &streams::CR_ONLY,
            Self::MixedLineEnds => &streams::MIXED_LINE_ENDS,
            Self::NoSpace => &streams::NO_SPACE,
            Self::MultiLine => &streams::MULTI_LINE,
            Self::Bom => &streams::BOM,
            Self::Fields => &streams::FIELDS,
            Self::Comments => &streams::COMMENTS,
            Self::AfterDone => &streams::AFTER_DONE,
            Self::UsageAlways => &objects::USAGE_ALWAYS,
            Self::UsageOnFinish => &objects::USAGE_ON_FINISH,
            Self::UsageBeforeFinish => &objects::USAGE_BEFORE_FINISH,
            Self::FinishWithLast => &objects::FINISH_WITH_LAST,
            Self::Nulls => &objects::NULLS,
            Self::WhiteSpace => &objects::WHITE_SPACE,
            Self::Escapes => &objects::ESCAPES,
            Self::EmptyChunks => &objects::EMPTY_CHUNKS,
            Self::NoText => &objects::NO_TEXT,
            Self::AfterFinish => &objects::AFTER_FINISH,
            Self::CallsFirst => &objects::CALLS_FIRST,
            Self::JsonReply => &objects::JSON_REPLY,
            Self::SseReply => &objects::SSE_REPLY,
            Self::SplitChunks => &framings::SPLIT_CHUNKS,
            Self::ByteChunks => &framings::BYTE_CHUNKS,
            Self::SharedChunks => &framings::SHARED_CHUNKS,
            Self::ChunkSpellings => &framings::CHUNK_SPELLINGS,
            Self::Trailers => &framings::TRAILERS,
            Self::ChunkedAndLength => &framings::CHUNKED_AND_LENGTH,
            Self::CloseDelimited => &framings::CLOSE_DELIMITED,
            Self::Http10 => &framings::HTTP_10,
            Self::Buffered => &framings::BUFFERED,
            Self::ConnectionClose => &framings::CONNECTION_CLOSE,
            Self::HeaderSpellings => &framings::HEADER_SPELLINGS,
            Self::Interim => &framings::INTERIM,
        }
    }

    /// Its HTTP.
    pub(crate) fn http(self) -> &'static Http {
        &self.habits().http
    }

    /// The end of a line of its events; of the first form, where it has several.
    pub(crate) fn line_end(self) -> &'static str {
        self.habits()
            .lines
            .blocks
            .first()
            .map_or("\n", |block| block.eol)
    }

    /// Whether the event of the last token says why the answer ends.
    pub(crate) fn finishes_with_last(self) -> bool {
        self.habits().finish_with_last
    }

    /// The dialect of this name, as `--dialect` spells it.
    pub(crate) fn named(name: &[u8]) -> Result<Self, UnknownDialect> {
        let name = std::str::from_utf8(name).map_err(|_| UnknownDialect)?;
        Self::from_str(name, false).map_err(|_| UnknownDialect)
    }

    /// Whether there is anything in what it makes of `part`.
    pub(crate) fn says(self, part: &Part<'_>) -> bool {
        part.is_content() && !(self.has_no_text() && matches!(part, Part::Text(_)))
    }

    /// Whether there is anything in what it makes of an output that is told as a whole.
    pub(crate) fn says_of(self, output: &Output) -> bool {
        let text = if self.has_no_text() {
            0
        } else {
            output.text.tokens()
        };
        text + output.reasoning.tokens() > 0 || !output.calls.is_empty()
    }

    fn has_no_text(self) -> bool {
        self == Self::NoText
    }

    /// Changes what was asked for into what such a server makes of it.
    pub(crate) fn bend(self, answer: &mut Answer) {
        let habits = self.habits();
        answer.stream = habits.stream.unwrap_or(answer.stream);
        answer.include_usage |= habits.usage_unasked && answer.stream;
        answer.continuous_usage |= habits.usage_always && answer.stream;
    }
}
