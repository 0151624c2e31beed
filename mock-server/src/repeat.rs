//! Heads of peers that repeat themselves: known by comparing, not by parsing.

use std::ops::Range;

use ridgeline_wire::http1::RequestHead;

use crate::connection::Reading;
use crate::id::Id;

/// The head that a shard read last, where it came whole, and what it says. A load generator sends the
/// same head over and over, but for a request id: such a head is recognised by two comparisons, and
/// means the same but for the id. Anything else is parsed. Nothing is guessed.
#[derive(Debug, Default)]
pub(crate) struct Repeat {
    /// With the blank line.
    head: Vec<u8>,
    /// Where the value of `X-Request-Id` stands in it; empty without one.
    id: Range<usize>,
    /// The body that it announces.
    body_bytes: usize,
    says: Option<Reading>,
}

/// A longer head is not remembered.
const HEAD_BYTES_MAX: usize = 4 << 10;

impl Repeat {
    /// Remembers a head if all that it says is in `reading`, and the next request on its connection
    /// follows its body. `bytes` are those of `head`, and nothing else.
    pub(crate) fn remember(&mut self, bytes: &[u8], head: &RequestHead<'_>, reading: &Reading) {
        let body_bytes = head
            .content_length
            .and_then(|length| usize::try_from(length).ok());
        let (Some(body_bytes), true) = (body_bytes, reading.is_plain()) else {
            return;
        };
        // Where the decoder lent it from elsewhere, it does not stand in these bytes.
        let id = match head.field(b"x-request-id") {
            Some(value) => range_in(bytes, value),
            None => Some(0..0),
        };
        if let Some(id) = id.filter(|_| bytes.len() <= HEAD_BYTES_MAX) {
            self.head.clear();
            self.head.extend_from_slice(bytes);
            self.id = id;
            self.body_bytes = body_bytes;
            self.says = Some(reading.clone());
        }
    }

    /// What `bytes` say and their body, if they are one whole request with the head remembered.
    #[inline]
    pub(crate) fn recall<'b>(&self, bytes: &'b [u8]) -> Option<(Reading, &'b [u8])> {
        let says = self.says.as_ref()?;
        if bytes.len() != self.head.len() + self.body_bytes {
            return None;
        }
        let (head, body) = bytes.split_at(self.head.len());
        let Range { start, end } = self.id;
        if head[end..] != self.head[end..] || head[..start] != self.head[..start] {
            return None;
        }
        let mut says = says.clone();
        if start < end {
            let value = &head[start..end];
            // No end of a line, and nothing that a parser would trim.
            if !value.iter().all(u8::is_ascii_graphic) {
                return None;
            }
            says.reply.request_id = Id::new(value)?;
        }
        Some((says, body))
    }
}

/// Where `part` stands in `whole`, if it is a part of the very same bytes.
fn range_in(whole: &[u8], part: &[u8]) -> Option<Range<usize>> {
    let start = part.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
    let end = start.checked_add(part.len())?;
    (end <= whole.len()).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ridgeline_wire::carry::{Carry, CarryPool};
    use ridgeline_wire::http1::{RequestDecoder, RequestPart};

    use super::*;

    const HEAD: &str = "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nX-Request-Id: 0001\r\n\
                        Content-Length: 4\r\n\r\n";

    /// What the decoder and `Reading::new` make of a whole request, remembered on the way.
    fn parse(repeat: &mut Repeat, request: &[u8]) -> Option<String> {
        let (mut decoder, mut carry) = (RequestDecoder::new(1 << 16, 1 << 16), Carry::new(0));
        let (mut pool, mut input) = (CarryPool::new(1 << 16), request);
        let part = decoder.next(&mut input, &mut carry, &mut pool);
        let Ok(Some(RequestPart::Head(head))) = part else {
            return None;
        };
        let reading = Reading::new(&head, None);
        let said = format!("{reading:?} {:?}", head.content_length);
        repeat.remember(&request[..request.len() - input.len()], &head, &reading);
        Some(said)
    }

    fn recalled(repeat: &Repeat, request: &[u8]) -> Option<String> {
        let (reading, body) = repeat.recall(request)?;
        Some(format!("{reading:?} {:?}", Some(body.len())))
    }

    #[test]
    fn only_the_same_head_is_recalled() {
        let mut repeat = Repeat::default();
        let request = format!("{HEAD}abcd");
        assert!(repeat.recall(request.as_bytes()).is_none());
        parse(&mut repeat, request.as_bytes()).unwrap();
        let (reading, body) = repeat.recall(request.as_bytes()).unwrap();
        assert_eq!(reading.reply.request_id.as_bytes(), b"0001");
        assert_eq!(body, b"abcd");
        let other = request.replace("0001", "7-_z").replace("abcd", "dcba");
        let (reading, body) = repeat.recall(other.as_bytes()).unwrap();
        assert_eq!(reading.reply.request_id.as_bytes(), b"7-_z");
        assert_eq!(body, b"dcba");
        for different in [
            request.replace("0001", "00001"),
            request.replace("0001", " 001"),
            request.replace("0001", "0\r\n1"),
            request.replace("Host: a", "Host: b"),
            format!("{request}G"),
            request[..request.len() - 1].to_owned(),
        ] {
            assert!(repeat.recall(different.as_bytes()).is_none(), "{different}");
        }
    }

    #[test]
    fn what_says_more_is_not_remembered() {
        for more in [
            "Connection: close",
            "Expect: 100-continue",
            "X-Mock-Fault: reset",
            "Transfer-Encoding: chunked",
        ] {
            let mut repeat = Repeat::default();
            let head = HEAD.replace("Host: a", &format!("Host: a\r\n{more}"));
            let head = if more.starts_with('T') {
                head.replace("Content-Length: 4\r\n", "")
            } else {
                head
            };
            assert!(parse(&mut repeat, head.as_bytes()).is_some(), "{more}");
            assert!(repeat.says.is_none(), "{more}");
        }
    }

    proptest! {
        /// The oracle: what is recalled is what the decoder says of the same bytes.
        #[test]
        fn a_recalled_head_says_what_it_would_if_parsed(
            at in 0..HEAD.len() + 4,
            byte in prop_oneof![any::<u8>(), prop::sample::select(&b"\r\n :01"[..])],
            id in any::<bool>(),
        ) {
            let mut request = format!("{HEAD}abcd").into_bytes();
            let mut repeat = Repeat::default();
            parse(&mut repeat, &request);
            let place = HEAD.find("0001").unwrap();
            request[if id { place + at % 4 } else { at }] = byte;
            if let Some(said) = recalled(&repeat, &request) {
                prop_assert_eq!(Some(said), parse(&mut Repeat::default(), &request));
            }
        }
    }
}
