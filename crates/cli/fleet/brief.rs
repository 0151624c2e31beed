use std::fs;
use std::path::Path;
use std::sync::Arc;

use ridgeline_clock::Timebase;
use ridgeline_fleet::message::Secret;
use ridgeline_fleet::{Brief, PlanFile};

use crate::complaint::Complaint;
use crate::config::{BenchConfig, RecordsKind, WorkerRecordsKind};
use crate::setup::Setup;
use crate::{endpoint, file};

/// A larger file is better put on the workers' own disks.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// What the workers of the run are told.
pub(super) fn brief(setup: &Setup, token: Option<Secret>) -> Result<Brief, Complaint> {
    let (plan, config) = (&setup.plan, &setup.config);
    let span_max = plan
        .stop
        .duration
        .map(|duration| duration + plan.drain_timeout);
    let api_key = endpoint::api_key(config)?.map(Secret);
    Ok(Brief {
        run_id: plan.run_id,
        config: file::whole_text(&told(setup))?,
        api_key,
        token,
        files: files(config)?,
        warms_up: plan.warmup_requests > 0,
        span_max,
        gathers: gathers(config),
        revision: super::revision(),
        host: super::host_name(),
        timebase: Timebase::read(),
    })
}

/// Whether the records come here when the run is over.
pub(super) fn gathers(config: &BenchConfig) -> bool {
    config.records != Some(RecordsKind::None)
        && config.worker_records != Some(WorkerRecordsKind::Leave)
}

/// The effective configuration without what is the coordinator's alone.
fn told(setup: &Setup) -> BenchConfig {
    let config = &setup.config;
    let mock = setup.endpoint.mock_url().map(|url| vec![url]);
    let url = mock.unwrap_or_else(|| config.url.clone());
    BenchConfig {
        url,
        mock: None,
        workers: None,
        worker_records: None,
        token_file: None,
        join_timeout: None,
        output_dir: None,
        quiet: None,
        cores: None,
        api_key_env: None,
        ..config.clone()
    }
}

/// The files that the configuration names.
fn files(config: &BenchConfig) -> Result<Vec<PlanFile>, Complaint> {
    let dataset = config.dataset.as_deref().map(|path| ("dataset", path));
    let tokenizer = config.tokenizer.as_deref().map(Path::new);
    let tokenizer = tokenizer
        .filter(|path| path.exists())
        .map(|path| ("tokenizer", path));
    let ca_file = config.ca_file.as_deref().map(|path| ("ca-file", path));
    let read = |(key, path): (&str, &Path)| {
        let inside = path.join("tokenizer.json");
        let path = if path.is_dir() { &inside } else { path };
        let cannot = |why: String| {
            Complaint::new(format!(
                "cannot send {} to the workers: {why}",
                path.display()
            ))
        };
        let length = fs::metadata(path)
            .map_err(|error| cannot(error.to_string()))?
            .len();
        if length > FILE_BYTES_MAX {
            return Err(cannot(format!(
                "it has {length} bytes, and {FILE_BYTES_MAX} are sent at the most; use a part of it"
            )));
        }
        let bytes = fs::read(path).map_err(|error| cannot(error.to_string()))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(PlanFile {
            key: key.to_owned(),
            name: name.into_owned(),
            bytes: Arc::from(bytes),
        })
    };
    let files = dataset.into_iter().chain(tokenizer).chain(ca_file);
    files.map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_run_go_along_and_vocabularies_by_name_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prompts.jsonl");
        fs::write(&path, "{\"prompt\":\"Hi\"}\n").unwrap();
        let config = BenchConfig {
            dataset: Some(path),
            tokenizer: Some("cl100k_base".to_owned()),
            ..BenchConfig::default()
        };
        let files = files(&config).unwrap();
        let named: Vec<_> = files
            .iter()
            .map(|f| (f.key.as_str(), f.name.as_str()))
            .collect();
        assert_eq!(named, [("dataset", "prompts.jsonl")]);
        assert_eq!(files[0].bytes.len(), 16);
    }
}
