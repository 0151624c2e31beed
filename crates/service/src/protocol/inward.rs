//! Messages to the worker: read by it, and written by clients in Rust.

use rmp::Marker;

use crate::protocol::reader::{Reader, malformed};
use crate::protocol::writer::{List, Writer};
use crate::protocol::{Code, HOLES_MAX, Trouble, VERSION};

/// A message to the worker. What it lends is part of the message.
#[derive(Clone, Debug)]
pub enum Inward<'a> {
    /// A batch of queries.
    Queries(Queries<'a>),
    /// A body with holes.
    Template(TemplateFrame<'a>),
    /// No more queries.
    End,
}

/// The queries of a batch, one after another. After the last one, what is left over is an error, too.
#[derive(Clone, Debug)]
pub struct Queries<'a> {
    reader: Reader<'a>,
    count: u32,
    next: u32,
}

/// One query as it is written.
#[derive(Clone, Copy, Debug)]
pub struct QueryFrame<'a> {
    /// Its name.
    pub id: u64,
    /// When it is due, ns of the machine's monotonic clock; 0: at once.
    pub due_ns: u64,
    /// The path of its request; none: the worker's own.
    pub endpoint: Option<&'a str>,
    /// Whether it asks for a stream.
    pub stream: bool,
    /// Whether the result is to have the text.
    pub text: bool,
    /// What it says.
    pub body: BodyFrame<'a>,
}

/// The body of a query.
#[derive(Clone, Copy, Debug)]
pub enum BodyFrame<'a> {
    /// As it is sent.
    Whole(&'a [u8]),
    /// From a template.
    Filled {
        /// The template.
        template: u64,
        /// What its holes hold.
        values: Values<'a>,
    },
}

/// Values for the holes of a template, hole 0 first.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a>(Source<'a>);

#[derive(Clone, Copy, Debug)]
enum Source<'a> {
    /// As they came, all of them readable.
    Read { reader: Reader<'a>, count: u32 },
    /// As a client has them.
    Given(&'a [Value<'a>]),
}

/// What stands in a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// Written as the inside of a JSON string.
    Text(&'a str),
    /// Written as it is.
    Raw(&'a [u8]),
    /// Written in digits.
    Number(i128),
}

/// A body with numbered holes, as it is written.
#[derive(Clone, Copy, Debug)]
pub struct TemplateFrame<'a> {
    /// Its number.
    pub template: u64,
    reader: Reader<'a>,
    count: u32,
}

/// A part of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Copied.
    Bytes(&'a [u8]),
    /// The hole of this number.
    Hole(u64),
}

/// Takes a message to the worker apart.
///
/// # Errors
/// What is wrong with it. The queries of a batch are only read when they are asked for.
pub fn read_inward(message: &[u8]) -> Result<Inward<'_>, Trouble> {
    let mut reader = Reader::new(message);
    let count = reader.array("the message")?;
    let version = reader.uint("the version")?;
    if version != VERSION {
        return Err(Trouble::new(
            Code::Version,
            format!("version {version} of the protocol; this worker speaks {VERSION}"),
        ));
    }
    let kind = reader.text("the kind")?;
    let inward = match (kind, count) {
        ("queries", 3) => {
            let count = reader.array("the list of queries")?;
            return Ok(Inward::Queries(Queries {
                reader,
                count,
                next: 0,
            }));
        }
        ("template", 4) => Inward::Template(TemplateFrame::read(&mut reader)?),
        ("end", 2) => Inward::End,
        ("queries" | "template" | "end", _) => {
            let text = format!("a message `{kind}` has not {count} elements");
            return Err(Trouble::new(Code::Malformed, text));
        }
        _ => {
            let kind: String = kind.chars().take(40).collect();
            let text = format!("`{kind}` is no kind of message: queries, template, end");
            return Err(Trouble::new(Code::Malformed, text));
        }
    };
    at_end(&reader)?;
    Ok(inward)
}

fn at_end(reader: &Reader<'_>) -> Result<(), Trouble> {
    if reader.is_at_end() {
        return Ok(());
    }
    let text = "bytes follow the end of the message".to_owned();
    Err(Trouble::new(Code::Malformed, text))
}

impl<'a> Queries<'a> {
    /// How many there are said to be.
    #[must_use]
    pub fn said(&self) -> u32 {
        self.count
    }
}

impl<'a> Iterator for Queries<'a> {
    type Item = Result<QueryFrame<'a>, Trouble>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.count {
            let over = at_end(&self.reader).err();
            self.reader = Reader::new(&[]);
            return over.map(Err);
        }
        let read = QueryFrame::read(&mut self.reader);
        let place = self.next;
        self.next = if read.is_ok() { place + 1 } else { self.count };
        Some(read.map_err(|trouble| {
            self.reader = Reader::new(&[]);
            let text = format!("query {place} of {}: {}", self.count, trouble.text);
            Trouble {
                text: text.into(),
                ..trouble
            }
        }))
    }
}

impl<'a> QueryFrame<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Trouble> {
        reader.array_of(6, "a query")?;
        Ok(Self {
            id: reader.uint("its id")?,
            due_ns: reader.uint("its due time")?,
            endpoint: reader.optional(|reader| reader.text("its endpoint"))?,
            stream: reader.boolean("`stream`")?,
            text: reader.boolean("`text`")?,
            body: BodyFrame::read(reader)?,
        })
    }
}

impl<'a> BodyFrame<'a> {
    /// A body from a template, for a client.
    #[must_use]
    pub fn filled(template: u64, values: &'a [Value<'a>]) -> Self {
        Self::Filled {
            template,
            values: Values(Source::Given(values)),
        }
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, Trouble> {
        let is_array = matches!(
            reader.marker(),
            Some(Marker::FixArray(_) | Marker::Array16 | Marker::Array32)
        );
        if !is_array {
            return reader.bytes("its body").map(Self::Whole);
        }
        let count = reader.array("its body")?;
        let Some(count) = count.checked_sub(1) else {
            return Err(malformed("its body", "a template and its values"));
        };
        if count > HOLES_MAX {
            let text =
                format!("{count} values for the holes of a template: {HOLES_MAX} are allowed");
            return Err(Trouble::new(Code::Oversized, text));
        }
        let template = reader.uint("the template of its body")?;
        let values = Source::Read {
            reader: *reader,
            count,
        };
        for _ in 0..count {
            Value::read(reader)?;
        }
        Ok(Self::Filled {
            template,
            values: Values(values),
        })
    }
}

impl<'a> Values<'a> {
    /// Puts the values into `all`, in place of what it holds.
    pub(crate) fn read_into(self, all: &mut Vec<Value<'a>>) {
        all.clear();
        match self.0 {
            Source::Given(values) => all.extend(values),
            // They were all read before.
            Source::Read { mut reader, count } => {
                all.extend((0..count).map_while(|_| Value::read(&mut reader).ok()));
            }
        }
    }
}

impl<'a> Value<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Trouble> {
        match reader.marker() {
            Some(Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32) => {
                reader.text("a value").map(Self::Text)
            }
            Some(Marker::Bin8 | Marker::Bin16 | Marker::Bin32) => {
                reader.bytes("a value").map(Self::Raw)
            }
            _ => reader.integer("a value").map(Self::Number),
        }
    }
}

impl<'a> TemplateFrame<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Trouble> {
        let template = reader.uint("the number of the template")?;
        let count = reader.array("the list of pieces")?;
        let frame = Self {
            template,
            reader: *reader,
            count,
        };
        for _ in 0..count {
            Piece::read(reader)?;
        }
        Ok(frame)
    }

    /// Its pieces, in order.
    pub fn pieces(self) -> impl Iterator<Item = Piece<'a>> {
        let Self {
            mut reader, count, ..
        } = self;
        // They were all read before.
        (0..count).map_while(move |_| Piece::read(&mut reader).ok())
    }
}

impl<'a> Piece<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Trouble> {
        match reader.marker() {
            Some(
                Marker::FixStr(_)
                | Marker::Str8
                | Marker::Str16
                | Marker::Str32
                | Marker::Bin8
                | Marker::Bin16
                | Marker::Bin32,
            ) => reader.bytes("a piece").map(Self::Bytes),
            _ => reader.uint("the number of a hole").map(Self::Hole),
        }
    }
}

/// A batch of queries being written, by a client. The buffer is used again for the next.
#[derive(Debug)]
pub struct Batch {
    queries: List,
}

impl Default for Batch {
    fn default() -> Self {
        Self::over(Vec::new())
    }
}

impl Batch {
    /// An empty batch, in place of what `buffer` holds.
    #[must_use]
    pub fn over(buffer: Vec<u8>) -> Self {
        Self {
            queries: List::new("queries", buffer),
        }
    }

    /// Queries in it.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.queries.count()
    }

    /// Adds a query.
    pub fn push(&mut self, query: &QueryFrame<'_>) {
        let writer = self.queries.element();
        writer.array(6);
        writer.uint(query.id);
        writer.uint(query.due_ns);
        writer.optional_text(query.endpoint);
        writer.boolean(query.stream);
        writer.boolean(query.text);
        match query.body {
            BodyFrame::Whole(body) => writer.binary(body),
            BodyFrame::Filled { template, values } => {
                let mut all = Vec::new();
                values.read_into(&mut all);
                writer.array(u32::try_from(all.len() + 1).unwrap_or(u32::MAX));
                writer.uint(template);
                all.iter().for_each(|value| write_value(writer, value));
            }
        }
    }

    /// The message.
    #[must_use]
    pub fn into_message(self) -> Vec<u8> {
        self.queries.into_message()
    }
}

fn write_value(writer: &mut Writer, value: &Value<'_>) {
    match *value {
        Value::Text(text) => writer.text(text),
        Value::Raw(bytes) => writer.binary(bytes),
        Value::Number(number) => match (u64::try_from(number), i64::try_from(number)) {
            (Ok(number), _) => writer.uint(number),
            (_, Ok(number)) => writer.sint(number),
            // Beyond what MessagePack has.
            _ => writer.text(&number.to_string()),
        },
    }
}

/// A message that registers a template.
#[must_use]
pub fn template_message(template: u64, pieces: &[Piece<'_>]) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.head("template", 4);
    writer.uint(template);
    writer.array(u32::try_from(pieces.len()).unwrap_or(u32::MAX));
    for piece in pieces {
        match piece {
            Piece::Bytes(bytes) => writer.binary(bytes),
            Piece::Hole(hole) => writer.uint(*hole),
        }
    }
    writer.into_bytes()
}

/// The message that says that no more queries come.
#[must_use]
pub fn end_message() -> Vec<u8> {
    let mut writer = Writer::default();
    writer.head("end", 2);
    writer.into_bytes()
}
