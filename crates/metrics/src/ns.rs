//! Numbers as they go between processes, for `#[serde(with = ..)]`: spans and instants as whole
//! nanoseconds, and wide sums.

use ridgeline_clock::Nanos;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(crate) fn serialize<S: Serializer>(nanos: &Nanos, serializer: S) -> Result<S::Ok, S::Error> {
    nanos.0.serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Nanos, D::Error> {
    u64::deserialize(deserializer).map(Nanos)
}

/// The same for what may be absent.
pub(crate) mod option {
    use super::{Deserialize, Deserializer, Nanos, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "serde passes a reference")]
    pub(crate) fn serialize<S: Serializer>(
        nanos: &Option<Nanos>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        nanos.map(|nanos| nanos.0).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Nanos>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Nanos))
    }
}

/// Sums that need 128 bits as `[high, low]`: few formats have such numbers.
pub(crate) mod wide {
    use super::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the halves are what is written"
    )]
    pub(crate) fn serialize<S: Serializer>(sum: &u128, serializer: S) -> Result<S::Ok, S::Error> {
        [(sum >> 64) as u64, *sum as u64].serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<u128, D::Error> {
        let [high, low] = <[u64; 2]>::deserialize(deserializer)?;
        Ok(u128::from(high) << 64 | u128::from(low))
    }
}
