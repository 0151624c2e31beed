//! A connection's bytes in memory, in the shape that h2 reads and writes them.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How the other side's bytes ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// By FIN.
    Fin,
    /// By RST, or for another reason that leaves nothing to hope for.
    Reset,
}

/// Bytes on their way in and on their way out.
///
/// Nothing is ever woken from here: whoever puts bytes in or takes some out polls afterwards.
#[derive(Debug)]
pub(crate) struct Pipe {
    incoming: Vec<u8>,
    /// Where in `incoming` the unread bytes begin.
    read_from: usize,
    /// How many bytes may be read before [`Pipe::allow`] says more.
    allowance: usize,
    cut: Option<Cut>,
    outgoing: Vec<u8>,
    outgoing_max: usize,
    is_blocked: bool,
}

impl Pipe {
    /// An empty one that takes up to `outgoing_max` bytes before somebody must take them out.
    pub(crate) fn new(outgoing_max: usize) -> Self {
        Self {
            incoming: Vec::new(),
            read_from: 0,
            allowance: 0,
            cut: None,
            outgoing: Vec::new(),
            outgoing_max,
            is_blocked: false,
        }
    }

    /// Bytes came.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.incoming.drain(..self.read_from);
        self.read_from = 0;
        self.incoming.extend_from_slice(bytes);
    }

    /// No bytes will come.
    pub(crate) fn cut(&mut self, cut: Cut) {
        self.cut.get_or_insert(cut);
    }

    /// How what comes has ended, if it has.
    pub(crate) fn ending(&self) -> Option<Cut> {
        self.cut
    }

    /// Bytes that came and were not read yet.
    pub(crate) fn held_bytes(&self) -> usize {
        self.incoming.len() - self.read_from
    }

    /// Lets `bytes` more be read, if what was allowed before is used up and something is there. Whether
    /// it did.
    pub(crate) fn allow(&mut self, bytes: usize) -> bool {
        let allows = self.allowance == 0 && self.held_bytes() > 0;
        if allows {
            self.allowance = bytes;
        }
        allows
    }

    /// Forgets what came: nobody will read it.
    pub(crate) fn discard(&mut self) {
        self.incoming = Vec::new();
        self.read_from = 0;
    }

    /// Moves what is to be sent to the end of `out`. Whether writing had to wait for that.
    pub(crate) fn take(&mut self, out: &mut Vec<u8>) -> bool {
        if out.is_empty() {
            std::mem::swap(out, &mut self.outgoing);
        } else {
            out.append(&mut self.outgoing);
        }
        std::mem::take(&mut self.is_blocked)
    }

    /// Whether writing waits for room.
    pub(crate) fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// Takes as much of `bytes` as there is room for.
    fn write(&mut self, bytes: &[u8]) -> usize {
        let room = self.outgoing_max.saturating_sub(self.outgoing.len());
        let taken = room.min(bytes.len());
        self.outgoing.extend_from_slice(&bytes[..taken]);
        self.is_blocked |= taken < bytes.len();
        taken
    }

    fn read(&mut self, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let unread = &self.incoming[self.read_from..];
        if unread.is_empty() {
            return match self.cut {
                None => Poll::Pending,
                Some(Cut::Fin) => Poll::Ready(Ok(())),
                Some(Cut::Reset) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            };
        }
        let taken = unread.len().min(self.allowance).min(buffer.remaining());
        if taken == 0 {
            return Poll::Pending;
        }
        buffer.put_slice(&unread[..taken]);
        self.allowance -= taken;
        self.read_from += taken;
        if self.read_from == self.incoming.len() {
            self.incoming.clear();
            self.read_from = 0;
        }
        Poll::Ready(Ok(()))
    }
}

/// The end of a pipe that h2 holds.
#[derive(Debug)]
pub(crate) struct End(Arc<Mutex<Pipe>>);

impl End {
    pub(crate) fn new(pipe: &Arc<Mutex<Pipe>>) -> Self {
        Self(Arc::clone(pipe))
    }
}

/// Nobody panics while holding one of these locks, and what is behind them would still be whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AsyncRead for End {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        lock(&self.0).read(buffer)
    }
}

impl AsyncWrite for End {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match lock(&self.0).write(bytes) {
            0 if !bytes.is_empty() => Poll::Pending,
            taken => Poll::Ready(Ok(taken)),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut pipe = lock(&self.0);
        let mut taken = 0;
        for slice in slices {
            let part = pipe.write(slice);
            taken += part;
            if part < slice.len() {
                break;
            }
        }
        if taken == 0 && pipe.is_blocked {
            Poll::Pending
        } else {
            Poll::Ready(Ok(taken))
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
