use super::chunk::{Chunk, Usage};
use super::json::{Cursor, Failed};
use super::text::{KEY_BYTES_MAX, Text, string_end};
use super::{EndpointType, FinishReason};
use crate::digits::leading_number;
use crate::pace::Pace;

/// The exact fast path for whole bodies: one that is known to differ from a parsed one only in values
/// whose meaning is known.
///
/// After a full parse of a body that holds one text for choice 0, and neither reasoning nor tool calls,
/// its bytes are kept but for the insides of certain leaves (`Place`): strings without their quotes,
/// whole numbers. A later body with the same bytes around valid insides of the same kinds is the same
/// tree with other leaves, because neither a string nor a number can end elsewhere. So it means the same but
/// for what those leaves say. Anything else is parsed.
#[derive(Debug)]
pub struct FamiliarBody {
    endpoint: EndpointType,
    /// What stands around the leaves, one after another. Allocated once.
    buffer: Box<[u8]>,
    /// Bytes of it that are in use; 0: there is no body to compare with.
    len: usize,
    /// The first `leaf_count` of them, in order. INVARIANT: `until` rises, up to `len`.
    leaves: [Leaf; LEAVES_MAX],
    leaf_count: usize,
    /// The usage of the body, whose counts the leaves replace.
    usage: Option<Usage>,
    pace: Pace,
}

/// A value that may differ, and where in the buffer the bytes before it end.
#[derive(Clone, Copy, Debug)]
struct Leaf {
    place: Place,
    until: usize,
}

const LEAVES_MAX: usize = 9;

/// What stands at one place of a body only. The leaves that may differ come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Id,
    Created,
    Text,
    FinishReason,
    InputTokens,
    OutputTokens,
    TotalTokens,
    CachedTokens,
    ReasoningTokens,
    Choices,
    Message,
    Usage,
    InputDetails,
    OutputDetails,
}

/// What a body that was not parsed says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said<'a> {
    /// The text of choice 0; it may be empty.
    pub text: Text<'a>,
    /// Why choice 0 ended, when the body says so.
    pub finish_reason: Option<FinishReason>,
    /// The token counts, when the body has any.
    pub usage: Option<Usage>,
}

impl FamiliarBody {
    /// Keeps bodies of at most `bytes_max` bytes around what may differ.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        let leaf = Leaf {
            place: Place::Id,
            until: 0,
        };
        Self {
            endpoint: EndpointType::Chat,
            buffer: vec![0; bytes_max].into_boxed_slice(),
            len: 0,
            leaves: [leaf; LEAVES_MAX],
            leaf_count: 0,
            usage: None,
            pace: Pace::default(),
        }
    }

    /// Takes a body of an `endpoint` and what was parsed of it.
    pub fn learn(&mut self, endpoint: EndpointType, body: &[u8], chunk: &Chunk<'_>) {
        if !self.pace.miss() {
            return;
        }
        self.len = 0;
        if !chunk.is_text_alone() {
            return;
        }
        let mut walk = Walk::new(endpoint);
        let has = |walk: &Walk, place| walk.found().iter().any(|&(found, ..)| found == place);
        if walk.body(body).is_err()
            || walk.twice
            || !has(&walk, Place::Text)
            || has(&walk, Place::FinishReason) != chunk.finish_reason().is_some()
        {
            return;
        }
        (self.endpoint, self.usage) = (endpoint, chunk.usage());
        if let Some(len) = self.keep(body, walk.found()) {
            self.len = len;
        }
    }

    /// Copies what stands around the leaves; how many bytes. `None` when there is no room.
    fn keep(&mut self, body: &[u8], found: &[(Place, usize, usize)]) -> Option<usize> {
        let (mut from, mut len) = (0, 0);
        let ends = found.iter().map(|&(_, start, end)| (start, end));
        for (number, (start, end)) in ends.chain([(body.len(), body.len())]).enumerate() {
            let around = body.get(from..start)?;
            self.buffer
                .get_mut(len..len + around.len())?
                .copy_from_slice(around);
            len += around.len();
            from = end;
            if let (Some(leaf), Some(&(place, ..))) =
                (self.leaves.get_mut(number), found.get(number))
            {
                *leaf = Leaf { place, until: len };
            }
        }
        self.leaf_count = found.len();
        Some(len)
    }

    /// What `body` says, if it is familiar.
    #[must_use]
    pub fn matches<'a>(&mut self, endpoint: EndpointType, body: &'a [u8]) -> Option<Said<'a>> {
        if self.len == 0 || endpoint != self.endpoint {
            return None;
        }
        let (mut text, mut finish_reason) = (Text::default(), None);
        let mut usage = self.usage.unwrap_or_default();
        let (mut rest, mut from) = (body, 0);
        for leaf in &self.leaves[..self.leaf_count] {
            rest = rest.strip_prefix(&self.buffer[from..leaf.until])?;
            from = leaf.until;
            match leaf.place {
                Place::Id => _ = string(&mut rest)?,
                Place::Text => text = string(&mut rest)?,
                Place::FinishReason => {
                    let reason = string(&mut rest)?;
                    if reason.is_empty() {
                        return None;
                    }
                    finish_reason = Some(FinishReason::of(reason));
                }
                place => {
                    let count = u32::try_from(number(&mut rest)?).ok();
                    match place {
                        Place::InputTokens => usage.input_tokens = count,
                        Place::OutputTokens => usage.output_tokens = count,
                        Place::CachedTokens => usage.cached_tokens = count,
                        Place::ReasoningTokens => usage.reasoning_tokens = count,
                        _ => {}
                    }
                }
            }
        }
        if rest != &self.buffer[from..self.len] {
            return None;
        }
        self.pace.hit();
        Some(Said {
            text,
            finish_reason,
            usage: self.usage.map(|_| usage),
        })
    }
}

/// Takes the inside of a string.
#[inline]
fn string<'a>(rest: &mut &'a [u8]) -> Option<Text<'a>> {
    let end = string_end(rest)?;
    let (inside, tail) = rest.split_at_checked(end.len)?;
    *rest = tail;
    Some(Text::new(inside, end.escaped))
}

/// Takes a whole number without a sign. What follows it can't continue it: it followed a number before.
#[inline]
fn number(rest: &mut &[u8]) -> Option<u64> {
    let (count, number) = leading_number(rest)?;
    let (digits, tail) = rest.split_at(count);
    *rest = tail;
    // JSON has no zeros before a number.
    matches!(digits, [b'1'..=b'9', ..] | [b'0']).then_some(number)
}

/// Finds the leaves of a body that was read before, by the keys by which [`Chunk`] finds them.
struct Walk {
    endpoint: EndpointType,
    /// The first `count`: a leaf, where its inside begins and ends.
    leaves: [(Place, usize, usize); LEAVES_MAX],
    count: usize,
    /// A bit for each place that was seen.
    seen: u32,
    /// A place was seen twice: which of them counts is not asked.
    twice: bool,
}

impl Walk {
    fn new(endpoint: EndpointType) -> Self {
        Self {
            endpoint,
            leaves: [(Place::Id, 0, 0); LEAVES_MAX],
            count: 0,
            seen: 0,
            twice: false,
        }
    }

    fn found(&self) -> &[(Place, usize, usize)] {
        &self.leaves[..self.count]
    }

    fn see(&mut self, place: Place) {
        let bit = 1 << place as u32;
        self.twice |= self.seen & bit != 0;
        self.seen |= bit;
    }

    fn body(&mut self, body: &[u8]) -> Result<(), Failed> {
        let mut cursor = Cursor::new(body);
        cursor.object(0, |cursor, key| match key.as_key(&mut [0; KEY_BYTES_MAX]) {
            b"id" => self.string(Place::Id, cursor, 1),
            b"created" => self.number(Place::Created, cursor, 1),
            b"choices" => {
                self.see(Place::Choices);
                cursor.array(1, |cursor| self.choice(cursor)).map(drop)
            }
            b"usage" => self.usage(cursor),
            _ => cursor.skip(1),
        })?;
        cursor.end()
    }

    /// One of the choices. What is found in another than choice 0 is forgotten: it counts for nothing.
    fn choice(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Failed> {
        let before = (self.count, self.seen, self.twice);
        let mut is_first = true;
        let is_object = cursor.object(2, |cursor, key| {
            match key.as_key(&mut [0; KEY_BYTES_MAX]) {
                b"index" => {
                    let null = cursor.peek() == b'n';
                    is_first = cursor.whole(3)? == Some(0) || null;
                    Ok(())
                }
                b"delta" => {
                    // It would count in place of a message.
                    self.twice = true;
                    cursor.skip(3)
                }
                b"message" => self.message(cursor),
                b"text" if self.endpoint == EndpointType::Completions => {
                    self.string(Place::Text, cursor, 3)
                }
                b"finish_reason" => self.string(Place::FinishReason, cursor, 3),
                _ => cursor.skip(3),
            }
        })?;
        if !is_object || !is_first {
            (self.count, self.seen, self.twice) = before;
        }
        Ok(())
    }

    fn message(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Failed> {
        self.see(Place::Message);
        cursor.object(3, |cursor, key| match key.as_key(&mut [0; KEY_BYTES_MAX]) {
            b"content" if self.endpoint == EndpointType::Chat => {
                self.string(Place::Text, cursor, 4)
            }
            _ => cursor.skip(4),
        })?;
        Ok(())
    }

    fn usage(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Failed> {
        self.see(Place::Usage);
        cursor.object(1, |cursor, key| match key.as_key(&mut [0; KEY_BYTES_MAX]) {
            b"prompt_tokens" => self.number(Place::InputTokens, cursor, 2),
            b"completion_tokens" => self.number(Place::OutputTokens, cursor, 2),
            b"total_tokens" => self.number(Place::TotalTokens, cursor, 2),
            b"prompt_tokens_details" => {
                self.see(Place::InputDetails);
                self.detail(b"cached_tokens", Place::CachedTokens, cursor)
            }
            b"completion_tokens_details" => {
                self.see(Place::OutputDetails);
                self.detail(b"reasoning_tokens", Place::ReasoningTokens, cursor)
            }
            _ => cursor.skip(2),
        })?;
        Ok(())
    }

    fn detail(&mut self, name: &[u8], place: Place, cursor: &mut Cursor<'_>) -> Result<(), Failed> {
        cursor.object(2, |cursor, key| {
            if key.as_key(&mut [0; KEY_BYTES_MAX]) == name {
                return self.number(place, cursor, 3);
            }
            cursor.skip(3)
        })?;
        Ok(())
    }

    /// The inside of a string; another value is no leaf. Nor is an empty reason, which is none.
    fn string(&mut self, place: Place, cursor: &mut Cursor<'_>, depth: u32) -> Result<(), Failed> {
        self.see(place);
        if cursor.peek() != b'"' {
            return cursor.skip(depth);
        }
        let start = cursor.at() + 1;
        let text = cursor.string()?;
        if place != Place::FinishReason || !text.is_empty() {
            self.add(place, start, start + text.raw().len());
        }
        Ok(())
    }

    /// The digits of a whole number; another value is no leaf.
    fn number(&mut self, place: Place, cursor: &mut Cursor<'_>, depth: u32) -> Result<(), Failed> {
        self.see(place);
        cursor.peek();
        let start = cursor.at();
        if cursor.whole(depth)?.is_some() {
            self.add(place, start, cursor.at());
        }
        Ok(())
    }

    fn add(&mut self, place: Place, start: usize, end: usize) {
        if let Some(leaf) = self.leaves.get_mut(self.count) {
            *leaf = (place, start, end);
            self.count += 1;
        }
    }
}
