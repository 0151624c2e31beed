//! Tool calls: fragments, and what they add up to.

use std::collections::BTreeMap;

use super::json::{Cursor, Failed};
use super::text::{KEY_BYTES_MAX, Text};

/// One tool call of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// The first non-empty id.
    pub id: String,
    /// The first non-empty function name.
    pub name: String,
    /// All arguments, joined.
    pub arguments: String,
}

impl ToolCall {
    const fn bytes(&self) -> usize {
        self.id.len() + self.name.len() + self.arguments.len()
    }
}

/// The tool calls of an answer, merged by index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCalls {
    calls: BTreeMap<u64, ToolCall>,
    bytes: usize,
}

impl ToolCalls {
    /// Takes the fragments in a `tool_calls` list or a `function_call` object.
    pub(super) fn merge(&mut self, json: &[u8]) {
        let mut cursor = Cursor::new(json);
        // The value was read before, so it can be read again.
        if cursor.peek() == b'[' {
            let _ = each(&mut cursor, 0, |fragment| self.add(fragment));
        } else if let Ok(Some((name, arguments))) = function(&mut cursor, 0) {
            self.add(Fragment {
                name,
                arguments,
                ..Fragment::default()
            });
        }
    }

    fn add(&mut self, fragment: Fragment<'_>) {
        let known = self.calls.len();
        let call = self.calls.entry(fragment.index).or_default();
        let before = call.bytes();
        if call.id.is_empty() {
            fragment.id.push_onto(&mut call.id);
        }
        if call.name.is_empty() {
            fragment.name.push_onto(&mut call.name);
        }
        fragment.arguments.push_onto(&mut call.arguments);
        self.bytes += call.bytes() - before;
        self.bytes += (self.calls.len() - known) * size_of::<ToolCall>();
    }

    /// Bytes that they take, about.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// No call at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Each call with its index, in order of it.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &ToolCall)> {
        self.calls.iter().map(|(&index, call)| (index, call))
    }

    /// The calls in order of their index.
    #[must_use]
    pub fn into_vec(self) -> Vec<ToolCall> {
        self.calls.into_values().collect()
    }
}

/// One element of a `tool_calls` list. An absent string is an empty one.
#[derive(Clone, Copy, Debug, Default)]
struct Fragment<'a> {
    index: u64,
    id: Text<'a>,
    name: Text<'a>,
    arguments: Text<'a>,
}

impl Fragment<'_> {
    const fn is_empty(&self) -> bool {
        self.id.is_empty() && self.name.is_empty() && self.arguments.is_empty()
    }
}

/// A `tool_calls` value inside `depth` containers: its bytes, and whether any fragment says
/// something. `None` when it is not a list.
pub(super) fn list<'a>(
    cursor: &mut Cursor<'a>,
    depth: u32,
) -> Result<Option<(&'a [u8], bool)>, Failed> {
    cursor.peek();
    let start = cursor.at();
    let mut any = false;
    let is_list = each(cursor, depth, |fragment| any |= !fragment.is_empty())?;
    Ok(is_list.then(|| (cursor.since(start), any)))
}

/// The same for a `function_call` value: `None` when it is not an object.
pub(super) fn function_call<'a>(
    cursor: &mut Cursor<'a>,
    depth: u32,
) -> Result<Option<(&'a [u8], bool)>, Failed> {
    cursor.peek();
    let start = cursor.at();
    let found = function(cursor, depth)?;
    Ok(found.map(|(name, arguments)| {
        (
            cursor.since(start),
            !name.is_empty() || !arguments.is_empty(),
        )
    }))
}

/// The fragments of a list. False when the value is not a list.
fn each<'a>(
    cursor: &mut Cursor<'a>,
    depth: u32,
    mut take: impl FnMut(Fragment<'a>),
) -> Result<bool, Failed> {
    let mut place = 0;
    cursor.array(depth, |cursor| {
        let mut fragment = Fragment {
            index: place,
            ..Fragment::default()
        };
        let is_object = cursor.object(depth + 1, |cursor, key| {
            match key.as_key(&mut [0; KEY_BYTES_MAX]) {
                b"index" => fragment.index = cursor.whole(depth + 2)?.unwrap_or(place),
                b"id" => fragment.id = cursor.string_or_other(depth + 2)?.unwrap_or_default(),
                b"function" => {
                    let found = function(cursor, depth + 2)?;
                    (fragment.name, fragment.arguments) = found.unwrap_or_default();
                }
                _ => cursor.skip(depth + 2)?,
            }
            Ok(())
        })?;
        if is_object {
            take(fragment);
        }
        place += 1;
        Ok(())
    })
}

/// Name and arguments of a function object. `None` when the value is not an object.
fn function<'a>(
    cursor: &mut Cursor<'a>,
    depth: u32,
) -> Result<Option<(Text<'a>, Text<'a>)>, Failed> {
    let (mut name, mut arguments) = (Text::default(), Text::default());
    let is_object = cursor.object(depth, |cursor, key| {
        match key.as_key(&mut [0; KEY_BYTES_MAX]) {
            b"name" => name = cursor.string_or_other(depth + 1)?.unwrap_or_default(),
            b"arguments" => arguments = cursor.string_or_other(depth + 1)?.unwrap_or_default(),
            _ => cursor.skip(depth + 1)?,
        }
        Ok(())
    })?;
    Ok(is_object.then_some((name, arguments)))
}
