use ridgeline_clock::MonotonicClock;
use ridgeline_fleet::message;
use ridgeline_net::Peer;
use ridgeline_net_epoll::{EpollConfig, EpollDriver};
use ridgeline_transport::{Limits, PeerId};
use ridgeline_transport_zmq::{Address, Kind, Zmq};

use crate::complaint::Complaint;

/// Connections of one end: workers, and as many again that come in vain.
const CONNECTIONS_MAX: u32 = 2_048;

/// The end of the control plane in this process. A few messages a second: the simplest driver will do.
pub(crate) type Router = Zmq<EpollDriver, MonotonicClock>;

/// What it is bounded by.
fn control_limits() -> Limits {
    Limits {
        message_bytes_max: message::BYTES_MAX,
        queued_bytes_max: message::BYTES_MAX,
        peers_max: CONNECTIONS_MAX / 2,
        ..Limits::control()
    }
}

/// An end without a link.
pub(crate) fn router() -> Result<Router, Complaint> {
    let driver = EpollDriver::new(EpollConfig {
        connections_max: CONNECTIONS_MAX,
        ..EpollConfig::default()
    })?;
    Ok(Zmq::new(
        driver,
        MonotonicClock,
        Kind::Router,
        control_limits(),
    ))
}

/// A number for a link.
pub(crate) fn number(peer: PeerId) -> u64 {
    u64::from(peer.generation) << 32 | u64::from(peer.index)
}

/// Links that leave this machine are refused: nobody may read or write along.
pub(crate) fn refuse_open(address: &Address) -> Result<(), Complaint> {
    match address.resolve()? {
        Peer::Unix(_) => Ok(()),
        Peer::Tcp(place) if place.ip().to_canonical().is_loopback() => Ok(()),
        Peer::Tcp(_) => Err(Complaint::new(format!(
            "{address} is not on this machine's loopback, and links are not encrypted: prompts and keys \
             would be there for everybody to read; use an ipc:// or loopback address, through a tunnel \
             between machines (ssh -L 7000:127.0.0.1:7000 HOST)"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stays_on_the_machine_is_let_through() {
        for (text, refused) in [
            ("ipc:///tmp/w.sock", false),
            ("tcp://127.0.0.1:7000", false),
            ("tcp://[::1]:7000", false),
            ("tcp://*:7000", true),
            ("tcp://192.0.2.1:7000", true),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(refuse_open(&address).is_err(), refused, "{text}");
        }
    }
}
