//! `/metrics`: the families in Prometheus' text format, version 0.0.4.

use std::fmt::Write as _;

use super::Snapshot;
use super::family::{Family, Kind, Row, Unit};
use crate::config::{Mode, ServerConfig};

/// Names that a family had before, or has elsewhere. Dashboards still ask for them.
static ALIASES: [(&str, Family); 5] = [
    ("vllm:gpu_cache_usage_perc", Family::KvUsage),
    ("vllm:gpu_prefix_cache_queries", Family::PrefixQueries),
    ("vllm:gpu_prefix_cache_hits", Family::PrefixHits),
    ("vllm:time_per_output_token_seconds", Family::BetweenTokens),
    (
        "vllm:max_num_generation_tokens",
        Family::RequestGenerationMax,
    ),
];

/// What the page says besides what was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Page {
    /// The label `model_name`.
    pub(crate) model: String,
    /// Labels of `vllm:cache_config_info`, and their values.
    pub(crate) cache: Vec<(&'static str, String)>,
}

impl Page {
    pub(crate) fn of(config: &ServerConfig) -> Self {
        Self {
            model: config.model.clone(),
            cache: cache(&config.mode),
        }
    }

    /// Writes the page. All shards are one engine, number 0.
    pub(crate) fn render(&self, snapshot: &Snapshot) -> String {
        let mut out = String::with_capacity(32 << 10);
        let labels = format!("model_name=\"{}\",engine=\"0\"", escaped(&self.model));
        for family in Family::all() {
            let row = family.row();
            family_text(&mut out, row.name, family, &labels, snapshot);
            for (name, _) in ALIASES.iter().filter(|(_, of)| *of == family) {
                family_text(&mut out, name, family, &labels, snapshot);
            }
        }
        faults(&mut out, &labels, snapshot);
        self.cache_config(&mut out);
        out
    }

    fn cache_config(&self, out: &mut String) {
        let name = "vllm:cache_config_info";
        head(out, name, "How the KV cache is configured", "gauge");
        let _ = write!(out, "{name}{{engine=\"0\"");
        for (label, value) in &self.cache {
            let _ = write!(out, ",{label}=\"{}\"", escaped(value));
        }
        out.push_str("} 1.0\n");
    }
}

/// What vLLM says of its cache, under its names; nothing where no cache is modelled.
fn cache(mode: &Mode) -> Vec<(&'static str, String)> {
    let kv_cache = match mode {
        Mode::Model(pace) => pace.kv_cache,
        Mode::Instant { .. } => None,
    };
    kv_cache.map_or_else(Vec::new, |kv| {
        let prefix_caching = if kv.prefix_caching { "True" } else { "False" };
        vec![
            ("block_size", kv.block_tokens.to_string()),
            ("enable_prefix_caching", prefix_caching.to_owned()),
            ("num_gpu_blocks", kv.blocks.to_string()),
        ]
    })
}

/// Those that were injected: nobody asks for names of which there are hundreds.
fn faults(out: &mut String, labels: &str, snapshot: &Snapshot) {
    let name = "ridgeline:faults_total";
    head(out, name, "Faults injected, by name", "counter");
    for (fault, count) in &snapshot.faults {
        let fault = escaped(fault);
        let _ = writeln!(out, "{name}{{{labels},fault=\"{fault}\"}} {count}.0");
    }
}

fn head(out: &mut String, name: &str, help: &str, kind: &str) {
    let _ = writeln!(out, "# HELP {name} {help}.\n# TYPE {name} {kind}");
}

fn family_text(out: &mut String, name: &str, family: Family, labels: &str, snapshot: &Snapshot) {
    let Row { help, kind, .. } = *family.row();
    let cells = snapshot.cells(family);
    match kind {
        Kind::Counter => {
            head(out, &format!("{name}_total"), help, "counter");
            let _ = writeln!(out, "{name}_total{{{labels}}} {}.0", cells[0]);
        }
        Kind::CounterBy { label, values } => {
            head(out, &format!("{name}_total"), help, "counter");
            for (value, cell) in values.iter().zip(cells) {
                let _ = writeln!(out, "{name}_total{{{labels},{label}=\"{value}\"}} {cell}.0");
            }
        }
        Kind::Gauge => {
            head(out, name, help, "gauge");
            let _ = writeln!(out, "{name}{{{labels}}} {}.0", cells[0]);
        }
        Kind::Share => {
            head(out, name, help, "gauge");
            let mean = cells[0] as f64 / 1e6 / snapshot.shards.max(1) as f64;
            let _ = writeln!(out, "{name}{{{labels}}} {mean:?}");
        }
        Kind::Histogram { bounds, unit } => {
            head(out, name, help, "histogram");
            let mut below = 0;
            for (bound, cell) in bounds.iter().zip(cells) {
                below += cell;
                let bound = number(*bound, unit);
                let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{bound}\"}} {below}.0");
            }
            let count = below + cells[bounds.len()];
            let sum = number(cells[bounds.len() + 1], unit);
            let _ = writeln!(
                out,
                "{name}_bucket{{{labels},le=\"+Inf\"}} {count}.0\n\
                 {name}_count{{{labels}}} {count}.0\n\
                 {name}_sum{{{labels}}} {sum}"
            );
        }
    }
}

/// A number as Python's Prometheus client writes it, which is what other programs compare bounds
/// with as text: always with a point.
fn number(value: u64, unit: Unit) -> String {
    match unit {
        Unit::Count => format!("{value}.0"),
        Unit::Time => {
            let (whole, rest) = (value / 1_000_000_000, value % 1_000_000_000);
            let digits = format!("{rest:09}");
            let digits = digits.trim_end_matches('0');
            format!("{whole}.{}", if digits.is_empty() { "0" } else { digits })
        }
    }
}

/// The value of a label: quotes, backslashes and line ends are escaped.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::super::Gauges;
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn page(gauges: &Gauges) -> String {
        let page = Page {
            model: "a \"model\"\\".to_owned(),
            cache: vec![("block_size", "16".to_owned())],
        };
        page.render(&Snapshot::of([gauges].into_iter()))
    }

    #[test]
    fn numbers_have_a_point() {
        for (value, unit, text) in [
            (0, Unit::Time, "0.0"),
            (1_000_000, Unit::Time, "0.001"),
            (2_500_000_000, Unit::Time, "2.5"),
            (7_680_000_000_000, Unit::Time, "7680.0"),
            (123, Unit::Time, "0.000000123"),
            (500_000, Unit::Count, "500000.0"),
        ] {
            assert_eq!(number(value, unit), text);
        }
    }

    #[test]
    fn a_histogram_is_cumulative() {
        let gauges = Gauges::default();
        for choices in [1, 1, 3, 30] {
            gauges.observe(Family::RequestChoices, choices, 1);
        }
        let page = page(&gauges);
        let labels = r#"model_name="a \"model\"\\",engine="0""#;
        let expected = format!(
            "# HELP vllm:request_params_n The requests' n.\n\
             # TYPE vllm:request_params_n histogram\n\
             vllm:request_params_n_bucket{{{labels},le=\"1.0\"}} 2.0\n\
             vllm:request_params_n_bucket{{{labels},le=\"2.0\"}} 2.0\n\
             vllm:request_params_n_bucket{{{labels},le=\"5.0\"}} 3.0\n\
             vllm:request_params_n_bucket{{{labels},le=\"10.0\"}} 3.0\n\
             vllm:request_params_n_bucket{{{labels},le=\"20.0\"}} 3.0\n\
             vllm:request_params_n_bucket{{{labels},le=\"+Inf\"}} 4.0\n\
             vllm:request_params_n_count{{{labels}}} 4.0\n\
             vllm:request_params_n_sum{{{labels}}} 35.0\n"
        );
        assert!(page.contains(&expected), "{page}");
    }

    #[test]
    fn aliases_say_the_same() {
        let gauges = Gauges::default();
        gauges.set(Family::KvUsage, 250_000);
        gauges.add(Family::PrefixHits, 7);
        let page = page(&gauges);
        for line in [
            "vllm:kv_cache_usage_perc{",
            "vllm:gpu_cache_usage_perc{",
            "vllm:prefix_cache_hits_total{",
            "vllm:gpu_prefix_cache_hits_total{",
        ] {
            let value = page
                .lines()
                .find_map(|text| text.strip_prefix(line))
                .and_then(|rest| rest.rsplit(' ').next());
            let expected = if line.contains("usage") {
                "0.25"
            } else {
                "7.0"
            };
            assert_eq!(value, Some(expected), "{line}");
        }
        assert!(page.contains("vllm:cache_config_info{engine=\"0\",block_size=\"16\"} 1.0\n"));
    }

    /// The grammar: every sample follows the TYPE of its family, no family comes twice, no sample
    /// comes twice, the text ends with a line end.
    #[test]
    fn the_page_follows_the_format() {
        let page = page(&Gauges::default());
        assert!(page.ends_with('\n'));
        let mut types: BTreeMap<&str, &str> = BTreeMap::new();
        let (mut current, mut samples) = ("", BTreeSet::new());
        for line in page.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert!(types.insert(name, kind).is_none(), "{name} twice");
                current = name;
            } else if !line.starts_with("# HELP ") {
                let (sample, value) = line.rsplit_once(' ').unwrap();
                let name = sample.split('{').next().unwrap();
                let suffix = name
                    .strip_prefix(current)
                    .unwrap_or_else(|| panic!("{line}"));
                let suffixes: &[&str] = match types[current] {
                    "histogram" => &["_bucket", "_count", "_sum"],
                    _ => &[""],
                };
                assert!(suffixes.contains(&suffix), "{line}");
                assert!(value.parse::<f64>().is_ok(), "{line}");
                assert!(samples.insert(sample), "{sample} twice");
            }
        }
        assert!(types.len() > 35);
    }
}
