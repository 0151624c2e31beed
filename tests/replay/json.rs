//! JSON that keeps the order of members, so that a case's bytes are those of its script.

use std::fmt;
use std::ops::Index;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A JSON value. Two objects are equal when their members are, in any order.
#[derive(Clone, Debug)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(serde_json::Number),
    Text(String),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Number(a), Self::Number(b)) => a == b,
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::List(a), Self::List(b)) => a == b,
            (Self::Object(a), Self::Object(b)) => {
                a.len() == b.len() && a.iter().all(|(key, value)| other.get(key) == Some(value))
            }
            _ => false,
        }
    }
}

impl Json {
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.members()
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
    }

    /// The members of an object; of anything else, none.
    pub(crate) fn members(&self) -> &[(String, Self)] {
        match self {
            Self::Object(members) => members,
            _ => &[],
        }
    }

    pub(crate) fn list(&self) -> &[Self] {
        match self {
            Self::List(list) => list,
            other => panic!("not a list: {other:?}"),
        }
    }

    pub(crate) fn str(&self) -> &str {
        match self {
            Self::Text(text) => text,
            other => panic!("not a string: {other:?}"),
        }
    }

    pub(crate) fn usize(&self) -> usize {
        match self {
            Self::Number(number) => {
                let whole = number
                    .as_u64()
                    .and_then(|whole| usize::try_from(whole).ok());
                whole.expect("a whole number")
            }
            other => panic!("not a number: {other:?}"),
        }
    }

    pub(crate) fn f64(&self) -> f64 {
        match self {
            Self::Number(number) => number.as_f64().expect("a number"),
            other => panic!("not a number: {other:?}"),
        }
    }

    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn number(number: impl Into<serde_json::Number>) -> Self {
        Self::Number(number.into())
    }

    pub(crate) fn object<const N: usize>(members: [(&str, Self); N]) -> Self {
        Self::Object(
            members
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect(),
        )
    }

    /// Replaces a member where it stands, or adds it at the end.
    pub(crate) fn set(&mut self, key: &str, value: Self) {
        let Self::Object(members) = self else {
            panic!("not an object: {self:?}")
        };
        match members.iter_mut().find(|(name, _)| name == key) {
            Some(member) => member.1 = value,
            None => members.push((key.to_owned(), value)),
        }
    }
}

impl Index<&str> for Json {
    type Output = Self;
    fn index(&self, key: &str) -> &Self {
        self.get(key).unwrap_or_else(|| panic!("no member {key}"))
    }
}

/// Without white space, characters outside ASCII as they are.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(truth) => write!(f, "{truth}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(&quoted(text)),
            Self::List(list) => {
                let elements: Vec<String> = list.iter().map(Self::to_string).collect();
                write!(f, "[{}]", elements.join(","))
            }
            Self::Object(members) => {
                let member = |(key, value): &(String, Self)| format!("{}:{value}", quoted(key));
                let members: Vec<String> = members.iter().map(member).collect();
                write!(f, "{{{}}}", members.join(","))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Json, E> {
        Ok(Json::Bool(truth))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Json, E> {
        Ok(Json::number(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Json, E> {
        Ok(Json::number(number))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Json, E> {
        serde_json::Number::from_f64(number)
            .map(Json::Number)
            .ok_or_else(|| E::custom("a number"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = elements.next_element()? {
            list.push(element);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let mut members = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            members.push(entry);
        }
        Ok(Json::Object(members))
    }
}
