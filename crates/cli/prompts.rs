//! From the words of a configuration to the bodies of the requests.

use bytes::Bytes;
use ridgeline_workload::{
    BodyOptions, Dataset, Endpoint, Format, Generator, Length, LoadOptions, Order, OutputLength,
    Sample, Sampling, Source, Synthetic, Tokenizer, load, request,
};

use crate::balance::Balance;
use crate::complaint::Complaint;
use crate::config::{BenchConfig, ConnectionsKind, DatasetFormat, EndpointKind, SampleOrder};
use crate::shape::seed;

const ISL: u32 = 128;
const OSL: u32 = 64;
/// Synthetic prompts of a run whose requests are not counted beforehand.
const SAMPLES: u32 = 4096;
/// Beyond [`SAMPLES`], prompts are made for a counted run up to this many tokens: they are made
/// before the first request, a million tokens with their bodies in some 25 ms and 7 MB.
const TOKENS_EAGER: u64 = 2 << 20;
/// Prompts are never made beyond this many tokens unless their number is asked for: 230 MB.
const TOKENS_MAX: u64 = 32 << 20;

/// What the requests say.
#[derive(Debug)]
pub(crate) struct Prompts {
    pub(crate) bodies: Vec<Bytes>,
    /// The tokenizer that was named.
    pub(crate) tokenizer: Option<Tokenizer>,
    /// Tokens of each prompt under it; empty without one.
    pub(crate) input_tokens: Vec<Option<u32>>,
    /// The session of each prompt, where it belongs to one.
    pub(crate) sessions: Vec<Option<u64>>,
    pub(crate) order: Order,
    /// In words: `4096 synthetic prompts, 128 tokens in, 64 out`.
    pub(crate) summary: String,
    /// What the user should know.
    pub(crate) notes: Vec<String>,
}

impl Prompts {
    /// Memory of all bodies.
    pub(crate) fn bytes(&self) -> u64 {
        self.bodies.iter().map(|body| body.len() as u64).sum()
    }

    /// Reads or makes the samples, and a body of each. `model` is what the endpoint calls it.
    pub(crate) fn new(config: &BenchConfig, model: &str) -> Result<Self, Complaint> {
        check(config)?;
        let options = body_options(config, model)?;
        let tokenizer = config
            .tokenizer
            .as_deref()
            .map(Tokenizer::open)
            .transpose()?;
        let order = order(config);
        if config.prompt.is_none() && config.dataset.is_none() {
            let prompts = synthetic(config, tokenizer.as_ref(), &options, order)?;
            return Ok(Self {
                tokenizer,
                ..prompts
            });
        }
        let dataset = dataset(config, tokenizer.as_ref())?;
        let sessions: Vec<_> = dataset.samples.iter().map(|s| s.session).collect();
        if let Some(flag) = by_session(config)
            && sessions.iter().all(Option::is_none)
        {
            return Err(Complaint::new(format!(
                "{flag} goes by the sessions of a data set, and {} names none: its lines have no session_id",
                dataset.name
            )));
        }
        let bodies = dataset
            .samples
            .iter()
            .map(|sample| request::body(sample, &options));
        let bodies: Vec<Bytes> = bodies
            .map(|body| body.map(Bytes::from))
            .collect::<Result<_, _>>()?;
        let summary = match &config.prompt {
            Some(_) => "one prompt for all requests".to_owned(),
            None => format!("{} prompts of {}", bodies.len(), dataset.name),
        };
        let mut notes = dataset.notes;
        if dataset.skipped > 0 {
            notes.push(format!(
                "{} entries of {} hold nothing to ask and were left out",
                dataset.skipped, dataset.name
            ));
        }
        let input_tokens = match &tokenizer {
            Some(tokenizer) => count_inputs(&dataset.samples, tokenizer, config, order)?,
            None => Vec::new(),
        };
        Ok(Self {
            bodies,
            tokenizer,
            input_tokens,
            sessions,
            order,
            summary,
            notes,
        })
    }
}

/// The tokens of each prompt that the run can come to.
fn count_inputs(
    samples: &[Sample],
    tokenizer: &Tokenizer,
    config: &BenchConfig,
    order: Order,
) -> Result<Vec<Option<u32>>, Complaint> {
    let requests = config.request_count.filter(|_| order == Order::Sequential);
    let reached = requests.map_or(usize::MAX, |count| {
        let all = count.saturating_add(config.warmup_requests.unwrap_or(0));
        usize::try_from(all).unwrap_or(usize::MAX)
    });
    let mut counts = Vec::with_capacity(samples.len().min(reached));
    for sample in samples.iter().take(reached) {
        let count = match sample.input_tokens {
            Some(known) => known,
            None => sample.count_tokens(tokenizer)?,
        };
        counts.push(Some(count));
    }
    Ok(counts)
}

/// Writes what was decided into `config`.
pub(crate) fn note(config: &mut BenchConfig) {
    config.order.get_or_insert(SampleOrder::Sequential);
    if config.prompt.is_none() && config.dataset.is_none() {
        config.isl.get_or_insert(ISL);
        config.dataset_samples = Some(samples(config));
        if config.max_output_tokens.is_none() {
            config.osl.get_or_insert(OSL);
        }
    }
}

/// The flag that asks for sessions, if one does.
fn by_session(config: &BenchConfig) -> Option<&'static str> {
    match (config.connections, &config.balance) {
        (Some(ConnectionsKind::PerSession), _) => Some("--connections per-session"),
        (_, Some(Balance::Session)) => Some("--balance session"),
        _ => None,
    }
}

/// Whether what is asked for makes sense together. Reads no file.
pub(crate) fn check(config: &BenchConfig) -> Result<(), Complaint> {
    let file = config.dataset.is_some();
    let synthetic = config.prompt.is_none() && !file;
    let shaped = config.isl_stddev.is_some()
        || config.osl_stddev.is_some()
        || config.range_ratio.is_some()
        || config.dataset_samples.is_some();
    let rules = [
        (
            config.prompt.is_some() && file,
            "--prompt and --dataset contradict each other: leave one of them out",
        ),
        (
            !synthetic && config.isl.is_some(),
            "--isl is the length of synthetic prompts, and --prompt or --dataset has its own: leave \
             one of them out",
        ),
        (
            !synthetic && shaped,
            "--isl-stddev, --osl-stddev, --range-ratio and --dataset-samples shape synthetic \
             prompts: leave them out, or --prompt or --dataset",
        ),
        (
            !file
                && (config.dataset_format.is_some()
                    || config.dataset_column.is_some()
                    || config.dataset_output_column.is_some()
                    || config.answer_lengths == Some(true)),
            "--dataset-format, --dataset-column, --dataset-output-column and --answer-lengths \
             belong to a data set: add --dataset FILE",
        ),
        (
            config.osl.is_some() && config.max_output_tokens.is_some(),
            "--osl (exactly so many tokens) and --max-output-tokens (at most) contradict each \
             other: leave one of them out",
        ),
        (
            config.range_ratio.is_some()
                && (config.isl_stddev.is_some() || config.osl_stddev.is_some()),
            "--range-ratio and a standard deviation contradict each other: lengths are uniform or \
             normal",
        ),
        (
            config.osl == Some(0) || config.max_output_tokens == Some(0),
            "an answer of 0 tokens cannot be asked for: --osl and --max-output-tokens are at least 1",
        ),
        (
            config.max_output_tokens.is_some() && config.osl_stddev.is_some(),
            "--osl-stddev spreads the lengths of --osl: leave out --max-output-tokens",
        ),
        (
            !file && by_session(config).is_some(),
            "--connections per-session and --balance session go by the sessions of a data set: add --dataset \
             FILE, JSONL whose lines have a session_id",
        ),
    ];
    match rules.into_iter().find(|(broken, _)| *broken) {
        Some((_, message)) => Err(Complaint::new(message)),
        None => Ok(()),
    }
}

fn body_options(config: &BenchConfig, model: &str) -> Result<BodyOptions, Complaint> {
    let synthetic = config.prompt.is_none() && config.dataset.is_none();
    // Synthetic prompts bring the length that is asked for with them.
    let exact = config.osl.filter(|_| !synthetic).map(OutputLength::Exact);
    Ok(BodyOptions {
        model: model.to_owned(),
        endpoint: match config.endpoint_type.unwrap_or(EndpointKind::Chat) {
            EndpointKind::Chat => Endpoint::Chat,
            EndpointKind::Completions => Endpoint::Completions,
        },
        streaming: config.streaming.unwrap_or(true),
        output: exact.or_else(|| config.max_output_tokens.map(OutputLength::AtMost)),
        max_completion_tokens: false,
        sampling: Sampling {
            temperature: config.temperature,
            top_p: config.top_p,
            top_k: config.top_k,
            min_p: config.min_p,
            presence_penalty: config.presence_penalty,
            frequency_penalty: config.frequency_penalty,
            repetition_penalty: config.repetition_penalty,
            seed: None,
            stop: None,
        },
        extra: config
            .extra_body
            .as_ref()
            .map_or_else(|| Ok(Default::default()), |o| o.fields())?,
    })
}

fn order(config: &BenchConfig) -> Order {
    let seed = seed(config);
    match config.order.unwrap_or(SampleOrder::Sequential) {
        SampleOrder::Sequential => Order::Sequential,
        SampleOrder::Shuffled => Order::Shuffled { seed },
        SampleOrder::Random => Order::Replacement { seed },
    }
}

fn dataset(config: &BenchConfig, tokenizer: Option<&Tokenizer>) -> Result<Dataset, Complaint> {
    let source = match (&config.prompt, &config.dataset) {
        (Some(text), _) => Source::Prompt(text.clone()),
        (None, Some(path)) => Source::File(path.clone()),
        (None, None) => return Err(Complaint::new("there is nothing to ask")),
    };
    let options = LoadOptions {
        format: config.dataset_format.map(|format| match format {
            DatasetFormat::Jsonl => Format::Jsonl,
            DatasetFormat::Sharegpt => Format::ShareGpt,
            DatasetFormat::Csv => Format::Csv,
        }),
        prompt_column: config.dataset_column.clone(),
        output_column: config.dataset_output_column.clone(),
        tokenizer,
        answer_lengths: config.answer_lengths == Some(true),
        ..LoadOptions::default()
    };
    Ok(load(&source, &options)?)
}

/// How many synthetic prompts: as many as there are requests, so that none comes twice, within what
/// may be made before the start.
fn samples(config: &BenchConfig) -> u32 {
    if let Some(samples) = config.dataset_samples {
        return samples;
    }
    let isl = u64::from(config.isl.unwrap_or(ISL).max(1));
    let eager = (TOKENS_EAGER / isl).max(u64::from(SAMPLES));
    let warmup = config.warmup_requests.unwrap_or(0);
    let counted = config
        .request_count
        .map(|count| count.saturating_add(warmup));
    let requests = counted.unwrap_or_else(|| u64::from(SAMPLES));
    let samples = requests.min(eager).min((TOKENS_MAX / isl).max(1));
    u32::try_from(samples).unwrap_or(SAMPLES)
}

fn synthetic(
    config: &BenchConfig,
    tokenizer: Option<&Tokenizer>,
    options: &BodyOptions,
    order: Order,
) -> Result<Prompts, Complaint> {
    let isl = config.isl.unwrap_or(ISL);
    let osl = config.osl.unwrap_or(OSL);
    let length = |option, mean, stddev: Option<f64>| match (config.range_ratio, stddev) {
        (Some(ratio), _) => Length::around(option, mean, ratio),
        (None, Some(stddev)) => Ok(Length::Normal { mean, stddev }),
        (None, None) => Ok(Length::Exact(mean)),
    };
    let input = length("--isl", isl, config.isl_stddev)?;
    let output = match config.max_output_tokens {
        Some(_) => None,
        None => Some(length("--osl", osl, config.osl_stddev)?),
    };
    let samples = samples(config);
    let generator = Generator::new(
        Synthetic {
            samples,
            input,
            output,
            seed: seed(config),
        },
        tokenizer,
    )?;
    let mut bodies = Vec::with_capacity(samples as usize);
    let mut input_tokens = Vec::new();
    for index in 0..samples {
        let sample = generator.sample(index)?;
        bodies.push(request::body(&sample, options)?.into());
        if tokenizer.is_some() {
            input_tokens.push(sample.input_tokens);
        }
    }
    let out = match config.max_output_tokens {
        Some(most) => format!("at most {most} out"),
        None => format!("{osl} out"),
    };
    let mut notes = Vec::new();
    if let Some(count) = config.request_count
        && config.dataset_samples.is_none()
        && count > u64::from(samples)
    {
        let possible = count <= TOKENS_MAX / u64::from(isl.max(1));
        let remedy = if possible {
            format!("; --dataset-samples {count} makes one for each")
        } else {
            String::new()
        };
        notes.push(format!(
            "prompts repeat after {samples} requests, and a server's prefix cache may know \
             them{remedy}"
        ));
    }
    let plural = if samples == 1 { "" } else { "s" };
    Ok(Prompts {
        bodies,
        tokenizer: None,
        input_tokens,
        sessions: Vec::new(),
        order,
        summary: format!("{samples} synthetic prompt{plural}, {isl} tokens in, {out}"),
        notes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompts(yaml: &str) -> Result<Prompts, String> {
        let config = crate::file::parse(yaml)?;
        Prompts::new(&config, "m").map_err(|error| error.to_string())
    }

    fn body(yaml: &str) -> serde_json::Value {
        serde_json::from_slice(&prompts(yaml).unwrap().bodies[0]).unwrap()
    }

    #[test]
    fn by_default_a_prompt_for_each_request_within_reason() {
        for (yaml, count) in [
            ("", 4096),
            ("request-count: 10\nwarmup-requests: 3", 13),
            ("request-count: 10000", 10_000),
            ("request-count: 100000000\nisl: 1024", 4096),
            ("isl: 1048576", 32),
            ("dataset-samples: 7\nrequest-count: 100", 7),
        ] {
            assert_eq!(samples(&crate::file::parse(yaml).unwrap()), count, "{yaml}");
        }
        let prompts = prompts("request-count: 9\nisl: 8").unwrap();
        assert_eq!(prompts.bodies.len(), 9);
        assert_eq!(prompts.summary, "9 synthetic prompts, 8 tokens in, 64 out");
    }

    #[test]
    fn lengths_of_answers_reach_the_body() {
        let few = "request-count: 1\n";
        let default = body(few);
        assert_eq!(default["max_tokens"], 64);
        assert_eq!(default["ignore_eos"], true);
        let most = body(&format!("{few}max-output-tokens: 9"));
        assert_eq!(
            (most["max_tokens"].as_u64(), most.get("min_tokens")),
            (Some(9), None)
        );
        assert_eq!(body("prompt: Hi").get("max_tokens"), None);
        assert_eq!(body("prompt: Hi\nosl: 3")["min_tokens"], 3);
        let sampled = body("prompt: Hi\ntemperature: 0\nextra-body: {top_k: 4}\nstreaming: false");
        assert_eq!(
            (&sampled["top_k"], &sampled["temperature"]),
            (&4.into(), &0.0.into())
        );
        assert_eq!(sampled.get("stream_options"), None);
    }

    #[test]
    fn contradictions_are_told() {
        for (yaml, part) in [
            ("prompt: a\ndataset: b", "--prompt and --dataset contradict"),
            (
                "prompt: a\nisl: 5",
                "--isl is the length of synthetic prompts",
            ),
            ("prompt: a\nrange-ratio: 0.5", "shape synthetic prompts"),
            ("dataset-column: a", "add --dataset FILE"),
            ("connections: per-session", "whose lines have a session_id"),
            ("osl: 5\nmax-output-tokens: 6", "contradict each other"),
            ("range-ratio: 0.5\nisl-stddev: 4", "uniform or normal"),
            ("osl: 0", "at least 1"),
            ("isl: 0", "--isl"),
            ("range-ratio: 1.5", "--isl: a range ratio is at least 0"),
            ("prompt: ''", "--prompt: the text is empty"),
            (
                "dataset: no/such/file.jsonl",
                "cannot read no/such/file.jsonl",
            ),
            ("tokenizer: no/such.json", "no/such.json"),
        ] {
            let error = prompts(yaml).unwrap_err();
            assert!(error.contains(part), "{yaml}: {error}");
        }
    }
}
