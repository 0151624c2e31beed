use std::fmt;

use thiserror::Error;

use super::head;

/// The method of a request. Nothing else is sent to an inference endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Without a body.
    Get,
    /// With a JSON body of known length.
    Post,
}

/// What all requests of a template have in common.
#[derive(Clone, Copy)]
pub struct RequestOptions<'a> {
    /// The method.
    pub method: Method,
    /// Path and query, as `/v1/chat/completions`.
    pub target: &'a str,
    /// The Host: name or address, with the port if it is not the scheme's.
    pub host: &'a str,
    /// The media types to accept.
    pub accept: &'a str,
    /// Sent as a bearer token.
    pub api_key: Option<&'a str>,
    /// Precedes the number in the X-Request-Id; a token of at most 64 bytes, or empty.
    pub id_prefix: &'a str,
    /// More fields, name and value. `Host`, `Accept`, `Authorization`, `Content-Type` and
    /// `User-Agent` replace those written otherwise.
    pub headers: &'a [(String, String)],
}

impl fmt::Debug for RequestOptions<'_> {
    /// Without the values that may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestOptions")
            .field("method", &self.method)
            .field("target", &self.target)
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

/// Why a template cannot be made. The messages name the field and never show its value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TemplateError {
    /// The path cannot stand in a request line.
    #[error(
        "the request path must begin with `/` and have visible ASCII only, without `#`; \
         percent-encode the rest"
    )]
    Target,
    /// The host cannot stand in a Host field.
    #[error("the host must be a name or an address, with a port or without")]
    Host,
    /// The request id's prefix is no token of at most 64 bytes.
    #[error("the request id's prefix may have at most 64 letters, digits and marks like `-`")]
    IdPrefix,
    /// A field's name is no token.
    #[error("`{0}` is no header name: use letters, digits and `-`")]
    Name(String),
    /// A field's value has a line break or another control byte.
    #[error("the value of the header `{0}` has a line break or another control byte")]
    Value(String),
    /// A field that is written by other means, or that would change the framing.
    #[error(
        "the header `{0}` cannot be set: it is written for each request, or left out on purpose"
    )]
    Reserved(String),
    /// Only uncompressed responses are read.
    #[error(
        "the header `Accept-Encoding` can only be `identity`: compressed responses are not read"
    )]
    AcceptEncoding,
    /// A field that may stand once is given twice.
    #[error("the header `{0}` is given more than once")]
    Repeated(String),
    /// More than any server takes.
    #[error("the request head is longer than {HEAD_BYTES_MAX} bytes")]
    Oversize,
}

/// Bound on the bytes of a head. Servers take 8 to 64 KiB.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Digits of the request number: fixed, so that every head of a template differs only in them and in
/// the length.
const ID_DIGITS: usize = 16;

/// Fields with a value of their own unless the options give one.
const REPLACEABLE: [&str; 5] = [
    "host",
    "user-agent",
    "accept",
    "content-type",
    "authorization",
];

/// Fields that would change the framing or the connection, or are written per request.
const RESERVED: [&str; 10] = [
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-request-id",
];

/// Request heads that differ in nothing but the request's number and the body's length.
///
/// ```
/// use ridgeline_wire::http1::{Method, RequestOptions, RequestTemplate};
/// let template = RequestTemplate::new(&RequestOptions {
///     method: Method::Post,
///     target: "/v1/chat/completions",
///     host: "127.0.0.1:8000",
///     accept: "text/event-stream",
///     api_key: None,
///     id_prefix: "run1-",
///     headers: &[],
/// })?;
/// let mut head = Vec::new();
/// template.write_head(42, 130, &mut head);
/// let head = String::from_utf8(head).unwrap();
/// assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:8000\r\n"));
/// assert!(head.ends_with("X-Request-Id: run1-000000000000002a\r\nContent-Length: 130\r\n\r\n"));
/// # Ok::<(), ridgeline_wire::http1::TemplateError>(())
/// ```
#[derive(Clone)]
pub struct RequestTemplate {
    method: Method,
    /// Up to the first digit of the request id.
    start: Box<[u8]>,
    id_prefix: Box<str>,
}

impl fmt::Debug for RequestTemplate {
    /// Without the bytes: they may hold a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestTemplate")
            .field("method", &self.method)
            .field("id_prefix", &self.id_prefix)
            .finish_non_exhaustive()
    }
}

impl RequestTemplate {
    /// Checks the options and writes what all heads begin with. A compressed response is never
    /// asked for.
    ///
    /// # Errors
    /// What cannot be sent, by name.
    pub fn new(options: &RequestOptions<'_>) -> Result<Self, TemplateError> {
        check(options)?;
        let RequestOptions {
            method,
            target,
            host,
            accept,
            api_key,
            id_prefix,
            headers,
        } = *options;
        let mut start = String::new();
        start.push_str(match method {
            Method::Get => "GET ",
            Method::Post => "POST ",
        });
        start.push_str(target);
        start.push_str(" HTTP/1.1\r\n");
        let bearer = api_key.map(|key| format!("Bearer {key}"));
        for (name, value) in [
            ("Host", Some(host)),
            (
                "User-Agent",
                Some(concat!("ridgeline/", env!("CARGO_PKG_VERSION"))),
            ),
            ("Accept", Some(accept)),
            (
                "Content-Type",
                (method == Method::Post).then_some("application/json"),
            ),
            ("Authorization", bearer.as_deref()),
            // RFC 9110 12.5.3: without it any coding would be acceptable.
            ("Accept-Encoding", Some("identity")),
        ] {
            let given = headers
                .iter()
                .find(|(given, _)| given.eq_ignore_ascii_case(name));
            if let Some(value) = given.map(|(_, value)| value.as_str()).or(value) {
                push_field(&mut start, name, value);
            }
        }
        for (name, value) in headers {
            if !is_one_of(name, &REPLACEABLE) && !name.eq_ignore_ascii_case("accept-encoding") {
                push_field(&mut start, name, value);
            }
        }
        start.push_str("X-Request-Id: ");
        start.push_str(id_prefix);
        if start.len() > HEAD_BYTES_MAX {
            return Err(TemplateError::Oversize);
        }
        Ok(Self {
            method,
            start: start.into_bytes().into(),
            id_prefix: id_prefix.into(),
        })
    }

    /// Replaces what `out` holds by the head of request number `request_id` with a body of
    /// `content_length` bytes (a GET has none, whatever is given). Allocates only if `out` is too
    /// small for it.
    #[inline]
    pub fn write_head(&self, request_id: u64, content_length: u64, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.start);
        out.extend_from_slice(&id_digits(request_id));
        if self.method == Method::Post {
            out.extend_from_slice(b"\r\nContent-Length: ");
            out.extend_from_slice(itoa::Buffer::new().format(content_length).as_bytes());
        }
        out.extend_from_slice(b"\r\n\r\n");
    }

    /// The bytes that the longest head of this template has.
    #[must_use]
    pub fn head_bytes_max(&self) -> usize {
        self.start.len() + ID_DIGITS + "\r\nContent-Length: 18446744073709551615\r\n\r\n".len()
    }

    /// The X-Request-Id of request number `request_id`.
    #[must_use]
    pub fn request_id(&self, request_id: u64) -> String {
        format!("{}{request_id:016x}", self.id_prefix)
    }
}

fn id_digits(request_id: u64) -> [u8; ID_DIGITS] {
    let mut digits = [0; ID_DIGITS];
    for (place, digit) in digits.iter_mut().rev().enumerate() {
        *digit = b"0123456789abcdef"[(request_id >> (place * 4) & 15) as usize];
    }
    digits
}

fn push_field(out: &mut String, name: &str, value: &str) {
    for part in [name, ": ", value.trim_matches([' ', '\t']), "\r\n"] {
        out.push_str(part);
    }
}

fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|other| name.eq_ignore_ascii_case(other))
}

fn check(options: &RequestOptions<'_>) -> Result<(), TemplateError> {
    let visible = |text: &str, except: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_graphic() && !except.as_bytes().contains(&byte))
    };
    if !options.target.starts_with('/') || !visible(options.target, "#") {
        return Err(TemplateError::Target);
    }
    if options.host.is_empty() || !visible(options.host, "/?#@\\,;\"<>") {
        return Err(TemplateError::Host);
    }
    let prefix = options.id_prefix.as_bytes();
    if !prefix.iter().all(|&byte| head::is_token_byte(byte)) || prefix.len() > 64 {
        return Err(TemplateError::IdPrefix);
    }
    check_value("Accept", options.accept)?;
    if options
        .api_key
        .is_some_and(|key| key.is_empty() || !visible(key, ""))
    {
        return Err(TemplateError::Value("Authorization".to_owned()));
    }
    for (place, (name, value)) in options.headers.iter().enumerate() {
        if name.is_empty() || !name.bytes().all(head::is_token_byte) {
            return Err(TemplateError::Name(name.escape_debug().to_string()));
        }
        check_value(name, value)?;
        if is_one_of(name, &RESERVED) {
            return Err(TemplateError::Reserved(name.clone()));
        }
        let coding = value.trim_matches([' ', '\t']);
        if name.eq_ignore_ascii_case("accept-encoding") && !coding.eq_ignore_ascii_case("identity")
        {
            return Err(TemplateError::AcceptEncoding);
        }
        if name.eq_ignore_ascii_case("host") && !visible(value, "/?#@\\,;\"<>") {
            return Err(TemplateError::Host);
        }
        let before = options.headers[..place].iter();
        if (is_one_of(name, &REPLACEABLE) || name.eq_ignore_ascii_case("accept-encoding"))
            && before
                .map(|(name, _)| name)
                .any(|other| other.eq_ignore_ascii_case(name))
        {
            return Err(TemplateError::Repeated(name.clone()));
        }
    }
    Ok(())
}

fn check_value(name: &str, value: &str) -> Result<(), TemplateError> {
    if head::is_text(value.as_bytes()) {
        Ok(())
    } else {
        Err(TemplateError::Value(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: RequestOptions<'_> = RequestOptions {
        method: Method::Post,
        target: "/v1/completions",
        host: "[::1]:8000",
        accept: "text/event-stream",
        api_key: Some("sk-secret"),
        id_prefix: "",
        headers: &[],
    };

    fn headers(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    fn head(options: &RequestOptions<'_>) -> String {
        let mut head = b"left over".to_vec();
        RequestTemplate::new(options)
            .unwrap()
            .write_head(u64::MAX, 7, &mut head);
        String::from_utf8(head).unwrap()
    }

    fn refusal(pairs: &[(&str, &str)]) -> TemplateError {
        RequestTemplate::new(&RequestOptions {
            headers: &headers(pairs),
            ..OPTIONS
        })
        .unwrap_err()
    }

    #[test]
    fn a_post_head() {
        assert_eq!(
            head(&OPTIONS),
            concat!(
                "POST /v1/completions HTTP/1.1\r\nHost: [::1]:8000\r\nUser-Agent: ridgeline/",
                env!("CARGO_PKG_VERSION"),
                "\r\nAccept: text/event-stream\r\nContent-Type: application/json\r\n",
                "Authorization: Bearer sk-secret\r\nAccept-Encoding: identity\r\n",
                "X-Request-Id: ffffffffffffffff\r\nContent-Length: 7\r\n\r\n"
            )
        );
    }

    #[test]
    fn a_get_head_has_no_body_fields() {
        let head = head(&RequestOptions {
            method: Method::Get,
            target: "/v1/models",
            ..OPTIONS
        });
        assert!(head.starts_with("GET /v1/models HTTP/1.1\r\n"));
        assert!(!head.contains("Content-"));
        assert!(head.ends_with("X-Request-Id: ffffffffffffffff\r\n\r\n"));
    }

    #[test]
    fn given_fields_replace_and_add() {
        let headers = headers(&[
            ("host", "model.example"),
            ("USER-AGENT", " me "),
            ("X-Tenant", "a"),
            ("authorization", "Basic x"),
            ("X-Tenant", "b"),
            ("Accept-Encoding", "Identity"),
            ("Content-Type", "application/json; charset=utf-8"),
        ]);
        let head = head(&RequestOptions {
            headers: &headers,
            ..OPTIONS
        });
        for (field, count) in [
            ("Host: model.example\r\n", 1),
            ("Host:", 1),
            ("User-Agent: me\r\n", 1),
            ("Authorization: Basic x\r\n", 1),
            ("uthorization:", 1),
            ("X-Tenant: a\r\n", 1),
            ("X-Tenant: b\r\n", 1),
            ("ncoding: ", 1),
            ("charset", 1),
            ("application/json", 1),
        ] {
            assert_eq!(head.matches(field).count(), count, "{field} in {head}");
        }
    }

    #[test]
    fn nothing_can_be_injected() {
        for break_ in ["\r\n", "\n", "\r", "\0", "\u{7f}"] {
            let with = |text: &str| format!("{text}{break_}X: y");
            assert_eq!(
                refusal(&[("A", &with("v"))]),
                TemplateError::Value("A".to_owned())
            );
            assert!(matches!(
                refusal(&[(&with("A"), "v")]),
                TemplateError::Name(_)
            ));
            for options in [
                RequestOptions {
                    target: &with("/v1"),
                    ..OPTIONS
                },
                RequestOptions {
                    host: &with("h"),
                    ..OPTIONS
                },
                RequestOptions {
                    accept: &with("a/b"),
                    ..OPTIONS
                },
                RequestOptions {
                    api_key: Some(&with("key")),
                    ..OPTIONS
                },
                RequestOptions {
                    id_prefix: &with("id"),
                    ..OPTIONS
                },
            ] {
                let error = RequestTemplate::new(&options).unwrap_err();
                assert!(!error.to_string().contains("X: y"), "{error}");
            }
        }
        for target in ["", "v1", "/a b", "/a#b", "/\u{e9}", "http://h/"] {
            let options = RequestOptions { target, ..OPTIONS };
            assert_eq!(
                RequestTemplate::new(&options).unwrap_err(),
                TemplateError::Target
            );
        }
        for host in ["", "h/p", "user@h", "a b", "h\u{e9}"] {
            let options = RequestOptions { host, ..OPTIONS };
            assert_eq!(
                RequestTemplate::new(&options).unwrap_err(),
                TemplateError::Host
            );
        }
    }

    #[test]
    fn what_would_change_the_framing_is_refused() {
        for name in RESERVED {
            let name = name.to_uppercase();
            assert_eq!(refusal(&[(&name, "v")]), TemplateError::Reserved(name));
        }
        for value in ["gzip", "identity, gzip", "*", ""] {
            assert_eq!(
                refusal(&[("accept-encoding", value)]),
                TemplateError::AcceptEncoding
            );
        }
        let twice = refusal(&[("Accept", "a/b"), ("accept", "c/d")]);
        assert_eq!(twice, TemplateError::Repeated("accept".to_owned()));
        assert_eq!(
            refusal(&[("A", &"x".repeat(70_000))]),
            TemplateError::Oversize
        );
        assert!(matches!(refusal(&[("", "v")]), TemplateError::Name(_)));
    }

    #[test]
    fn secrets_are_not_shown() {
        let template = RequestTemplate::new(&OPTIONS).unwrap();
        assert!(!format!("{template:?} {OPTIONS:?}").contains("secret"));
    }

    #[test]
    fn the_id_has_a_fixed_width_and_no_write_allocates_beyond_the_bound() {
        let options = RequestOptions {
            id_prefix: "r-",
            ..OPTIONS
        };
        let template = RequestTemplate::new(&options).unwrap();
        assert_eq!(template.request_id(0x1f), "r-000000000000001f");
        let mut out = Vec::with_capacity(template.head_bytes_max());
        let capacity = out.capacity();
        template.write_head(0x1f, u64::MAX, &mut out);
        assert_eq!(out.len(), template.head_bytes_max());
        assert_eq!(out.capacity(), capacity);
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("\r\nX-Request-Id: r-000000000000001f\r\n"));
    }
}
