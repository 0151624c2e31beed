use rmp::encode;

/// A vector takes whatever is written.
const TAKES: &str = "memory takes every write";

/// Bytes of the head of an array whose length is told when it is known.
const ARRAY_HEAD: usize = 5;

/// Puts a message together.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Writes over `buffer`.
    pub(crate) fn over(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        Self { bytes: buffer }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn truncate(&mut self, length: usize) {
        self.bytes.truncate(length);
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// `[version, kind, ...]` with `count` elements in all.
    pub(crate) fn head(&mut self, kind: &str, count: u32) {
        self.array(count);
        self.uint(crate::protocol::VERSION);
        self.text(kind);
    }

    pub(crate) fn uint(&mut self, value: u64) {
        encode::write_uint(&mut self.bytes, value).expect(TAKES);
    }

    pub(crate) fn sint(&mut self, value: i64) {
        encode::write_sint(&mut self.bytes, value).expect(TAKES);
    }

    pub(crate) fn boolean(&mut self, value: bool) {
        encode::write_bool(&mut self.bytes, value).expect(TAKES);
    }

    pub(crate) fn nil(&mut self) {
        encode::write_nil(&mut self.bytes).expect(TAKES);
    }

    pub(crate) fn array(&mut self, count: u32) {
        encode::write_array_len(&mut self.bytes, count).expect(TAKES);
    }

    pub(crate) fn text(&mut self, text: &str) {
        encode::write_str(&mut self.bytes, text).expect(TAKES);
    }

    pub(crate) fn binary(&mut self, bytes: &[u8]) {
        encode::write_bin(&mut self.bytes, bytes).expect(TAKES);
    }

    pub(crate) fn optional_uint(&mut self, value: Option<impl Into<u64>>) {
        match value {
            Some(value) => self.uint(value.into()),
            None => self.nil(),
        }
    }

    pub(crate) fn optional_text(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.text(text),
            None => self.nil(),
        }
    }

    /// Begins an array whose length is told by [`Writer::close`]. Where it begins.
    pub(crate) fn open(&mut self) -> usize {
        let at = self.bytes.len();
        self.bytes.extend([0; ARRAY_HEAD]);
        at
    }

    /// The array that began at `at` has `count` elements.
    pub(crate) fn close(&mut self, at: usize, count: u32) {
        let [a, b, c, d] = count.to_be_bytes();
        let head = [rmp::Marker::Array32.to_u8(), a, b, c, d];
        self.bytes[at..at + ARRAY_HEAD].copy_from_slice(&head);
    }
}
