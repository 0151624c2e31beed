//! Which version of HTTP connections speak.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use ridgeline_engine::{Http2, Limits};
use ridgeline_http2 as http2;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::complaint::Complaint;
use crate::config::BenchConfig;
use crate::setup;

/// What is asked for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum HttpVersion {
    /// HTTP/1.1.
    #[default]
    One,
    /// HTTP/2: by prior knowledge in the clear, as the only choice behind TLS.
    Two,
    /// HTTP/1.1 in the clear, and behind TLS what the server chooses.
    Auto,
}

impl HttpVersion {
    const fn as_str(self) -> &'static str {
        match self {
            Self::One => "1.1",
            Self::Two => "2",
            Self::Auto => "auto",
        }
    }

    /// What TLS offers (ALPN), the best first.
    pub(crate) fn protocols(self) -> Vec<Vec<u8>> {
        const ONE: &[u8] = b"http/1.1";
        const TWO: &[u8] = b"h2";
        let names: &[&[u8]] = match self {
            Self::One => &[ONE],
            Self::Two => &[TWO],
            Self::Auto => &[TWO, ONE],
        };
        names.iter().map(|name| name.to_vec()).collect()
    }
}

/// How HTTP/2 is spoken to an endpoint, if it is or may be. `is_secure`: behind TLS.
pub(crate) fn http2(config: &BenchConfig, is_secure: bool) -> Result<Option<Http2>, Complaint> {
    let version = config.http.unwrap_or_default();
    let may_be = match version {
        HttpVersion::One => false,
        HttpVersion::Two => true,
        HttpVersion::Auto => is_secure,
    };
    if !may_be {
        return match config.streams_per_connection {
            Some(_) => Err(Complaint::new(
                "--streams-per-connection is for HTTP/2: pass --http 2, or leave it out",
            )),
            None => Ok(None),
        };
    }
    if config.streams_per_connection == Some(0) {
        return Err(Complaint::new(
            "--streams-per-connection 0: a connection carries at least one",
        ));
    }
    let Limits {
        http2_stream_window_bytes,
        http2_connection_window_bytes,
        head_bytes_max,
        ..
    } = setup::limits(config)?;
    let usual = http2::Limits::default();
    Ok(Some(Http2 {
        limits: http2::Limits {
            streams_max: config.streams_per_connection.unwrap_or(usual.streams_max),
            stream_window_bytes: http2_stream_window_bytes,
            connection_window_bytes: http2_connection_window_bytes,
            head_bytes_max: u32::try_from(head_bytes_max).unwrap_or(u32::MAX),
            ..usual
        },
        required: version == HttpVersion::Two,
    }))
}

/// What is spoken, for a person; nothing of HTTP/1.1.
pub(crate) fn words(http2: Option<&Http2>, is_secure: bool) -> String {
    let Some(http2) = http2 else {
        return String::new();
    };
    let name = match (is_secure, http2.required) {
        (true, false) => "HTTP/2 if the server chooses it",
        (true, true) => "HTTP/2",
        (false, _) => "HTTP/2 by prior knowledge",
    };
    let limits = &http2.limits;
    format!(
        ", {name} (at most {} streams a connection; windows of {} a stream, {} in all)",
        limits.streams_max,
        setup::bytes(limits.stream_window_bytes.into()),
        setup::bytes(limits.connection_window_bytes.into())
    )
}

impl FromStr for HttpVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "1.1" | "1" => Ok(Self::One),
            "2" => Ok(Self::Two),
            "auto" => Ok(Self::Auto),
            other => Err(format!("`{other}` is none of 1.1, 2 and auto")),
        }
    }
}

impl fmt::Display for HttpVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for HttpVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for HttpVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Written;
        impl serde::de::Visitor<'_> for Written {
            type Value = HttpVersion;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("1.1, 2 or auto")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<HttpVersion, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<HttpVersion, E> {
                number.to_string().parse().map_err(E::custom)
            }
            fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<HttpVersion, E> {
                number.to_string().parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Written)
    }
}

impl JsonSchema for HttpVersion {
    fn schema_name() -> Cow<'static, str> {
        "HttpVersion".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "enum": ["1.1", "2", "auto", 1.1, 2],
            "description": "A version of HTTP: 1.1, 2, or auto."
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(yaml: &str) -> BenchConfig {
        crate::file::parse(yaml).unwrap()
    }

    #[test]
    fn a_version_is_a_number_or_a_word_in_a_file() {
        for (yaml, version) in [
            ("http: 1.1", HttpVersion::One),
            ("http: \"1.1\"", HttpVersion::One),
            ("http: 2", HttpVersion::Two),
            ("http: 2.0", HttpVersion::Two),
            ("http: auto", HttpVersion::Auto),
        ] {
            let config = config(yaml);
            assert_eq!(config.http, Some(version), "{yaml}");
            let again = serde_json::to_value(version).unwrap();
            assert_eq!(
                serde_json::from_value::<HttpVersion>(again).unwrap(),
                version
            );
        }
        assert!(crate::file::parse("http: 3").is_err());
    }

    #[test]
    fn auto_is_http_1_in_the_clear() {
        let spoken = |yaml, is_secure| http2(&config(yaml), is_secure).unwrap();
        assert_eq!(spoken("", true), None);
        assert_eq!(spoken("http: auto", false), None);
        let chosen = spoken("http: auto\nstreams-per-connection: 7", true).unwrap();
        assert_eq!((chosen.required, chosen.limits.streams_max), (false, 7));
        assert!(spoken("http: 2", false).unwrap().required);
        let windows = "http: 2\nlimits: {http2-stream-window-bytes: 65535}";
        assert_eq!(
            spoken(windows, true).unwrap().limits.stream_window_bytes,
            65_535
        );
    }

    #[test]
    fn streams_without_http_2_are_refused() {
        for yaml in [
            "streams-per-connection: 7",
            "http: 1.1\nstreams-per-connection: 7",
            "http: auto\nstreams-per-connection: 7",
            "http: 2\nstreams-per-connection: 0",
        ] {
            let refused = http2(&config(yaml), false).unwrap_err();
            assert!(refused.to_string().contains("--streams-per-connection"));
        }
    }
}
