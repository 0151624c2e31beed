//! Parts from elsewhere: of a protocol that has many exchanges on a connection.

use ridgeline_clock::Arrival;

use super::body::Body;
use super::{Exchange, Observer, Progress, Shared};
use crate::carry::Carry;
use crate::http1::Part;

impl Exchange {
    /// The next part of the response, where another protocol than HTTP/1.1 brings it: what
    /// [`Exchange::received`] finds in bytes. `carry` belongs to the exchange's stream and is empty when the
    /// answer is final; `shared` to the thread. Bytes of heads are not counted: they were compressed.
    ///
    /// [`Progress::Done`] says by `reusable` whether the response is over; if not, the rest is of no use, and
    /// the stream is to be given up. A stream that ends without [`Part::End`] is told by [`Exchange::fail`].
    pub fn part<O: Observer>(
        &mut self,
        part: Part<'_>,
        carry: &mut Carry,
        shared: &mut Shared,
        arrival: Arrival,
        observer: &mut O,
    ) -> Progress {
        if self.finished {
            return Progress::Done { reusable: false };
        }
        self.answer.first_byte.get_or_insert(arrival.at);
        let mut progress = Progress::More;
        match part {
            Part::Head(head) => self.head(head),
            Part::Data(data) => {
                self.answer.received_bytes += data.len() as u64;
                let pool = &mut shared.pool;
                if let Body::Stream(_) = self.body {
                    self.stream(data, carry, pool, arrival, observer);
                } else {
                    let piece = self.other_data(data, carry, pool, arrival, observer);
                    self.keep(piece, carry, pool);
                }
                if let Body::Lost = self.body {
                    progress = Progress::Done { reusable: false };
                }
            }
            Part::End => {
                self.complete(&[], carry, shared, arrival, observer);
                progress = Progress::Done { reusable: true };
            }
        }
        let progress = self.bound(progress);
        if let Progress::Done { .. } = progress {
            self.finish(carry, &mut shared.pool, arrival.at);
        }
        progress
    }
}

#[cfg(test)]
mod tests {
    use ridgeline_clock::Nanos;

    use super::*;
    use crate::exchange::{Answer, Asked, ExchangeLimits};
    use crate::http1::ResponseDecoder;
    use crate::openai::EndpointType;

    const ARRIVAL: Arrival = Arrival::reaped(Nanos(7));

    fn begun(streaming: bool) -> Exchange {
        let limits = ExchangeLimits {
            body_bytes_max: 1 << 10,
            ..ExchangeLimits::default()
        };
        let mut exchange = Exchange::new(&limits);
        exchange.begin(Asked {
            endpoint: EndpointType::Chat,
            streaming,
            save_text: true,
        });
        exchange
    }

    /// As it would come over HTTP/1.1, in reads of `size` bytes.
    fn as_bytes(streaming: bool, bytes: &[u8], size: usize) -> (Answer, Progress) {
        let (mut carry, mut shared) = (Carry::new(16), Shared::new(1 << 20, 4 << 10));
        let mut http = ResponseDecoder::new(1 << 10);
        let mut exchange = begun(streaming);
        http.start();
        let mut progress = Progress::More;
        for read in bytes.chunks(size) {
            progress =
                exchange.received(&mut http, &mut carry, &mut shared, read, ARRIVAL, &mut ());
        }
        (exchange.answer().clone(), progress)
    }

    /// The same by its parts.
    fn as_parts(streaming: bool, bytes: &[u8], size: usize) -> (Answer, Progress) {
        let (mut heads, mut carry) = (Carry::new(16), Carry::new(16));
        let mut shared = Shared::new(1 << 20, 4 << 10);
        let mut http = ResponseDecoder::new(1 << 10);
        let mut exchange = begun(streaming);
        http.start();
        let mut progress = Progress::More;
        for mut read in bytes.chunks(size) {
            loop {
                let part = http.next(&mut read, &mut heads, &mut shared.pool).unwrap();
                let Some(part) = part else { break };
                if progress == Progress::More {
                    progress = exchange.part(part, &mut carry, &mut shared, ARRIVAL, &mut ());
                }
                if part == Part::End {
                    break;
                }
            }
        }
        assert!(carry.is_empty() || progress == Progress::More);
        (exchange.answer().clone(), progress)
    }

    #[test]
    fn parts_mean_what_the_bytes_mean_that_they_were_found_in() {
        let event = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n";
        let answer =
            "{\"choices\":[{\"message\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}";
        let long = format!("{{\"choices\":[],\"pad\":\"{}\"}}", "x".repeat(2 << 10));
        for (streaming, head, body) in [
            (
                true,
                "200 OK\r\nContent-Type: text/event-stream",
                event.repeat(3) + "data: [DONE]\n\n",
            ),
            (true, "200 OK", event.to_owned() + "data: [DONE]\n\n"),
            (
                true,
                "200 OK\r\nContent-Type: text/event-stream",
                event.to_owned(),
            ),
            (
                true,
                "200 OK\r\nContent-Type: text/event-stream",
                "data: {\n\n".to_owned(),
            ),
            (
                false,
                "200 OK\r\nContent-Type: application/json",
                answer.to_owned(),
            ),
            (
                false,
                "200 OK\r\nContent-Type: application/json",
                "{".to_owned(),
            ),
            (false, "200 OK\r\nContent-Type: application/json", long),
            (true, "200 OK", "<html>".to_owned()),
            (
                true,
                "500 No",
                "{\"error\":{\"message\":\"why\"}}".to_owned(),
            ),
            (true, "204 No", String::new()),
        ] {
            let length = body.len();
            let bytes = format!("HTTP/1.1 {head}\r\nContent-Length: {length}\r\n\r\n{body}");
            for size in [1, 7, 100, 1 << 20] {
                if size > length && length > 1 << 10 {
                    // Bytes that come all at once need not be kept, whatever the limit.
                    continue;
                }
                let (mut expected, before) = as_bytes(streaming, bytes.as_bytes(), size);
                let (mut answer, progress) = as_parts(streaming, bytes.as_bytes(), size);
                // Heads are counted in one of them.
                (expected.received_bytes, answer.received_bytes) = (0, 0);
                assert_eq!(answer, expected, "{head} {body} in reads of {size}");
                assert_eq!(progress, before, "{head} {body} in reads of {size}");
            }
        }
    }
}
