//! `ridgeline config`: runs as files.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;

use clap::Subcommand;

use crate::complaint::Complaint;
use crate::config::{BenchConfig, EndpointKind};
use crate::endpoint::Address;
use crate::part::Part;
use crate::prompts::{self, Prompts};
use crate::shape::Shape;
use crate::topology::Topology;
use crate::{file, search, setup, terminal};

/// What `config init` writes.
pub(crate) const EXAMPLE: &str = include_str!("example.yaml");

/// The commands on files.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Write an example with every key and its meaning
    Init {
        /// The file; it must not exist yet [default: print it]
        file: Option<PathBuf>,
    },
    /// Check a file, its data set included, and print what it comes to; connects to nothing
    Validate {
        /// The file
        file: PathBuf,
    },
    /// Print the JSON Schema of the file, for editors
    Schema,
}

/// Runs one.
pub(crate) fn command(command: &ConfigCommand) -> Result<u8, Complaint> {
    let mut out = terminal::Results::new();
    match command {
        ConfigCommand::Init { file: None } => out.write_all(EXAMPLE.as_bytes())?,
        ConfigCommand::Init { file: Some(path) } => {
            let cannot = |error: io::Error| {
                let why = match error.kind() {
                    ErrorKind::AlreadyExists => {
                        "it exists; name another file, or delete it first".to_owned()
                    }
                    _ => error.to_string(),
                };
                Complaint::new(format!("cannot write {}: {why}", path.display()))
            };
            let mut created = OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(path)
                .map_err(cannot)?;
            created.write_all(EXAMPLE.as_bytes()).map_err(cannot)?;
            writeln!(
                out,
                "wrote {}; run it with: ridgeline bench -f {}",
                path.display(),
                path.display()
            )?;
        }
        ConfigCommand::Validate { file } => {
            out.write_all(validate(file::read(file)?)?.as_bytes())?;
        }
        ConfigCommand::Schema => {
            let schema = schemars::schema_for!(BenchConfig);
            writeln!(out, "{}", serde_json::to_string_pretty(&schema)?)?;
        }
    }
    Ok(0)
}

/// What a configuration comes to: in words, as comments, and as a file with every decision in
/// place that needs no network.
fn validate(mut config: BenchConfig) -> Result<String, Complaint> {
    let series = search::is_asked(&config).then(|| config.clone());
    search::check(&config)?;
    if series.is_some() {
        config = search::one_run(&config)?;
    }
    setup::check(&config)?;
    Address::new(&config)?;
    let placement = Part::of(&config).placement(&config, &Topology::here())?;
    let shape = Shape::new(&config, setup::IN_FLIGHT_MAX)?;
    let model = config.model.clone();
    let prompts = Prompts::new(&config, model.as_deref().unwrap_or("?"))?;
    shape.note(&mut config);
    prompts::note(&mut config);
    config.endpoint_type.get_or_insert(EndpointKind::Chat);
    config.streaming.get_or_insert(true);
    config.shards = Some(placement.shards);
    let mut text = String::new();
    let mut say = |name: &str, words: &str| text.push_str(&format!("# {name:<8} {words}\n"));
    let place = match config.url.as_slice() {
        [] => "the embedded server".to_owned(),
        urls => urls.join(", "),
    };
    let model = match (model, config.url.first()) {
        (Some(model), _) => model,
        (None, Some(_)) => "(the only one that the server lists)".to_owned(),
        (None, None) => "mock".to_owned(),
    };
    say("target", &format!("{place}, model {model}"));
    say("load", &shape.describe());
    say("prompts", &prompts.summary);
    say("client", &placement.describe());
    for note in prompts.notes.iter().cloned().chain(placement.notes()) {
        say("note", &note);
    }
    // What a series decides is decided for each of its runs.
    Ok(text + &file::text(&series.unwrap_or(config))?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    /// The keys of the schema.
    fn keys() -> BTreeSet<String> {
        let schema = serde_json::to_value(schemars::schema_for!(BenchConfig)).unwrap();
        schema["properties"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect()
    }

    #[test]
    fn the_example_is_valid_and_names_every_key() {
        let config = file::parse(EXAMPLE).unwrap();
        validate(config).unwrap();
        let named: BTreeSet<String> = EXAMPLE
            .lines()
            .filter_map(|line| line.strip_prefix("# ").or(Some(line))?.split_once(':'))
            .map(|(key, _)| key.to_owned())
            .filter(|key| !key.contains(' '))
            .collect();
        let missing: Vec<_> = keys()
            .into_iter()
            .filter(|key| !named.contains(key))
            .collect();
        assert!(missing.is_empty(), "the example lacks {missing:?}");
    }

    #[test]
    fn every_example_line_is_valid_by_itself() {
        for line in EXAMPLE.lines() {
            let Some(yaml) = line.strip_prefix("# ") else {
                continue;
            };
            let is_key = yaml
                .split_once(':')
                .is_some_and(|(key, _)| keys().contains(key));
            if is_key {
                file::parse(yaml).unwrap_or_else(|error| panic!("{yaml}: {error}"));
            }
        }
    }

    #[test]
    fn shipped_workloads_are_valid() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads");
        let mut count = 0;
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "yaml") {
                let config = file::read(&path).unwrap();
                validate(config).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                count += 1;
            }
        }
        assert!(count >= 4, "{count} workloads");
    }

    #[test]
    fn what_validate_prints_is_a_file_that_comes_to_the_same() {
        let config = file::parse("mock: true\nrequest-rate: 5\nrequest-count: 3\n").unwrap();
        let once = validate(config).unwrap();
        assert!(
            once.contains("# load     open loop, poisson 5/s, 3 requests"),
            "{once}"
        );
        assert_eq!(validate(file::parse(&once).unwrap()).unwrap(), once);
    }

    #[test]
    fn flags_and_keys_have_the_same_names() {
        let flags = <BenchConfig as clap::Args>::augment_args(clap::Command::new("x"));
        let flags: BTreeSet<String> = flags
            .get_arguments()
            .filter_map(|argument| argument.get_long().map(str::to_owned))
            .collect();
        let mut keys = keys();
        for file_only in ["limits", "verdict"] {
            assert!(keys.remove(file_only));
        }
        assert_eq!(flags, keys);
    }
}
