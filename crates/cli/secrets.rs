//! What must not reach a file or a terminal.

use crate::complaint::Complaint;
use crate::config::BenchConfig;

/// Stands in place of a secret.
pub(crate) const REDACTED: &str = "REDACTED";

/// Whether the value of a header of this name is a secret.
pub(crate) fn is_secret(name: &str) -> bool {
    let name = name.trim().to_ascii_lowercase();
    [
        "auth",
        "cookie",
        "key",
        "secret",
        "token",
        "password",
        "credential",
    ]
    .iter()
    .any(|part| name.contains(part))
}

/// Redacts `Name: value` lines.
pub(crate) fn redact(headers: &mut [String]) {
    for header in headers {
        let name = header
            .split_once(':')
            .map_or(header.as_str(), |(name, _)| name);
        if is_secret(name) {
            *header = format!("{name}: {REDACTED}");
        }
    }
}

/// A file that was written with secrets redacted lacks them.
pub(crate) fn refuse_redacted(config: &BenchConfig) -> Result<(), Complaint> {
    let redacted = |header: &&String| {
        header
            .split_once(':')
            .is_some_and(|(_, value)| value.trim() == REDACTED)
    };
    match config.header.iter().find(redacted) {
        Some(header) => {
            let name = header.split(':').next().unwrap_or_default();
            Err(Complaint::new(format!(
                "the value of the header `{name}` was redacted when the file was written; delete \
                 the line, and pass the header with --header or the key with --api-key-env"
            )))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_secret_headers_are_redacted() {
        let mut headers = [
            "Authorization: Bearer s",
            "x-api-key:s",
            "Cookie: a=b",
            "X-Trace: 7",
        ]
        .map(str::to_owned);
        redact(&mut headers);
        assert_eq!(
            headers,
            [
                "Authorization: REDACTED",
                "x-api-key: REDACTED",
                "Cookie: REDACTED",
                "X-Trace: 7"
            ]
        );
        let config = BenchConfig {
            header: headers.to_vec(),
            ..BenchConfig::default()
        };
        assert!(
            refuse_redacted(&config)
                .unwrap_err()
                .to_string()
                .contains("`Authorization`")
        );
    }
}
