use std::path::PathBuf;

use crate::complaint::Complaint;
use crate::config::EndpointKind;

/// A base URL, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BaseUrl {
    pub(crate) place: Place,
    scheme: Scheme,
    /// Without a slash at its end; often empty.
    path: String,
}

/// How a server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Http,
    /// The same through TLS.
    Https,
}

impl Scheme {
    fn named(name: &str) -> Option<Self> {
        let all = [Self::Http, Self::Https];
        all.into_iter()
            .find(|scheme| name.eq_ignore_ascii_case(scheme.name()))
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    const fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A name or an address (IPv6 without brackets) and a port.
    Tcp { host: String, port: u16 },
    /// A socket in the file system.
    Unix(PathBuf),
}

const EXAMPLE: &str = "write it like http://127.0.0.1:8000";

impl BaseUrl {
    /// Takes a URL apart.
    pub(crate) fn parse(text: &str) -> Result<Self, Complaint> {
        let wrong = |why: &str| Complaint::new(format!("--url {text}: {why}"));
        let text = text.trim();
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() {
                return Err(wrong(
                    "it names no socket; write it like unix:/run/server.sock",
                ));
            }
            return Ok(Self {
                place: Place::Unix(path.into()),
                scheme: Scheme::Http,
                path: String::new(),
            });
        }
        let Some((name, rest)) = text.split_once("://") else {
            return Err(wrong(&format!("it has no scheme; {EXAMPLE}")));
        };
        let Some(scheme) = Scheme::named(name) else {
            return Err(wrong(&format!(
                "`{name}` is not a scheme it speaks; {EXAMPLE}"
            )));
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if path.contains(['?', '#']) {
            return Err(wrong(
                "a base URL has no query and no fragment; leave them out",
            ));
        }
        if authority.contains('@') {
            // Not shown: what stands before the @ may be a password.
            return Err(Complaint::new(
                "--url: a user name or password in the URL is not used; pass it with --header \
                 'Authorization: ...' or --api-key-env",
            ));
        }
        let (host, port) = authority_of(authority).map_err(|why| wrong(&why))?;
        let port = port.unwrap_or_else(|| scheme.port());
        let place = Place::Tcp { host, port };
        Ok(Self {
            place,
            scheme,
            path: path.trim_end_matches('/').to_owned(),
        })
    }

    /// Whether it is spoken to through TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.scheme == Scheme::Https
    }

    /// Without a path, as https://HOST:PORT.
    pub(crate) fn origin(&self) -> String {
        format!("{}://{}", self.scheme.name(), self.host_field())
    }

    /// What requests for `target` go to, in words.
    pub(crate) fn words(&self, target: &str) -> String {
        match &self.place {
            Place::Unix(path) => format!("unix:{} {target}", path.display()),
            Place::Tcp { .. } => format!("{}{target}", self.origin()),
        }
    }

    /// The value of the Host field.
    pub(crate) fn host_field(&self) -> String {
        match &self.place {
            Place::Unix(_) => "localhost".to_owned(),
            Place::Tcp { host, port } => {
                let host = if host.contains(':') {
                    format!("[{host}]")
                } else {
                    host.clone()
                };
                if *port == self.scheme.port() {
                    host
                } else {
                    format!("{host}:{port}")
                }
            }
        }
    }

    /// The path of a request: that of the API below the base, or `given` below it. A base that ends
    /// in `/v1` is not given a second one, and one that is the API's own path is left as it is.
    pub(crate) fn target(&self, kind: EndpointKind, given: Option<&str>) -> String {
        let api = match kind {
            EndpointKind::Chat => "/v1/chat/completions",
            EndpointKind::Completions => "/v1/completions",
        };
        if given.is_none() && self.path.ends_with(&api["/v1".len()..]) {
            let is_chat = self.path.ends_with("/chat/completions");
            if is_chat == (kind == EndpointKind::Chat) {
                return self.path.clone();
            }
        }
        self.below(given.unwrap_or(api))
    }

    /// The path of the list of models.
    pub(crate) fn models(&self) -> String {
        let base = Self {
            place: self.place.clone(),
            scheme: self.scheme,
            path: ["/chat/completions", "/completions"]
                .iter()
                .find_map(|api| self.path.strip_suffix(api))
                .unwrap_or(&self.path)
                .to_owned(),
        };
        base.below("/v1/models")
    }

    fn below(&self, path: &str) -> String {
        let path = path.trim_start_matches('/');
        match path.strip_prefix("v1/") {
            Some(rest) if self.path.ends_with("/v1") => format!("{}/{rest}", self.path),
            _ => format!("{}/{path}", self.path),
        }
    }
}

/// The host, and the port where one is named.
fn authority_of(authority: &str) -> Result<(String, Option<u16>), String> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest
                .split_once(']')
                .ok_or_else(|| format!("the `[` is not closed; {EXAMPLE}"))?;
            if host.parse::<std::net::Ipv6Addr>().is_err() {
                return Err(format!("`{host}` is not an IPv6 address"));
            }
            (
                host,
                port.strip_prefix(':')
                    .or_else(|| port.is_empty().then_some("")),
            )
        }
        None if authority.matches(':').count() > 1 => {
            return Err("an IPv6 address stands in brackets, as http://[::1]:8000".to_owned());
        }
        None => {
            let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
            (host, Some(port))
        }
    };
    if host.is_empty() {
        return Err(format!("it names no host; {EXAMPLE}"));
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if !host.chars().all(|c| is_name(c) || c == ':') {
        return Err(format!("`{host}` is not a host name"));
    }
    match port {
        Some("") => Ok((host.to_owned(), None)),
        Some(port) => match port.parse() {
            Ok(port @ 1..) => Ok((host.to_owned(), Some(port))),
            _ => Err(format!(
                "`{port}` is not a port; it is a number from 1 to 65535"
            )),
        },
        None => Err(format!("what follows the `]` is not a port; {EXAMPLE}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use EndpointKind::{Chat, Completions};

    #[test]
    fn paths_stand_below_the_base() {
        for (url, host, chat) in [
            (
                "http://127.0.0.1:8000",
                "127.0.0.1:8000",
                "/v1/chat/completions",
            ),
            ("http://h/", "h", "/v1/chat/completions"),
            ("HTTP://h:80/v1/", "h", "/v1/chat/completions"),
            ("https://h/", "h", "/v1/chat/completions"),
            ("HTTPS://h:443", "h", "/v1/chat/completions"),
            ("https://h:80", "h:80", "/v1/chat/completions"),
            ("http://h:443", "h:443", "/v1/chat/completions"),
            (
                "http://[::1]:9/api/v1",
                "[::1]:9",
                "/api/v1/chat/completions",
            ),
            ("http://h/gate/way", "h", "/gate/way/v1/chat/completions"),
            ("http://h/v1/chat/completions", "h", "/v1/chat/completions"),
            ("unix:///run/s.sock", "localhost", "/v1/chat/completions"),
        ] {
            let base = BaseUrl::parse(url).unwrap();
            assert_eq!(base.host_field(), host, "{url}");
            assert_eq!(base.target(Chat, None), chat, "{url}");
            assert!(base.models().ends_with("/v1/models"), "{url}");
            assert!(!base.models().contains("completions"), "{url}");
        }
        let base = BaseUrl::parse("http://h/v1").unwrap();
        assert_eq!(base.target(Completions, None), "/v1/completions");
        assert_eq!(base.target(Chat, Some("v1/other")), "/v1/other");
        assert_eq!(base.target(Chat, Some("/other")), "/v1/other");
        let full = BaseUrl::parse("http://h/v1/completions").unwrap();
        assert_eq!(full.target(Completions, None), "/v1/completions");
    }

    #[test]
    fn mistakes_are_answered_with_a_remedy() {
        for (url, part) in [
            ("127.0.0.1:8000", "has no scheme"),
            ("https://", "names no host"),
            ("ftp://h", "`ftp` is not a scheme"),
            ("http://", "names no host"),
            ("http://:80", "names no host"),
            ("http://h:0", "`0` is not a port"),
            ("http://h:99999", "`99999` is not a port"),
            ("http://::1:80", "stands in brackets"),
            ("http://[::1", "is not closed"),
            ("http://[h]", "is not an IPv6 address"),
            ("http://[::1]x", "is not a port"),
            ("http://h?x=1", "no query"),
            ("http://h h/", "is not a host name"),
            ("unix:", "names no socket"),
        ] {
            let error = BaseUrl::parse(url).unwrap_err().to_string();
            assert!(error.contains(part), "{url}: {error}");
        }
        let error = BaseUrl::parse("http://me:secret@h")
            .unwrap_err()
            .to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}
