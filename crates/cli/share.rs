//! A share as people write it.

use std::fmt;
use std::str::FromStr;

use crate::complaint::Complaint;

/// A share from 0 to 1, as `5%` or `0.05`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Share(pub(crate) f64);

impl FromStr for Share {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (digits, scale) = match text.strip_suffix('%') {
            Some(digits) => (digits.trim_end(), 0.01),
            None => (text, 1.0),
        };
        let share = digits.parse::<f64>().map(|number| number * scale);
        match share {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(Self(share)),
            _ => Err("expected a share like 5% or 0.05, at most 100%"),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0 * 100.0)
    }
}

impl Share {
    /// The share, where nothing would be no answer.
    pub(crate) fn positive(self, flag: &str) -> Result<f64, Complaint> {
        if self.0 > 0.0 {
            Ok(self.0)
        } else {
            Err(Complaint::new(format!("{flag} {self}: it must be above 0")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_and_written() {
        assert_eq!("5%".parse(), Ok(Share(0.05)));
        assert_eq!("0.1".parse(), Ok(Share(0.1)));
        for wrong in ["", "%", "x", "-1%", "101%", "NaN"] {
            assert!(wrong.parse::<Share>().is_err(), "{wrong}");
        }
        assert_eq!(Share(0.7).to_string(), "70%");
        assert_eq!(Share(0.7).positive("--x").unwrap(), 0.7);
        assert!(
            Share(0.0)
                .positive("--x")
                .unwrap_err()
                .to_string()
                .contains("--x 0%")
        );
    }
}
