use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use ridgeline_workload::{Fields, WorkloadError};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A JSON object, kept as it was written: a number that no type here can hold goes through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JsonObject(String);

impl JsonObject {
    /// Its members.
    pub(crate) fn fields(&self) -> Result<Fields, WorkloadError> {
        Fields::parse(&self.0)
    }
}

impl FromStr for JsonObject {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match Fields::parse(text) {
            Ok(_) => Ok(Self(text.to_owned())),
            // The flag is named by whoever shows the error.
            Err(error) => Err(error.to_string().replacen("--extra-body: ", "", 1)),
        }
    }
}

impl Serialize for JsonObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// From its text, or from a mapping of YAML.
impl<'de> Deserialize<'de> for JsonObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Written;
        impl<'de> serde::de::Visitor<'de> for Written {
            type Value = JsonObject;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping, or the text of a JSON object")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<JsonObject, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                map: A,
            ) -> Result<JsonObject, A::Error> {
                let object = serde_json::Map::<String, serde_json::Value>::deserialize(
                    MapAccessDeserializer::new(map),
                )?;
                let text = serde_json::to_string(&object).map_err(serde::de::Error::custom)?;
                Ok(JsonObject(text))
            }
        }
        deserializer.deserialize_any(Written)
    }
}

impl JsonSchema for JsonObject {
    fn schema_name() -> Cow<'static, str> {
        "JsonObject".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["object", "string"],
            "description": "A mapping, or the text of a JSON object."
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_read_from_text_and_from_yaml() {
        for (yaml, text) in [
            (
                "{top_k: 5, stop: [\"\\n\"]}",
                r#"{"stop":["\n"],"top_k":5}"#,
            ),
            ("'{\"a\": 1e999}'", r#"{"a": 1e999}"#),
        ] {
            let object: JsonObject = serde_saphyr::from_str(yaml).unwrap();
            assert_eq!(object.0, text);
        }
    }

    #[test]
    fn what_is_no_object_is_refused_without_naming_the_flag_twice() {
        let error = "[1]".parse::<JsonObject>().unwrap_err();
        assert!(error.starts_with("not a JSON object"), "{error}");
        assert!(serde_saphyr::from_str::<JsonObject>("[1]").is_err());
    }
}
