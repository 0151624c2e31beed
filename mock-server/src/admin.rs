//! `/admin/config`: the flags of a server that runs, under their own names.
//!
//! What can be said on the command line can be read and, except for what is fixed at the start, be
//! changed: a change is the flags that the server has with some of them replaced, read by the
//! flags' own parser. So a flag needs nothing more to be changed at run time than to be a flag.

use std::collections::BTreeMap;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use serde_json::{Map, Value};

use crate::args::MockServerArgs;
use crate::refusal::Refusal;

/// Flags that can't be changed while the server runs.
const FIXED: [&str; 13] = [
    "host",
    "port",
    "driver",
    "cores",
    "connections-max",
    "stats",
    "no-admin",
    "startup-duration",
    "replay",
    "tls-cert",
    "tls-key",
    "tls-self-signed",
    "tls-client-ca",
];

/// Flags whose value is nobody's business.
const SECRET: [&str; 1] = ["api-key"];

/// What is told in place of a secret.
const REDACTED: &str = "REDACTED";

/// The flags that a server was given or takes by default, as text. As clap arguments it is none:
/// it only looks at the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings(BTreeMap<String, Vec<String>>);

/// All flags of the server, none parsed.
fn flags() -> Command {
    MockServerArgs::augment_args(Command::new("mock-server").no_binary_name(true))
}

fn is_switch(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
}

fn is_list(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

impl Settings {
    fn of(matches: &ArgMatches) -> Self {
        let command = flags();
        let named = command.get_arguments().filter_map(|arg| {
            let name = arg.get_long()?.to_owned();
            let raw = matches.try_get_raw(arg.get_id().as_str()).ok().flatten()?;
            let texts = raw.map(|text| text.to_string_lossy().into_owned());
            Some((name, texts.collect()))
        });
        Self(named.collect())
    }

    /// All flags: a switch is true or false, a flag that can be repeated is a list, one that was
    /// not given and has no default is null.
    pub(crate) fn to_json(&self) -> Value {
        let command = flags();
        let shown = command.get_arguments().filter_map(|arg| {
            let name = arg.get_long()?;
            Some((name.to_owned(), self.shown(arg, name)))
        });
        Value::Object(shown.collect::<Map<_, _>>())
    }

    fn shown(&self, arg: &Arg, name: &str) -> Value {
        let texts = self.0.get(name).map_or(&[][..], Vec::as_slice);
        let shown = |text: &String| {
            if SECRET.contains(&name) {
                return Value::from(REDACTED);
            }
            let number = serde_json::from_str(text).ok().filter(Value::is_number);
            let number = number.filter(|number| number.to_string().eq(text));
            number.unwrap_or_else(|| Value::from(text.as_str()))
        };
        if is_switch(arg) {
            Value::Bool(texts.iter().any(|text| text == "true"))
        } else if is_list(arg) {
            texts.iter().map(shown).collect()
        } else {
            texts.first().map_or(Value::Null, shown)
        }
    }

    /// These flags with those replaced that `body`, a JSON object, names; null takes one back to its
    /// default.
    ///
    /// # Errors
    /// 400 that names the key: unknown (with the nearest name), fixed at the start, or of a value
    /// that the flag does not take.
    pub(crate) fn patched(&self, body: &[u8]) -> Result<MockServerArgs, Refusal> {
        let patch: Map<String, Value> = serde_json::from_slice(body).map_err(|error| {
            Refusal::invalid(None, format!("Expected a JSON object of flags: {error}"))
        })?;
        let command = flags();
        let mut changed = self.0.clone();
        for (key, value) in &patch {
            let name = key.replace('_', "-");
            let Some(arg) = command
                .get_arguments()
                .find(|arg| arg.get_long() == Some(&*name))
            else {
                return Err(unknown(&command, key));
            };
            if self.shown(arg, &name) == *value {
                continue;
            }
            if FIXED.contains(&&*name) {
                let message = format!("{name} can't be changed while the server runs");
                return Err(Refusal::invalid(None, message));
            }
            match texts(arg, &name, value)? {
                Some(texts) => changed.insert(name, texts),
                None => changed.remove(&name),
            };
        }
        Self(changed).parsed(&command)
    }

    fn parsed(&self, command: &Command) -> Result<MockServerArgs, Refusal> {
        let mut line = Vec::new();
        for arg in command.get_arguments() {
            let Some((name, texts)) = arg.get_long().and_then(|name| self.0.get_key_value(name))
            else {
                continue;
            };
            if is_switch(arg) {
                line.extend(
                    texts
                        .iter()
                        .filter(|text| *text == "true")
                        .map(|_| format!("--{name}")),
                );
            } else {
                line.extend(texts.iter().map(|text| format!("--{name}={text}")));
            }
        }
        command
            .clone()
            .try_get_matches_from(line)
            .and_then(|matches| MockServerArgs::from_arg_matches(&matches))
            .map_err(|error| Refusal::invalid(None, told(&error)))
    }
}

/// What `value` is on the command line; `None`: as if it were not there.
fn texts(arg: &Arg, name: &str, value: &Value) -> Result<Option<Vec<String>>, Refusal> {
    let wrong = |expected: &str| {
        Err(Refusal::invalid(
            None,
            format!("{name} takes {expected}, not {value}"),
        ))
    };
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    if value.is_null() {
        return Ok(None);
    }
    if is_switch(arg) {
        return match value {
            Value::Bool(on) => Ok(Some(vec![on.to_string()])),
            _ => wrong("true or false"),
        };
    }
    let texts: Option<Vec<_>> = match value {
        Value::Array(values) if is_list(arg) => values.iter().map(text).collect(),
        _ => text(value).map(|text| vec![text]),
    };
    match texts {
        None => wrong(if is_list(arg) {
            "a list of texts or numbers"
        } else {
            "a text or a number"
        }),
        texts => Ok(texts),
    }
}

fn unknown(command: &Command, key: &str) -> Refusal {
    let names = command.get_arguments().filter_map(Arg::get_long);
    let likened = names.map(|name| (strsim::jaro_winkler(name, key), name));
    let nearest = likened.max_by(|a, b| a.0.total_cmp(&b.0));
    let nearest = nearest.map_or_else(String::new, |(_, name)| format!("; the nearest is {name}"));
    Refusal::invalid(None, format!("There is no flag {key}{nearest}"))
}

/// The first line of what clap says, without its label.
fn told(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text
        .lines()
        .next()
        .unwrap_or("The flags do not go together");
    debug_assert_ne!(
        error.kind(),
        ErrorKind::UnknownArgument,
        "all are known: {text}"
    );
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

impl Args for Settings {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl FromArgMatches for Settings {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self::of(matches))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::of(matches);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(line: &[&str]) -> MockServerArgs {
        let matches = flags().try_get_matches_from(line).unwrap();
        MockServerArgs::from_arg_matches(&matches).unwrap()
    }

    fn patch(args: &MockServerArgs, body: Value) -> Result<MockServerArgs, String> {
        let refused = |refusal: Refusal| String::from_utf8(refusal.body()).unwrap();
        args.settings
            .patched(body.to_string().as_bytes())
            .map_err(refused)
    }

    #[test]
    fn every_flag_has_a_key() {
        let shown = parse(&["--time-to-first-token=750us", "--cores=0,1"])
            .settings
            .to_json();
        for (key, value) in [
            ("mode", json!("model")),
            ("time-to-first-token", json!("750us")),
            ("inter-token-latency", json!("5ms")),
            ("max-tokens-default", json!(64)),
            ("cores", json!("0,1")),
            ("port", json!(8000)),
        ] {
            assert_eq!(shown[key], value, "{key}");
        }
        let flags = flags();
        let names = flags.get_arguments().filter_map(Arg::get_long);
        let names: Vec<_> = names.collect();
        assert_eq!(shown.as_object().unwrap().len(), names.len());
        for name in FIXED.iter().chain(&SECRET) {
            assert!(names.contains(name), "{name} is no flag");
        }
    }

    #[test]
    fn a_patch_replaces_what_it_names() {
        let args = parse(&["--inter-token-latency=1ms", "--model=m"]);
        let patched = patch(
            &args,
            json!({"time_to_first_token": "1s", "max-tokens-default": 7}),
        )
        .unwrap();
        let expected = parse(&[
            "--inter-token-latency=1ms",
            "--model=m",
            "--time-to-first-token=1s",
            "--max-tokens-default=7",
        ]);
        assert_eq!(patched.config().unwrap(), expected.config().unwrap());
        assert_eq!(patched.settings, expected.settings);
        // Null is the default again, and what was read can be written.
        let back = patch(
            &patched,
            json!({"time-to-first-token": null, "model": null}),
        )
        .unwrap();
        assert_eq!(back.settings.to_json()["time-to-first-token"], Value::Null);
        assert_eq!(back.config().unwrap().model, "mock");
        let same = patch(&patched, patched.settings.to_json()).unwrap();
        assert_eq!(same.settings, patched.settings);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let args = parse(&[]);
        for (body, part) in [
            (
                json!({"inter-token-latancy": "1ms"}),
                "There is no flag inter-token-latancy; the nearest is inter-token-latency",
            ),
            (
                json!({"port": 9}),
                "port can't be changed while the server runs",
            ),
            (
                json!({"inter-token-latency": "5"}),
                "--inter-token-latency <SPAN>': expected a number and ns",
            ),
            (
                json!({"max-tokens-default": 0}),
                "--max-tokens-default <N>': 0 is not in 1..=",
            ),
            (
                json!({"max-tokens-default": true}),
                "max-tokens-default takes a text or a number, not true",
            ),
            (json!({"mode": ["model"]}), "mode takes a text or a number"),
            (
                json!({"mode": "slow"}),
                "invalid value 'slow' for '--mode <MODE>'",
            ),
            (json!([]), "Expected a JSON object of flags"),
        ] {
            let told = patch(&args, body.clone()).unwrap_err();
            assert!(told.contains(part), "{body}: {told}");
        }
        // As it is, a fixed one may be said.
        assert!(patch(&args, json!({"port": 8000})).is_ok());
    }
}
