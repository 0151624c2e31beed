use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Unexpected, Visitor};

/// serde borrows a `Cow` only where the field itself is one, not inside an `Option`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// Texts: one, or those of an array of parts that have one, or none.
#[derive(Clone, Debug, Default)]
pub(super) struct Texts<'a>(pub(super) Vec<Cow<'a, str>>);

/// A part of a message's content, or an item: what says something is called `text` or `output`.
#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Texts<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextsVisitor;
        impl<'de> Visitor<'de> for TextsVisitor {
            type Value = Texts<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, an array of parts, or null")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Texts(vec![Cow::Borrowed(text)]))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Texts(vec![Cow::Owned(text.to_owned())]))
            }

            fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
                Ok(Texts::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
                let mut texts = Vec::new();
                while let Some(part) = parts.next_element::<Part<'de>>()? {
                    texts.extend(part.text.map(|text| text.0));
                }
                Ok(Texts(texts))
            }
        }
        deserializer.deserialize_any(TextsVisitor)
    }
}

/// A message of a chat.
#[derive(Debug, Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) role: Text<'a>,
    #[serde(default, borrow)]
    pub(super) content: Texts<'a>,
}

/// An item of the Responses API's input: a message, or what a tool gave, or something else.
#[derive(Debug, Deserialize)]
pub(super) struct Item<'a> {
    #[serde(borrow)]
    pub(super) role: Option<Text<'a>>,
    #[serde(default, borrow)]
    pub(super) content: Texts<'a>,
    #[serde(default, borrow)]
    pub(super) output: Texts<'a>,
}

/// The input of the Responses API.
#[derive(Debug)]
pub(super) enum Items<'a> {
    Text(Cow<'a, str>),
    Items(Vec<Item<'a>>),
}

impl<'de: 'a, 'a> Deserialize<'de> for Items<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ItemsVisitor;
        impl<'de> Visitor<'de> for ItemsVisitor {
            type Value = Items<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or an array of items")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Items::Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Items::Text(Cow::Owned(text.to_owned())))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some(item) = items.next_element()? {
                    all.push(item);
                }
                Ok(Items::Items(all))
            }
        }
        deserializer.deserialize_any(ItemsVisitor)
    }
}

/// One text, or one list of token ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Input<'a> {
    Text(Cow<'a, str>),
    Ids(Vec<u32>),
}

/// The prompt of a completion, the input of embeddings: a text, token ids, or an array of either.
#[derive(Debug)]
pub(super) struct Inputs<'a>(pub(super) Vec<Input<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for Inputs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InputsVisitor;
        impl<'de> Visitor<'de> for InputsVisitor {
            type Value = Inputs<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or token ids, or an array of them")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Inputs(vec![Input::Text(Cow::Borrowed(text))]))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Inputs(vec![Input::Text(Cow::Owned(text.to_owned()))]))
            }

            fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
                Ok(Inputs(Vec::new()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
                let mut inputs = Vec::new();
                let mut ids = Vec::new();
                while let Some(element) = array.next_element()? {
                    match element {
                        Element::Input(input) => inputs.push(input),
                        Element::Id(id) => ids.push(id),
                    }
                }
                match (inputs.is_empty(), ids.is_empty()) {
                    (_, true) => Ok(Inputs(inputs)),
                    (true, false) => Ok(Inputs(vec![Input::Ids(ids)])),
                    (false, false) => Err(A::Error::custom("token ids and texts in one array")),
                }
            }
        }
        deserializer.deserialize_any(InputsVisitor)
    }
}

enum Element<'a> {
    Input(Input<'a>),
    Id(u32),
}

impl<'de: 'a, 'a> Deserialize<'de> for Element<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ElementVisitor;
        impl<'de> Visitor<'de> for ElementVisitor {
            type Value = Element<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a token id, or an array of token ids")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Element::Input(Input::Text(Cow::Borrowed(text))))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Element::Input(Input::Text(Cow::Owned(text.to_owned()))))
            }

            fn visit_u64<E: Error>(self, id: u64) -> Result<Self::Value, E> {
                u32::try_from(id)
                    .map(Element::Id)
                    .map_err(|_| E::invalid_value(Unexpected::Unsigned(id), &self))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
                let mut ids = Vec::new();
                while let Some(id) = array.next_element()? {
                    ids.push(id);
                }
                Ok(Element::Input(Input::Ids(ids)))
            }
        }
        deserializer.deserialize_any(ElementVisitor)
    }
}

/// A stop string, or some.
#[derive(Debug, Default)]
pub(super) struct Stops<'a>(pub(super) Vec<Cow<'a, str>>);

impl<'de: 'a, 'a> Deserialize<'de> for Stops<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StopsVisitor;
        impl<'de> Visitor<'de> for StopsVisitor {
            type Value = Stops<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or an array of texts")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Stops(vec![Cow::Borrowed(text)]))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Stops(vec![Cow::Owned(text.to_owned())]))
            }

            fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
                Ok(Stops::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
                let mut stops = Vec::new();
                while let Some(stop) = array.next_element::<Text<'de>>()? {
                    stops.push(stop.0);
                }
                Ok(Stops(stops))
            }
        }
        deserializer.deserialize_any(StopsVisitor)
    }
}

/// `logprobs`: whether (chat), or how many (completions).
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Logprobs {
    Asked(bool),
    Count(u32),
}
