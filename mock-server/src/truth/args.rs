use std::path::PathBuf;

/// What the server writes down.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct TruthArgs {
    /// Write what was done when, request by request and write by write, for `ridgeline report --truth`
    #[arg(long, value_name = "FILE")]
    pub truth: Option<PathBuf>,
}
