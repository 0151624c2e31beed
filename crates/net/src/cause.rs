//! What an error of the system means for a connection.

use std::io;

use rustix::io::Errno;

use crate::Closed;

impl Closed {
    /// What `error` means for the connection whose socket had it.
    #[must_use]
    pub fn of(error: &io::Error) -> Self {
        let Some(errno) = Errno::from_io_error(error) else {
            // Libraries make errors of their own only for addresses that they cannot express.
            return Self::Unreachable;
        };
        match errno {
            Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED => Self::PeerReset,
            Errno::CONNREFUSED | Errno::NOENT => Self::Refused,
            Errno::TIMEDOUT => Self::TimedOut,
            Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::NETDOWN | Errno::HOSTDOWN => {
                Self::Unreachable
            }
            Errno::ADDRNOTAVAIL | Errno::ADDRINUSE => Self::NoPorts,
            Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => Self::NoResources,
            other => Self::Os(other.raw_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_errno_has_one_meaning() {
        for (errno, expected) in [
            (Errno::CONNRESET, Closed::PeerReset),
            (Errno::PIPE, Closed::PeerReset),
            (Errno::CONNREFUSED, Closed::Refused),
            (Errno::NOENT, Closed::Refused),
            (Errno::TIMEDOUT, Closed::TimedOut),
            (Errno::HOSTUNREACH, Closed::Unreachable),
            (Errno::NETUNREACH, Closed::Unreachable),
            (Errno::ADDRNOTAVAIL, Closed::NoPorts),
            (Errno::ADDRINUSE, Closed::NoPorts),
            (Errno::MFILE, Closed::NoResources),
            (Errno::NOBUFS, Closed::NoResources),
            (Errno::ACCESS, Closed::Os(13)),
        ] {
            assert_eq!(Closed::of(&errno.into()), expected, "{errno:?}");
        }
        let no_errno = io::Error::other("an address that no socket can have");
        assert_eq!(Closed::of(&no_errno), Closed::Unreachable);
    }
}
