use clap::ValueEnum;
use clap::builder::PossibleValue;
use ridgeline_clock::Nanos;
use ridgeline_net::Token;

use super::Ending;
use super::piece::Piece;
use crate::fault::Kind;
use crate::wording::Dialect;

/// Makes lines of the pieces of one shard.
#[derive(Debug)]
pub(super) struct Assembler {
    shard: usize,
    /// What times count from.
    start: Nanos,
    /// By place. Its memory is that of the most requests at a time.
    places: Vec<Pending>,
    /// The request that is being named.
    begun: usize,
}

/// A request that is not over, or none.
#[derive(Debug)]
struct Pending {
    number: u64,
    connection: Token,
    arrival: Nanos,
    reaped: Nanos,
    name: Vec<u8>,
    tokens: u64,
    /// The rows of its writes.
    writes: Vec<u8>,
}

/// Text of writes beyond this is not kept for the next request in its place.
const WRITES_BYTES_KEPT: usize = 4 << 10;

/// How a request ended, as far as the place does not know.
struct Over {
    started: Nanos,
    status: u16,
    dialect: Dialect,
    fault: Option<Kind>,
    ending: Ending,
}

impl Assembler {
    pub(super) fn new(shard: usize, start: Nanos) -> Self {
        Self {
            shard,
            start,
            places: Vec::new(),
            begun: 0,
        }
    }

    /// Takes the next piece. Appends a line to `out` when it was a request's last; says so.
    pub(super) fn take(&mut self, piece: &Piece, out: &mut Vec<u8>) -> bool {
        match *piece {
            Piece::Begun {
                place,
                number,
                connection,
                arrival,
                reaped,
            } => {
                let pending = self.begin(place);
                pending.number = number;
                pending.connection = connection;
                pending.arrival = arrival;
                pending.reaped = reaped;
            }
            Piece::Name { bytes, len } => {
                let name = bytes.get(..usize::from(len)).unwrap_or(&bytes);
                if let Some(pending) = self.places.get_mut(self.begun) {
                    pending.name.extend_from_slice(name);
                }
            }
            Piece::Wrote {
                place,
                at,
                due,
                bytes,
                tokens,
                content_events,
            } => {
                let start = self.start;
                if let Some(pending) = self.places.get_mut(place as usize) {
                    pending.tokens += u64::from(tokens);
                    let counts = [bytes, tokens, content_events];
                    row(&mut pending.writes, (at - start).0, (due - start).0, counts);
                }
            }
            Piece::Ended {
                place,
                started,
                status,
                dialect,
                fault,
                ending,
            } => {
                let over = Over {
                    started,
                    status,
                    dialect,
                    fault,
                    ending,
                };
                let (shard, start) = (self.shard, self.start);
                if let Some(pending) = self.places.get_mut(place as usize) {
                    line(out, shard, start, pending, &over);
                    pending.writes.clear();
                    pending.writes.shrink_to(WRITES_BYTES_KEPT);
                    return true;
                }
            }
        }
        false
    }

    fn begin(&mut self, place: u32) -> &mut Pending {
        self.begun = place as usize;
        if self.places.len() <= self.begun {
            self.places.resize_with(self.begun + 1, Pending::none);
        }
        let pending = &mut self.places[self.begun];
        pending.name.clear();
        pending.writes.clear();
        pending.tokens = 0;
        pending
    }
}

impl Pending {
    fn none() -> Self {
        Self {
            number: 0,
            connection: Token {
                index: 0,
                generation: 0,
            },
            arrival: Nanos::ZERO,
            reaped: Nanos::ZERO,
            name: Vec::new(),
            tokens: 0,
            writes: Vec::new(),
        }
    }
}

fn row(out: &mut Vec<u8>, at: u64, due: u64, counts: [u32; 3]) {
    text(out, if out.is_empty() { "[" } else { ",[" });
    number(out, at);
    text(out, ",");
    number(out, due);
    for count in counts {
        text(out, ",");
        number(out, u64::from(count));
    }
    text(out, "]");
}

fn line(out: &mut Vec<u8>, shard: usize, start: Nanos, pending: &Pending, over: &Over) {
    text(out, "{\"request_id\":");
    let name = str::from_utf8(&pending.name).unwrap_or_default();
    quote(out, (!name.is_empty()).then_some(name));
    for (key, value) in [
        (",\"shard\":", shard as u64),
        (",\"number\":", pending.number),
        (",\"connection\":", u64::from(pending.connection.index)),
        (
            ",\"connection_use\":",
            u64::from(pending.connection.generation),
        ),
        (",\"arrival_ns\":", (pending.arrival - start).0),
        (",\"reaped_ns\":", (pending.reaped - start).0),
    ] {
        text(out, key);
        number(out, value);
    }
    text(out, ",\"started_ns\":");
    let started = (over.started > Nanos::ZERO).then_some((over.started - start).0);
    optional(out, started);
    text(out, ",\"status\":");
    optional(out, (over.status > 0).then_some(u64::from(over.status)));
    let dialect = over.dialect.to_possible_value();
    text(out, ",\"dialect\":");
    quote(out, dialect.as_ref().map(PossibleValue::get_name));
    text(out, ",\"fault\":");
    quote(out, over.fault.map(|fault| fault.to_string()).as_deref());
    text(out, ",\"output_tokens\":");
    number(out, pending.tokens);
    text(out, ",\"ended\":");
    quote(out, Some(over.ending.as_str()));
    text(out, ",\"writes\":[");
    out.extend_from_slice(&pending.writes);
    text(out, "]}\n");
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

fn number(out: &mut Vec<u8>, number: u64) {
    text(out, itoa::Buffer::new().format(number));
}

fn optional(out: &mut Vec<u8>, value: Option<u64>) {
    match value {
        Some(value) => number(out, value),
        None => text(out, "null"),
    }
}

fn quote(out: &mut Vec<u8>, value: Option<&str>) {
    serde_json::to_writer(out, &value).expect("a text has a JSON form, and memory takes it");
}
