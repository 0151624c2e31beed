//! One JSON object of an answer, parsed.

use super::json::{Cursor, Failed, JsonError};
use super::text::{KEY_BYTES_MAX, Text};
use super::tools::{self, ToolCalls};
use super::{EndpointType, FinishReason};

/// Tokens of a request as its server counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// `prompt_tokens`.
    pub input_tokens: Option<u32>,
    /// `completion_tokens`, the reasoning among them.
    pub output_tokens: Option<u32>,
    /// `completion_tokens_details.reasoning_tokens`.
    pub reasoning_tokens: Option<u32>,
    /// `prompt_tokens_details.cached_tokens`.
    pub cached_tokens: Option<u32>,
}

/// Where the one string of an event that a [`super::Template`] lets vary belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// The answer's text.
    Text,
    /// Its reasoning.
    Reasoning,
}

/// What one object says: a streamed event, or the whole body of a plain answer.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    endpoint: EndpointType,
    choices: Choices<'a>,
    usage: Option<Usage>,
    error: bool,
}

/// Choice 0 in the list of choices.
#[derive(Clone, Copy, Debug, Default)]
struct Choices<'a> {
    /// How often the list holds choice 0.
    count: u32,
    /// The first of them.
    first: Choice<'a>,
    /// The list, to read again when there are several.
    list: &'a [u8],
    finish_reason: Option<Text<'a>>,
    has_text: bool,
    has_reasoning: bool,
    has_tool_call: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Choice<'a> {
    text: Content<'a>,
    reasoning: Option<Text<'a>>,
    /// The lists or objects of tool calls as they stand.
    tool_calls: Option<&'a [u8]>,
    has_tool_call: bool,
    finish_reason: Option<Text<'a>>,
}

/// A `delta` or a `message`.
#[derive(Clone, Copy, Debug, Default)]
struct Part<'a> {
    content: Content<'a>,
    reasoning_content: Option<Text<'a>>,
    reasoning: Option<Text<'a>>,
    tool_calls: Option<(&'a [u8], bool)>,
    function_call: Option<(&'a [u8], bool)>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Content<'a> {
    #[default]
    None,
    Text(Text<'a>),
    /// A list of parts as it stands; whether any of them holds text.
    Parts(&'a [u8], bool),
}

impl Content<'_> {
    fn has_text(&self) -> bool {
        match self {
            Self::None => false,
            Self::Text(text) => !text.is_empty(),
            Self::Parts(_, any) => *any,
        }
    }
}

impl<'a> Chunk<'a> {
    /// Reads one object; `data` is all of it.
    ///
    /// # Errors
    ///
    /// `data` is not JSON. That it is JSON but not an object is no error: it says nothing.
    #[inline]
    pub fn parse(endpoint: EndpointType, data: &'a [u8]) -> Result<Self, JsonError> {
        let mut cursor = Cursor::new(data);
        let mut chunk = Self {
            endpoint,
            choices: Choices::default(),
            usage: None,
            error: false,
        };
        match chunk.read(&mut cursor) {
            Ok(()) => Ok(chunk),
            Err(Failed) => Err(cursor.error()),
        }
    }

    fn read(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Failed> {
        let (mut error, mut object_error) = (false, false);
        cursor.object(0, |cursor, key| {
            match key.as_key(&mut [0; KEY_BYTES_MAX]) {
                b"choices" => {
                    self.choices = Choices::default();
                    self.choices.read(self.endpoint, cursor)?;
                }
                b"usage" => self.usage = usage(cursor)?,
                b"error" => {
                    error = cursor.peek() != b'n';
                    cursor.skip(1)?;
                }
                b"object" => {
                    let object = cursor.string_or_other(1)?.unwrap_or_default();
                    object_error = object.as_key(&mut [0; KEY_BYTES_MAX]) == b"error";
                }
                _ => cursor.skip(1)?,
            }
            Ok(())
        })?;
        self.error = error || object_error;
        cursor.end()
    }

    /// The object reports an error in place of an answer.
    #[must_use]
    pub const fn is_error(&self) -> bool {
        self.error
    }

    /// The token counts, when the object has any.
    #[must_use]
    pub const fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// Why choice 0 ended, when the object says so.
    #[must_use]
    pub fn finish_reason(&self) -> Option<FinishReason> {
        self.choices.finish_reason.map(FinishReason::of)
    }

    /// Choice 0 has non-empty text.
    #[must_use]
    pub const fn has_text(&self) -> bool {
        self.choices.has_text
    }

    /// Choice 0 has non-empty reasoning.
    #[must_use]
    pub const fn has_reasoning(&self) -> bool {
        self.choices.has_reasoning
    }

    /// Choice 0 has a tool call with a non-empty id, name or arguments.
    #[must_use]
    pub const fn has_tool_call(&self) -> bool {
        self.choices.has_tool_call
    }

    /// Appends what choice 0 generated, decoded.
    pub fn save(&self, text: &mut String, reasoning: &mut String, tool_calls: &mut ToolCalls) {
        self.each_choice(|choice| {
            match choice.text {
                Content::None => {}
                Content::Text(piece) => piece.push_onto(text),
                Content::Parts(list, _) => {
                    let mut cursor = Cursor::new(list);
                    // The list was read before, so it can be read again.
                    let _ = parts(&mut cursor, 0, |piece| piece.push_onto(text));
                }
            }
            if let Some(piece) = choice.reasoning {
                piece.push_onto(reasoning);
            }
            if let Some(calls) = choice.tool_calls {
                tool_calls.merge(calls);
            }
        });
    }

    /// The one string in which alone the object may differ from the next one like it: it has
    /// choice 0 once, with text or reasoning in one string, and says nothing else that counts.
    #[must_use]
    pub fn sole_string(&self) -> Option<(Slot, Text<'a>)> {
        let choices = &self.choices;
        let other = self.error || self.usage.is_some() || choices.finish_reason.is_some();
        if other || choices.count != 1 || choices.has_tool_call {
            return None;
        }
        match (choices.first.text, choices.first.reasoning) {
            (Content::Text(text), None) if !text.is_empty() => Some((Slot::Text, text)),
            (Content::None, Some(reasoning)) => Some((Slot::Reasoning, reasoning)),
            (Content::Text(text), Some(reasoning)) if text.is_empty() => {
                Some((Slot::Reasoning, reasoning))
            }
            _ => None,
        }
    }

    /// The object has choice 0 once, with text in one string, and neither reasoning nor a tool call.
    pub(super) fn is_text_alone(&self) -> bool {
        let first = &self.choices.first;
        let no_calls = matches!(first.tool_calls, None | Some(b"[]"));
        !self.error
            && self.choices.count == 1
            && matches!(first.text, Content::Text(_))
            && first.reasoning.is_none()
            && no_calls
    }

    fn each_choice(&self, mut take: impl FnMut(&Choice<'a>)) {
        if self.choices.count == 1 {
            return take(&self.choices.first);
        }
        let mut cursor = Cursor::new(self.choices.list);
        // The list was read before, so it can be read again.
        let _ = cursor.array(1, |cursor| {
            let mut choice = Choice::default();
            if choice.read(self.endpoint, cursor)? {
                take(&choice);
            }
            Ok(())
        });
    }
}

impl<'a> Choices<'a> {
    fn read(&mut self, endpoint: EndpointType, cursor: &mut Cursor<'a>) -> Result<(), Failed> {
        cursor.peek();
        let start = cursor.at();
        cursor.array(1, |cursor| {
            if self.count > 0 {
                let mut choice = Choice::default();
                if choice.read(endpoint, cursor)? {
                    self.add(&choice);
                }
            } else if self.first.read(endpoint, cursor)? {
                let first = self.first;
                self.add(&first);
            } else {
                self.first = Choice::default();
            }
            Ok(())
        })?;
        self.list = cursor.since(start);
        Ok(())
    }

    fn add(&mut self, choice: &Choice<'a>) {
        self.finish_reason = choice.finish_reason.or(self.finish_reason);
        self.has_text |= choice.text.has_text();
        self.has_reasoning |= choice.reasoning.is_some();
        self.has_tool_call |= choice.has_tool_call;
        self.count += 1;
    }
}

impl<'a> Choice<'a> {
    /// Reads one element of the choices into an empty choice; false when it is not choice 0.
    fn read(&mut self, endpoint: EndpointType, cursor: &mut Cursor<'a>) -> Result<bool, Failed> {
        let mut text = Content::None;
        let (mut delta, mut message) = (Part::default(), Part::default());
        let (mut has_delta, mut has_message) = (false, false);
        let mut is_first = true;
        let is_object = cursor.object(2, |cursor, key| {
            match key.as_key(&mut [0; KEY_BYTES_MAX]) {
                b"index" => {
                    let null = cursor.peek() == b'n';
                    is_first = cursor.whole(3)? == Some(0) || null;
                }
                b"delta" => has_delta = delta.read(cursor)?,
                b"message" => has_message = message.read(cursor)?,
                b"text" => {
                    text = cursor
                        .string_or_other(3)?
                        .map_or(Content::None, Content::Text);
                }
                b"finish_reason" => {
                    self.finish_reason = cursor.string_or_other(3)?.filter(|r| !r.is_empty());
                }
                _ => cursor.skip(3)?,
            }
            Ok(())
        })?;
        if !is_object || !is_first {
            return Ok(false);
        }
        if has_delta || has_message {
            let part = if has_delta { &delta } else { &message };
            self.text = part.content;
            self.reasoning = part.reasoning();
            if let Some((calls, any)) = part.tool_calls.or(part.function_call) {
                (self.tool_calls, self.has_tool_call) = (Some(calls), any);
            }
        }
        if endpoint == EndpointType::Completions {
            self.text = text;
        }
        Ok(true)
    }
}

impl<'a> Part<'a> {
    /// Reads a value in place of the one before; false when it is not an object.
    fn read(&mut self, cursor: &mut Cursor<'a>) -> Result<bool, Failed> {
        *self = Self::default();
        cursor.object(3, |cursor, key| {
            match key.as_key(&mut [0; KEY_BYTES_MAX]) {
                b"content" => self.content = content(cursor)?,
                b"reasoning_content" => self.reasoning_content = cursor.string_or_other(4)?,
                b"reasoning" => self.reasoning = cursor.string_or_other(4)?,
                b"tool_calls" => self.tool_calls = tools::list(cursor, 4)?,
                b"function_call" => self.function_call = tools::function_call(cursor, 4)?,
                _ => cursor.skip(4)?,
            }
            Ok(())
        })
    }

    /// The reasoning under whichever name has any.
    fn reasoning(&self) -> Option<Text<'a>> {
        let some = |text: Option<Text<'a>>| text.filter(|text| !text.is_empty());
        some(self.reasoning_content).or_else(|| some(self.reasoning))
    }
}

#[inline]
fn content<'a>(cursor: &mut Cursor<'a>) -> Result<Content<'a>, Failed> {
    match cursor.peek() {
        b'"' => cursor.string().map(Content::Text),
        b'[' => {
            let start = cursor.at();
            let mut any = false;
            parts(cursor, 4, |piece| any |= !piece.is_empty())?;
            Ok(Content::Parts(cursor.since(start), any))
        }
        _ => cursor.skip(4).map(|()| Content::None),
    }
}

/// The texts in a list of content parts.
fn parts<'a>(
    cursor: &mut Cursor<'a>,
    depth: u32,
    mut take: impl FnMut(Text<'a>),
) -> Result<bool, Failed> {
    cursor.array(depth, |cursor| {
        let (mut is_text, mut text) = (false, None);
        cursor.object(depth + 1, |cursor, key| {
            match key.as_key(&mut [0; KEY_BYTES_MAX]) {
                b"type" => {
                    let kind = cursor.string_or_other(depth + 2)?.unwrap_or_default();
                    is_text = kind.as_key(&mut [0; KEY_BYTES_MAX]) == b"text";
                }
                b"text" => text = cursor.string_or_other(depth + 2)?,
                _ => cursor.skip(depth + 2)?,
            }
            Ok(())
        })?;
        if let (true, Some(text)) = (is_text, text) {
            take(text);
        }
        Ok(())
    })
}

/// `None` for null, for anything but an object, and for an object without members.
fn usage(cursor: &mut Cursor<'_>) -> Result<Option<Usage>, Failed> {
    let mut usage = Usage::default();
    let mut any = false;
    cursor.object(1, |cursor, key| {
        any = true;
        match key.as_key(&mut [0; KEY_BYTES_MAX]) {
            b"prompt_tokens" => usage.input_tokens = cursor.count(2)?,
            b"completion_tokens" => usage.output_tokens = cursor.count(2)?,
            b"prompt_tokens_details" => usage.cached_tokens = detail(cursor, b"cached_tokens")?,
            b"completion_tokens_details" => {
                usage.reasoning_tokens = detail(cursor, b"reasoning_tokens")?;
            }
            _ => cursor.skip(2)?,
        }
        Ok(())
    })?;
    Ok(any.then_some(usage))
}

/// One count of a details object.
fn detail(cursor: &mut Cursor<'_>, name: &[u8]) -> Result<Option<u32>, Failed> {
    let mut count = None;
    cursor.object(2, |cursor, key| {
        if key.as_key(&mut [0; KEY_BYTES_MAX]) == name {
            count = cursor.count(3)?;
            return Ok(());
        }
        cursor.skip(3)
    })?;
    Ok(count)
}
