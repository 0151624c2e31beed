//! The flags: one group per concern, each in the module of its concern.

use std::sync::Arc;

mod answer;
mod listen;
mod secure;
mod span;

pub use answer::{AnswerArgs, EventsPerWrite};
pub use listen::{Cores, ListenArgs};
pub use secure::SecureArgs;
pub(crate) use span::span;

use crate::admin::Settings;
use crate::config::{ApiKey, Limits, Mode, ServerConfig};
use crate::fault::FaultArgs;
use crate::pace::{PaceArgs, Packing};
use crate::replay::{Replay, ReplayArgs};
use crate::run::{Running, ServerError, start_with};
use crate::truth::TruthArgs;

/// The flags of the mock server, the same for its own binary and for `ridgeline mock-server`.
#[derive(Clone, Debug, clap::Args)]
pub struct MockServerArgs {
    /// All flags as text. Its place is the first: flags that are parsed are taken out of clap's hands.
    #[command(flatten)]
    pub(crate) settings: Settings,
    /// What is answered and when: at once (instant), at modelled times (model), the prompt, at
    /// modelled times (echo), or what a run recorded (replay)
    #[arg(long, value_enum, default_value_t = ModeKind::Model)]
    pub mode: ModeKind,
    /// Where the server listens, and on which cores.
    #[command(flatten)]
    pub listen: ListenArgs,
    /// Whether it speaks TLS.
    #[command(flatten)]
    pub secure: SecureArgs,
    /// What is answered, times apart.
    #[command(flatten)]
    pub answer: AnswerArgs,
    /// The times of model mode.
    #[command(flatten)]
    pub pace: PaceArgs,
    /// What replay mode replays.
    #[command(flatten)]
    pub replay: ReplayArgs,
    /// What goes wrong on purpose.
    #[command(flatten)]
    pub fault: FaultArgs,
    /// What is written down.
    #[command(flatten)]
    pub truth: TruthArgs,
}

/// `--mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ModeKind {
    /// All tokens at once
    Instant,
    /// Each token at its time
    Model,
    /// The prompt back, each token at its time
    Echo,
    /// The answers of --replay FILE again: times, tokens and errors
    Replay,
}

impl MockServerArgs {
    /// What the flags ask the server to be.
    ///
    /// # Errors
    /// [`ServerError::Flags`] when they ask for times that can't be; [`ServerError::Replay`] when what
    /// they ask to replay can't be.
    pub fn config(&self) -> Result<ServerConfig, ServerError> {
        self.config_with(None)
    }

    /// The same, where what is replayed may have been read already.
    pub(crate) fn config_with(
        &self,
        replay: Option<Arc<Replay>>,
    ) -> Result<ServerConfig, ServerError> {
        let replay = self.replay(replay)?;
        let events_per_write = self.answer.events_per_write;
        let mode = match self.mode {
            ModeKind::Instant => Mode::Instant {
                events_per_write: events_per_write.and_then(|events| events.0),
            },
            ModeKind::Model | ModeKind::Echo | ModeKind::Replay => {
                let one = Packing::default().events_per_write;
                let events_per_write = events_per_write.map_or(one, |events| events.0);
                let pace = self.pace.config(events_per_write);
                Mode::Model(pace.map_err(ServerError::Flags)?)
            }
        };
        let answer = self.answer.clone();
        Ok(ServerConfig {
            mode,
            echo: self.mode == ModeKind::Echo,
            replay,
            model: answer.model,
            more_models: answer.served_model_name,
            strict_model: answer.strict_model,
            api_key: answer.api_key.map(ApiKey),
            max_tokens_default: answer.max_tokens_default,
            drain_max: self.listen.drain_timeout,
            startup: self.pace.startup_duration,
            late_over: self.pace.late_over,
            output_tokens: answer.output_tokens,
            max_model_len: answer.max_model_len,
            vocabulary: answer.tokenizer,
            tool_call_probability: answer.tool_call_probability,
            embedding_dimensions: answer.embedding_dimensions,
            dialect: answer.dialect,
            faults: self.fault.faults.clone(),
            truth: self.truth.truth.clone(),
            limits: Limits::default(),
        })
    }

    /// What is replayed, if anything: `known`, or what is in the file.
    fn replay(&self, known: Option<Arc<Replay>>) -> Result<Option<Arc<Replay>>, ServerError> {
        match (self.mode, &self.replay.replay) {
            (ModeKind::Replay, Some(path)) => match known {
                Some(known) => Ok(Some(known)),
                None => Ok(Some(Arc::new(Replay::read(path)?))),
            },
            (ModeKind::Replay, None) => Err(ServerError::Flags(
                "--mode replay needs --replay FILE, the records.jsonl of a run".to_owned(),
            )),
            (_, Some(_)) => Err(ServerError::Flags(
                "--replay is for --mode replay: give both".to_owned(),
            )),
            (_, None) => Ok(None),
        }
    }

    /// Starts the server that the flags ask for.
    ///
    /// # Errors
    /// As [`start`](crate::start), as [`MockServerArgs::config`], and as [`SecureArgs::server`].
    pub fn start(&self) -> Result<Running, ServerError> {
        let settings = (!self.listen.no_admin).then(|| self.settings.clone());
        let tls = self.secure.server(self.listen.host)?;
        start_with(self.config()?, self.listen.placement(), settings, tls)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::ask::{OutputTokens, Vocabulary};
    use crate::pace::{Latency, PaceConfig, Prefill};
    use crate::run::DriverKind;
    use clap::Parser;
    use ridgeline_clock::Nanos;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        args: MockServerArgs,
    }

    fn parse(flags: &[&str]) -> Result<MockServerArgs, String> {
        Flags::try_parse_from([&["x"], flags].concat())
            .map(|flags| flags.args)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn without_flags_it_is_the_default() {
        let args = parse(&[]).unwrap();
        assert_eq!(args.config().unwrap(), ServerConfig::default());
        let listen = args.listen;
        assert_eq!(
            (listen.port, listen.cores, listen.driver),
            (8000, Cores(None), DriverKind::Auto)
        );
    }

    #[test]
    fn flags_reach_the_config() {
        let args = parse(&[
            "--time-to-first-token=750us",
            "--inter-token-latency=0",
            "--max-tokens-default=7",
            "--model=m",
            "--served-model-name=n",
            "--strict-model",
            "--api-key=k",
            "--output-tokens=3-9",
            "--max-model-len=100",
            "--tokenizer=words",
            "--tool-call-probability=0.5",
            "--port=0",
            "--cores=0,2-3",
        ])
        .unwrap();
        let mode = Mode::Model(PaceConfig {
            prefill: Prefill::Whole(Latency::fixed(Nanos::from_micros(750))),
            gap: Latency::fixed(Nanos::ZERO),
            ..PaceConfig::default()
        });
        let config = args.config().unwrap();
        assert_eq!(
            (
                config.mode.clone(),
                config.max_tokens_default,
                config.model.as_str()
            ),
            (mode, 7, "m")
        );
        assert_eq!(config.models().collect::<Vec<_>>(), ["m", "n"]);
        assert!(config.strict_model);
        assert_eq!(config.api_key, Some(ApiKey("k".to_owned())));
        assert_eq!(config.output_tokens, OutputTokens::Between(3, 9));
        assert_eq!(config.context(), 100);
        assert_eq!(config.vocabulary, Vocabulary::words());
        assert_eq!(config.tool_call_probability, 0.5);
        assert_eq!(args.listen.cores, Cores(Some(vec![0, 2, 3])));
        let args = parse(&["--mode=instant", "--events-per-write=4"]).unwrap();
        let events_per_write = NonZeroU32::new(4);
        assert_eq!(
            args.config().unwrap().mode,
            Mode::Instant { events_per_write }
        );
    }

    #[test]
    fn events_per_write_are_all_in_instant_mode_and_one_in_model_mode_unless_told() {
        let packed = |flags: &[&str]| match parse(flags).unwrap().config().unwrap().mode {
            Mode::Instant { events_per_write } => events_per_write,
            Mode::Model(pace) => pace.packing.events_per_write,
        };
        assert_eq!(packed(&["--mode=instant"]), None);
        assert_eq!(packed(&[]), NonZeroU32::new(1));
        assert_eq!(packed(&["--events-per-write=all"]), None);
        assert_eq!(packed(&["--events-per-write=4"]), NonZeroU32::new(4));
    }

    #[test]
    fn wrong_flags_are_told() {
        for flags in [
            "--cores=",
            "--cores=1,1",
            "--cores=0-99999999999",
            "--cores=x",
            "--cores=1024",
            "--events-per-write=0",
            "--max-tokens-default=0",
            "--max-tokens-default=100000",
            "--port=70000",
            "--mode=slow",
            "--output-tokens=0",
            "--output-tokens=9-3",
            "--max-model-len=0",
            "--tokenizer=no/such/file",
            "--tool-call-probability=1.5",
            "--tool-call-probability=nan",
            "--embedding-dimensions=0",
        ] {
            assert!(parse(&[flags]).is_err(), "{flags}");
        }
    }
}
