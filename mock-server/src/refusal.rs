use std::borrow::Cow;

use serde::Serialize;

/// Why a request is not answered with what it asked for.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    /// The HTTP status.
    pub(crate) status: u16,
    /// The field of the body that is to blame.
    pub(crate) param: Option<&'static str>,
    /// OpenAI's name for the kind, where it has one.
    code: Option<&'static str>,
    message: Cow<'static, str>,
    pub(crate) advice: Advice,
}

/// Header fields that tell a peer what to do instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Advice {
    /// For 405: the method that is allowed.
    pub(crate) allow: Option<&'static str>,
    /// For 429 and 503: when to try again.
    pub(crate) retry_after_s: Option<u64>,
}

impl Refusal {
    /// A body that can't be served.
    pub(crate) fn invalid(
        param: Option<&'static str>,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            status: 400,
            param,
            code: None,
            message: message.into(),
            advice: Advice::default(),
        }
    }

    /// A request that is refused whatever its body says.
    pub(crate) fn request(status: u16, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            ..Self::invalid(None, message)
        }
    }

    /// The path exists, the method does not.
    pub(crate) fn method(allow: &'static str) -> Self {
        Self {
            advice: Advice {
                allow: Some(allow),
                retry_after_s: None,
            },
            code: Some("method_not_supported"),
            ..Self::request(405, "Method not allowed for this path")
        }
    }

    /// Too much is asked of the server (429), or it is too early (503).
    pub(crate) fn later(
        status: u16,
        message: impl Into<Cow<'static, str>>,
        retry_after_s: u64,
    ) -> Self {
        Self {
            advice: Advice {
                allow: None,
                retry_after_s: Some(retry_after_s),
            },
            code: (status == 429).then_some("rate_limit_exceeded"),
            ..Self::request(status, message)
        }
    }

    /// The request has no key, or the wrong one.
    pub(crate) fn key() -> Self {
        Self {
            code: Some("invalid_api_key"),
            ..Self::request(401, "No API key, or an incorrect one, was provided")
        }
    }

    /// A model that is not served.
    pub(crate) fn model(model: &str) -> Self {
        Self {
            status: 404,
            code: Some("model_not_found"),
            ..Self::invalid(
                Some("model"),
                format!("The model `{model}` does not exist here"),
            )
        }
    }

    /// A prompt and an answer that are too long together.
    pub(crate) fn context(message: String) -> Self {
        Self {
            code: Some("context_length_exceeded"),
            ..Self::invalid(Some("messages"), message)
        }
    }

    /// OpenAI's error object.
    pub(crate) fn body(&self) -> Vec<u8> {
        #[derive(Serialize)]
        struct Body<'a> {
            error: Object<'a>,
        }
        #[derive(Serialize)]
        struct Object<'a> {
            message: &'a str,
            r#type: &'a str,
            param: Option<&'a str>,
            code: Option<&'a str>,
        }
        let error = Object {
            message: &self.message,
            r#type: self.kind(),
            param: self.param,
            code: self.code,
        };
        serde_json::to_vec(&Body { error }).expect("strings always serialise")
    }

    /// OpenAI's name for this kind of error.
    fn kind(&self) -> &'static str {
        match self.status {
            429 => "rate_limit_error",
            // The server is well: it is the request that asks for what there is not.
            501 | 505 => "invalid_request_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        }
    }
}

/// The reason phrase of the statuses that this server sends.
pub(crate) fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        301 => "Moved Permanently",
        302 => "Found",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        414 => "URI Too Long",
        417 => "Expectation Failed",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Error",
    }
}
