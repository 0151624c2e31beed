use crate::answer::Endpoint;

/// What a request line asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Generate(Endpoint),
    Embeddings,
    Tokenize,
    Models,
    /// `/v1/models/NAME`: [`model_named`] tells which.
    Model,
    Health,
    /// `/metrics`.
    Metrics,
    /// `/admin/config`, to read.
    Config,
    /// `/admin/config`, to change.
    Change,
    /// `/admin/reset`.
    Reset,
    NoSuchPath,
    /// The path exists; this is the method it has.
    NoSuchMethod(&'static str),
}

impl Route {
    /// Whether it is answered while the model is still being loaded.
    pub(crate) fn is_ready_at_once(self) -> bool {
        !matches!(self, Self::Generate(_) | Self::Embeddings | Self::Health)
    }

    /// Whether only those with the key are answered.
    pub(crate) fn needs_key(self) -> bool {
        !matches!(self, Self::Health | Self::Metrics | Self::NoSuchPath)
    }

    pub(crate) fn of(method: &[u8], target: &[u8]) -> Self {
        let path = path(target);
        let (allowed, route) = match path {
            b"/v1/chat/completions" => ("POST", Self::Generate(Endpoint::Chat)),
            b"/v1/completions" => ("POST", Self::Generate(Endpoint::Completions)),
            b"/v1/embeddings" => ("POST", Self::Embeddings),
            b"/tokenize" => ("POST", Self::Tokenize),
            b"/v1/responses" => ("POST", Self::Generate(Endpoint::Responses)),
            b"/v1/models" => ("GET", Self::Models),
            b"/health" => ("GET", Self::Health),
            b"/metrics" => ("GET", Self::Metrics),
            b"/admin/config" if matches!(method, b"POST" | b"PUT" | b"PATCH") => {
                return Self::Change;
            }
            b"/admin/config" => ("GET", Self::Config),
            b"/admin/reset" => ("POST", Self::Reset),
            _ if path
                .strip_prefix(MODEL)
                .is_some_and(|name| !name.is_empty()) =>
            {
                ("GET", Self::Model)
            }
            _ => return Self::NoSuchPath,
        };
        if method == allowed.as_bytes() {
            route
        } else {
            Self::NoSuchMethod(allowed)
        }
    }
}

/// The path of one model, before its name.
const MODEL: &[u8] = b"/v1/models/";

/// The name behind `/v1/models/`, without its escapes (RFC 3986 2.1); what is no UTF-8 is no name of
/// any model and becomes the character for that.
pub(crate) fn model_named(target: &[u8]) -> Box<str> {
    let name = path(target).strip_prefix(MODEL).unwrap_or_default();
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name;
    while let [first, behind @ ..] = rest {
        let escape = behind.split_first_chunk().filter(|_| *first == b'%');
        let escaped = escape.and_then(|(digits, behind)| Some((byte_of(*digits)?, behind)));
        let (byte, behind) = escaped.unwrap_or((*first, behind));
        bytes.push(byte);
        rest = behind;
    }
    String::from_utf8_lossy(&bytes).into()
}

/// The byte that two hexadecimal digits stand for.
fn byte_of(digits: [u8; 2]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let [high, low] = digits.map(digit);
    u8::try_from(high? << 4 | low?).ok()
}

/// The path of a target, which may have a query, or be an absolute URL (RFC 9112 3.2.2).
fn path(target: &[u8]) -> &[u8] {
    let target = match target.strip_prefix(b"http://") {
        Some(rest) => {
            &rest[rest
                .iter()
                .position(|byte| *byte == b'/')
                .unwrap_or(rest.len())..]
        }
        None => target,
    };
    &target[..target
        .iter()
        .position(|byte| *byte == b'?')
        .unwrap_or(target.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_model_is_read_without_its_escapes() {
        for (target, name) in [
            ("/v1/models/mock", "mock"),
            ("/v1/models/meta-llama%2FLlama-3?x=1", "meta-llama/Llama-3"),
            ("http://127.0.0.1:80/v1/models/a/b", "a/b"),
            ("/v1/models/50%", "50%"),
            ("/v1/models/%2", "%2"),
            ("/v1/models/%zz%C3%A4", "%zzä"),
            ("/v1/models/%ff", "\u{fffd}"),
        ] {
            assert_eq!(&*model_named(target.as_bytes()), name, "{target}");
        }
    }

    #[test]
    fn paths_have_one_method_each() {
        for (method, target, route) in [
            (
                "POST",
                "/v1/chat/completions",
                Route::Generate(Endpoint::Chat),
            ),
            (
                "POST",
                "/v1/completions?x=1",
                Route::Generate(Endpoint::Completions),
            ),
            (
                "POST",
                "/v1/responses",
                Route::Generate(Endpoint::Responses),
            ),
            ("POST", "/v1/embeddings", Route::Embeddings),
            ("POST", "/tokenize", Route::Tokenize),
            ("GET", "/v1/models", Route::Models),
            ("GET", "/v1/models/a%2Fb", Route::Model),
            ("GET", "/v1/models/", Route::NoSuchPath),
            ("DELETE", "/v1/models/a", Route::NoSuchMethod("GET")),
            ("GET", "/health?", Route::Health),
            ("GET", "http://127.0.0.1:80/health", Route::Health),
            ("GET", "http://127.0.0.1", Route::NoSuchPath),
            ("GET", "/metrics", Route::Metrics),
            ("GET", "/admin/config", Route::Config),
            ("PATCH", "/admin/config", Route::Change),
            ("PUT", "/admin/config", Route::Change),
            ("POST", "/admin/config", Route::Change),
            ("DELETE", "/admin/config", Route::NoSuchMethod("GET")),
            ("POST", "/admin/reset", Route::Reset),
            ("GET", "/admin/reset", Route::NoSuchMethod("POST")),
            ("GET", "/v1/completions", Route::NoSuchMethod("POST")),
            ("POST", "/health", Route::NoSuchMethod("GET")),
            ("GET", "/", Route::NoSuchPath),
            ("GET", "", Route::NoSuchPath),
            ("POST", "/v1/chat/completions/", Route::NoSuchPath),
        ] {
            assert_eq!(
                Route::of(method.as_bytes(), target.as_bytes()),
                route,
                "{method} {target}"
            );
        }
    }
}
