//! What a multishot `recvmsg` writes into a buffer: a header, control messages, then the bytes.

use ridgeline_clock::Nanos;

/// `struct io_uring_recvmsg_out`: lengths of name, control and payload, and flags, u32 each.
const HEADER: usize = 16;

/// Room for the one control message asked for: `struct cmsghdr` and `struct scm_timestamping` (three
/// `struct timespec`, of which the first is the software stamp).
pub(crate) const CONTROL: usize = 16 + 48;

/// Bytes of a buffer before the received ones.
pub(crate) const OVERHEAD: usize = HEADER + CONTROL;

/// SCM_TIMESTAMPING with 64-bit times, whatever the C library's `time_t`
/// (asm-generic/socket.h).
const STAMP_NEW: i32 = 65;

/// Splits a buffer into the kernel's receive stamp (wall clock, ns since 1970) and the received
/// bytes.
#[inline]
pub(crate) fn parse(buffer: &[u8]) -> (Option<Nanos>, &[u8]) {
    let (Some(control_len), Some(payload_len)) = (word(buffer, 4), word(buffer, 8)) else {
        return (None, &[]);
    };
    let control = buffer.get(HEADER..OVERHEAD.min(HEADER + control_len as usize));
    let payload = buffer.get(OVERHEAD..).unwrap_or(&[]);
    (
        control.and_then(stamp),
        &payload[..payload.len().min(payload_len as usize)],
    )
}

/// The software stamp among control messages.
#[inline]
fn stamp(mut control: &[u8]) -> Option<Nanos> {
    loop {
        let len = usize::try_from(u64::from_ne_bytes(*control.first_chunk()?)).ok()?;
        let level = word(control, 8)?;
        let kind = word(control, 12)?.cast_signed();
        let body = control.get(16..len)?;
        if level.cast_signed() == libc::SOL_SOCKET
            && (kind == libc::SO_TIMESTAMPING || kind == STAMP_NEW)
        {
            let secs = u64::from_ne_bytes(*body.first_chunk()?);
            let nanos = u64::from_ne_bytes(*body.get(8..)?.first_chunk()?);
            let wall = Nanos(secs.checked_mul(1_000_000_000)?.checked_add(nanos)?);
            return (wall > Nanos::ZERO).then_some(wall);
        }
        // The next one is aligned to a word.
        control = control.get(len.checked_next_multiple_of(8)?..)?;
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(control: &[u8], payload: &[u8]) -> Vec<u8> {
        let len = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap();
        let words = [0, len(control), len(payload), 0];
        let mut buffer: Vec<u8> = words
            .iter()
            .flat_map(|word: &u32| word.to_ne_bytes())
            .collect();
        buffer.extend_from_slice(control);
        buffer.resize(OVERHEAD, 0);
        buffer.extend_from_slice(payload);
        buffer
    }

    fn control(level: i32, kind: i32, body: &[u8]) -> Vec<u8> {
        let mut bytes = (16 + body.len()).to_ne_bytes().to_vec();
        bytes.extend_from_slice(&level.to_ne_bytes());
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(body);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    fn times(secs: i64, nanos: i64) -> Vec<u8> {
        [secs, nanos, 0, 0, 0, 0]
            .iter()
            .flat_map(|time| time.to_ne_bytes())
            .collect()
    }

    #[test]
    fn a_stamp_is_found_by_level_and_kind() {
        let wall = Nanos(1_700_000_000_000_000_123);
        for kind in [libc::SO_TIMESTAMPING, STAMP_NEW] {
            let stamped = control(libc::SOL_SOCKET, kind, &times(1_700_000_000, 123));
            assert_eq!(parse(&message(&stamped, b"ab")), (Some(wall), &b"ab"[..]));
        }
        let other = control(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &times(1, 1));
        assert_eq!(parse(&message(&other, b"ab")), (None, &b"ab"[..]));
        let other = control(libc::IPPROTO_IP, libc::SO_TIMESTAMPING, &times(1, 1));
        assert_eq!(parse(&message(&other, b"")), (None, &b""[..]));
    }

    #[test]
    fn a_message_before_the_stamp_is_skipped() {
        let mut both = control(libc::SOL_SOCKET, 1, &[7; 3]);
        both.extend_from_slice(&control(libc::SOL_SOCKET, STAMP_NEW, &times(2, 5)[..24]));
        assert_eq!(
            parse(&message(&both, b"x")),
            (Some(Nanos(2_000_000_005)), &b"x"[..])
        );
    }

    #[test]
    fn a_zero_stamp_is_none() {
        let zero = control(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &times(0, 0));
        assert_eq!(parse(&message(&zero, b"x")), (None, &b"x"[..]));
    }

    #[test]
    fn no_prefix_of_a_message_panics() {
        let stamped = control(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &times(9, 9));
        let whole = message(&stamped, b"payload");
        for end in 0..whole.len() {
            let (_, payload) = parse(&whole[..end]);
            assert!(b"payload".starts_with(payload));
        }
        for len in [0u64, 1, 15, 16, 17, u64::MAX] {
            let mut broken = whole.clone();
            broken[16..24].copy_from_slice(&len.to_ne_bytes());
            assert_eq!(parse(&broken).1, b"payload");
        }
    }
}
