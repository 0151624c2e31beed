use crate::frames::{FrameScanner, Kind, Seen};
use crate::limits::Limits;
use crate::windows::Windows;

/// The flag of SETTINGS that only confirm the other end's.
const ACK: u8 = 1;

/// What the heads of frames tell.
#[derive(Debug)]
pub(crate) struct Heads {
    incoming: FrameScanner,
    outgoing: FrameScanner,
    pub(crate) windows: Windows,
    /// Whether anything came at all.
    has_bytes: bool,
    /// Whether the first frame was one of settings, as it must be.
    is_http2: Option<bool>,
    /// The server's settings came, and hold: we have confirmed them.
    has_settings: bool,
    /// The server goes away: the highest stream it may have begun with.
    last: Option<u32>,
}

impl Heads {
    /// Nothing was said yet.
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            incoming: FrameScanner::of_server(),
            outgoing: FrameScanner::of_client(),
            windows: Windows::new(limits.stream_window_bytes, limits.streams_max),
            has_bytes: false,
            is_http2: None,
            has_settings: false,
            last: None,
        }
    }

    /// Whether the server's settings hold.
    pub(crate) const fn has_settings(&self) -> bool {
        self.has_settings
    }

    /// Whether what the server says does not begin as HTTP/2 does, as far as it came.
    pub(crate) fn is_foreign(&self) -> bool {
        self.has_bytes && self.is_http2 != Some(true)
    }

    /// The highest stream that a server which goes away may have begun with.
    pub(crate) const fn last(&self) -> Option<u32> {
        self.last
    }

    /// Bytes of the server.
    pub(crate) fn received(&mut self, bytes: &[u8]) {
        self.has_bytes |= !bytes.is_empty();
        let Self {
            incoming,
            windows,
            is_http2,
            last,
            ..
        } = self;
        incoming.read(bytes, |seen: Seen| {
            is_http2.get_or_insert(seen.kind == Kind::Settings && seen.stream == 0);
            match seen.kind {
                Kind::GoAway => *last = Some(last.unwrap_or(u32::MAX).min(seen.word)),
                _ => windows.received(seen),
            }
        });
    }

    /// Bytes for the server.
    pub(crate) fn sent(&mut self, bytes: &[u8]) {
        let Self {
            outgoing,
            windows,
            has_settings,
            ..
        } = self;
        outgoing.read(bytes, |seen| match seen.kind {
            Kind::Settings => *has_settings |= seen.flags & ACK != 0,
            _ => windows.sent(seen),
        });
    }
}
