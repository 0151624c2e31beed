use bytes::Bytes;
use ridgeline_http2::{HeadTemplate, RequestHead};
use ridgeline_wire::http1::RequestTemplate;

use crate::slot::Slot;

/// Everything that can be sent, made before the run: one head template, one body per sample.
#[derive(Debug)]
pub struct Requests {
    /// By endpoint: those of one server differ from those of another in their Host at least.
    templates: Vec<RequestTemplate>,
    /// The same for HTTP/2, where that is spoken; else empty.
    heads: Vec<HeadTemplate>,
    bodies: Vec<Bytes>,
    /// By sample; empty when nobody counted them.
    input_tokens: Vec<Option<u32>>,
    /// By sample; empty where none belongs to a session.
    sessions: Vec<Option<u64>>,
    inline_bytes: usize,
}

impl Requests {
    /// `bodies`: one per sample of the data set, at least one. Requests of up to `inline_bytes`
    /// are sent from one buffer.
    #[must_use]
    pub fn new(template: RequestTemplate, bodies: Vec<Bytes>, inline_bytes: usize) -> Self {
        assert!(!bodies.is_empty(), "a run needs a sample");
        Self {
            templates: vec![template],
            heads: Vec::new(),
            bodies,
            input_tokens: Vec::new(),
            sessions: Vec::new(),
            inline_bytes,
        }
    }

    /// The same for several endpoints, each with its own template.
    #[must_use]
    pub fn with_templates(mut self, templates: Vec<RequestTemplate>) -> Self {
        assert!(!templates.is_empty(), "a run needs an endpoint");
        self.templates = templates;
        self
    }

    /// The same with the tokens of each sample's input as a tokenizer counts them, for where the
    /// server does not.
    #[must_use]
    pub fn with_input_tokens(mut self, input_tokens: Vec<Option<u32>>) -> Self {
        self.input_tokens = input_tokens;
        self
    }

    /// The same with the session of each sample, where it belongs to one.
    #[must_use]
    pub fn with_sessions(mut self, sessions: Vec<Option<u64>>) -> Self {
        self.sessions = sessions;
        self
    }

    /// The session of a sample.
    pub(crate) fn session(&self, sample: u32) -> Option<u64> {
        self.sessions.get(sample as usize).copied().flatten()
    }

    /// The same for connections that speak HTTP/2, too, by endpoint.
    #[must_use]
    pub fn with_http2(mut self, heads: Vec<HeadTemplate>) -> Self {
        self.heads = heads;
        self
    }

    /// The request of a slot as HTTP/2 sends it; nothing without [`Requests::with_http2`].
    pub(crate) fn stream(&self, slot: &Slot) -> Option<(RequestHead, Bytes)> {
        let body = &self.bodies[slot.sample as usize];
        let heads = self.heads.get(usize::from(slot.endpoint))?;
        Some((heads.head(slot.index, body.len() as u64), body.clone()))
    }

    /// The tokens of a sample's input, where a tokenizer counted them.
    #[must_use]
    pub fn input_tokens(&self, sample: u32) -> Option<u32> {
        self.input_tokens.get(sample as usize).copied().flatten()
    }

    /// How many samples there are.
    #[must_use]
    pub fn samples(&self) -> u32 {
        u32::try_from(self.bodies.len()).unwrap_or(u32::MAX)
    }

    /// Writes a slot's request over `head` and returns what follows it: nothing when the body is small
    /// enough to stand in `head` too.
    pub(crate) fn write(&self, head: &mut Vec<u8>, slot: &Slot) -> Bytes {
        self.write_to(head, slot.endpoint, slot.index, slot.sample)
    }

    fn write_to(&self, head: &mut Vec<u8>, endpoint: u16, index: u64, sample: u32) -> Bytes {
        #[cfg(ridgeline_planted = "engine")]
        self.write_again(head, index, sample);
        let body = &self.bodies[sample as usize];
        let template = &self.templates[usize::from(endpoint)];
        write_request(template, index, body, self.inline_bytes, head)
    }

    /// A slowdown for the gate to find (perf/METHOD.md): a request's head is written more often than
    /// it is sent, by as many percent as the gate says.
    #[cfg(ridgeline_planted = "engine")]
    fn write_again(&self, head: &mut Vec<u8>, index: u64, sample: u32) {
        use std::hint::black_box;
        static PERCENT: std::sync::LazyLock<u64> = std::sync::LazyLock::new(|| {
            let said = std::env::var("RIDGELINE_PLANT_PERCENT");
            said.map_or(0, |said| said.parse().unwrap_or(0))
        });
        let length = self.bodies[sample as usize].len() as u64;
        let times = (index + 1) * *PERCENT / 100 - index * *PERCENT / 100;
        for _ in 0..times {
            self.templates[0].write_head(index, length, black_box(&mut *head));
        }
    }
}

/// Writes request `index` over `head` and returns what follows it: nothing when the body is small
/// enough to stand in `head` too.
#[inline]
pub(crate) fn write_request(
    template: &RequestTemplate,
    index: u64,
    body: &Bytes,
    inline_bytes: usize,
    head: &mut Vec<u8>,
) -> Bytes {
    template.write_head(index, body.len() as u64, head);
    if head.len() + body.len() <= inline_bytes {
        head.extend_from_slice(body);
        return Bytes::new();
    }
    body.clone()
}

/// What the names of all requests of run `run` begin with (the template's `id_prefix`).
#[must_use]
pub fn id_prefix(run: u32) -> String {
    format!("rl-{run:08x}-")
}

/// The name of a request on the wire, `X-Request-Id`: [`id_prefix`], and the request's index in 16
/// hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId([u8; Self::LENGTH]);

impl RequestId {
    /// Its length in bytes.
    pub const LENGTH: usize = 28;

    /// The name of request `index` of run `run`.
    #[must_use]
    pub fn new(run: u32, index: u64) -> Self {
        let mut name = *b"rl-00000000-0000000000000000";
        write_hex(&mut name[3..11], u64::from(run));
        write_hex(&mut name[12..], index);
        Self(name)
    }

    /// The bytes, all of them ASCII.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Display for RequestId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0
            .iter()
            .try_for_each(|&byte| write!(f, "{}", char::from(byte)))
    }
}

/// Writes `value` in lower-case hexadecimal over the whole of `digits`, cutting what is beyond.
fn write_hex(digits: &mut [u8], mut value: u64) {
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(value & 15) as usize];
        value >>= 4;
    }
}

#[cfg(test)]
mod tests {
    use ridgeline_wire::http1::{Method, RequestOptions};

    use super::*;

    #[test]
    fn the_name_in_the_records_is_the_one_on_the_wire() {
        let template = RequestTemplate::new(&RequestOptions {
            method: Method::Post,
            target: "/",
            host: "h",
            accept: "*/*",
            api_key: None,
            id_prefix: &id_prefix(0xbeef),
            headers: &[],
        })
        .unwrap();
        for index in [0, 1, 0x1_0203, u64::MAX] {
            assert_eq!(
                RequestId::new(0xbeef, index).to_string(),
                template.request_id(index)
            );
        }
        assert_eq!(RequestId::new(0, 0).as_bytes().len(), RequestId::LENGTH);
    }

    #[test]
    fn a_small_body_stands_in_the_head_buffer_and_a_large_one_is_shared() {
        let options = RequestOptions {
            method: Method::Post,
            target: "/",
            host: "h",
            accept: "*/*",
            api_key: None,
            id_prefix: "",
            headers: &[],
        };
        let template = RequestTemplate::new(&options).unwrap();
        let bodies = vec![Bytes::from(vec![b'x'; 10]), Bytes::from(vec![b'y'; 2000])];
        let requests = Requests::new(template, bodies.clone(), 1024);
        let mut head = Vec::new();
        assert!(
            requests.write_to(&mut head, 0, 1, 0).is_empty() && head.ends_with(b"\n\r\nxxxxxxxxxx")
        );
        assert!(requests.write_to(&mut head, 0, 1, 1) == bodies[1] && head.ends_with(b"\r\n\r\n"));
    }
}
