//! A run as a file: read, laid under the flags, written back.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde_json::{Map, Value};

use crate::complaint::Complaint;
use crate::config::BenchConfig;
use crate::secrets;

/// The largest file that is read as a configuration.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Keys that stand for the same choice: a flag for one of them displaces the file's others.
const ALTERNATIVES: [&[&str]; 4] = [
    &["url", "mock"],
    &["sweep", "find"],
    &["request-rate", "stage", "offline"],
    &["prompt", "dataset", "isl"],
];

/// Keys that make sense only with another one, and go when that one is displaced.
const COMPANIONS: [(&str, &[&str]); 5] = [
    (
        "url",
        &[
            "ca-file",
            "client-cert",
            "client-key",
            "insecure",
            "http",
            "streams-per-connection",
        ],
    ),
    ("request-rate", &["arrival-pattern", "burstiness"]),
    ("stage", &["arrival-pattern", "burstiness"]),
    (
        "dataset",
        &[
            "dataset-format",
            "dataset-column",
            "dataset-output-column",
            "answer-lengths",
        ],
    ),
    (
        "isl",
        &["isl-stddev", "osl-stddev", "range-ratio", "dataset-samples"],
    ),
];

/// Reads a file.
pub(crate) fn read(path: &Path) -> Result<BenchConfig, Complaint> {
    let cannot = |why: String| Complaint::new(format!("cannot read {}: {why}", path.display()));
    // Not by its length, which a device or a pipe does not tell.
    let bounded = || -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = File::open(path)?;
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = bounded().map_err(|error| cannot(error.to_string()))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(cannot(format!(
            "it has more than {FILE_BYTES_MAX} bytes, the most of a configuration; is it a data \
             set? Then pass it with --dataset"
        )));
    }
    let text = String::from_utf8(bytes).map_err(|_| cannot("it is not UTF-8 text".to_owned()))?;
    let config =
        parse(&text).map_err(|error| Complaint::new(format!("{}, {error}", path.display())))?;
    secrets::refuse_redacted(&config)
        .map_err(|error| Complaint::new(format!("{}: {error}", path.display())))?;
    Ok(config)
}

/// Reads the text of a file; a mistake is told with its line.
pub(crate) fn parse(text: &str) -> Result<BenchConfig, String> {
    // An empty file, or comments alone, ask for nothing.
    let is_blank = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    if text.lines().all(is_blank) {
        return Ok(BenchConfig::default());
    }
    serde_saphyr::from_str(text).map_err(|error| explain(&error))
}

fn explain(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::Error;
    let line = error.location().map_or(1, |location| location.line());
    let what = match error.without_snippet() {
        Error::SerdeUnknownField {
            field, expected, ..
        } => {
            let nearest = nearest(field, expected)
                .map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
            format!("unknown key `{field}`{nearest}")
        }
        Error::SerdeUnknownVariant {
            variant, expected, ..
        } => {
            format!("`{variant}` is not one of {}", expected.join(", "))
        }
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("the key `{key}` stands twice")
        }
        other => {
            let text = other.to_string();
            let first = text.lines().next().unwrap_or_default();
            // The line is named before the message.
            let what = first.split(" at line ").next().unwrap_or(first);
            match what.strip_prefix("invalid ") {
                Some("u16" | "u32" | "u64" | "usize") => {
                    "a whole number is expected here, 0 or more and not beyond what the key takes"
                        .to_owned()
                }
                Some("floating point" | "i64") => "a number is expected here".to_owned(),
                _ => what.to_owned(),
            }
        }
    };
    format!("line {line}: {what}")
}

/// The known name that `name` was most likely meant to be.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let name = name.replace('_', "-").to_ascii_lowercase();
    let (score, nearest) = known
        .iter()
        .map(|known| (strsim::jaro_winkler(&name, known), *known))
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    (score > 0.75).then_some(nearest)
}

/// `flags` laid over `file`.
pub(crate) fn merge(file: &BenchConfig, flags: &BenchConfig) -> Result<BenchConfig, Complaint> {
    let (mut keys, over) = (object(file)?, object(flags)?);
    for group in ALTERNATIVES {
        let chosen = group
            .iter()
            .any(|key| over.get(*key).is_some_and(is_chosen));
        for key in group
            .iter()
            .filter(|key| chosen && !over.contains_key(**key))
        {
            displace(&mut keys, key);
        }
    }
    keys.extend(over);
    Ok(serde_json::from_value(Value::Object(keys))?)
}

fn displace(keys: &mut Map<String, Value>, key: &str) {
    if keys.remove(key).is_none() {
        return;
    }
    let companions = COMPANIONS.iter().filter(|(of, _)| *of == key);
    for companion in companions.flat_map(|(_, companions)| *companions) {
        keys.remove(*companion);
    }
}

/// `--offline=false` takes a choice back and makes none.
fn is_chosen(value: &Value) -> bool {
    *value != Value::Bool(false)
}

fn object(config: &BenchConfig) -> Result<Map<String, Value>, Complaint> {
    match serde_json::to_value(config)? {
        Value::Object(keys) => Ok(keys),
        _ => Ok(Map::new()),
    }
}

/// The text of a file that asks for `config`, with its secrets: for a worker, not for a disk. JSON is YAML,
/// too.
pub(crate) fn whole_text(config: &BenchConfig) -> Result<String, Complaint> {
    Ok(serde_json::to_string(config)?)
}

/// The text of a file that asks for `config`. Secrets are redacted.
pub(crate) fn text(config: &BenchConfig) -> Result<String, Complaint> {
    let mut config = config.clone();
    secrets::redact(&mut config.header);
    let mut text = serde_saphyr::to_string(&config)
        .map_err(|error| Complaint::new(format!("cannot write the configuration: {error}")))?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_key_is_answered_with_the_nearest_and_its_line() {
        for (yaml, message) in [
            (
                "model: m\n\n# why\nconcurency: 4\n",
                "line 4: unknown key `concurency`; did you mean `concurrency`?",
            ),
            (
                "request_rate: 4\n",
                "line 1: unknown key `request_rate`; did you mean `request-rate`?",
            ),
            ("zzz: 4\n", "line 1: unknown key `zzz`"),
            (
                "limits:\n  slot: 4\n",
                "line 2: unknown key `slot`; did you mean `slots`?",
            ),
            (
                "driver: fast\n",
                "line 1: `fast` is not one of auto, uring, epoll, monoio, glommio",
            ),
        ] {
            assert_eq!(parse(yaml).unwrap_err(), message);
        }
        for (yaml, message) in [
            (
                "mock: true\nmock: true\n",
                "line 2: the key `mock` stands twice",
            ),
            (
                "concurrency: -4\n",
                "line 1: a whole number is expected here, 0 or more and not beyond what the key takes",
            ),
            ("request-rate: fast\n", "line 1: a number is expected here"),
            (
                "timeout: 5 parsec\n",
                "line 1: `5 parsec` has an unknown unit; use ns, us, ms, s, m or h",
            ),
        ] {
            assert_eq!(parse(yaml).unwrap_err(), message);
        }
        let error = parse("a: b: c\n").unwrap_err();
        assert!(
            error.starts_with("line 1: ") && !error.contains('\n'),
            "{error}"
        );
    }

    #[test]
    fn an_empty_file_asks_for_nothing() {
        assert_eq!(parse("").unwrap(), BenchConfig::default());
        assert_eq!(
            parse("# concurrency: 4\n\n").unwrap(),
            BenchConfig::default()
        );
    }

    #[test]
    fn flags_win_and_displace_other_answers_to_the_same_question() {
        let file = parse(
            "concurrency: 4\nrequest-rate: 10\narrival-pattern: gamma\nburstiness: 0.5\n\
             mock: true\nisl: 10\nrange-ratio: 0.5\nosl: 7\nrx-timestamps: on\n",
        )
        .unwrap();
        let flags = parse("concurrency: 8\noffline: true\nurl: http://h\nprompt: Hi\n").unwrap();
        let merged = merge(&file, &flags).unwrap();
        let expected = parse(
            "concurrency: 8\noffline: true\nurl: http://h\nprompt: Hi\nosl: 7\n\
             rx-timestamps: on\n",
        );
        assert_eq!(merged, expected.unwrap());
        let kept = merge(&file, &parse("offline: false\nmock: false\n").unwrap()).unwrap();
        assert_eq!((kept.request_rate, kept.mock), (Some(10.0), Some(false)));
        assert_eq!(merge(&file, &BenchConfig::default()).unwrap(), file);
    }

    #[test]
    fn what_is_written_is_read_back() {
        let yaml = "url: http://127.0.0.1:8000\nheader: ['X-A: b']\nstage:\n\
                    - {rate: 10, duration: 2s}\n- {rate: 20, pattern: constant}\n\
                    slo: ['ttft:p90=500ms']\nextra-body: {a: 1}\nlimits: {slots: 9}\n\
                    verdict: {busy_fraction: 0.5}\nsource-addresses: [127.0.0.2]\n\
                    prompt: \"two\\nlines: yes\"\nsave-text: true\nmodel: '007'\n";
        let config = parse(yaml).unwrap();
        let written = text(&config).unwrap();
        assert_eq!(parse(&written).unwrap(), config, "{written}");
    }
}
