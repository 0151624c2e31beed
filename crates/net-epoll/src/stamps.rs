//! The kernel's receive stamps: asked for by socket, and read from the control messages of a receive.

use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd as _};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use ridgeline_clock::{Clock, MonotonicClock, Nanos, StampMap, realtime_bracket};

/// How long the kernel may take to switch stamping on; beyond it the first reads may lack stamps, which is
/// counted.
const STAMPING_WITHIN: Nanos = Nanos::from_millis(100);

/// What a driver needs that reads with stamps.
#[derive(Debug)]
pub(crate) struct Stamps {
    pub(crate) map: StampMap,
    control: Vec<u8>,
    /// The kernel stamps as long as some socket asks for it: this one does from the beginning.
    _asking: UdpSocket,
}

impl Stamps {
    /// Returns once the kernel stamps, or after 100 ms.
    pub(crate) fn start() -> io::Result<Self> {
        let asking = UdpSocket::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        ask(&asking)?;
        asking.set_read_timeout(Some(Nanos::from_millis(1).into()))?;
        asking.connect(asking.local_addr()?)?;
        let mut control = nix::cmsg_space!(nix::sys::time::TimeSpec);
        let deadline = MonotonicClock.now() + STAMPING_WITHIN;
        while MonotonicClock.now() < deadline {
            asking.send(&[0])?;
            if let Ok((_, Some(_))) = receive(&asking, &mut [0], &mut control) {
                break;
            }
        }
        Ok(Self {
            map: StampMap::new(realtime_bracket()),
            control,
            _asking: asking,
        })
    }

    /// Reads the two clocks against each other, if that is due.
    pub(crate) fn refresh(&mut self, now: Nanos) {
        if self.map.is_due(now) {
            self.map.read(realtime_bracket());
        }
    }

    /// Reads from `socket`: how much, and the stamp of the last segment among it, by the wall clock.
    pub(crate) fn read(
        &mut self,
        socket: &impl AsFd,
        buffer: &mut [u8],
    ) -> io::Result<(usize, Option<Nanos>)> {
        receive(socket, buffer, &mut self.control)
    }
}

/// Asks the kernel to stamp what `socket` receives.
pub(crate) fn ask(socket: &impl AsFd) -> io::Result<()> {
    Ok(setsockopt(socket, sockopt::ReceiveTimestampns, &true)?)
}

fn receive(
    socket: &impl AsFd,
    buffer: &mut [u8],
    control: &mut [u8],
) -> io::Result<(usize, Option<Nanos>)> {
    let mut parts = [IoSliceMut::new(buffer)];
    let fd = socket.as_fd().as_raw_fd();
    let received = recvmsg::<()>(fd, &mut parts, Some(control), MsgFlags::empty())?;
    let stamp = received.cmsgs().ok().and_then(|mut messages| {
        messages.find_map(|message| match message {
            ControlMessageOwned::ScmTimestampns(time) => nanos(time.tv_sec(), time.tv_nsec()),
            _ => None,
        })
    });
    Ok((received.bytes, stamp))
}

fn nanos(seconds: i64, nanos: i64) -> Option<Nanos> {
    let (seconds, nanos) = (u64::try_from(seconds).ok()?, u64::try_from(nanos).ok()?);
    Some(Nanos(
        seconds.checked_mul(1_000_000_000)?.checked_add(nanos)?,
    ))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_read_has_the_stamp_of_its_arrival() {
        let mut stamps = Stamps::start().unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut writer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (reader, _) = listener.accept().unwrap();
        ask(&reader).unwrap();
        let before = MonotonicClock.now();
        writer.write_all(b"ping").unwrap();
        let mut buffer = [0; 16];
        let (count, stamp) = stamps.read(&reader, &mut buffer).unwrap();
        let after = MonotonicClock.now();
        assert_eq!(&buffer[..count], b"ping");
        let at = stamps.map.map(stamp.unwrap(), after).unwrap();
        let error = stamps.map.error_max();
        assert!(before <= at + error && at <= after, "{before} {at} {after}");
    }

    #[test]
    fn times_that_are_none_are_no_stamps() {
        assert_eq!(nanos(1, 5), Some(Nanos(1_000_000_005)));
        assert_eq!(nanos(-1, 5), None);
        assert_eq!(nanos(1, -5), None);
        assert_eq!(nanos(i64::MAX, 0), None);
    }
}
