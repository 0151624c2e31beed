use ridgeline_clock::MonotonicClock;
use ridgeline_fleet::message::{self, Secret};
use ridgeline_net::Peer;
use ridgeline_net_epoll::{EpollConfig, EpollDriver};
use ridgeline_transport::{Limits, PeerId};
use ridgeline_transport_zmq::{Address, Keys, Kind, Zmq};

use super::token;
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

/// An end without a link. With a token it talks over TCP to nobody who does not have it, and everything is
/// encrypted.
pub(crate) fn router(token: Option<&Secret>) -> Result<Router, Complaint> {
    let driver = EpollDriver::new(EpollConfig {
        connections_max: CONNECTIONS_MAX,
        ..EpollConfig::default()
    })?;
    let router = Zmq::new(driver, MonotonicClock, Kind::Router, control_limits());
    Ok(match token {
        Some(token) => router.secured(Keys::from_token(&token.0)?),
        None => router,
    })
}

/// A number for a link.
pub(crate) fn number(peer: PeerId) -> u64 {
    u64::from(peer.generation) << 32 | u64::from(peer.index)
}

/// Links that leave this machine are refused without a token: nobody else may read or write along.
pub(crate) fn refuse_open(address: &Address, token: Option<&Secret>) -> Result<(), Complaint> {
    match address.resolve()? {
        Peer::Tcp(place) if token.is_none() && !place.ip().to_canonical().is_loopback() => {
            Err(Complaint::new(format!(
                "{address} is not on this machine's loopback, and without a token anybody could send load \
                 through it, and read prompts and keys: give both sides the same (--token-file, or {}), \
                 or use an ipc:// or loopback address",
                token::VARIABLE
            )))
        }
        Peer::Tcp(_) | Peer::Unix(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_token_only_what_stays_on_the_machine_is_let_through() {
        for (text, refused) in [
            ("ipc:///tmp/w.sock", false),
            ("tcp://127.0.0.1:7000", false),
            ("tcp://[::1]:7000", false),
            ("tcp://*:7000", true),
            ("tcp://192.0.2.1:7000", true),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(refuse_open(&address, None).is_err(), refused, "{text}");
            let token = Secret("0123456789abcdef".to_owned());
            assert!(refuse_open(&address, Some(&token)).is_ok());
        }
    }
}
