use std::path::PathBuf;

/// What replay mode replays.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Times of replay mode")]
pub struct ReplayArgs {
    /// The records.jsonl whose answers --mode replay gives again: their times, tokens and errors
    #[arg(long, value_name = "FILE")]
    pub replay: Option<PathBuf>,
}
