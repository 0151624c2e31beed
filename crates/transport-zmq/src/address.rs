use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ridgeline_net::Peer;
use ridgeline_transport::TransportError;

/// The longest path that a socket can have (`sun_path`, less its end).
const PATH_BYTES_MAX: usize = 107;

/// Where an end is: `ipc://PATH` on this machine, `tcp://HOST:PORT` between machines.
///
/// `tcp://*:PORT` is every address of this machine, to bind to; port 0 any that is free.
///
/// ```
/// use ridgeline_transport_zmq::Address;
/// let address: Address = "tcp://127.0.0.1:5555".parse()?;
/// assert_eq!(address.to_string(), "tcp://127.0.0.1:5555");
/// assert!("udp://127.0.0.1:5555".parse::<Address>().is_err());
/// # Ok::<(), ridgeline_transport::TransportError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A socket in the file system.
    Ipc(PathBuf),
    /// A host, by name or address, and a port.
    Tcp {
        /// As it was written; `*` for all addresses of this machine.
        host: String,
        /// The port.
        port: u16,
    },
}

impl Address {
    /// The address as a driver takes it. A host's name is looked up, which may take a while.
    ///
    /// # Errors
    /// [`TransportError::Address`] where the name has no address.
    pub fn resolve(&self) -> Result<Peer, TransportError> {
        match self {
            Self::Ipc(path) => Ok(Peer::Unix(path.as_path().into())),
            Self::Tcp { host, port } if host == "*" => {
                Ok(Peer::Tcp((Ipv4Addr::UNSPECIFIED, *port).into()))
            }
            Self::Tcp { host, port } => {
                let found = (host.as_str(), *port).to_socket_addrs();
                let first = found.map(|mut addresses| addresses.next());
                match first {
                    Ok(Some(address)) => Ok(Peer::Tcp(address)),
                    Ok(None) => Err(self.wrong("the host has no address")),
                    Err(error) => Err(self.wrong(&format!("the host is not known ({error})"))),
                }
            }
        }
    }

    /// The same address with what a driver really bound: the port, where 0 was asked for.
    pub(crate) fn bound(&self, peer: &Peer) -> Self {
        match (self, peer) {
            (Self::Tcp { host, .. }, Peer::Tcp(address)) => Self::Tcp {
                host: host.clone(),
                port: address.port(),
            },
            _ => self.clone(),
        }
    }

    pub(crate) fn wrong(&self, reason: &str) -> TransportError {
        wrong(&self.to_string(), reason)
    }
}

/// Whether only this machine reaches it.
pub(crate) fn is_local(peer: &Peer) -> bool {
    match peer {
        Peer::Unix(_) => true,
        Peer::Tcp(address) => address.ip().to_canonical().is_loopback(),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ipc(path) => write!(f, "ipc://{}", path.display()),
            Self::Tcp { host, port } if host.contains(':') => write!(f, "tcp://[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "tcp://{host}:{port}"),
        }
    }
}

impl FromStr for Address {
    type Err = TransportError;

    fn from_str(text: &str) -> Result<Self, TransportError> {
        if let Some(path) = text.strip_prefix("ipc://") {
            return parse_path(path).map_err(|reason| wrong(text, &reason));
        }
        let Some(place) = text.strip_prefix("tcp://") else {
            let reason = "an address is ipc://PATH or tcp://HOST:PORT";
            return Err(wrong(text, reason));
        };
        parse_place(place).ok_or_else(|| {
            let reason =
                "after tcp:// there is a host, a colon and a port, as in tcp://10.0.0.7:5555";
            wrong(text, reason)
        })
    }
}

fn parse_path(path: &str) -> Result<Address, String> {
    if path.is_empty() {
        return Err("after ipc:// there is the path of a socket".to_owned());
    }
    if path.starts_with('@') {
        return Err(
            "abstract sockets have no path; use one in a folder that only you can enter".to_owned(),
        );
    }
    if path.len() > PATH_BYTES_MAX {
        let bytes = path.len();
        return Err(format!(
            "the path has {bytes} bytes, a socket's has at most {PATH_BYTES_MAX}; use a shorter folder"
        ));
    }
    Ok(Address::Ipc(Path::new(path).to_path_buf()))
}

fn parse_place(place: &str) -> Option<Address> {
    if let Ok(address) = place.parse::<SocketAddr>() {
        return Some(Address::Tcp {
            host: address.ip().to_string(),
            port: address.port(),
        });
    }
    let (host, port) = place.rsplit_once(':')?;
    let port = if port == "*" { 0 } else { port.parse().ok()? };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    (host == "*" || (!host.is_empty() && host.bytes().all(is_name))).then(|| Address::Tcp {
        host: host.to_owned(),
        port,
    })
}

fn wrong(address: &str, reason: &str) -> TransportError {
    TransportError::Address {
        address: address.to_owned(),
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_they_are_read() {
        for text in [
            "ipc:///tmp/a.sock",
            "ipc://relative.sock",
            "tcp://127.0.0.1:1",
            "tcp://[::1]:80",
            "tcp://localhost:65535",
            "tcp://*:0",
            "tcp://node-1.rack_2.example:7",
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
        }
        let any: Address = "tcp://*:*".parse().unwrap();
        assert_eq!(any.to_string(), "tcp://*:0");
    }

    #[test]
    fn what_is_wrong_with_an_address_is_said() {
        for (text, word) in [
            ("5555", "tcp://HOST:PORT"),
            ("inproc://a", "tcp://HOST:PORT"),
            ("ipc://", "path"),
            ("ipc://@name", "abstract"),
            (&format!("ipc:///{}", "x".repeat(107)), "at most 107"),
            ("tcp://", "a port"),
            ("tcp://:5555", "a port"),
            ("tcp://host", "a port"),
            ("tcp://host:70000", "a port"),
            ("tcp://ho st:70", "a port"),
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.starts_with(text) && error.contains(word), "{error}");
        }
    }

    #[test]
    fn only_loopback_and_paths_are_local() {
        for (text, local) in [
            ("ipc:///tmp/a", true),
            ("tcp://127.0.0.1:1", true),
            ("tcp://127.8.0.1:1", true),
            ("tcp://[::1]:1", true),
            ("tcp://10.0.0.1:1", false),
            ("tcp://*:1", false),
            ("tcp://[::]:1", false),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(is_local(&address.resolve().unwrap()), local, "{text}");
        }
    }
}
