//! What went wrong, for a person: what was expected, what came, and what to do about it.

use std::fmt;

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};
use webpki::EndEntityCert;

use crate::error::TlsErrorKind;

/// Words of peers are shown up to here, characters.
const SHOWN_CHARS_MAX: usize = 100;
/// Names of a certificate that are shown.
const NAMES_MAX: usize = 5;

/// Kind and words of an error. `peer`: the name that was asked for, of a client.
pub(crate) fn of(error: &Error, peer: Option<&str>) -> (TlsErrorKind, String) {
    match error {
        Error::InvalidCertificate(error) => (TlsErrorKind::Certificate, certificate(error, peer)),
        Error::NoCertificatesPresented => (
            TlsErrorKind::Certificate,
            "the peer has no certificate to show".to_owned(),
        ),
        Error::AlertReceived(description) => (TlsErrorKind::Alert, alert(*description, peer)),
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) => (
            TlsErrorKind::NotTls,
            "what came is not TLS: does the server speak plain HTTP at this port? then the URL begins \
             with http://"
                .to_owned(),
        ),
        Error::PeerIncompatible(why) => (
            TlsErrorKind::Protocol,
            format!(
                "both sides have no version or cipher of TLS in common ({why:?}): this one speaks TLS \
                 1.3, and 1.2 with AEAD ciphers and ECDHE"
            ),
        ),
        Error::DecryptError => (
            TlsErrorKind::Protocol,
            "a record was damaged on its way, or is not the peer's".to_owned(),
        ),
        Error::NoApplicationProtocol => (
            TlsErrorKind::Protocol,
            "both sides have no protocol in common (ALPN)".to_owned(),
        ),
        Error::FailedToGetCurrentTime | Error::FailedToGetRandomBytes => (
            TlsErrorKind::Protocol,
            "this machine gives no time or no random numbers".to_owned(),
        ),
        other => (TlsErrorKind::Protocol, format!("TLS failed: {}", clean(&other.to_string()))),
    }
}

/// Why a certificate can't be trusted.
fn certificate(error: &CertificateError, peer: Option<&str>) -> String {
    let whose = peer.map_or_else(
        || "the client's certificate".to_owned(),
        |peer| format!("the certificate of {}", clean(peer)),
    );
    match error {
        CertificateError::ExpiredContext { time, not_after } => format!(
            "{whose} expired on {}, {}: renew it at the server",
            day(*not_after),
            ago(time.as_secs().saturating_sub(not_after.as_secs())),
        ),
        CertificateError::NotValidYetContext { time, not_before } => format!(
            "{whose} is not valid before {}, and this machine has {}: is its clock right?",
            day(*not_before),
            day(*time),
        ),
        CertificateError::NotValidForNameContext { presented, .. } => format!(
            "{whose} is for {}, not for that name: use a name that it has in the URL, or have it issued \
             for this one (subjectAltName)",
            names(presented),
        ),
        CertificateError::Revoked => format!("{whose} was revoked"),
        CertificateError::BadEncoding => format!("{whose} can't be read"),
        CertificateError::BadSignature => format!(
            "{whose} is not signed by the root that is trusted under its issuer's name: does --ca-file hold \
             an older one of the same name? If not, the certificate was altered"
        ),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            format!(
                "{whose} is not for servers (extended key usage): have it issued with serverAuth"
            )
        }
        CertificateError::Other(other) => {
            let other = other.0.as_ref();
            if let Some(Unknown(lineage)) = other.downcast_ref() {
                return format!("{whose} can't be trusted: {lineage}");
            }
            match other.downcast_ref::<webpki::Error>() {
                Some(webpki::Error::CaUsedAsEndEntity) => format!(
                    "{whose} is that of an authority (basicConstraints CA), which can't be a server's: \
                     issue one for the server from it, or pass --insecure"
                ),
                Some(webpki::Error::UnsupportedCertVersion) => {
                    format!("{whose} is not of version 3: have it issued with subjectAltName")
                }
                _ => format!("{whose} can't be used: {}", clean(&other.to_string())),
            }
        }
        other => format!("{whose} can't be used: {}", clean(&other.to_string())),
    }
}

/// Nobody who is trusted has issued a certificate; where it comes from, in words.
#[derive(Debug)]
pub(crate) struct Unknown(pub(crate) String);

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unknown {}

/// Where a certificate that leads to no known root comes from.
pub(crate) fn lineage(
    end_entity: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
) -> String {
    let remedy = "pass the certificate of its root by --ca-file, or --insecure to check nothing";
    let last = intermediates.last().unwrap_or(end_entity);
    let Ok(last) = EndEntityCert::try_from(last) else {
        return format!("nobody who is trusted has issued it; {remedy}");
    };
    if intermediates.is_empty() && last.issuer() == last.subject() {
        let words = "it is signed by itself; pass it by --ca-file, or --insecure to check nothing";
        return words.to_owned();
    }
    let issuer =
        common_name(last.issuer()).unwrap_or_else(|| "an issuer without a name".to_owned());
    let chain = match intermediates.len() {
        0 => ", and the server sent no certificate in between".to_owned(),
        1 => ", over one certificate in between".to_owned(),
        many => format!(", over {many} certificates in between"),
    };
    format!(
        "it leads to `{issuer}`{chain}, and that is none of the roots that are trusted; {remedy}"
    )
}

/// The common name (2.5.4.3) in the DER of a name.
fn common_name(der: &[u8]) -> Option<String> {
    let oid = [0x06, 0x03, 0x55, 0x04, 0x03];
    let at = der.windows(oid.len()).position(|window| window == oid)?;
    let [_, length, rest @ ..] = &der[at + oid.len()..] else {
        return None;
    };
    // A longer one has its length in other bytes, and is nothing to show.
    let text = rest
        .get(..usize::from(*length))
        .filter(|_| *length < 0x80)?;
    Some(clean(&String::from_utf8_lossy(text)))
}

/// The names of a certificate, as rustls has them: `DnsName("a.example")`.
fn names(presented: &[String]) -> String {
    if presented.is_empty() {
        return "no name at all (it has no subjectAltName)".to_owned();
    }
    let name = |text: &String| {
        let inner = text
            .split_once('(')
            .map_or(text.as_str(), |(_, inner)| inner);
        let inner = inner.trim_end_matches(')').trim_matches('"');
        format!("`{}`", clean(inner))
    };
    let mut shown: Vec<String> = presented.iter().take(NAMES_MAX).map(name).collect();
    if presented.len() > NAMES_MAX {
        shown.push(format!("{} more", presented.len() - NAMES_MAX));
    }
    shown.join(", ")
}

/// What a peer's alert says.
fn alert(description: AlertDescription, peer: Option<&str>) -> String {
    use AlertDescription as A;
    let Some(peer) = peer else {
        return format!("the client ended the connection: {description:?}");
    };
    let said = match description {
        A::CertificateRequired | A::NoCertificate => {
            "it wants a certificate of the client: pass --client-cert and --client-key".to_owned()
        }
        A::BadCertificate
        | A::UnsupportedCertificate
        | A::CertificateRevoked
        | A::CertificateExpired
        | A::CertificateUnknown
        | A::UnknownCA
        | A::AccessDenied => format!(
            "it does not accept the certificate of the client ({description:?}): check --client-cert"
        ),
        A::HandshakeFailure | A::InsufficientSecurity => format!(
            "it found no cipher or key in common, or wants a certificate of the client \
             (--client-cert, --client-key): {description:?}"
        ),
        A::ProtocolVersion => "it speaks neither TLS 1.3 nor 1.2".to_owned(),
        A::UnrecognisedName => format!("it has no certificate for the name {}", clean(peer)),
        A::NoApplicationProtocol => "it speaks none of the protocols offered (ALPN)".to_owned(),
        other => format!("alert {other:?}"),
    };
    format!("the server ended the TLS connection: {said}")
}

/// A peer's words without what would do harm in a terminal, and not too many of them.
fn clean(text: &str) -> String {
    let shown = text.chars().map(|c| if c.is_control() { '?' } else { c });
    shown.take(SHOWN_CHARS_MAX).collect()
}

fn ago(seconds: u64) -> String {
    let (count, unit) = match seconds {
        0..60 => return "just now".to_owned(),
        60..7_200 => (seconds / 60, "minute"),
        7_200..172_800 => (seconds / 3_600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{plural} ago")
}

/// The day of a time, as 2026-11-30.
fn day(time: UnixTime) -> String {
    // Days since 1970 in years of March to February: of a year's days the leap day is the last.
    let days = time.as_secs() / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01"),
            (951_782_399, "2000-02-28"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_709_164_800, "2024-02-29"),
            (1_735_689_599, "2024-12-31"),
            (1_796_083_200, "2026-12-01"),
            (4_107_542_400, "2100-03-01"),
        ] {
            let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
            assert_eq!(day(time), text);
        }
    }

    #[test]
    fn words_of_peers_do_no_harm() {
        let hostile = [
            0x06, 0x03, 0x55, 0x04, 0x03, 0x0c, 4, b'a', 0x1b, b'[', b'm',
        ];
        assert_eq!(common_name(&hostile).as_deref(), Some("a?[m"));
        for cut in 0..hostile.len() {
            assert_eq!(common_name(&hostile[..cut]), None);
        }
        assert_eq!(
            common_name(&[0x06, 0x03, 0x55, 0x04, 0x03, 0x0c, 0x81, 1, b'a']),
            None
        );
        let many: Vec<String> = (0..9).map(|n| format!("DnsName(\"h{n}\")")).collect();
        assert_eq!(names(&many), "`h0`, `h1`, `h2`, `h3`, `h4`, 4 more");
        assert_eq!(names(&["IpAddress(127.0.0.1)".to_owned()]), "`127.0.0.1`");
        assert!(names(&[]).starts_with("no name at all"));
    }
}
