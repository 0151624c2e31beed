//! What the driver needs of the kernel, looked at before anything is begun.

use std::io;

use io_uring::{Probe, cqueue, opcode, types};
use ridgeline_clock::Nanos;
use ridgeline_net::DriverError;

use crate::ring::Ring;

/// What to do where the ring can't be had.
const REMEDY: &str = "the epoll driver works here (--driver epoll)";

/// The operations used, with the version that brought each. `Bind` is not among them: it came with
/// Linux 6.11 and is needed for source addresses only.
const NEEDED: [(u8, &str); 11] = [
    (opcode::RecvMsgMulti::CODE, "RECVMSG (5.3)"),
    (opcode::SendMsg::CODE, "SENDMSG (5.3)"),
    (opcode::AcceptMulti::CODE, "ACCEPT (5.5)"),
    (opcode::AsyncCancel2::CODE, "ASYNC_CANCEL (5.5)"),
    (opcode::Connect::CODE, "CONNECT (5.5)"),
    (opcode::Close::CODE, "CLOSE (5.6)"),
    (opcode::RecvMulti::CODE, "RECV (5.6)"),
    (opcode::Send::CODE, "SEND (5.6)"),
    (opcode::Shutdown::CODE, "SHUTDOWN (5.11)"),
    (opcode::Socket::CODE, "SOCKET (5.19)"),
    (opcode::SetSockOpt::CODE, "URING_CMD (5.19)"),
];

/// Why no ring could be made.
pub(crate) fn refused(error: &io::Error) -> DriverError {
    let what = match error.raw_os_error() {
        Some(libc::ENOSYS) => "this kernel has no io_uring".to_owned(),
        Some(libc::EPERM | libc::EACCES) => {
            "io_uring is not allowed here (seccomp profile or kernel.io_uring_disabled)".to_owned()
        }
        Some(libc::EINVAL) => {
            "this kernel's io_uring lacks SINGLE_ISSUER or DEFER_TASKRUN (Linux 6.1)".to_owned()
        }
        _ => format!("no io_uring could be made: {error}"),
    };
    DriverError::Unavailable {
        what,
        remedy: REMEDY,
    }
}

/// A step of the set-up failed.
pub(crate) fn lacks(what: &str, error: &io::Error) -> DriverError {
    DriverError::Unavailable {
        what: format!("io_uring here lacks {what}: {error}"),
        remedy: REMEDY,
    }
}

/// Features and operations.
pub(crate) fn check(ring: &Ring) -> Result<(), DriverError> {
    let params = ring.io().params();
    let features = [
        (params.is_feature_nodrop(), "NODROP (5.5)"),
        (params.is_feature_submit_stable(), "SUBMIT_STABLE (5.5)"),
        (params.is_feature_ext_arg(), "EXT_ARG (5.11)"),
        (params.is_feature_skip_cqe_on_success(), "CQE_SKIP (5.17)"),
    ];
    let mut probe = Probe::new();
    ring.io()
        .submitter()
        .register_probe(&mut probe)
        .map_err(|e| lacks("PROBE (5.6)", &e))?;
    let operations = NEEDED.map(|(code, name)| (probe.is_supported(code), name));
    let missing: Vec<&str> = features
        .into_iter()
        .chain(operations)
        .filter_map(|(has, name)| (!has).then_some(name))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let what = format!("io_uring here lacks {}", missing.join(", "));
    Err(DriverError::Unavailable {
        what,
        remedy: REMEDY,
    })
}

/// Sets an option of a direct descriptor, which is a command and has no operation of its own to
/// ask for.
pub(crate) fn check_options(ring: &mut Ring) -> Result<(), DriverError> {
    static ONE: i32 = 1;
    let failed = |error: io::Error| lacks("socket options (6.7)", &error);
    let slot = types::DestinationSlot::auto_target();
    let socket = opcode::Socket::new(libc::AF_INET, libc::SOCK_STREAM, 0).file_index(Some(slot));
    let file = complete(ring, &socket.build()).map_err(failed)?;
    let file = types::Fixed(u32::try_from(file).unwrap_or(0));
    let (level, name) = (
        libc::IPPROTO_TCP.cast_unsigned(),
        libc::TCP_NODELAY.cast_unsigned(),
    );
    let option = opcode::SetSockOpt::new(file, level, name, (&raw const ONE).cast(), 4);
    let set = complete(ring, &option.build());
    complete(ring, &opcode::Close::new(file).build()).map_err(failed)?;
    set.map(|_| ()).map_err(failed)
}

/// One operation of a ring that has no others.
fn complete(ring: &mut Ring, entry: &io_uring::squeue::Entry) -> io::Result<i32> {
    // SAFETY: the invariant: the entries of `check_options` point to a static or to nothing.
    unsafe { ring.push(entry) }?;
    ring.enter_and_wait(Nanos::MAX, Nanos::ZERO, Nanos::ZERO)?;
    let completion: Option<cqueue::Entry> = ring.pop();
    let Some(completion) = completion else {
        return Err(io::ErrorKind::Interrupted.into());
    };
    ring.retire();
    match completion.result() {
        error if error < 0 => Err(io::Error::from_raw_os_error(-error)),
        value => Ok(value),
    }
}
