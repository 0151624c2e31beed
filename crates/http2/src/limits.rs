/// Bytes that h2 is given at a time, before what they say is taken out again: what it buffers of
/// streams is never more than this and what it has read and not decoded.
pub(crate) const SLICE_BYTES: usize = 64 << 10;

/// What h2 may have read and not decoded: a frame, with room to spare.
const UNDECODED_BYTES: usize = 32 << 10;
/// A frame with one byte of data, the smallest that h2 keeps.
const SMALL_FRAME_BYTES: usize = 10;
/// What h2 takes off its budget for a small frame, until the frame is taken out: at most.
const SMALL_FRAME_COST: usize = 256;
/// The budget that all frames fit into that can be there before they are taken out. h2 holds a server that
/// passes it for hostile; by its own choice, which follows the window, a read of a coalesced event stream
/// could be that.
pub(crate) const FRAME_BUDGET: usize =
    ((SLICE_BYTES + UNDECODED_BYTES) / SMALL_FRAME_BYTES) * SMALL_FRAME_COST;

/// The largest window that there can be. RFC 9113 6.9.1.
const WINDOW_BYTES_MAX: u32 = (1 << 31) - 1;

/// Every bound of a connection.
///
/// Windows are no buffers here: data is taken out as it comes, whatever the windows allow. So they are
/// so large that no server has to wait for an update, and updates are rare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Streams at a time, also where the server allows more; at least 1.
    pub streams_max: u32,
    /// What a server may send on a stream ahead of our updates.
    pub stream_window_bytes: u32,
    /// What it may send on all of them; at least the protocol's 65,535.
    pub connection_window_bytes: u32,
    /// A response's head, uncompressed and with 32 bytes for each field (RFC 9113 6.5.2).
    pub head_bytes_max: u32,
    /// Bytes that wait to be taken by [`crate::Connection::take_output`], at least 1 KiB. Bodies beyond that
    /// are shared with whoever gave them, and not copied yet.
    pub output_bytes_max: usize,
    /// Bytes that came and of which nothing can be made before output is taken; a read more may come. A
    /// server that sends more than that without reading anything ends the connection.
    pub input_bytes_max: usize,
}

impl Default for Limits {
    /// 128 streams, windows of 16 MiB and 1 GiB, heads of 256 KiB, 256 KiB to be sent, 1 MiB that waits.
    fn default() -> Self {
        Self {
            streams_max: 128,
            stream_window_bytes: 16 << 20,
            connection_window_bytes: 1 << 30,
            head_bytes_max: 256 << 10,
            output_bytes_max: 256 << 10,
            input_bytes_max: 1 << 20,
        }
    }
}

impl Limits {
    /// The same with what can't be, made what can.
    pub(crate) fn sane(self) -> Self {
        Self {
            streams_max: self.streams_max.max(1),
            stream_window_bytes: self.stream_window_bytes.min(WINDOW_BYTES_MAX),
            connection_window_bytes: self.connection_window_bytes.clamp(65_535, WINDOW_BYTES_MAX),
            output_bytes_max: self.output_bytes_max.max(1 << 10),
            ..self
        }
    }
}
