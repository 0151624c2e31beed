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
    fn open(&mut self) -> usize {
        let at = self.bytes.len();
        self.bytes.extend([0; ARRAY_HEAD]);
        at
    }

    /// The array that began at `at` has `count` elements.
    fn close(&mut self, at: usize, count: u32) {
        let [a, b, c, d] = count.to_be_bytes();
        let head = [rmp::Marker::Array32.to_u8(), a, b, c, d];
        self.bytes[at..at + ARRAY_HEAD].copy_from_slice(&head);
    }
}

/// A message whose last element is a list, while that is being written.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) writer: Writer,
    at: usize,
    count: u32,
}

impl List {
    /// An empty list in a message of this kind, in place of what `buffer` holds.
    pub(crate) fn new(kind: &str, buffer: Vec<u8>) -> Self {
        let mut writer = Writer::over(buffer);
        writer.head(kind, 3);
        let at = writer.open();
        Self {
            writer,
            at,
            count: 0,
        }
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// For one more element.
    pub(crate) fn element(&mut self) -> &mut Writer {
        self.count += 1;
        &mut self.writer
    }

    pub(crate) fn into_message(mut self) -> Vec<u8> {
        self.writer.close(self.at, self.count);
        self.writer.into_bytes()
    }
}
