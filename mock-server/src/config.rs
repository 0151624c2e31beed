use std::fmt;
use std::iter;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use ridgeline_clock::Nanos;

use crate::ask::{OutputTokens, Vocabulary};
use crate::fault::Faults;
use crate::pace::PaceConfig;
use crate::replay::Replay;
use crate::wording::Dialect;

/// What a server answers, how fast, and within which limits.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    /// When the tokens of an answer are sent.
    pub mode: Mode,
    /// Whether answers say what their prompts did: the last text of the user, of a chat; without a
    /// maximum, all of it. They reason nothing and call nothing.
    pub echo: bool,
    /// In model mode: answers to give again as they were recorded, with their times, tokens and errors,
    /// in place of modelled ones.
    pub replay: Option<Arc<Replay>>,
    /// The first model that `/v1/models` lists, and that a request without `model` gets.
    pub model: String,
    /// More models that `/v1/models` lists.
    pub more_models: Vec<String>,
    /// Whether a request that names another model gets 404. Otherwise it is answered all the same,
    /// under the name it asked for.
    pub strict_model: bool,
    /// The key that requests to `/v1` must bring (`Authorization: Bearer KEY`), else they get 401.
    pub api_key: Option<ApiKey>,
    /// Tokens of an answer whose request sets no maximum.
    pub max_tokens_default: u32,
    /// How long answers under way may take to end when the server is asked to drain.
    pub drain_max: Nanos,
    /// How long `/health` and everything that generates answers 503, from the start on.
    pub startup: Nanos,
    /// A write that is later than this, behind the time it was due, is counted as late.
    pub late_over: Nanos,
    /// How long answers are that may end by themselves.
    pub output_tokens: OutputTokens,
    /// Tokens of a prompt and its answer together; more get 400.
    pub max_model_len: Option<u32>,
    /// What counts as a token of a prompt.
    pub vocabulary: Vocabulary,
    /// How likely a request that offers tools gets a call for an answer, where it leaves that open.
    pub tool_call_probability: f64,
    /// Numbers of an embedding whose request does not say.
    pub embedding_dimensions: u32,
    /// Whose words are used.
    pub dialect: Dialect,
    /// What goes wrong on purpose.
    pub faults: Faults,
    /// The file to write down every request and write in.
    pub truth: Option<PathBuf>,
    /// What bounds memory.
    pub limits: Limits,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            mode: Mode::Model(PaceConfig::default()),
            echo: false,
            replay: None,
            model: "mock".to_owned(),
            more_models: Vec::new(),
            strict_model: false,
            api_key: None,
            max_tokens_default: 64,
            drain_max: Nanos::from_secs(30),
            startup: Nanos::ZERO,
            late_over: Nanos::from_millis(1),
            output_tokens: OutputTokens::default(),
            max_model_len: None,
            vocabulary: Vocabulary::default(),
            tool_call_probability: 1.0,
            embedding_dimensions: 1_536,
            dialect: Dialect::default(),
            faults: Faults::default(),
            truth: None,
            limits: Limits::default(),
        }
    }
}

impl ServerConfig {
    /// The models that are served, the first first.
    pub(crate) fn models(&self) -> impl Iterator<Item = &str> {
        iter::once(&self.model)
            .chain(&self.more_models)
            .map(String::as_str)
    }

    /// Tokens of a prompt and its answer together.
    pub(crate) fn context(&self) -> u32 {
        self.max_model_len.unwrap_or(self.limits.tokens_max)
    }
}

/// A key that is not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(pub String);

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(..)")
    }
}

/// When the tokens of an answer are sent.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Mode {
    /// Everything as soon as the request is complete, from bytes built before: a server that
    /// should be faster than any client.
    Instant {
        /// How many events go into one write; `None`: the whole answer in one.
        events_per_write: Option<NonZeroU32>,
    },
    /// At modelled times after the request's last byte arrived. The times are absolute: a late turn
    /// sends everything that is due, and what follows is on time again. A whole (not streamed)
    /// answer is due when its last token is.
    Model(PaceConfig),
}

impl Mode {
    /// Tokens of a block of a prompt, of which the prefix cache keeps whole ones; 0: nothing keeps
    /// any.
    pub(crate) fn block_tokens(&self) -> usize {
        match self {
            Self::Instant { .. } => 0,
            Self::Model(pace) => pace
                .kv_cache
                .filter(|kv| kv.prefix_caching)
                .map_or(0, |kv| kv.block_tokens as usize),
        }
    }
}

/// What bounds memory, per shard.
///
/// The sum, worst case: `connections_max` times (`head_bytes_max` + twice `body_bytes_max` +
/// `queued_bytes_max` + one write); three times `cache_bytes_max` (prebuilt answers, what bodies mean,
/// replies to embeddings and `/tokenize`); and once one prebuilt answer and, under `truth`, the queue to
/// its writer. In use, a connection holds its last request and what its peer has not read yet: measured with 40,000 of them
/// on io_uring, 0.6 KB when nothing was asked yet, 1.2 KB after a small request, 1.9 KB after a chat
/// of 0.6 KB; and 0.8 KB for each of `connections_max`, from the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at one time. One more is reset at once, and counted.
    pub connections_max: u32,
    /// Complete requests of one connection that wait for the answer before theirs. Past that,
    /// nothing more is read: what was read is answered, and the connection is closed.
    pub pipelined_max: usize,
    /// Request line and header fields, bytes. Past it: 414 or 431, and the connection is closed.
    pub head_bytes_max: usize,
    /// The body of one request, bytes. Past it: 413, and the connection is closed.
    pub body_bytes_max: u64,
    /// Tokens of one answer. A request for more gets 400.
    pub tokens_max: u32,
    /// A model name, bytes. Past it: 400.
    pub model_bytes_max: usize,
    /// Sends of one connection that the kernel has not taken yet. At this number nothing more is
    /// generated for the connection until one is done; then what became due meanwhile is sent
    /// together. A reader that is too slow delays its own answer and nobody else's.
    pub sends_queued_max: u32,
    /// The same, bytes of modelled answers. (Prebuilt answers are shared between connections.)
    pub queued_bytes_max: usize,
    /// Events that are due together share one write up to this size, bytes.
    pub write_bytes_max: usize,
    /// Prebuilt answers, bytes; as much again for what bodies mean, and for other replies. When one
    /// is full it is emptied, and filled again on demand.
    pub cache_bytes_max: usize,
    /// Heads that came in pieces, bytes, all connections together. Past it: 414 or 431.
    pub carry_bytes_max: usize,
    /// What the truth file's writer has not taken yet, in pieces of 64 bytes: one for each write, about
    /// three more for each request. Past it requests have no line there, and are counted.
    pub truth_queued_max: usize,
    /// How long a connection that was refused (413, 431, malformed) is kept open for its peer to
    /// read why, before it is reset.
    pub linger_max: Nanos,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 65_536,
            pipelined_max: 128,
            head_bytes_max: 64 << 10,
            body_bytes_max: 16 << 20,
            tokens_max: 32_768,
            model_bytes_max: 256,
            sends_queued_max: 64,
            queued_bytes_max: 64 << 10,
            write_bytes_max: 16 << 10,
            cache_bytes_max: 64 << 20,
            carry_bytes_max: 64 << 20,
            truth_queued_max: 1 << 16,
            linger_max: Nanos::from_secs(2),
        }
    }
}
