//! What a fault makes of an answer.
use bytes::Bytes;
use ridgeline_clock::Nanos;

use super::catalogue::{How, Kind, Length, Place, Spelling};
use super::grammar::Fault;
use super::head::Head;
use super::outline::{Ending, Event, Framing, Outline, Part, Script, Write};
use super::phrases::{Body, Complaint, Form, PAGE};
use crate::ledger::Load;
use crate::refusal::reason;
use crate::wording::{self, Http, Telling};

/// Plays `fault` into an answer. A fault that the answer can't have, because it is a stream or
/// because it is none, is no fault; the chooser does not choose it.
pub(crate) fn apply(fault: &Fault, outline: Outline) -> Script {
    match fault.kind {
        Kind::Status(status) => refused(fault, outline, Complaint::of_status(status)),
        Kind::Failure(failure) => refused(fault, outline, Complaint::of_failure(failure)),
        Kind::Break(how, place) => break_off(fault, outline, how, place),
        Kind::Drip => {
            let gap = fault.gap.unwrap_or(DRIP_GAP);
            play(outline).dripping(fault.bytes.unwrap_or(1), gap)
        }
        Kind::Comments => comments(fault, outline),
        Kind::Length(length) => content_length(fault, outline, length),
        Kind::ChunkSize(spelling) => chunk_size(fault, outline, spelling),
        Kind::NotHttp => {
            let line = Bytes::from_static(b"SSH-2.0-OpenSSH_9.6\r\n");
            Script::new([Write::plain(outline.arrived, line)], Ending::Fin)
        }
        Kind::HeadGarbled
        | Kind::FieldGarbled
        | Kind::VersionUnknown
        | Kind::ContentCoding
        | Kind::TransferCoding
        | Kind::HeadOversize => play(bad_head(fault, outline)),
        Kind::EventOversize => event_oversize(fault, outline),
        Kind::ExtraBytes => extra_bytes(fault, outline),
        Kind::Html => play(outline.replaced(PAGE.as_bytes().to_vec(), "text/html; charset=utf-8")),
        Kind::EmptyBody => empty_body(outline),
        Kind::ErrorBody => play(error_body(fault, outline)),
        Kind::ErrorEvent if !outline.is_stream => play(error_body(fault, outline)),
        Kind::ErrorEvent => play(error_event(fault, outline)),
        Kind::JsonInvalid | Kind::Utf8Invalid | Kind::Nul => play(garbled(fault, outline)),
        Kind::NoDone | Kind::NoFinish | Kind::NoEnd | Kind::NoUsage | Kind::NoContent => {
            play(without_parts(fault.kind, outline))
        }
        Kind::EventUnterminated => play(unterminated(outline)),
        // What was asked for was changed before it was composed, or there is no answer at all.
        Kind::JsonReply | Kind::StreamReply | Kind::ZeroTokens | Kind::ResetOnAccept => {
            play(outline)
        }
    }
}

const DRIP_GAP: Nanos = Nanos::from_millis(1);
const COMMENTS_GAP: Nanos = Nanos::from_millis(100);
/// Comments without a time between them would leave time for nothing else.
const COMMENTS_GAP_MIN: Nanos = Nanos::from_micros(100);

impl Write {
    fn plain(due: Nanos, bytes: impl Into<Bytes>) -> Self {
        Self {
            due,
            bytes: bytes.into(),
            load: Load::default(),
        }
    }
}

impl Fault {
    /// Whose words an error has.
    fn form_of(&self, outline: &Outline) -> Form {
        let dialects = || Form::of_dialect(outline.dialect);
        self.form.unwrap_or_else(dialects)
    }
}

impl Outline {
    fn ending(&self) -> Ending {
        if self.keep_alive && self.framing != Framing::Close {
            Ending::KeepAlive
        } else {
            Ending::Fin
        }
    }

    fn last_due(&self) -> Nanos {
        self.events.last().map_or(self.head_due, |event| event.due)
    }

    fn body_bytes(&self) -> usize {
        self.events.iter().map(|event| event.bytes.len()).sum()
    }

    /// Where the content event is that `at` others come before; the last one, when there are
    /// fewer.
    fn content_event(&self, at: u32) -> Option<usize> {
        let is_content = |event: &Event| event.part == Part::Content;
        let mut contents = (0..self.events.len()).filter(|i| is_content(&self.events[*i]));
        let nth = contents.nth(at as usize);
        nth.or_else(|| self.events.iter().rposition(is_content))
    }

    /// How many events come before a fault that has `at` content events before it.
    fn events_before(&self, at: u32) -> usize {
        if at == 0 {
            return self.content_event(0).unwrap_or(self.events.len());
        }
        self.content_event(at - 1)
            .map_or(self.events.len(), |index| index + 1)
    }

    /// The same in another framing, with a head that says so.
    fn framed(mut self, framing: Framing) -> Self {
        let head = Head::new(&self.head).unframed();
        let head = match framing {
            Framing::Length => head.with(format!("content-length: {}", self.body_bytes())),
            Framing::Chunked => head.with("transfer-encoding: chunked"),
            Framing::Close => head.without("connection").with("connection: close"),
        };
        self.head = head.into_bytes();
        self.framing = framing;
        self
    }

    /// The same with a `Content-Length` that is right again after the events changed.
    fn measured(self) -> Self {
        match self.framing {
            Framing::Length => self.framed(Framing::Length),
            _ => self,
        }
    }

    /// The same head with another body, at once.
    fn replaced(mut self, body: Vec<u8>, content_type: &str) -> Self {
        self.head = Head::new(&self.head).of_type(content_type).into_bytes();
        self.head_due = self.arrived;
        self.is_stream = false;
        self.events = vec![Event {
            due: self.arrived,
            bytes: body,
            part: Part::Open,
            load: Load::default(),
        }];
        self.framed(Framing::Length)
    }
}

/// A stretch of the response that is framed already.
#[derive(Debug)]
struct Piece {
    due: Nanos,
    bytes: Vec<u8>,
    load: Load,
}

impl Piece {
    fn plain(due: Nanos, bytes: Vec<u8>) -> Self {
        Self {
            due,
            bytes,
            load: Load::default(),
        }
    }

    fn into_write(self) -> Write {
        Write {
            due: self.due,
            bytes: self.bytes.into(),
            load: self.load,
        }
    }
}

/// Frames the parts of one body, one after another.
struct Framer {
    http: &'static Http,
    framing: Framing,
    telling: Telling,
}

impl Framer {
    fn new(outline: &Outline) -> Self {
        Self {
            http: outline.dialect.http(),
            framing: outline.framing,
            telling: Telling::default(),
        }
    }

    /// `payload` as the dialect puts it into chunks, where bodies have chunks.
    fn frame(&mut self, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let framing = match self.framing {
            Framing::Chunked => wording::Framing::Chunked,
            Framing::Length | Framing::Close => wording::Framing::Close,
        };
        let telling = &mut self.telling;
        self.http.event(&mut bytes, framing, telling, |bytes, _| {
            bytes.extend_from_slice(payload);
        });
        self.http.write(&mut bytes, framing, telling, 0);
        bytes
    }

    fn piece(&mut self, event: &Event) -> Piece {
        Piece {
            due: event.due,
            bytes: self.frame(&event.bytes),
            load: event.load,
        }
    }
}

/// The head, one piece per event, and the last chunk.
fn pieces(outline: &Outline) -> Vec<Piece> {
    let mut framer = Framer::new(outline);
    let head = Piece::plain(outline.head_due, outline.head.clone());
    let events = outline.events.iter().map(|event| framer.piece(event));
    let mut pieces: Vec<_> = std::iter::once(head).chain(events).collect();
    if outline.framing == Framing::Chunked {
        let mut end = Vec::new();
        framer.http.end(&mut end, wording::Framing::Chunked);
        pieces.push(Piece::plain(outline.last_due(), end));
    }
    pieces
}

/// The answer as it is.
fn play(outline: Outline) -> Script {
    let writes = pieces(&outline).into_iter().map(Piece::into_write);
    Script::new(writes, outline.ending())
}

/// The answer up to a place, and then nothing, or the rest later.
fn break_off(fault: &Fault, mut outline: Outline, how: How, place: Place) -> Script {
    if place == Place::BeforeEnd && outline.framing == Framing::Close {
        // Only a framing that says where it ends can be seen to end too early.
        outline = outline.framed(Framing::Chunked);
    }
    let (before, after) = cut(fault, &outline, place);
    let ending = match (how, fault.span) {
        (How::Reset, _) => Ending::Reset,
        (How::Fin, _) => Ending::Fin,
        (How::Stall, None) => Ending::Hang,
        (How::Stall, Some(span)) => {
            let late = after.into_iter().map(|piece| Piece {
                due: piece.due + span,
                ..piece
            });
            let writes = before.into_iter().chain(late).map(Piece::into_write);
            return Script::new(writes, outline.ending());
        }
    };
    Script::new(before.into_iter().map(Piece::into_write), ending)
}

/// What comes before a place, and what comes after it.
fn cut(fault: &Fault, outline: &Outline, place: Place) -> (Vec<Piece>, Vec<Piece>) {
    let mut pieces = pieces(outline);
    let content = outline.content_event(fault.at).map(|index| index + 1);
    let content = content.unwrap_or(pieces.len() - 1);
    // The head is a piece too.
    let (index, offset) = match place {
        Place::BeforeHead => (0, 0),
        Place::InHead => (0, pieces[0].bytes.len() / 2),
        Place::AfterHead => (1, 0),
        Place::MidEvent => {
            halve(outline, &mut pieces, content);
            (content + 1, 0)
        }
        Place::MidChunk => (content, pieces[content].bytes.len() / 2),
        Place::AfterEvent => (outline.events_before(fault.at) + 1, 0),
        Place::BeforeEnd if outline.framing == Framing::Chunked => (pieces.len() - 1, 0),
        Place::BeforeEnd => {
            let last = pieces.len() - 1;
            (last, pieces[last].bytes.len().saturating_sub(1))
        }
        Place::AfterAnswer => (pieces.len(), 0),
    };
    let mut after = pieces.split_off(index);
    if offset > 0 {
        let rest = after[0].bytes.split_off(offset);
        pieces.push(Piece::plain(
            after[0].due,
            std::mem::replace(&mut after[0].bytes, rest),
        ));
    }
    (pieces, after)
}

/// Makes two pieces of one, each framed by itself.
fn halve(outline: &Outline, pieces: &mut Vec<Piece>, index: usize) {
    let Some(event) = index.checked_sub(1).and_then(|i| outline.events.get(i)) else {
        return;
    };
    let (first, second) = event.bytes.split_at(event.bytes.len() / 2);
    let whole = &mut pieces[index];
    let mut framer = Framer::new(outline);
    let first = Piece::plain(whole.due, framer.frame(first));
    whole.bytes = framer.frame(second);
    pieces.insert(index, first);
}

/// An error response in place of the answer, at once.
fn refused(fault: &Fault, outline: Outline, complaint: Complaint) -> Script {
    let status = complaint.status;
    let form = fault.form_of(&outline);
    let (body, content_type) = match fault.body {
        Body::Error => (form.body(&complaint).to_string(), "application/json"),
        Body::Html => (PAGE.to_owned(), "text/html; charset=utf-8"),
        Body::Text => (
            format!("{}\n", complaint.message),
            "text/plain; charset=utf-8",
        ),
        Body::None => (String::new(), "text/plain; charset=utf-8"),
    };
    let mut outline = outline.replaced(body.into_bytes(), content_type);
    let mut head =
        Head::new(&outline.head).status_line(format!("HTTP/1.1 {status} {}", reason(status)));
    if let Some(seconds) = fault.retry_after {
        head = head.with(format!("retry-after: {seconds}"));
    }
    if (300..400).contains(&status) {
        head = head.with("location: /elsewhere");
    }
    outline.head = head.into_bytes();
    play(outline)
}

fn comments(fault: &Fault, mut outline: Outline) -> Script {
    if outline.framing == Framing::Length {
        outline = outline.framed(Framing::Chunked);
    }
    let count = 1 + outline.events_before(fault.at);
    let writes = pieces(&outline)
        .into_iter()
        .take(count)
        .map(Piece::into_write);
    let comment = format!(": keep-alive{0}{0}", outline.dialect.line_end());
    let gap = fault.gap.unwrap_or(COMMENTS_GAP).max(COMMENTS_GAP_MIN);
    let refrain = Framer::new(&outline).frame(comment.as_bytes());
    Script::new(writes, Ending::Hang).with_refrain(refrain.into(), gap)
}

/// More than the length's own body has, or less.
const LENGTH_EXTRA_BYTES: usize = 40;

fn content_length(fault: &Fault, outline: Outline, length: Length) -> Script {
    let mut outline = outline.framed(Framing::Length);
    let body = outline.body_bytes();
    let head = Head::new(&outline.head).unframed();
    let said = |length: usize| format!("content-length: {length}");
    let head = match length {
        Length::Long => {
            let extra = fault.bytes.unwrap_or(LENGTH_EXTRA_BYTES);
            head.with(said(body.saturating_add(extra)))
        }
        Length::Short => {
            let missing = fault.bytes.unwrap_or(body / 2);
            head.with(said(body.saturating_sub(missing)))
        }
        Length::Negative => head.with("content-length: -5"),
        Length::Two => head.with(said(body)).with(said(body + 1)),
        Length::Garbled => head.with("content-length: many"),
    };
    outline.head = head.into_bytes();
    match length {
        Length::Long => Script::new(
            pieces(&outline).into_iter().map(Piece::into_write),
            Ending::Fin,
        ),
        // In one write: what is too much comes with the rest, and not with a later answer.
        Length::Short => in_one_write(&outline, b""),
        _ => play(outline),
    }
}

/// The whole response, and `extra`, when its last byte is due.
fn in_one_write(outline: &Outline, extra: &[u8]) -> Script {
    let pieces = pieces(outline);
    let mut bytes: Vec<u8> = Vec::new();
    let mut load = Load::default();
    for piece in &pieces {
        bytes.extend_from_slice(&piece.bytes);
        load.tokens += piece.load.tokens;
        load.content_events += piece.load.content_events;
    }
    bytes.extend_from_slice(extra);
    let write = Write {
        due: outline.last_due(),
        bytes: bytes.into(),
        load,
    };
    Script::new([write], outline.ending())
}

const EXTRA_BYTES: usize = 7;

fn extra_bytes(fault: &Fault, mut outline: Outline) -> Script {
    if outline.framing == Framing::Close {
        outline = outline.framed(Framing::Chunked);
    }
    in_one_write(&outline, &vec![b'x'; fault.bytes.unwrap_or(EXTRA_BYTES)])
}

fn chunk_size(fault: &Fault, outline: Outline, spelling: Spelling) -> Script {
    let outline = outline.framed(Framing::Chunked);
    // A whole answer has nothing that could come before.
    let events = if outline.is_stream {
        outline.events_before(fault.at)
    } else {
        0
    };
    let line: &[u8] = match spelling {
        Spelling::Overflow => b"FFFFFFFFFFFFFFFFF\r\ndata: ",
        Spelling::Garbled => b"size\r\ndata: ",
    };
    let due = events
        .checked_sub(1)
        .map_or(outline.head_due, |last| outline.events[last].due);
    let mut pieces = pieces(&outline);
    pieces.truncate(1 + events);
    pieces.push(Piece::plain(due, line.to_vec()));
    Script::new(pieces.into_iter().map(Piece::into_write), Ending::Hang)
}

/// Beyond every limit that is sane.
const HEAD_BYTES: usize = 1 << 20;

fn bad_head(fault: &Fault, mut outline: Outline) -> Outline {
    let head = Head::new(&outline.head);
    let head = match fault.kind {
        Kind::HeadGarbled => head.status_line("HTTP/1.1 OK"),
        Kind::FieldGarbled => head.with("this field has no colon"),
        Kind::VersionUnknown => head.status_line("HTTP/9.9 200 OK"),
        Kind::ContentCoding => head.with("content-encoding: br"),
        Kind::TransferCoding => {
            outline = outline.framed(Framing::Chunked);
            let head = Head::new(&outline.head).unframed();
            head.with("transfer-encoding: br, chunked")
        }
        _ => {
            let line = b"x-pad: 0123456789abcdef";
            let bytes = fault.bytes.unwrap_or(HEAD_BYTES);
            (0..bytes.div_ceil(line.len() + 2)).fold(head, |head, _| head.with(line.as_slice()))
        }
    };
    outline.head = head.into_bytes();
    outline
}

/// Beyond every limit that is sane.
const EVENT_BYTES: usize = 24 << 20;
/// An oversize event is this block over and over.
const BLOCK_BYTES: usize = 64 << 10;

/// After some content events one that is too long, or a whole answer with a member that is: the
/// response stays well-formed.
fn event_oversize(fault: &Fault, mut outline: Outline) -> Script {
    let bytes = fault.bytes.unwrap_or(EVENT_BYTES);
    let (prefix, suffix, events) = if outline.is_stream {
        let end = outline.dialect.line_end().repeat(2);
        ("data: ", end, outline.events_before(fault.at))
    } else {
        // The member goes in front of the others.
        if let Some(body) = outline.events.first_mut()
            && let Some(brace) = body.bytes.iter().position(|byte| *byte == b'{')
        {
            body.bytes.drain(..=brace);
        }
        (r#"{"padding":""#, r#"","#.to_owned(), 0)
    };
    let due = match outline.events.get(events) {
        Some(next) => next.due,
        None => outline.last_due(),
    };
    let size = prefix.len() + bytes + suffix.len();
    if outline.framing == Framing::Length {
        let head = Head::new(&outline.head).unframed();
        let length = format!("content-length: {}", outline.body_bytes() + size);
        outline.head = head.with(length).into_bytes();
    }
    let mut writes: Vec<Write> = pieces(&outline)
        .into_iter()
        .map(Piece::into_write)
        .collect();
    let rest = writes.split_off(1 + events);
    let (size_line, end) = if outline.framing == Framing::Chunked {
        (format!("{size:x}\r\n"), "\r\n")
    } else {
        (String::new(), "")
    };
    writes.push(Write::plain(due, format!("{size_line}{prefix}")));
    let block = Bytes::from(vec![b'x'; BLOCK_BYTES.min(bytes)]);
    for start in (0..bytes).step_by(BLOCK_BYTES) {
        let length = BLOCK_BYTES.min(bytes - start);
        writes.push(Write::plain(due, block.slice(..length)));
    }
    writes.push(Write::plain(due, format!("{suffix}{end}")));
    writes.extend(rest);
    Script::new(writes, outline.ending())
}

/// Status 200 and nothing else.
fn empty_body(mut outline: Outline) -> Script {
    outline.head_due = outline.arrived;
    outline.events.clear();
    play(outline.framed(Framing::Length))
}

fn error_body(fault: &Fault, outline: Outline) -> Outline {
    let form = fault.form_of(&outline);
    let body = form.body(&Complaint::of_status(500)).to_string();
    outline.replaced(body.into_bytes(), "application/json")
}

/// An error in place of a content event and of all that would come after.
fn error_event(fault: &Fault, mut outline: Outline) -> Outline {
    let form = fault.form_of(&outline);
    let events = outline.events_before(fault.at);
    let due = match outline.events.get(events) {
        Some(next) => next.due,
        None => outline.last_due(),
    };
    let done = outline
        .events
        .iter()
        .rfind(|event| event.part == Part::Done);
    let done = done.filter(|_| form.is_done_after()).cloned();
    let error = Event {
        due,
        bytes: form.event(&Complaint::of_status(500), outline.dialect.line_end()),
        part: Part::Open,
        load: Load::default(),
    };
    outline.events.truncate(events);
    outline.events.push(error);
    outline
        .events
        .extend(done.map(|done| Event { due, ..done }));
    outline.measured()
}

/// One content event, or the whole answer, is not what it must be.
fn garbled(fault: &Fault, mut outline: Outline) -> Outline {
    let Some(index) = outline.content_event(fault.at) else {
        return outline;
    };
    let bytes = &mut outline.events[index].bytes;
    match fault.kind {
        Kind::JsonInvalid => {
            // Without its last brace the object does not end.
            if let Some(brace) = bytes.iter().rposition(|byte| *byte == b'}') {
                bytes[brace] = b' ';
            }
        }
        kind => {
            let stray = if kind == Kind::Nul { 0 } else { 0xff };
            let place = inside_text(bytes).or_else(|| bytes.iter().rposition(|byte| *byte == b'}'));
            bytes.insert(place.unwrap_or(0), stray);
        }
    }
    // It carries nothing any more.
    outline.events[index].load = Load::default();
    outline.measured()
}

/// The names of the strings that an answer's text stands in, the likeliest first.
const TEXTS: [&[u8]; 6] = [
    b"\"content\"",
    b"\"text\"",
    b"\"delta\"",
    b"\"reasoning_content\"",
    b"\"reasoning\"",
    b"\"arguments\"",
];

/// Where a string that holds text begins, after its quote: the last of its name, because comments and
/// other fields may come before the one that counts.
fn inside_text(event: &[u8]) -> Option<usize> {
    let end = event.iter().rposition(|byte| *byte == b'}')?;
    TEXTS
        .iter()
        .find_map(|name| after_name(&event[..end], name))
}

/// Where the last string of this name begins, after its quote.
fn after_name(json: &[u8], name: &[u8]) -> Option<usize> {
    let mut starts = (0..json.len()).rev();
    starts.find_map(|start| {
        let mut place = start + name.len();
        if !json[start..].starts_with(name) {
            return None;
        }
        for needed in [b':', b'"'] {
            let spaces = json[place..].iter().take_while(|byte| **byte == b' ');
            place += spaces.count();
            if json.get(place) != Some(&needed) {
                return None;
            }
            place += 1;
        }
        Some(place)
    })
}

fn without_parts(kind: Kind, mut outline: Outline) -> Outline {
    let missing: &[Part] = match kind {
        Kind::NoDone => &[Part::Done],
        Kind::NoFinish => &[Part::Finish],
        Kind::NoEnd => &[Part::Finish, Part::Usage, Part::Done],
        _ => &[Part::Usage],
    };
    if missing.contains(&Part::Finish)
        && outline.dialect.finishes_with_last()
        && let Some(last) = outline.content_event(u32::MAX)
    {
        // It has the reason with it.
        outline.events.remove(last);
    }
    outline
        .events
        .retain(|event| !missing.contains(&event.part));
    outline.measured()
}

/// The last content event is the last event, and its blank line is missing.
fn unterminated(mut outline: Outline) -> Outline {
    let Some(last) = outline.content_event(u32::MAX) else {
        return outline;
    };
    outline.events.truncate(last + 1);
    let event = &mut outline.events[last];
    event.load = Load::default();
    let kept = event
        .bytes
        .len()
        .saturating_sub(outline.dialect.line_end().len());
    event.bytes.truncate(kept);
    outline.measured()
}

#[cfg(test)]
mod tests;
