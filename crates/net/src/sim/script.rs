use std::fmt;

use bytes::Bytes;
use ridgeline_clock::Nanos;

/// How the other side ended its sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By FIN: this side may go on sending.
    Fin,
    /// By RST: the connection is gone.
    Reset,
}

/// A peer that lives inside the network, at one address ([`SimNet::listen`](super::SimNet::listen)).
///
/// It has no queue and no clock of its own: whatever it does is an [`Actions`] order. `connection`
/// is a small number, used again after the connection is gone (both ends finished, or a reset).
pub trait SimPeer: fmt::Debug + 'static {
    /// Somebody connected.
    fn on_accept(&mut self, connection: u32, actions: &mut Actions) {
        let _ = (connection, actions);
    }

    /// Bytes came, 1 or more.
    fn on_bytes(&mut self, connection: u32, bytes: &[u8], actions: &mut Actions);

    /// A timer rang ([`Actions::timer`]).
    fn on_timer(&mut self, connection: u32, actions: &mut Actions) {
        let _ = (connection, actions);
    }

    /// The other side ended. If not told otherwise, this side does the same.
    fn on_end(&mut self, connection: u32, ended: Ended, actions: &mut Actions) {
        let _ = (connection, ended);
        actions.fin();
    }
}

/// What a scripted peer does on the connection it was called for, in order.
///
/// `wait` moves the point in time from which the following orders count: a whole answer can be laid
/// out in one call, `send`, `wait`, `send`, `fin`.
#[derive(Debug, Default)]
pub struct Actions {
    now: Nanos,
    cursor: Nanos,
    pub(super) bytes: Vec<u8>,
    pub(super) list: Vec<(Nanos, Action)>,
}

#[derive(Debug)]
pub(super) enum Action {
    Copied { start: usize, end: usize },
    Shared(Bytes),
    Timer,
    Fin,
    Reset,
    Hold(bool),
}

impl Actions {
    pub(super) fn begin(&mut self, now: Nanos) {
        self.now = now;
        self.cursor = now;
        self.bytes.clear();
        self.list.clear();
    }

    /// The time of this call.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// The following orders happen this much later.
    pub fn wait(&mut self, span: Nanos) -> &mut Self {
        self.cursor += span;
        self
    }

    /// Sends a copy of `bytes`, as one segment if it fits one and is neither split nor merged.
    pub fn send(&mut self, bytes: &[u8]) -> &mut Self {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.push(Action::Copied {
            start,
            end: self.bytes.len(),
        })
    }

    /// The same without a copy.
    pub fn send_shared(&mut self, bytes: Bytes) -> &mut Self {
        self.push(Action::Shared(bytes))
    }

    /// Calls [`SimPeer::on_timer`] at this point. Any number may run; none can be stopped, but
    /// those of a connection that is gone do not ring.
    pub fn timer(&mut self) -> &mut Self {
        self.push(Action::Timer)
    }

    /// Sends FIN. Nothing can be sent after it; receiving goes on.
    pub fn fin(&mut self) -> &mut Self {
        self.push(Action::Fin)
    }

    /// Resets the connection. The peer is not called for it any more.
    pub fn rst(&mut self) -> &mut Self {
        self.push(Action::Reset)
    }

    /// Stops reading, at once whatever was waited: what comes stays in the network, and the other
    /// side's sends fill its send buffer.
    pub fn hold(&mut self) -> &mut Self {
        self.push(Action::Hold(true))
    }

    /// Reads again, at once whatever was waited.
    pub fn resume(&mut self) -> &mut Self {
        self.push(Action::Hold(false))
    }

    fn push(&mut self, action: Action) -> &mut Self {
        self.list.push((self.cursor, action));
        self
    }
}
