//! How faults are asked for, in flags and in header fields.
//!
//! ```text
//! rule   = fault [ "@" when ]
//! fault  = name [ ":" key "=" value *( "," key "=" value ) ]
//! when   = RATE "%"        of the requests that no rule without a rate takes, by a seeded draw
//!        | N               the N-th request, from 1
//!        | "every=" N      the N-th, the 2N-th, ...
//!        | "first=" N      the first N
//! ```
use ridgeline_clock::{Nanos, parse_duration};

use super::catalogue::{CATALOGUE, Key, Kind, Scope};
use super::phrases::{Body, Form};

/// A fault and its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    /// Content events before it. A whole answer has one, and takes the fault there.
    pub(crate) at: u32,
    /// How long a stall lasts; `None`: for ever.
    pub(crate) span: Option<Nanos>,
    /// From one piece to the next.
    pub(crate) gap: Option<Nanos>,
    /// A size; what of depends on the fault.
    pub(crate) bytes: Option<usize>,
    /// Whose words an error has; `None`: those of the dialect.
    pub(crate) form: Option<Form>,
    pub(crate) body: Body,
    /// `Retry-After`, seconds.
    pub(crate) retry_after: Option<u32>,
}

/// The most that `bytes=` can ask for.
const BYTES_MAX: usize = 1 << 30;

/// All requests, as a share: a rate is exact to a millionth of a percent.
pub(crate) const RATE_ALL: u64 = 100_000_000;

/// Which requests a fault is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Always,
    /// A share of the requests, from 1 to [`RATE_ALL`].
    Rate(u64),
    /// This one, from 1.
    Number(u64),
    /// Every one whose number is a multiple of it.
    Every(u64),
    /// Those whose number is at most this.
    First(u64),
}

/// A fault, and the requests that it is for: `--fault`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultRule {
    pub(crate) fault: Fault,
    pub(crate) when: When,
}

/// Why a text asks for no fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultError {
    /// There is no such fault.
    #[error("there is no fault {name:?}; {hint}")]
    Name {
        /// What was asked for.
        name: String,
        /// What may have been meant.
        hint: String,
    },
    /// The fault has no such key.
    #[error("the fault {name} has no key {key:?}; {hint}")]
    Key {
        /// The fault.
        name: String,
        /// What was asked for.
        key: String,
        /// What there is.
        hint: String,
    },
    /// The value can't be read.
    #[error("{key}={value:?} can't be read: expected {expected}")]
    Value {
        /// The key, or `@`.
        key: String,
        /// What was given.
        value: String,
        /// What would have been read.
        expected: &'static str,
    },
    /// A connection, not a request, gets this fault.
    #[error("{0} happens before any request is read: it is for --fault, not for a header field")]
    Connection(String),
    /// The answer asked for can't have this fault.
    #[error("{0}")]
    Scope(String),
    /// The rates of all rules together, in percent, rounded up.
    #[error("the rates of all faults together are {0}%: more than 100%")]
    Rates(u64),
}

impl Fault {
    /// The fault with the default settings.
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            at: 1,
            span: None,
            gap: None,
            bytes: None,
            form: None,
            body: Body::Error,
            retry_after: matches!(kind.status(), 429 | 503).then_some(1),
        }
    }

    /// Reads `NAME[:KEY=VALUE,...]`.
    ///
    /// # Errors
    /// When there is no such fault, or it does not take such settings.
    pub(crate) fn parse(text: &str) -> Result<Self, FaultError> {
        let (name, settings) = match text.split_once(':') {
            Some((name, settings)) => (name.trim(), Some(settings)),
            None => (text.trim(), None),
        };
        let Some((kind, keys)) = Kind::of(name) else {
            return Err(unknown_name(name));
        };
        let mut fault = Self::new(kind);
        for setting in settings
            .into_iter()
            .flat_map(|settings| settings.split(','))
        {
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            let (name, value) = (name.trim(), value.trim());
            let known = Key::NAMES
                .iter()
                .find(|(key, known)| *known == name && keys.contains(key));
            let Some((key, _)) = known else {
                return Err(unknown_key(kind, name, keys));
            };
            fault
                .set(*key, value)
                .map_err(|expected| FaultError::Value {
                    key: name.to_owned(),
                    value: value.to_owned(),
                    expected,
                })?;
        }
        Ok(fault)
    }

    fn set(&mut self, key: Key, value: &str) -> Result<(), &'static str> {
        match key {
            Key::At => self.at = value.parse().map_err(|_| "a number of events")?,
            Key::For => self.span = Some(parse_duration(value).map_err(|_| SPAN)?),
            Key::Gap => self.gap = Some(parse_duration(value).map_err(|_| SPAN)?),
            Key::Bytes => {
                let bytes = value
                    .parse()
                    .ok()
                    .filter(|bytes| (1..=BYTES_MAX).contains(bytes));
                self.bytes = Some(bytes.ok_or("a number of bytes from 1 to 1073741824")?);
            }
            Key::Form => self.form = Some(Form::of(value).ok_or(Form::EXPECTED)?),
            Key::Body => self.body = Body::of(value).ok_or(Body::EXPECTED)?,
            Key::RetryAfter => {
                self.retry_after = Some(value.parse().map_err(|_| "a number of seconds")?);
            }
        }
        Ok(())
    }
}

const SPAN: &str = "a number and ns, us, ms, s or m, like 750us";

/// Below this likeness (Jaro, Winkler) a name is no likely mistake for another.
const LIKENESS_MIN: f64 = 0.75;

fn unknown_name(name: &str) -> FaultError {
    let names = CATALOGUE
        .iter()
        .map(|entry| entry.name)
        .chain(["status-500"]);
    let likely = names
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let hint = match likely {
        _ if name.starts_with("status") => "a status is one of status-300 to status-599".to_owned(),
        Some((likeness, known)) if likeness >= LIKENESS_MIN => format!("did you mean {known}?"),
        _ => {
            let names: Vec<_> = CATALOGUE.iter().map(|entry| entry.name).collect();
            format!("there are status-NNN, {}", names.join(", "))
        }
    };
    FaultError::Name {
        name: name.chars().take(NAME_CHARS_MAX).collect(),
        hint,
    }
}

/// How much of an unknown name is repeated.
const NAME_CHARS_MAX: usize = 40;

fn unknown_key(kind: Kind, key: &str, keys: &[Key]) -> FaultError {
    let names: Vec<_> = Key::NAMES
        .iter()
        .filter(|(key, _)| keys.contains(key))
        .map(|(_, name)| *name)
        .collect();
    let hint = if names.is_empty() {
        "it takes none".to_owned()
    } else {
        format!("it takes {}", names.join(", "))
    };
    FaultError::Key {
        name: kind.to_string(),
        key: key.chars().take(NAME_CHARS_MAX).collect(),
        hint,
    }
}

impl std::str::FromStr for FaultRule {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let (fault, when) = match text.rsplit_once('@') {
            Some((fault, when)) => (fault, when_of(when.trim())?),
            None => (text, When::Always),
        };
        Ok(Self {
            fault: Fault::parse(fault)?,
            when,
        })
    }
}

fn when_of(text: &str) -> Result<When, FaultError> {
    let number = |text: &str| text.parse().ok().filter(|number| *number > 0);
    let read = if let Some(percent) = text.strip_suffix('%') {
        rate(percent.trim()).map(When::Rate)
    } else if let Some(every) = text.strip_prefix("every=") {
        number(every).map(When::Every)
    } else if let Some(first) = text.strip_prefix("first=") {
        number(first).map(When::First)
    } else {
        number(text).map(When::Number)
    };
    read.ok_or_else(|| FaultError::Value {
        key: "@".to_owned(),
        value: text.to_owned(),
        expected: "a rate like 5%, the number of a request, every=N or first=N",
    })
}

/// A share in percent, with a fraction or without.
pub(crate) fn rate(percent: &str) -> Option<u64> {
    let (whole, fraction) = percent.split_once('.').unwrap_or((percent, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || whole.len() > 3 {
        return None;
    }
    let percent = RATE_ALL / 100;
    let mut rate = whole.parse::<u64>().ok()? * percent;
    let mut place = percent;
    for digit in fraction.bytes() {
        place /= 10;
        rate += u64::from(digit - b'0') * place;
    }
    (1..=RATE_ALL).contains(&rate).then_some(rate)
}

/// What a request's own header fields ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Nothing: the rules decide.
    Open,
    /// No fault, whatever the rules say: `X-Mock-Fault: none`.
    Sound,
    /// This one.
    Faulty(Fault),
}

impl Wish {
    /// Reads `X-Mock-Fault: NAME[:KEY=VALUE,...]` and `X-Return-Error: NNN`; the first wins.
    ///
    /// # Errors
    /// As [`Fault::parse`], and for faults that no request can have.
    pub(crate) fn parse(
        mock_fault: Option<&[u8]>,
        return_error: Option<&[u8]>,
    ) -> Result<Self, FaultError> {
        let text = match (mock_fault, return_error) {
            (Some(text), _) => String::from_utf8_lossy(text).into_owned(),
            (None, Some(status)) => {
                format!("status-{}", String::from_utf8_lossy(status).trim())
            }
            (None, None) => return Ok(Self::Open),
        };
        if text.trim() == "none" {
            return Ok(Self::Sound);
        }
        let fault = Fault::parse(&text)?;
        if fault.kind.scope() == Scope::Connections {
            return Err(FaultError::Connection(fault.kind.to_string()));
        }
        Ok(Self::Faulty(fault))
    }
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::{How, Place};
    use super::*;
    use proptest::prelude::*;

    fn rule(text: &str) -> Result<FaultRule, String> {
        text.parse().map_err(|error: FaultError| error.to_string())
    }

    #[test]
    fn rules_say_what_and_when() {
        let stall = Fault {
            at: 3,
            span: Some(Nanos::from_millis(20)),
            ..Fault::new(Kind::Break(How::Stall, Place::AfterEvent))
        };
        for (text, fault, when) in [
            ("status-429", Fault::new(Kind::Status(429)), When::Always),
            (
                "stall-after-event:at=3,for=20ms@5%",
                stall,
                When::Rate(5_000_000),
            ),
            (
                " stall-after-event : at = 3 , for = 20ms @ every=7",
                stall,
                When::Every(7),
            ),
            ("nul@0.5%", Fault::new(Kind::Nul), When::Rate(500_000)),
            ("nul@12", Fault::new(Kind::Nul), When::Number(12)),
            (
                "rate_limit@first=2",
                Fault::new(Kind::Failure(super::super::catalogue::Failure::RateLimit)),
                When::First(2),
            ),
        ] {
            assert_eq!(rule(text), Ok(FaultRule { fault, when }), "{text}");
        }
        assert_eq!(rule("status-429").unwrap().fault.retry_after, Some(1));
        assert_eq!(rule("status-500").unwrap().fault.retry_after, None);
        assert_eq!(
            rule("status-500:retry-after=9,body=html,form=tgi")
                .unwrap()
                .fault,
            Fault {
                retry_after: Some(9),
                body: Body::Html,
                form: Some(Form::Tgi),
                ..Fault::new(Kind::Status(500))
            }
        );
    }

    #[test]
    fn mistakes_are_told_with_what_was_meant() {
        for (text, told) in [
            ("reset-befor-head", "did you mean reset-before-head?"),
            ("Utf8-invalid", "did you mean utf8-invalid?"),
            ("utf-invalid@5%", "did you mean utf8-invalid?"),
            ("zzz", "there are status-NNN, rate_limit"),
            ("status-200", "status-300 to status-599"),
            ("status-4290", "status-300 to status-599"),
            ("", "there are status-NNN"),
            ("nul:to=3", "has no key \"to\"; it takes at"),
            ("html:at=3", "it takes none"),
            ("nul:", "has no key \"\""),
            (
                "nul:at",
                "at=\"\" can't be read: expected a number of events",
            ),
            ("nul:at=-1", "expected a number of events"),
            ("stall-in-head:for=5", "like 750us"),
            ("error-event:form=vlm", "expected openai"),
            ("event-oversize:bytes=0", "from 1 to"),
            ("event-oversize:bytes=9999999999", "from 1 to"),
            ("nul@", "expected a rate like 5%"),
            ("nul@0", "expected a rate"),
            ("nul@0%", "expected a rate"),
            ("nul@101%", "expected a rate"),
            ("nul@nan%", "expected a rate"),
            ("nul@every=0", "expected a rate"),
            ("nul@last=1", "expected a rate"),
        ] {
            let error = rule(text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
        let long = rule(&"x".repeat(1 << 20)).unwrap_err();
        assert!(long.len() < 4_000);
    }

    #[test]
    fn header_fields_wish_for_one_fault() {
        let wish = |fault: Option<&str>, error: Option<&str>| {
            Wish::parse(fault.map(str::as_bytes), error.map(str::as_bytes))
                .map_err(|error| error.to_string())
        };
        assert_eq!(wish(None, None), Ok(Wish::Open));
        assert_eq!(wish(Some("none"), Some("500")), Ok(Wish::Sound));
        assert_eq!(
            wish(None, Some("503")),
            Ok(Wish::Faulty(Fault::new(Kind::Status(503))))
        );
        assert_eq!(
            wish(Some("nul"), Some("503")),
            Ok(Wish::Faulty(Fault::new(Kind::Nul)))
        );
        assert!(
            wish(Some("reset-on-accept"), None)
                .unwrap_err()
                .contains("for --fault")
        );
        assert!(wish(None, Some("two")).unwrap_err().contains("status-300"));
        assert!(wish(Some("nul@5%"), None).is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,60}", fields in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = rule(&text);
            let _ = Wish::parse(Some(&fields), None);
            let _ = Wish::parse(None, Some(&fields));
        }

        #[test]
        fn every_name_takes_its_keys_and_no_others(index in 0..CATALOGUE.len()) {
            let entry = &CATALOGUE[index];
            for (key, name) in Key::NAMES {
                let value = match key {
                    Key::At | Key::Bytes | Key::RetryAfter => "7",
                    Key::For | Key::Gap => "7ms",
                    Key::Form => "vllm",
                    Key::Body => "html",
                };
                let text = format!("{}:{name}={value}", entry.name);
                prop_assert_eq!(Fault::parse(&text).is_ok(), entry.keys.contains(&key), "{}", text);
            }
        }
    }
}
