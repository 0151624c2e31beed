//! What servers say when something went wrong, each in its own words.
use serde_json::{Value, json};

use super::catalogue::Failure;
use crate::wording::Dialect;

/// Whose words an error has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// An `error` object; `code` is a word or null.
    OpenAi,
    /// The same with the status as `code`, as vLLM has it.
    Vllm,
    /// One flat object with `"object": "error"`, as vLLM had it, and TensorRT-LLM has.
    Object,
    /// SGLang: flat as a whole answer, inside `error` as an event.
    Sglang,
    /// Text Generation Inference: `error` is a text as a whole answer, an object as an event.
    Tgi,
    /// llama.cpp: `code`, `message` and `type`, and no `param`.
    LlamaCpp,
    /// An event named `error`, as Anthropic has it; nothing comes after.
    Named,
    /// Many gateways: `error` is a text.
    Text,
}

impl Form {
    const NAMES: [(&'static str, Self); 8] = [
        ("openai", Self::OpenAi),
        ("vllm", Self::Vllm),
        ("object", Self::Object),
        ("sglang", Self::Sglang),
        ("tgi", Self::Tgi),
        ("llamacpp", Self::LlamaCpp),
        ("named", Self::Named),
        ("text", Self::Text),
    ];
    pub(crate) const EXPECTED: &'static str =
        "openai, vllm, object, sglang, tgi, llamacpp, named or text";

    pub(crate) fn of(name: &str) -> Option<Self> {
        let found = Self::NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, form)| *form)
    }

    /// The words of the server that a dialect is of; vLLM's where it is of none.
    pub(crate) fn of_dialect(dialect: Dialect) -> Self {
        match dialect {
            Dialect::Openai
            | Dialect::Azure
            | Dialect::AzureFiltered
            | Dialect::Openrouter
            | Dialect::Litellm
            | Dialect::Transformers
            | Dialect::Ollama
            | Dialect::Gemini => Self::OpenAi,
            Dialect::Sglang => Self::Sglang,
            Dialect::Tgi => Self::Tgi,
            Dialect::LlamaCpp => Self::LlamaCpp,
            _ => Self::Vllm,
        }
    }

    /// The body of a response that is an error.
    pub(crate) fn body(self, complaint: &Complaint) -> Value {
        let Complaint {
            status,
            kind,
            message,
            param,
        } = *complaint;
        match self {
            Self::OpenAi => json!({"error": {
                "message": message, "type": kind, "param": param, "code": null,
            }}),
            Self::Vllm => json!({"error": {
                "message": message, "type": kind, "param": param, "code": status,
            }}),
            Self::Object | Self::Sglang => json!({
                "object": "error", "message": message, "type": kind, "param": param, "code": status,
            }),
            Self::Tgi => json!({"error": message, "error_type": kind}),
            Self::LlamaCpp => json!({"error": {"code": status, "message": message, "type": kind}}),
            Self::Named => json!({"type": "error", "error": {"type": kind, "message": message}}),
            Self::Text => json!({"error": message}),
        }
    }

    /// The event of a stream that is an error, with `end` as the end of its lines.
    pub(crate) fn event(self, complaint: &Complaint, end: &str) -> Vec<u8> {
        let body = match self {
            Self::Sglang => json!({"error": self.body(complaint)}),
            Self::Tgi => json!({"error": {
                "message": complaint.message, "http_status_code": complaint.status,
            }}),
            _ => self.body(complaint),
        };
        let name = if self == Self::Named {
            format!("event: error{end}")
        } else {
            String::new()
        };
        format!("{name}data: {body}{end}{end}").into_bytes()
    }

    /// Whether `[DONE]` follows the event.
    pub(crate) fn is_done_after(self) -> bool {
        !matches!(self, Self::Named | Self::Tgi)
    }
}

/// What the body of an error response is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// An error in JSON.
    Error,
    /// A web page, as proxies send them.
    Html,
    /// One line of plain text.
    Text,
    /// No bytes.
    None,
}

impl Body {
    pub(crate) const EXPECTED: &'static str = "error, html, text or none";

    pub(crate) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "error" => Self::Error,
            "html" => Self::Html,
            "text" => Self::Text,
            "none" => Self::None,
            _ => return None,
        })
    }
}

/// What went wrong, as a server tells it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Complaint {
    pub(crate) status: u16,
    /// The `type` of OpenAI's error object.
    pub(crate) kind: &'static str,
    pub(crate) message: &'static str,
    pub(crate) param: Option<&'static str>,
}

impl Complaint {
    /// What a response with this status says.
    pub(crate) fn of_status(status: u16) -> Self {
        let (kind, message) = match status {
            300..=399 => ("redirect", "The answer is somewhere else"),
            401 => ("authentication_error", "The API key is not valid"),
            403 => ("permission_error", "The API key does not allow this"),
            404 => ("not_found_error", "There is no such model"),
            408 => ("timeout_error", "The request took too long to arrive"),
            413 => ("invalid_request_error", "The request is too large"),
            429 => ("rate_limit_error", "Too many requests: try again later"),
            400..=499 => ("invalid_request_error", "The request is not valid"),
            502 => (
                "upstream_error",
                "The server behind this one gave no valid answer",
            ),
            503 => (
                "overloaded_error",
                "The server is overloaded: try again later",
            ),
            504 => (
                "timeout_error",
                "The server behind this one did not answer in time",
            ),
            _ => ("server_error", "The engine failed"),
        };
        Self {
            status,
            kind,
            message,
            param: None,
        }
    }

    /// What stands for a failure of llm-d-inference-sim.
    pub(crate) fn of_failure(failure: Failure) -> Self {
        let of_status = Self::of_status(failure.status());
        match failure {
            Failure::ContextLength => Self {
                message: "The prompt is longer than the model's context",
                param: Some("messages"),
                ..of_status
            },
            Failure::InvalidRequest => Self {
                message: "A required parameter is missing",
                param: Some("model"),
                ..of_status
            },
            Failure::ModelNotFound => Self {
                param: Some("model"),
                ..of_status
            },
            _ => of_status,
        }
    }
}

/// The web page of a proxy.
pub(crate) const PAGE: &str =
    "<!doctype html>\n<html><head><title>Sign in</title></head><body>Sign in</body></html>\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_have_names_and_say_so() {
        let expected = Form::EXPECTED.replace(" or", ",");
        let names: Vec<_> = Form::NAMES.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.join(", "), expected);
        for (name, form) in Form::NAMES {
            assert_eq!(Form::of(name), Some(form));
        }
    }

    #[test]
    fn every_form_is_an_error_that_clients_can_tell() {
        let complaint = Complaint::of_status(503);
        for (name, form) in Form::NAMES {
            let body = form.body(&complaint);
            assert!(
                body["object"] == "error" || !body["error"].is_null(),
                "{name}"
            );
            let event = String::from_utf8(form.event(&complaint, "\r\n")).unwrap();
            let data = event
                .lines()
                .find_map(|line| line.strip_prefix("data: "))
                .unwrap();
            let data: Value = serde_json::from_str(data).unwrap();
            assert!(
                data["object"] == "error" || !data["error"].is_null(),
                "{name}"
            );
            assert!(event.ends_with("\r\n\r\n"), "{name}");
            assert_eq!(event.starts_with("event: error\r\n"), form == Form::Named);
        }
    }
}
