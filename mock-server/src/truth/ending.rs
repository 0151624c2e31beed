/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// All of it was handed over.
    Complete,
    /// The peer went away before.
    Peer,
    /// A fault closed the connection in order, with the last write or before there was one.
    Closed,
    /// A fault reset it.
    Reset,
    /// The server ended before.
    Stopped,
}

impl Ending {
    /// The word in the file.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Peer => "peer",
            Self::Closed => "closed",
            Self::Reset => "reset",
            Self::Stopped => "stopped",
        }
    }
}
