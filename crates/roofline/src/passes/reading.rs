//! From bytes to what they mean, on the path that the engine takes: HTTP chunks, event lines, chunk
//! understanding.

use ridgeline_clock::{Arrival, Nanos};
use ridgeline_wire::carry::Carry;
use ridgeline_wire::exchange::{Asked, Exchange, ExchangeLimits, Progress, Shared};
use ridgeline_wire::http1::ResponseDecoder;
use ridgeline_wire::openai::EndpointType;

/// Which events are parsed in full.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Parsing {
    /// Those that differ from a parsed one in more than their text: the exact fast path.
    Fast,
    /// All: nothing is kept to compare with (`template_bytes_max` and `familiar_bytes_max` 0).
    Full,
}

/// The engine's limits for one connection, as they are by default.
const CARRY_INLINE_BYTES: usize = 512;
const CARRY_POOL_BYTES_MAX: usize = 1 << 20;
const HEAD_BYTES_MAX: usize = 256 << 10;
const TEMPLATE_BYTES_MAX: usize = 512;
const FAMILIAR_BYTES_MAX: usize = 4 << 10;

/// One connection's reader, used for one stream after another.
#[derive(Debug)]
pub struct Reader {
    http: ResponseDecoder,
    carry: Carry,
    shared: Shared,
    exchange: Exchange,
}

impl Reader {
    /// A reader with the engine's limits.
    #[must_use]
    pub fn new(parsing: Parsing) -> Self {
        let (template_bytes_max, familiar_bytes_max) = match parsing {
            Parsing::Fast => (TEMPLATE_BYTES_MAX, FAMILIAR_BYTES_MAX),
            Parsing::Full => (0, 0),
        };
        Self {
            http: ResponseDecoder::new(HEAD_BYTES_MAX),
            carry: Carry::new(CARRY_INLINE_BYTES),
            shared: Shared::new(CARRY_POOL_BYTES_MAX, familiar_bytes_max),
            exchange: Exchange::new(&ExchangeLimits {
                template_bytes_max,
                ..ExchangeLimits::default()
            }),
        }
    }

    /// Reads a whole chat stream, read by read; returns its content events.
    ///
    /// # Panics
    /// When the reads are not a whole sound response: a pass over less has no speed.
    pub fn read(&mut self, reads: &[&[u8]]) -> u64 {
        self.exchange.begin(Asked {
            endpoint: EndpointType::Chat,
            streaming: true,
            save_text: false,
        });
        self.http.start();
        let arrival = Arrival::reaped(Nanos(1));
        let mut progress = Progress::More;
        for bytes in reads {
            let Self {
                http,
                carry,
                shared,
                ..
            } = self;
            progress = self
                .exchange
                .received(http, carry, shared, bytes, arrival, &mut ());
        }
        let answer = self.exchange.answer();
        assert_eq!(progress, Progress::Done { reusable: true });
        assert_eq!(answer.failure, None);
        answer.content_events.into()
    }
}
