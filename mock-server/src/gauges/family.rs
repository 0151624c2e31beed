//! What is measured: each family once, with the cells that it needs.

use super::bounds;

/// How a family is kept and told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// As Prometheus knows it; a counter's without `_total`.
    pub(crate) name: &'static str,
    /// What it is, for whoever reads the page.
    pub(crate) help: &'static str,
    pub(crate) kind: Kind,
}

/// What the cells of a family mean.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// One cell that only grows.
    Counter,
    /// One cell per value of a label.
    CounterBy {
        label: &'static str,
        values: &'static [&'static str],
    },
    /// One cell that goes up and down; shards add up.
    Gauge,
    /// One cell of millionths; the mean of the shards.
    Share,
    /// A cell per bucket, one for what is above them all, and the sum.
    Histogram { bounds: &'static [u64], unit: Unit },
}

/// What a histogram's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Nanoseconds, told as seconds.
    Time,
    /// Numbers of something.
    Count,
}

impl Kind {
    pub(crate) const fn cells(self) -> usize {
        match self {
            Self::Counter | Self::Gauge | Self::Share => 1,
            Self::CounterBy { values, .. } => values.len(),
            Self::Histogram { bounds, .. } => bounds.len() + 2,
        }
    }

    /// Whether a reset starts it from 0: what goes up and down says how things are, not how much
    /// there was.
    pub(crate) const fn is_counted(self) -> bool {
        !matches!(self, Self::Gauge | Self::Share)
    }
}

/// Why an answer ended, in the order of [`FINISHED`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finished {
    /// Calls of tools too, as in vLLM.
    Stop,
    Length,
    /// The peer went away.
    Abort,
}

/// The same in vLLM's words.
static FINISHED: [&str; 3] = ["stop", "length", "abort"];

const fn by(label: &'static str, values: &'static [&'static str]) -> Kind {
    Kind::CounterBy { label, values }
}

const fn times(bounds: &'static [u64]) -> Kind {
    let unit = Unit::Time;
    Kind::Histogram { bounds, unit }
}

const fn counts(bounds: &'static [u64]) -> Kind {
    let unit = Unit::Count;
    Kind::Histogram { bounds, unit }
}

macro_rules! families {
    ($($family:ident: $kind:expr, $name:literal, $help:literal;)+) => {
        /// Names a row of [`ROWS`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Family { $($family),+ }

        impl Family {
            const ALL: &[Self] = &[$(Self::$family),+];
        }

        /// In the order of the page.
        pub(crate) static ROWS: [Row; Family::ALL.len()] =
            [$(Row { name: $name, help: $help, kind: $kind }),+];
    };
}

families! {
    Running: Kind::Gauge, "vllm:num_requests_running",
        "Requests that are being answered";
    Waiting: Kind::Gauge, "vllm:num_requests_waiting",
        "Requests that wait for their turn";
    KvUsage: Kind::Share, "vllm:kv_cache_usage_perc",
        "Share of the KV cache that is in use, 0 to 1";
    PrefixQueries: Kind::Counter, "vllm:prefix_cache_queries",
        "Prompt tokens looked up in the prefix cache";
    PrefixHits: Kind::Counter, "vllm:prefix_cache_hits",
        "Prompt tokens found in the prefix cache";
    PromptTokens: Kind::Counter, "vllm:prompt_tokens",
        "Prompt tokens of requests whose first token was sent";
    GenerationTokens: Kind::Counter, "vllm:generation_tokens",
        "Tokens sent";
    Success: by("finished_reason", &FINISHED), "vllm:request_success",
        "Requests answered without a fault, by why the answer ended";
    RequestPrompt: counts(&bounds::TOKENS), "vllm:request_prompt_tokens",
        "Prompt tokens per request";
    RequestGeneration: counts(&bounds::TOKENS), "vllm:request_generation_tokens",
        "Tokens sent per request, all choices";
    RequestGenerationMax: counts(&bounds::TOKENS), "vllm:request_max_num_generation_tokens",
        "Tokens of each request's longest choice";
    RequestChoices: counts(&bounds::CHOICES), "vllm:request_params_n",
        "The requests' n";
    RequestMaxTokens: counts(&bounds::TOKENS), "vllm:request_params_max_tokens",
        "The requests' maximum of tokens, where it ended the answer";
    FirstToken: times(&bounds::FIRST_TOKEN), "vllm:time_to_first_token_seconds",
        "From the last byte of a streamed request to the write with its first token";
    BetweenTokens: times(&bounds::PER_TOKEN), "vllm:inter_token_latency_seconds",
        "From the write of one content event of a stream to that of the next; 0 within a write";
    PerToken: times(&bounds::PER_TOKEN), "vllm:request_time_per_output_token_seconds",
        "Time from a stream's first token to its last, per token after the first event's";
    Latency: times(&bounds::REQUEST), "vllm:e2e_request_latency_seconds",
        "From a request's last byte to the write with the answer's last token";
    QueueTime: times(&bounds::REQUEST), "vllm:request_queue_time_seconds",
        "From a request's last byte to its turn";
    InferenceTime: times(&bounds::REQUEST), "vllm:request_inference_time_seconds",
        "From a request's turn to the write with the answer's last token";
    PrefillTime: times(&bounds::REQUEST), "vllm:request_prefill_time_seconds",
        "From a streamed request's turn to the write with its first token";
    DecodeTime: times(&bounds::REQUEST), "vllm:request_decode_time_seconds",
        "From the write with a stream's first token to that with its last";
    Connections: Kind::Gauge, "ridgeline:connections",
        "Connections that are open";
    ConnectionsAccepted: Kind::Counter, "ridgeline:connections_accepted",
        "Connections accepted";
    ConnectionsRefused: Kind::Counter, "ridgeline:connections_refused",
        "Connections reset at once because too many were open, or the server was draining";
    Requests: Kind::Counter, "ridgeline:requests",
        "Requests whose head was read, or was too malformed for that";
    RequestsRefused: Kind::Counter, "ridgeline:requests_refused",
        "Requests answered with an error that was not asked for as a fault";
    Answers: Kind::Counter, "ridgeline:answers",
        "Responses handed over for sending as a whole, errors too";
    AnswersCut: Kind::Counter, "ridgeline:answers_cut",
        "Responses cut off because their connection went away";
    Faults: Kind::Counter, "ridgeline:faults_injected",
        "Requests and connections that something was wrong with on purpose";
    Events: Kind::Counter, "ridgeline:content_events",
        "Events of streams with text, reasoning or a tool call";
    Lateness: times(&bounds::LATENESS), "ridgeline:write_lateness_seconds",
        "From when a modelled write was due to its system call";
    LateWrites: Kind::Counter, "ridgeline:late_writes",
        "Modelled writes more than 1 ms late";
}

const FIRST: [usize; ROWS.len() + 1] = {
    let mut first = [0; ROWS.len() + 1];
    let mut i = 0;
    while i < ROWS.len() {
        first[i + 1] = first[i] + ROWS[i].kind.cells();
        i += 1;
    }
    first
};

/// Cells of all families.
pub(crate) const CELLS: usize = FIRST[ROWS.len()];

impl Family {
    pub(crate) const fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// Its first cell.
    pub(crate) const fn first(self) -> usize {
        FIRST[self as usize]
    }

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied()
    }
}
