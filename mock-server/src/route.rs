use crate::answer::Endpoint;

/// What a request line asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Generate(Endpoint),
    Embeddings,
    Tokenize,
    Models,
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
            _ => return Self::NoSuchPath,
        };
        if method == allowed.as_bytes() {
            route
        } else {
            Self::NoSuchMethod(allowed)
        }
    }
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
