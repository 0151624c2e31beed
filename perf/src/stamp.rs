//! Kernel receive stamps.

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};

use ridgeline_clock::Nanos;

/// Room for the ancillary data of one receive: a header of 16 bytes and three times of 16.
pub(crate) const CONTROL_BYTES: usize = 64;

static FLAGS: libc::c_uint = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;

/// What the kernel writes before the ancillary data of a multishot receive: four u32, of which the
/// third is the payload's length.
const HEADER_BYTES: usize = 16;

/// Takes a buffer apart that a multishot receive with ancillary data filled: payload and stamp.
/// `None` for one that is too short.
#[inline]
pub(crate) fn split(buffer: &[u8]) -> Option<(&[u8], Option<Nanos>)> {
    let (header, rest) = buffer.split_at_checked(HEADER_BYTES)?;
    let (control, payload) = rest.split_at_checked(CONTROL_BYTES)?;
    let length = u32::from_ne_bytes(header[8..12].try_into().ok()?) as usize;
    Some((payload.get(..length)?, read(control)))
}

/// Asks the kernel to stamp what this socket receives.
pub(crate) fn enable(socket: BorrowedFd<'_>) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of_val(&FLAGS)).expect("4");
    // SAFETY: a valid descriptor, and a value that lives through the call with its true length.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            (&raw const FLAGS).cast(),
            length,
        )
    };
    if answer == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The kernel's receive stamp (wall clock) in the ancillary data of a receive, if there is one.
///
/// Layout (x86-64 and other 64-bit Linux): length u64, level i32, type i32, then three times of
/// {seconds i64, nanoseconds i64}, of which the first is the software stamp.
#[inline]
pub(crate) fn read(control: &[u8]) -> Option<Nanos> {
    let level = i32::from_ne_bytes(control.get(8..12)?.try_into().ok()?);
    let kind = i32::from_ne_bytes(control.get(12..16)?.try_into().ok()?);
    if (level, kind) != (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) {
        return None;
    }
    let secs = u64::from_ne_bytes(control.get(16..24)?.try_into().ok()?);
    let nanos = u64::from_ne_bytes(control.get(24..32)?.try_into().ok()?);
    (secs > 0).then(|| Nanos(secs * 1_000_000_000 + nanos))
}

/// Receives bytes and their stamp (wall clock) by a plain blocking call; 0 bytes at the end.
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
) -> io::Result<(usize, Option<Nanos>)> {
    let mut control = Control([0; CONTROL_BYTES]);
    let mut part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: null pointers and zero lengths are a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    (message.msg_control, message.msg_controllen) = (control.0.as_mut_ptr().cast(), CONTROL_BYTES);
    // SAFETY: every pointer in `message` outlives the call and has the length given for it.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    Ok((
        length,
        read(&control.0[..message.msg_controllen.min(CONTROL_BYTES)]),
    ))
}

/// Aligned as the kernel's header in it.
#[repr(align(8))]
struct Control([u8; CONTROL_BYTES]);

/// Keeps stamping switched on.
///
/// The kernel switches it on for the whole machine in the background, some time after the first
/// socket asks for it, and off with the last: without this the first reads of a run have no stamp.
#[derive(Debug)]
pub(crate) struct Stamping {
    _writer: TcpStream,
    _reader: TcpStream,
}

const TRIES_MAX: u32 = 1_000_000;

impl Stamping {
    /// Sends single bytes to itself until one comes with a stamp.
    pub(crate) fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let mut writer = TcpStream::connect(listener.local_addr()?)?;
        let (reader, _) = listener.accept()?;
        writer.set_nodelay(true)?;
        enable(reader.as_fd())?;
        for _ in 0..TRIES_MAX {
            writer.write_all(&[0])?;
            if receive(reader.as_fd(), &mut [0])?.1.is_some() {
                return Ok(Self {
                    _writer: writer,
                    _reader: reader,
                });
            }
        }
        Err(io::Error::other(
            "the kernel does not stamp what is received over loopback",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(level: i32, kind: i32, secs: u64, nanos: u64) -> Vec<u8> {
        let mut bytes = 64_u64.to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(secs.to_ne_bytes());
        bytes.extend(nanos.to_ne_bytes());
        bytes.resize(CONTROL_BYTES, 0);
        bytes
    }

    #[test]
    fn only_a_whole_timestamping_message_gives_a_stamp() {
        let good = control(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, 3, 7);
        assert_eq!(read(&good), Some(Nanos(3_000_000_007)));
        assert_eq!(read(&good[..31]), None);
        assert_eq!(read(&[]), None);
        assert_eq!(
            read(&control(libc::SOL_SOCKET, libc::SCM_RIGHTS, 3, 7)),
            None
        );
        assert_eq!(
            read(&control(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, 0, 0)),
            None
        );
    }

    #[test]
    fn a_buffer_is_header_control_payload() {
        let header = [0_u32, 64, 3, 0].map(u32::to_ne_bytes).concat();
        let control = control(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, 0, 9);
        let whole = [&header[..], &control, b"abc"].concat();
        assert_eq!(split(&whole), Some((&b"abc"[..], None)));
        assert_eq!(split(&whole[..whole.len() - 1]), None);
        assert_eq!(split(&whole[..20]), None);
    }
}
