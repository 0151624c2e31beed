use std::fmt;

use ridgeline_clock::Nanos;

use crate::Queued;

/// Why a peer is gone, in a form that can be matched; `Display` says it in words.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// It ended the connection in order: it finished, or was told to end.
    Closed,
    /// The connection was cut: the peer was killed, or its system dropped it.
    Reset,
    /// This end let go of it.
    Local,
    /// Nothing came from it for so long, heartbeats included.
    Silent(Nanos),
    /// Connecting: nobody answers at the address, with the system's reason.
    Unreachable(String),
    /// It does not speak the protocol, or breaks its rules: which one.
    Malformed(String),
    /// It is not welcome, or this end is not there: authentication, or two ends that do not fit
    /// together.
    Refused(String),
    /// It sent a message longer than [`Limits::message_bytes_max`](crate::Limits::message_bytes_max).
    TooLong {
        /// What it wanted to send.
        bytes: u64,
        /// What it may.
        bytes_max: usize,
    },
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("it closed the connection"),
            Self::Reset => f.write_str("its connection was cut"),
            Self::Local => f.write_str("this side ended the connection"),
            Self::Silent(span) => write!(f, "nothing came from it for {span}"),
            Self::Unreachable(why) => write!(f, "it can't be reached: {why}"),
            Self::Malformed(what) => write!(f, "it does not keep to the protocol: {what}"),
            Self::Refused(why) => write!(f, "refused: {why}"),
            Self::TooLong { bytes, bytes_max } => {
                write!(
                    f,
                    "it sent a message of {bytes} bytes, {bytes_max} are allowed"
                )
            }
        }
    }
}

/// What is told of a peer that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Why.
    pub cause: Cause,
    /// What waited to be sent to it and never will be. What was handed over before may be lost, too;
    /// only an answer shows that a message came through.
    pub unsent: Queued,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)?;
        if self.unsent.messages > 0 {
            let Queued { messages, bytes } = self.unsent;
            write!(
                f,
                "; {messages} messages ({bytes} bytes) to it were not sent"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_said() {
        let unsent = Queued {
            messages: 2,
            bytes: 70,
        };
        let left = Left {
            cause: Cause::Silent(Nanos::from_secs(5)),
            unsent,
        };
        let words = left.to_string();
        assert!(
            words.ends_with("; 2 messages (70 bytes) to it were not sent"),
            "{words}"
        );
        let nothing = Left {
            unsent: Queued::default(),
            ..left
        };
        assert!(!nothing.to_string().contains("not sent"));
    }
}
