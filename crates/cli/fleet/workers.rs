use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use ridgeline_transport_zmq::Address;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// More processes than this are a slip.
const WORKERS_MAX: u32 = 1024;

/// The workers of a run, as the user says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Workers {
    /// So many processes of this machine, started for the run.
    Here(u32),
    /// Those that listen at these addresses.
    At(Vec<Address>),
}

impl Workers {
    /// How many there are.
    pub(crate) fn count(&self) -> u32 {
        match self {
            Self::Here(count) => *count,
            Self::At(addresses) => u32::try_from(addresses.len()).unwrap_or(u32::MAX),
        }
    }
}

impl FromStr for Workers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Ok(count) = text.parse::<u32>() {
            return if (1..=WORKERS_MAX).contains(&count) {
                Ok(Self::Here(count))
            } else {
                Err(format!(
                    "between 1 and {WORKERS_MAX} processes can be started"
                ))
            };
        }
        let mut addresses = Vec::new();
        for part in text.split(',').map(str::trim) {
            let address: Address = part.parse().map_err(|error| {
                format!("{error}; a number of processes, or addresses of workers by commas")
            })?;
            if addresses.contains(&address) {
                return Err(format!("{address} is named twice: a worker does one share"));
            }
            addresses.push(address);
        }
        Ok(Self::At(addresses))
    }
}

impl fmt::Display for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here(count) => write!(f, "{count}"),
            Self::At(addresses) => {
                let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
                f.write_str(&texts.join(","))
            }
        }
    }
}

impl Serialize for Workers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Here(count) => serializer.serialize_u32(*count),
            Self::At(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Workers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Written;
        impl serde::de::Visitor<'_> for Written {
            type Value = Workers;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of processes, or addresses of workers by commas")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Workers, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_u64<E: serde::de::Error>(self, count: u64) -> Result<Workers, E> {
                count.to_string().parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Written)
    }
}

impl JsonSchema for Workers {
    fn schema_name() -> Cow<'static, str> {
        "Workers".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "integer"],
            "description": "A number of processes, or addresses of workers by commas: tcp://HOST:PORT or ipc://PATH."
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_or_addresses() {
        for (text, count) in [
            ("4", 4),
            ("tcp://10.0.0.7:7000, tcp://h:7000", 2),
            ("ipc:///tmp/w.sock", 1),
        ] {
            let workers: Workers = text.parse().unwrap();
            assert_eq!(workers.count(), count);
            let written = serde_json::to_string(&workers).unwrap();
            let read: Workers = serde_json::from_str(&written).unwrap();
            assert_eq!(read, workers);
        }
        for (text, part) in [
            ("0", "between 1 and 1024"),
            ("9999", "between 1 and 1024"),
            ("-1", "a number of processes"),
            ("localhost:7000", "a number of processes, or addresses"),
            ("tcp://h:1,tcp://h:1", "named twice"),
        ] {
            let error = text.parse::<Workers>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
