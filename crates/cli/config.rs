//! What a run is to do, as the user says it: flags, a file, or both.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ridgeline_metrics::Slo;
use ridgeline_metrics::verdict::VerdictLimits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::balance::{Balance, Urls};
use crate::bounds::Bounds;
use crate::fleet::Workers;
use crate::http::HttpVersion;
use crate::json::JsonObject;
use crate::patience::CancelAfter;
use crate::search::{Find, Sweep, Warmup};
use crate::share::Share;
use crate::span::Span;
use crate::stage::Stage;

/// A run. Every flag is a key of the same name in the file; flags win.
#[derive(Args, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[schemars(rename = "RidgelineConfig")]
pub(crate) struct BenchConfig {
    /// Base URL of the endpoint, as http://127.0.0.1:8000, https://HOST, or unix:PATH; several are given by as
    /// many --url, and do the same
    #[arg(long, short = 'u', help_heading = "Endpoint")]
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "Urls::write",
        deserialize_with = "Urls::read"
    )]
    #[schemars(with = "Urls")]
    pub(crate) url: Vec<String>,
    /// How requests are dealt out to several endpoints: round-robin (by their place in the global order),
    /// least-in-flight, session (all of a session to the same one), or weights=3,1 [default: round-robin]
    #[arg(long, help_heading = "Endpoint", value_name = "HOW")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) balance: Option<Balance>,
    /// Start the embedded mock server (20 ms to the first token, 5 ms between) and measure that
    #[arg(long, help_heading = "Endpoint", num_args = 0..=1, default_missing_value = "true",
          require_equals = true, value_name = "BOOL", hide_possible_values = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mock: Option<bool>,
    /// Model name sent in each request [default: the only one in /v1/models]
    #[arg(long, short = 'm', help_heading = "Endpoint")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    /// Which API the endpoint speaks [default: chat]
    #[arg(long, value_enum, help_heading = "Endpoint")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) endpoint_type: Option<EndpointKind>,
    /// Path below the URL, in place of the one that belongs to the endpoint's type
    #[arg(long, help_heading = "Endpoint", value_name = "PATH")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) endpoint: Option<String>,
    /// Ask for streamed answers [default: true]
    #[arg(long, help_heading = "Endpoint", num_args = 0..=1, default_missing_value = "true",
          require_equals = true, value_name = "BOOL", hide_possible_values = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) streaming: Option<bool>,
    /// A header of every request, `Name: value`; may be given several times
    #[arg(
        long = "header",
        short = 'H',
        help_heading = "Endpoint",
        value_name = "NAME:VALUE"
    )]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) header: Vec<String>,
    /// Environment variable that holds the API key, sent as a bearer token
    #[arg(long, help_heading = "Endpoint", value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) api_key_env: Option<String>,
    /// Local addresses to connect from, by commas; each has its own range of ports [default: the
    /// system's choice; to loopback as many of 127.0.0.1, 127.0.0.2, ... as the requests in flight take]
    #[arg(
        long,
        value_delimiter = ',',
        help_heading = "Endpoint",
        value_name = "LIST"
    )]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) source_addresses: Vec<IpAddr>,
    /// Of an https:// URL: certificates in PEM that the server's must lead to, in place of this machine's
    /// roots
    #[arg(long, help_heading = "Endpoint", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Certificate of this client in PEM, for servers that ask for one; its chain after it
    #[arg(long, help_heading = "Endpoint", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_cert: Option<PathBuf>,
    /// Private key of that certificate in PEM [default: in the same file]
    #[arg(long, help_heading = "Endpoint", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_key: Option<PathBuf>,
    /// Do not check the server's certificate: whoever stands in between may pretend to be it
    #[arg(long, help_heading = "Endpoint", num_args = 0..=1, default_missing_value = "true",
          require_equals = true, value_name = "BOOL", hide_possible_values = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) insecure: Option<bool>,
    /// HTTP/1.1, HTTP/2 (in the clear by prior knowledge), or auto: behind TLS what the server chooses
    /// [default: 1.1]
    #[arg(long, help_heading = "Endpoint", value_name = "1.1|2|auto")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) http: Option<HttpVersion>,
    /// Of HTTP/2: requests at a time on one connection; more connections are opened beyond it [default: what
    /// the server allows, up to 128]
    #[arg(long, help_heading = "Endpoint", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) streams_per_connection: Option<u32>,

    /// Requests in flight; with a rate, its cap [default: 16; none with a rate]
    #[arg(
        long,
        short = 'c',
        visible_alias = "max-concurrency",
        help_heading = "Load",
        value_name = "N"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) concurrency: Option<u32>,
    /// Requests started per second, whatever comes of the earlier ones (open loop)
    #[arg(long, short = 'r', visible_alias = "target-qps", help_heading = "Load",
          value_name = "PER_S", value_parser = rate)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request_rate: Option<f64>,
    /// How the arrivals of a rate are spaced [default: poisson]
    #[arg(
        long,
        value_enum,
        visible_alias = "load-pattern",
        help_heading = "Load"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) arrival_pattern: Option<ArrivalPattern>,
    /// Shape of gamma arrivals: 1 is Poisson, less is burstier
    #[arg(long, visible_alias = "arrival-smoothness", help_heading = "Load",
          value_name = "SHAPE", value_parser = number)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) burstiness: Option<f64>,
    /// Part of a rate that changes, `rate=100,duration=30s[,pattern=constant]`; several follow one
    /// another
    #[arg(long, help_heading = "Load", value_name = "STAGE")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) stage: Vec<Stage>,
    /// Everything is due at the start, as fast as it goes
    #[arg(long, help_heading = "Load", num_args = 0..=1, default_missing_value = "true",
          require_equals = true, value_name = "BOOL", hide_possible_values = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) offline: Option<bool>,
    /// Stop after this many requests
    #[arg(long, short = 'n', visible_aliases = ["num-prompts", "num-samples"],
          help_heading = "Load", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request_count: Option<u64>,
    /// Start no more requests after this span [default: 10s when no count is given]
    #[arg(
        long,
        short = 'd',
        visible_alias = "benchmark-duration",
        help_heading = "Load",
        value_name = "SPAN"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) duration: Option<Span>,
    /// Requests before measuring begins, drained and not counted [default: 0]
    #[arg(
        long,
        visible_alias = "warmup-request-count",
        help_heading = "Load",
        value_name = "N"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) warmup_requests: Option<u64>,
    /// What becomes of connections: reuse keeps them for other requests as long as the server does; with
    /// per-request each request has its own, with per-session each session of the data set [default: reuse]
    #[arg(
        long,
        value_enum,
        visible_alias = "connection-reuse-strategy",
        help_heading = "Load"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) connections: Option<ConnectionsKind>,
    /// Give up this share of the measured requests on purpose, 5% or 0.05: the same ones in every run with
    /// the same seed. They are cancelled, and no failures
    #[arg(long, help_heading = "Load", value_name = "SHARE", value_parser = share)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cancel_rate: Option<f64>,
    /// When those are given up, if they are not over: a span after submission, as 2s, or a number of content
    /// events, as 16tokens [default: 0s, as soon as they are sent]
    #[arg(
        long,
        visible_alias = "request-cancellation-delay",
        help_heading = "Load",
        value_name = "SPAN|Ntokens"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cancel_after: Option<CancelAfter>,
    /// How long a connection may take to be set up [default: what the request may take]
    #[arg(long, help_heading = "Load", value_name = "SPAN")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) connect_timeout: Option<Span>,
    /// How long the first token of a streamed answer may take, from submission [default: what the request
    /// may take]
    #[arg(long, help_heading = "Load", value_name = "SPAN")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) first_token_timeout: Option<Span>,
    /// How long a stream may stand still after a content event [default: what the request may take]
    #[arg(long, help_heading = "Load", value_name = "SPAN")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) event_timeout: Option<Span>,
    /// Deadline of a whole request [default: 600s]
    #[arg(long, help_heading = "Load", value_name = "SPAN")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeout: Option<Span>,
    /// How long requests in flight may go on after the last start [default: 30s]
    #[arg(long, help_heading = "Load", value_name = "SPAN")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) drain_timeout: Option<Span>,
    /// Seed of the schedule, the order and the synthetic prompts [default: 42]
    #[arg(
        long,
        visible_alias = "random-seed",
        help_heading = "Load",
        value_name = "N"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seed: Option<u64>,

    /// Measure several loads, one after the other: concurrency=1,2,4, rate=10,20, concurrency=1..64*2
    #[arg(long, help_heading = "Search", value_name = "LOAD=LIST")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sweep: Option<Sweep>,
    /// Search for a load. knee: at most --concurrency in flight; max-rate: every --slo with a percentile is
    /// met, begun at --request-rate
    #[arg(long, value_enum, help_heading = "Search")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) find: Option<Find>,
    /// Runs of each load; intervals over them
    #[arg(
        long,
        visible_alias = "num-profile-runs",
        help_heading = "Search",
        value_name = "N"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) repeat: Option<u32>,
    /// How near --find comes, 5% or 0.05; with --repeat: enough when the 95 % intervals of rates and
    /// medians are within it [default: 5% with --find; all runs with --repeat]
    #[arg(long, help_heading = "Search", value_name = "SHARE", value_parser = precision)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) precision: Option<f64>,
    /// What the figures of a series leave out beside --warmup-requests: the beginning of each run until it
    /// is steady, or nothing [default: auto in a series]
    #[arg(long, value_enum, help_heading = "Search")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) warmup: Option<Warmup>,
    /// Requests of a closed loop for each in flight, with --sweep concurrency or --find knee
    #[arg(long, help_heading = "Search", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rounds: Option<u32>,
    /// The same of --warmup-requests
    #[arg(long, help_heading = "Search", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) warmup_rounds: Option<u32>,

    /// Send this text in every request
    #[arg(long, help_heading = "Prompts", value_name = "TEXT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) prompt: Option<String>,
    /// A file of prompts: JSON lines, ShareGPT JSON or CSV
    #[arg(
        long,
        visible_alias = "input-file",
        help_heading = "Prompts",
        value_name = "FILE"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dataset: Option<PathBuf>,
    /// The file's format [default: told by its content]
    #[arg(long, value_enum, help_heading = "Prompts")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dataset_format: Option<DatasetFormat>,
    /// The column of a CSV file that holds the prompts [default: prompt, text_input or text]
    #[arg(long, help_heading = "Prompts", value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dataset_column: Option<String>,
    /// The column of a CSV file that holds the lengths of the answers
    #[arg(long, help_heading = "Prompts", value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dataset_output_column: Option<String>,
    /// Ask for at most as many tokens as the file's recorded answer has; needs --tokenizer
    #[arg(long, help_heading = "Prompts", num_args = 0..=1, default_missing_value = "true",
          require_equals = true, value_name = "BOOL", hide_possible_values = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) answer_lengths: Option<bool>,
    /// Different synthetic prompts [default: 4096, or as many as requests, within reason]
    #[arg(
        long,
        visible_alias = "num-dataset-entries",
        help_heading = "Prompts",
        value_name = "N"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dataset_samples: Option<u32>,
    /// The order in which prompts are taken; random draws with replacement [default: sequential]
    #[arg(
        long,
        value_enum,
        visible_alias = "dataset-sampling-strategy",
        help_heading = "Prompts"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) order: Option<SampleOrder>,
    /// Tokens of a synthetic prompt, exactly [default: 128]
    #[arg(long, visible_aliases = ["random-input-len", "synthetic-input-tokens-mean"],
          help_heading = "Prompts", value_name = "TOKENS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) isl: Option<u32>,
    /// Standard deviation of the prompts' lengths, in tokens
    #[arg(long, visible_alias = "synthetic-input-tokens-stddev", help_heading = "Prompts",
          value_name = "TOKENS", value_parser = number)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) isl_stddev: Option<f64>,
    /// Tokens of each answer, exactly: sends max_tokens, min_tokens and ignore_eos [default: 64
    /// with synthetic prompts, else nothing is sent]
    #[arg(long, visible_aliases = ["random-output-len", "output-tokens-mean"],
          help_heading = "Prompts", value_name = "TOKENS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) osl: Option<u32>,
    /// Standard deviation of the answers' lengths, in tokens; synthetic prompts only
    #[arg(long, visible_alias = "output-tokens-stddev", help_heading = "Prompts",
          value_name = "TOKENS", value_parser = number)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) osl_stddev: Option<f64>,
    /// Lengths are uniform in [length x (1 - R), length x (1 + R)]; synthetic prompts only
    #[arg(long, visible_alias = "random-range-ratio", help_heading = "Prompts", value_name = "R",
          value_parser = number)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) range_ratio: Option<f64>,
    /// Tokens of an answer at the most: sends max_tokens alone
    #[arg(
        long,
        visible_alias = "max-tokens",
        help_heading = "Prompts",
        value_name = "TOKENS"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_output_tokens: Option<u32>,
    /// Lengths are exact under this vocabulary (cl100k_base, o200k_base) or tokenizer.json; counts
    /// prompts, and with --save-text answers, where the server does not
    #[arg(long, help_heading = "Prompts", value_name = "NAME|FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tokenizer: Option<String>,
    /// Sent only when given, as are the next ones
    #[arg(long, help_heading = "Prompts", value_name = "X", value_parser = number)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) temperature: Option<f64>,
    /// Nucleus sampling
    #[arg(long, help_heading = "Prompts", value_name = "X", value_parser = number)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) top_p: Option<f64>,
    /// Sample among the most likely tokens only
    #[arg(long, help_heading = "Prompts", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) top_k: Option<i64>,
    /// Sample among tokens of this share of the most likely one's probability
    #[arg(long, help_heading = "Prompts", value_name = "X", value_parser = number)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) min_p: Option<f64>,
    /// Presence penalty
    #[arg(long, help_heading = "Prompts", value_name = "X", value_parser = number)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) presence_penalty: Option<f64>,
    /// Frequency penalty
    #[arg(long, help_heading = "Prompts", value_name = "X", value_parser = number)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) frequency_penalty: Option<f64>,
    /// Repetition penalty
    #[arg(long, help_heading = "Prompts", value_name = "X", value_parser = number)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) repetition_penalty: Option<f64>,
    /// A JSON object merged into every request body, last
    #[arg(
        long,
        visible_alias = "extra-inputs",
        help_heading = "Prompts",
        value_name = "JSON"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) extra_body: Option<JsonObject>,

    /// Cores to pin shards to, as 2,4-7; auto: as many as --shards, on physical cores of their own, near the
    /// network's device and away from its interrupts; isolated: the same of isolated cores; none: no
    /// pinning [default: none]
    #[arg(long, help_heading = "Client", value_name = "LIST|auto|isolated|none")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cores: Option<String>,
    /// Shards: threads that drive load, a multiple of the cores [default: one per named core, else 1; as
    /// many more as the table of sockets of each makes necessary]
    #[arg(long, help_heading = "Client", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) shards: Option<u32>,
    /// Drive the load from several processes: so many of this machine, or those of `ridgeline worker
    /// --listen` at these addresses, by commas (tcp://HOST:PORT, ipc://PATH). Shards and cores are those
    /// of all of them
    #[arg(long, help_heading = "Client", value_name = "N|LIST")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) workers: Option<Workers>,
    /// The records of workers: gather makes one file of them when the run is over, leave keeps them where
    /// they are [default: gather]
    #[arg(long, value_enum, help_heading = "Client")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) worker_records: Option<WorkerRecordsKind>,
    /// File of the token that workers share with this program; it encrypts tcp:// links, and beyond this
    /// machine there must be one [default: RIDGELINE_TOKEN, if set]
    #[arg(long, help_heading = "Client", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token_file: Option<PathBuf>,
    /// How long workers at addresses may take to come: until their names are known, and they answer
    /// [default: 10s]
    #[arg(long, help_heading = "Client", value_name = "SPAN")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) join_timeout: Option<Span>,
    /// How sockets are driven; auto: uring where the kernel allows it, else epoll; monoio and glommio, in builds
    /// that have them, are for comparison [default: auto]
    #[arg(long, value_enum, help_heading = "Client")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) driver: Option<DriverKind>,
    /// Stamp arrivals in the kernel, TCP only [default: on; off with --offline]
    #[arg(long, value_enum, help_heading = "Client")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rx_timestamps: Option<OnOff>,

    /// A service level, `ttft:p90=500ms` for the run or `itl=50ms` for each request; may be given
    /// several times
    #[arg(long, visible_alias = "goodput", help_heading = "Judgement", value_delimiter = ',',
          num_args = 1..)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub(crate) slo: Vec<Slo>,
    /// Exit with 4 when a larger share of requests fails, 0 to 1 [default: off]
    #[arg(long, help_heading = "Judgement", value_name = "SHARE", value_parser = number)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_error_rate: Option<f64>,

    /// Folder for the results; results that are there are replaced [default: results/TIME-MODEL]
    #[arg(
        long,
        short = 'o',
        visible_alias = "output-artifact-dir",
        help_heading = "Output",
        value_name = "DIR"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output_dir: Option<PathBuf>,
    /// One record per request [default: jsonl]
    #[arg(long, value_enum, help_heading = "Output")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) records: Option<RecordsKind>,
    /// Keep the text of every answer in its record; --tokenizer counts it where the server does not
    #[arg(long, help_heading = "Output", num_args = 0..=1, default_missing_value = "true",
          require_equals = true, value_name = "BOOL", hide_possible_values = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) save_text: Option<bool>,
    /// Keep the arrival of every content event in the records
    #[arg(long, help_heading = "Output", num_args = 0..=1, default_missing_value = "true",
          require_equals = true, value_name = "BOOL", hide_possible_values = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) save_events: Option<bool>,
    /// Print the verdict and the folder only
    #[arg(long, short = 'q', help_heading = "Output", num_args = 0..=1,
          default_missing_value = "true", require_equals = true, value_name = "BOOL", hide_possible_values = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) quiet: Option<bool>,

    /// Bounds on memory and messages; keys of a file only
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limits: Option<Bounds>,
    /// The limits of the verdict; keys of a file only
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<std::collections::BTreeMap<String, serde_json::Value>>")]
    pub(crate) verdict: Option<VerdictLimits>,
}

/// A rate of requests.
fn rate(text: &str) -> Result<f64, String> {
    if text
        .trim()
        .trim_start_matches('+')
        .to_ascii_lowercase()
        .starts_with("inf")
    {
        return Err("a rate has an end; for requests as fast as they go use --offline".to_owned());
    }
    number(text)
}

/// How near is near enough.
fn precision(text: &str) -> Result<f64, String> {
    match text.parse::<Share>()? {
        Share(share) if share > 0.0 && share < 1.0 => Ok(share),
        share => Err(format!(
            "{share} is no precision: it lies between 0 and 100%"
        )),
    }
}

/// A share, as a number.
fn share(text: &str) -> Result<f64, &'static str> {
    text.parse::<Share>().map(|Share(share)| share)
}

/// No number of a run is larger, nor smaller but 0: such a one is a slip.
const NUMBER_MAX: f64 = 1e15;
const NUMBER_MIN: f64 = 1e-15;

/// A number that JSON and YAML have, too.
fn number(text: &str) -> Result<f64, String> {
    let number = match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => number,
        _ => return Err("not a number".to_owned()),
    };
    if number != 0.0 && !(NUMBER_MIN..=NUMBER_MAX).contains(&number.abs()) {
        return Err(format!(
            "no setting has such a number: it is 0, or between {NUMBER_MIN:e} and {NUMBER_MAX:e}"
        ));
    }
    Ok(number)
}

macro_rules! choices {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize, ValueEnum)]
        #[serde(rename_all = "lowercase")]
        pub(crate) enum $name { $($(#[$variant_doc])* $variant),* }
    };
}

choices!(
    /// An API of OpenAI's.
    EndpointKind { Chat, Completions }
);
choices!(
    /// How the arrivals of a rate are spaced.
    ArrivalPattern { Constant, Poisson, Gamma }
);
choices!(
    /// A format of a data set.
    DatasetFormat { Jsonl, Sharegpt, Csv }
);
choices!(
    /// The order of samples.
    SampleOrder { Sequential, Shuffled, Random }
);
choices!(
    /// How sockets are driven.
    DriverKind { Auto, Uring, Epoll, Monoio, Glommio }
);
/// What becomes of a connection when its request is over.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ConnectionsKind {
    /// Other requests have it, too.
    #[value(alias = "pooled")]
    Reuse,
    /// It is closed.
    #[value(alias = "never")]
    PerRequest,
    /// Requests of the same session have it, too.
    #[value(alias = "sticky-user-sessions")]
    PerSession,
}

choices!(
    /// What becomes of the records of workers.
    WorkerRecordsKind { Gather, Leave }
);
choices!(
    /// What is written per request.
    RecordsKind { None, Jsonl }
);

/// A switch. In a file `true` and `false` will do, too.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnOff {
    #[serde(alias = "true")]
    On,
    #[serde(alias = "false")]
    Off,
}
