//! The JSON body of a request.
//!
//! Precedence, weakest first: the sample's own line, the flags of the run, `--extra-body`. What
//! was typed for this run beats what lies in a file, so that the report, which names the flags
//! once, is true of every request.

use serde::Serialize;
use serde_json::Value;

use crate::error::WorkloadError;
use crate::sample::{Fields, Input, OutputLength, Sample};

/// What a request is addressed to; decides the shape of its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Endpoint {
    /// `/v1/chat/completions`: takes `messages`.
    #[default]
    Chat,
    /// `/v1/completions`: takes `prompt`.
    Completions,
}

/// What all bodies of a run have in common.
#[derive(Debug, Clone, Default)]
pub struct BodyOptions {
    /// The `model` member.
    pub model: String,
    /// Decides between `messages` and `prompt`.
    pub endpoint: Endpoint,
    /// `stream`, and with it `stream_options.include_usage`.
    pub streaming: bool,
    /// Length of the answers. Beats the length that a sample asks for.
    pub output: Option<OutputLength>,
    /// Name the limit `max_completion_tokens` (chat only), as OpenAI's reasoning models require.
    pub max_completion_tokens: bool,
    /// Sampling parameters; those that are `None` are not sent.
    pub sampling: Sampling,
    /// `--extra-body`: merged last, beats everything else of the same name.
    pub extra: Fields,
}

/// Sampling parameters of the OpenAI API and of vLLM and SGLang. Each is sent only when it is set.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(missing_docs, reason = "the members are named as the API names them")]
pub struct Sampling {
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub top_k: Option<i64>,
    pub min_p: Option<f64>,
    pub presence_penalty: Option<f64>,
    pub frequency_penalty: Option<f64>,
    pub repetition_penalty: Option<f64>,
    pub seed: Option<i64>,
    pub stop: Option<Vec<String>>,
}

impl Sampling {
    /// Names and values of the parameters that are set, in the order of the struct.
    ///
    /// # Errors
    /// When a number is infinite or not a number: JSON has no such number.
    pub fn members(&self) -> Result<Vec<(&'static str, Value)>, WorkloadError> {
        let real = |option: &'static str, value: Option<f64>| match value {
            Some(value) if !value.is_finite() => Err(WorkloadError::Option {
                option,
                problem: format!("{value} is not finite"),
            }),
            value => Ok(value.map(Value::from)),
        };
        let all = [
            ("temperature", real("--temperature", self.temperature)?),
            ("top_p", real("--top-p", self.top_p)?),
            ("top_k", self.top_k.map(Value::from)),
            ("min_p", real("--min-p", self.min_p)?),
            (
                "presence_penalty",
                real("--presence-penalty", self.presence_penalty)?,
            ),
            (
                "frequency_penalty",
                real("--frequency-penalty", self.frequency_penalty)?,
            ),
            (
                "repetition_penalty",
                real("--repetition-penalty", self.repetition_penalty)?,
            ),
            ("seed", self.seed.map(Value::from)),
            ("stop", self.stop.clone().map(Value::from)),
        ];
        Ok(all
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
            .collect())
    }
}

/// Members that say how long the answer may be: a length on the command line replaces them all.
const LENGTH_MEMBERS: [&str; 4] = [
    "max_tokens",
    "max_completion_tokens",
    "min_tokens",
    "ignore_eos",
];

/// Builds the body of one request: a JSON object without white space between its members.
///
/// # Errors
/// When a sample of messages is to go to the completions endpoint, or a sampling parameter is not
/// a finite number.
pub fn body(sample: &Sample, options: &BodyOptions) -> Result<Vec<u8>, WorkloadError> {
    let mut members = Members::new(sample, options);
    members.run("model", &options.model);
    match (options.endpoint, &sample.input) {
        (Endpoint::Chat, Input::Messages(raw)) => members.sample("messages", raw),
        (Endpoint::Chat, Input::Prompt { system, text }) => {
            let system = system.as_deref().map(|content| Message {
                role: "system",
                content,
            });
            let user = Message {
                role: "user",
                content: text,
            };
            match system {
                Some(system) => members.sample("messages", &[system, user]),
                None => members.sample("messages", &[user]),
            }
        }
        (Endpoint::Completions, Input::Prompt { system: None, text }) => {
            members.sample("prompt", text);
        }
        (
            Endpoint::Completions,
            Input::Prompt {
                system: Some(system),
                text,
            },
        ) => {
            members.sample("prompt", &format!("{system}\n\n{text}"));
        }
        (Endpoint::Completions, Input::Messages(_)) => return Err(WorkloadError::MessagesOnly),
    }
    members.run("stream", &options.streaming);
    if options.streaming {
        members.run(
            "stream_options",
            &StreamOptions {
                include_usage: true,
            },
        );
    }
    members.output();
    for (name, value) in options.sampling.members()? {
        members.run(name, &value);
    }
    Ok(members.finish())
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: &'a str,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// The members written so far, and who may still replace one.
struct Members<'a> {
    sample: &'a Sample,
    options: &'a BodyOptions,
    out: Vec<u8>,
    /// Names that the run has set: the sample's line cannot set them.
    set_by_run: Vec<&'static str>,
}

impl<'a> Members<'a> {
    fn new(sample: &'a Sample, options: &'a BodyOptions) -> Self {
        let text_bytes = match &sample.input {
            Input::Messages(raw) => raw.get().len(),
            Input::Prompt { text, .. } => text.len(),
        };
        let out = Vec::with_capacity(text_bytes + text_bytes / 8 + 256);
        Self {
            sample,
            options,
            out,
            set_by_run: Vec::new(),
        }
    }

    /// A member that the run decides: only `--extra-body` replaces it.
    fn run<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) {
        self.set_by_run.push(name);
        if !self.options.extra.contains(name) {
            self.write(name, value);
        }
    }

    /// A member that the sample decides: an extra member of its line replaces it too.
    fn sample<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) {
        if !self.options.extra.contains(name) && !self.sample.extra.contains(name) {
            self.write(name, value);
        }
    }

    fn output(&mut self) {
        let limit = match self.options.endpoint {
            Endpoint::Chat if self.options.max_completion_tokens => "max_completion_tokens",
            Endpoint::Chat | Endpoint::Completions => "max_tokens",
        };
        if self.options.output.is_some() {
            self.set_by_run.extend(LENGTH_MEMBERS);
        }
        match self.options.output.or(self.sample.output) {
            Some(OutputLength::AtMost(tokens)) => self.length(limit, &tokens),
            Some(OutputLength::Exact(tokens)) => {
                self.length(limit, &tokens);
                self.length("min_tokens", &tokens);
                self.length("ignore_eos", &true);
            }
            None => {}
        }
    }

    fn length<T: Serialize>(&mut self, name: &'static str, value: &T) {
        match self.options.output {
            Some(_) => self.run(name, value),
            None => self.sample(name, value),
        }
    }

    fn finish(mut self) -> Vec<u8> {
        let (sample, options) = (self.sample, self.options);
        for (name, value) in sample.extra.iter() {
            if !options.extra.contains(name) && !self.set_by_run.contains(&name) {
                self.write(name, value);
            }
        }
        for (name, value) in options.extra.iter() {
            self.write(name, value);
        }
        self.out.push(b'}');
        self.out
    }

    fn write<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) {
        self.out.push(if self.out.is_empty() { b'{' } else { b',' });
        json(&mut self.out, name);
        self.out.push(b':');
        json(&mut self.out, value);
    }
}

/// Writes `value` as JSON. Serializing strings, numbers and raw JSON into memory cannot fail.
fn json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value).expect("memory takes every write, and no map has odd keys");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use serde_json::value::RawValue;

    use super::*;

    fn text(sample: &Sample, options: &BodyOptions) -> String {
        String::from_utf8(body(sample, options).unwrap()).unwrap()
    }

    fn parsed(sample: &Sample, options: &BodyOptions) -> Value {
        serde_json::from_slice(&body(sample, options).unwrap()).unwrap()
    }

    fn streaming() -> BodyOptions {
        BodyOptions {
            model: "m".to_owned(),
            streaming: true,
            ..BodyOptions::default()
        }
    }

    #[test]
    fn chat_body_byte_for_byte() {
        let options = BodyOptions {
            output: Some(OutputLength::Exact(64)),
            ..streaming()
        };
        assert_eq!(
            text(&Sample::prompt("Say \"hi\"\n\u{1}\u{e9}"), &options),
            "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\
             \"Say \\\"hi\\\"\\n\\u0001\u{e9}\"}],\"stream\":true,\
             \"stream_options\":{\"include_usage\":true},\
             \"max_tokens\":64,\"min_tokens\":64,\"ignore_eos\":true}"
        );
    }

    #[test]
    fn completions_body_byte_for_byte() {
        let options = BodyOptions {
            model: "m".to_owned(),
            endpoint: Endpoint::Completions,
            output: Some(OutputLength::AtMost(7)),
            max_completion_tokens: true,
            ..BodyOptions::default()
        };
        assert_eq!(
            text(&Sample::prompt("x"), &options),
            r#"{"model":"m","prompt":"x","stream":false,"max_tokens":7}"#
        );
    }

    #[test]
    fn nothing_that_was_not_asked_for_is_sent() {
        let body = parsed(&Sample::prompt("x"), &BodyOptions::default());
        let names: Vec<_> = body.as_object().unwrap().keys().cloned().collect();
        assert_eq!(names, ["messages", "model", "stream"]);
    }

    #[test]
    fn system_text_is_a_message_in_a_chat_and_a_paragraph_in_a_completion() {
        let mut sample = Sample::prompt("q");
        sample.input = Input::Prompt {
            system: Some("s".into()),
            text: "q".into(),
        };
        assert_eq!(
            parsed(&sample, &streaming())["messages"],
            json!([{"role": "system", "content": "s"}, {"role": "user", "content": "q"}])
        );
        let options = BodyOptions {
            endpoint: Endpoint::Completions,
            ..streaming()
        };
        assert_eq!(parsed(&sample, &options)["prompt"], json!("s\n\nq"));
    }

    #[test]
    fn messages_pass_through_unchanged_and_do_not_fit_completions() {
        let raw = r#"[ {"role":"user","content":[{"n":1e400}]} ]"#;
        let mut sample = Sample::prompt("");
        sample.input = Input::Messages(RawValue::from_string(raw.to_owned()).unwrap());
        assert!(text(&sample, &streaming()).contains(&format!("\"messages\":{raw},")));
        let options = BodyOptions {
            endpoint: Endpoint::Completions,
            ..streaming()
        };
        assert!(matches!(
            body(&sample, &options),
            Err(WorkloadError::MessagesOnly)
        ));
    }

    #[test]
    fn extra_body_beats_flags_and_flags_beat_the_line() {
        let mut sample = Sample::prompt("x");
        sample.output = Some(OutputLength::AtMost(5));
        sample.extra =
            Fields::parse(r#"{"temperature":0.1,"top_p":0.2,"line":1,"both":"line"}"#).unwrap();
        let options = BodyOptions {
            sampling: Sampling {
                temperature: Some(0.9),
                seed: Some(-3),
                ..Sampling::default()
            },
            extra: Fields::parse(r#"{"seed":7,"both":"run","stream":false}"#).unwrap(),
            ..streaming()
        };
        let body = parsed(&sample, &options);
        assert_eq!(body["temperature"], json!(0.9));
        assert_eq!(body["top_p"], json!(0.2));
        assert_eq!(body["line"], json!(1));
        assert_eq!(body["both"], json!("run"));
        assert_eq!(body["seed"], json!(7));
        assert_eq!(body["stream"], json!(false));
        assert_eq!(body["max_tokens"], json!(5));
        let text = text(&sample, &options);
        for name in ["temperature", "both", "seed", "stream"] {
            assert_eq!(
                text.matches(&format!("\"{name}\":")).count(),
                1,
                "{name} in {text}"
            );
        }
    }

    #[test]
    fn a_length_of_the_run_replaces_every_length_of_the_line() {
        let mut sample = Sample::prompt("x");
        sample.output = Some(OutputLength::Exact(5));
        sample.extra =
            Fields::parse(r#"{"max_completion_tokens":9,"ignore_eos":true,"min_tokens":1}"#)
                .unwrap();
        let options = BodyOptions {
            output: Some(OutputLength::AtMost(3)),
            ..streaming()
        };
        let body = parsed(&sample, &options);
        assert_eq!(body["max_tokens"], json!(3));
        for name in ["max_completion_tokens", "ignore_eos", "min_tokens"] {
            assert_eq!(body.get(name), None, "{name}");
        }
    }

    #[test]
    fn the_line_may_replace_what_its_own_length_implies() {
        let mut sample = Sample::prompt("x");
        sample.output = Some(OutputLength::Exact(5));
        sample.extra = Fields::parse(r#"{"ignore_eos":false}"#).unwrap();
        let body = parsed(&sample, &streaming());
        assert_eq!(body["max_tokens"], json!(5));
        assert_eq!(body["ignore_eos"], json!(false));
    }

    #[test]
    fn max_completion_tokens_on_request() {
        let options = BodyOptions {
            output: Some(OutputLength::AtMost(3)),
            max_completion_tokens: true,
            ..streaming()
        };
        let body = parsed(&Sample::prompt("x"), &options);
        assert_eq!(
            (&body["max_completion_tokens"], body.get("max_tokens")),
            (&json!(3), None)
        );
    }

    #[test]
    fn every_sampling_parameter_is_sent_under_its_name() {
        let sampling = Sampling {
            temperature: Some(0.0),
            top_p: Some(1.0),
            top_k: Some(-1),
            min_p: Some(0.5),
            presence_penalty: Some(-2.0),
            frequency_penalty: Some(2.0),
            repetition_penalty: Some(1.1),
            seed: Some(i64::MIN),
            stop: Some(vec!["\n".to_owned()]),
        };
        let body = text(
            &Sample::prompt("x"),
            &BodyOptions {
                sampling,
                ..BodyOptions::default()
            },
        );
        assert!(
            body.ends_with(
                r#""temperature":0.0,"top_p":1.0,"top_k":-1,"min_p":0.5,"presence_penalty":-2.0,"frequency_penalty":2.0,"repetition_penalty":1.1,"seed":-9223372036854775808,"stop":["\n"]}"#
            ),
            "{body}"
        );
    }

    #[test]
    fn numbers_that_json_has_not_are_refused() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let sampling = Sampling {
                top_p: Some(value),
                ..Sampling::default()
            };
            let options = BodyOptions {
                sampling,
                ..BodyOptions::default()
            };
            let error = body(&Sample::prompt("x"), &options).unwrap_err();
            assert!(error.to_string().starts_with("--top-p: "), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_survives_the_way_through_json(prompt in any::<String>(), model in any::<String>(),
                                                  system in any::<Option<String>>()) {
            let mut sample = Sample::prompt("");
            sample.input = Input::Prompt {
                system: system.clone().map(Into::into),
                text: prompt.clone().into(),
            };
            let body = parsed(&sample, &BodyOptions { model: model.clone(), ..streaming() });
            let messages = body["messages"].as_array().unwrap();
            prop_assert_eq!(messages.last().unwrap()["content"].as_str(), Some(prompt.as_str()));
            prop_assert_eq!(messages.len(), 1 + usize::from(system.is_some()));
            if let Some(system) = system {
                prop_assert_eq!(messages[0]["content"].as_str(), Some(system.as_str()));
            }
            prop_assert_eq!(body["model"].as_str(), Some(model.as_str()));
        }
    }
}
