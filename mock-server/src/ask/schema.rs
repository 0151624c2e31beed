//! A value that a JSON schema allows, as the arguments of a call.

use serde_json::{Map, Value, json};

use super::dice::Dice;
use crate::answer::word;

/// Deeper, everything is null: a schema may contain itself.
const DEPTH_MAX: u32 = 8;
/// Members and elements of all of a value; after that there are no more.
const VALUES_MAX: u32 = 256;
/// Bytes of a text; a schema that asks for more gets as many.
const TEXT_BYTES_MAX: u64 = 1_024;

/// What `schema` allows: every property of an object, the first of several forms, and as little of
/// everything else as is allowed.
pub(super) fn value(schema: &Value, dice: &mut Dice) -> Value {
    let mut maker = Maker {
        root: schema,
        dice,
        left: VALUES_MAX,
    };
    maker.value(schema, 0)
}

struct Maker<'a> {
    root: &'a Value,
    dice: &'a mut Dice,
    left: u32,
}

impl<'a> Maker<'a> {
    fn value(&mut self, schema: &'a Value, depth: u32) -> Value {
        if depth > DEPTH_MAX || self.left == 0 {
            return Value::Null;
        }
        self.left -= 1;
        if let Some(value) = schema.get("const") {
            return value.clone();
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array)
            && !values.is_empty()
        {
            let index = self.dice.below(values.len() as u64);
            return values[usize::try_from(index).unwrap_or(0)].clone();
        }
        if let Some(schema) = self.reference(schema).or_else(|| form(schema)) {
            return self.value(schema, depth + 1);
        }
        match kind(schema) {
            "object" => self.object(schema, depth),
            "array" => self.array(schema, depth),
            "string" => Value::String(self.text(schema)),
            "integer" => integer(schema),
            "number" => number(schema),
            "boolean" => Value::Bool(self.dice.below(2) == 1),
            _ => Value::Null,
        }
    }

    /// What `$ref` points at, in the same document.
    fn reference(&self, schema: &Value) -> Option<&'a Value> {
        let pointer = schema.get("$ref")?.as_str()?.strip_prefix('#')?;
        self.root.pointer(pointer)
    }

    fn object(&mut self, schema: &'a Value, depth: u32) -> Value {
        let mut object = Map::new();
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            for (name, schema) in properties {
                if self.left == 0 {
                    break;
                }
                object.insert(name.clone(), self.value(schema, depth + 1));
            }
        }
        Value::Object(object)
    }

    fn array(&mut self, schema: &'a Value, depth: u32) -> Value {
        let count = limit(schema, "minItems").unwrap_or(1);
        let items = schema.get("items").unwrap_or(&Value::Null);
        let mut array = Vec::new();
        for _ in 0..count {
            if self.left == 0 {
                break;
            }
            array.push(self.value(items, depth + 1));
        }
        Value::Array(array)
    }

    fn text(&mut self, schema: &Value) -> String {
        match schema.get("format").and_then(Value::as_str) {
            Some("date") => return "2025-01-02".to_owned(),
            Some("time") => return "03:04:05Z".to_owned(),
            Some("date-time") => return "2025-01-02T03:04:05Z".to_owned(),
            Some("email") => return "someone@example.com".to_owned(),
            Some("uri") => return "https://example.com/".to_owned(),
            Some("uuid") => return "01234567-89ab-4cde-8f01-23456789abcd".to_owned(),
            _ => {}
        }
        let least = limit(schema, "minLength").unwrap_or(0).min(TEXT_BYTES_MAX);
        let most = limit(schema, "maxLength").unwrap_or(TEXT_BYTES_MAX);
        let mut index = u32::try_from(self.dice.below(64)).unwrap_or(0);
        let mut text = word(index).trim_start().to_owned();
        while (text.len() as u64) < least {
            index += 1;
            text.push_str(word(index));
        }
        text.truncate(usize::try_from(most.max(least)).unwrap_or(usize::MAX));
        text
    }
}

/// The first of several forms.
fn form(schema: &Value) -> Option<&Value> {
    ["anyOf", "oneOf", "allOf"]
        .into_iter()
        .find_map(|name| schema.get(name)?.as_array()?.first())
}

/// The first type that is not null; without one, what the other keywords tell.
fn kind(schema: &Value) -> &str {
    let named = match schema.get("type") {
        Some(Value::Array(types)) => {
            let mut types = types.iter().filter_map(Value::as_str);
            types.find(|name| *name != "null")
        }
        Some(name) => name.as_str(),
        None => None,
    };
    named.unwrap_or_else(|| {
        if schema.get("properties").is_some() {
            "object"
        } else if schema.get("items").is_some() {
            "array"
        } else {
            "string"
        }
    })
}

fn limit(schema: &Value, name: &str) -> Option<u64> {
    schema.get(name)?.as_u64()
}

fn integer(schema: &Value) -> Value {
    let bound = |name: &str| schema.get(name).and_then(Value::as_i64);
    let least = bound("minimum").or_else(|| bound("exclusiveMinimum").map(|n| n.saturating_add(1)));
    let most = bound("maximum").or_else(|| bound("exclusiveMaximum").map(|n| n.saturating_sub(1)));
    json!(least.unwrap_or_else(|| most.map_or(7, |most| most.min(7))))
}

fn number(schema: &Value) -> Value {
    let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
    let least = bound("minimum").or_else(|| bound("exclusiveMinimum").map(|n| n + 0.5));
    let most = bound("maximum").or_else(|| bound("exclusiveMaximum").map(|n| n - 0.5));
    match (least, most) {
        (Some(least), Some(most)) => json!(least / 2.0 + most / 2.0),
        (Some(only), None) | (None, Some(only)) => json!(only),
        (None, None) => json!(2.5),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(schema: Value) -> Value {
        value(&schema, &mut Dice::new(1))
    }

    #[test]
    fn values_are_what_their_schema_allows() {
        let value = of(json!({
            "type": "object",
            "properties": {
                "city": {"type": "string", "minLength": 30, "maxLength": 33},
                "unit": {"enum": ["celsius", "fahrenheit"]},
                "days": {"type": "integer", "minimum": 3, "maximum": 9},
                "share": {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
                "exact": {"type": ["null", "boolean"]},
                "tags": {"type": "array", "items": {"type": "string", "maxLength": 2}, "minItems": 2},
                "when": {"type": "string", "format": "date"},
                "kind": {"const": 5},
                "either": {"anyOf": [{"type": "null"}, {"type": "string"}]},
                "place": {"$ref": "#/$defs/place"},
            },
            "required": ["city"],
            "$defs": {"place": {"properties": {"x": {"type": "integer", "exclusiveMinimum": 4}}}},
        }));
        let city = value["city"].as_str().unwrap();
        assert!((30..=33).contains(&city.len()), "{city}");
        assert!(["celsius", "fahrenheit"].contains(&value["unit"].as_str().unwrap()));
        assert_eq!(value["days"], 3);
        assert_eq!(value["share"], 0.25);
        assert!(value["exact"].is_boolean());
        assert_eq!(value["tags"].as_array().unwrap().len(), 2);
        assert!(value["tags"][0].as_str().unwrap().len() <= 2);
        assert_eq!(value["when"], "2025-01-02");
        assert_eq!(
            (&value["kind"], &value["either"]),
            (&json!(5), &Value::Null)
        );
        assert_eq!(value["place"], json!({"x": 5}));
    }

    #[test]
    fn nothing_asked_is_nothing_said() {
        assert_eq!(of(json!({"type": "object"})), json!({}));
        assert!(of(json!({})).is_string());
        assert!(of(json!(true)).is_string());
        assert_eq!(of(json!({"type": "nonsense"})), Value::Null);
    }

    #[test]
    fn schemas_without_end_have_values_with_one() {
        let deep = of(json!({"properties": {"next": {"$ref": "#"}}}));
        assert!(deep.to_string().len() < 200);
        let wide = of(json!({"type": "array", "minItems": 1_000_000_000}));
        assert!(wide.as_array().unwrap().len() < 300);
        assert_eq!(of(json!({"$ref": "#"})), Value::Null);
        let long = of(json!({"type": "string", "minLength": u64::MAX}));
        assert!(long.as_str().unwrap().len() <= 1_024 + 16);
    }
}
