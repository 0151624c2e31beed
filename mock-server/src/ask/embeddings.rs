use std::borrow::Cow;

use serde::Deserialize;
use serde_json::json;

use super::dice::Dice;
use super::prompt::{Inputs, Text};
use super::{blocks, check_model, count, encode, missing, object};
use crate::config::ServerConfig;
use crate::refusal::Refusal;

/// Numbers of one vector.
const DIMENSIONS_MAX: u32 = 8_192;
/// Inputs of one request, as OpenAI's API has it.
const INPUTS_MAX: usize = 2_048;
/// Numbers of one answer.
const NUMBERS_MAX: usize = 2 << 20;

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    model: Option<Text<'a>>,
    #[serde(borrow)]
    input: Option<Inputs<'a>>,
    dimensions: Option<u32>,
    encoding_format: Option<Encoding>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    Float,
    Base64,
}

/// The answer to a request of embeddings, and the tokens of its prompt.
///
/// A vector is drawn by the token ids of its input: the same input has the same vector. It has
/// length 1 (OpenAI's have, too), and numbers that are uniform before they are scaled to that.
pub(crate) fn embeddings(bytes: &[u8], config: &ServerConfig) -> Result<(Vec<u8>, u32), Refusal> {
    let body: Body<'_> = object(bytes)?;
    let Some(Inputs(inputs)) = body.input.filter(|inputs| !inputs.0.is_empty()) else {
        return Err(missing("input"));
    };
    let model = body
        .model
        .map_or(Cow::Borrowed(config.model.as_str()), |model| model.0);
    check_model(Some(&model), config)?;
    let dimensions = body.dimensions.unwrap_or(config.embedding_dimensions);
    if dimensions == 0 || dimensions > DIMENSIONS_MAX {
        let message = format!("'dimensions' must be from 1 to {DIMENSIONS_MAX}");
        return Err(Refusal::invalid(Some("dimensions"), message));
    }
    if inputs.len() > INPUTS_MAX || inputs.len() * dimensions as usize > NUMBERS_MAX {
        let message = format!("At most {INPUTS_MAX} inputs and {NUMBERS_MAX} numbers can be had");
        return Err(Refusal::invalid(Some("input"), message));
    }
    let mut prompt_tokens = 0_u32;
    let mut data = Vec::new();
    for (index, input) in inputs.iter().enumerate() {
        let mut ids = Vec::new();
        encode(input, config, &mut ids);
        prompt_tokens = prompt_tokens.saturating_add(count(&ids));
        let vector = vector(&ids, dimensions);
        let embedding = match body.encoding_format {
            Some(Encoding::Base64) => json!(base64(&vector)),
            _ => json!(vector),
        };
        data.push(json!({"object": "embedding", "index": index, "embedding": embedding}));
    }
    let body = json!({
        "object": "list",
        "data": data,
        "model": model,
        "usage": {"prompt_tokens": prompt_tokens, "total_tokens": prompt_tokens},
    });
    Ok((body.to_string().into_bytes(), prompt_tokens))
}

fn vector(ids: &[u32], dimensions: u32) -> Vec<f32> {
    let seed = blocks(ids, ids.len()).first().copied().unwrap_or(0);
    let mut dice = Dice::new(seed);
    let drawn: Vec<f64> = (0..dimensions)
        .map(|_| (dice.draw() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0)
        .collect();
    let norm = drawn.iter().map(|x| x * x).sum::<f64>().sqrt();
    // A norm of 0 has a chance of 2^-53.
    let scale = if norm > 0.0 { 1.0 / norm } else { 0.0 };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "an f32 is what is answered"
    )]
    drawn.iter().map(|x| (x * scale) as f32).collect()
}

/// The numbers as little-endian bytes, in base64 (RFC 4648 4).
fn base64(vector: &[f32]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes: Vec<_> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * index) & 63) as usize];
            text.push(if index <= three.len() {
                char::from(letter)
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn ask(body: &Value) -> Result<Value, u16> {
        let answer = embeddings(body.to_string().as_bytes(), &ServerConfig::default());
        let (answer, tokens) = answer.map_err(|refusal| refusal.status)?;
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(answer["usage"]["prompt_tokens"], tokens);
        Ok(answer)
    }

    fn numbers(value: &Value) -> Vec<f64> {
        let numbers = value.as_array().unwrap().iter();
        numbers.map(|x| x.as_f64().unwrap()).collect()
    }

    #[test]
    fn vectors_have_length_1_and_depend_on_the_input() {
        let answer = ask(&json!({"input": ["one", "two", "one"], "dimensions": 100})).unwrap();
        let vectors: Vec<_> = (0..3)
            .map(|index| numbers(&answer["data"][index]["embedding"]))
            .collect();
        for vector in &vectors {
            assert_eq!(vector.len(), 100);
            let norm = vector.iter().map(|x| x * x).sum::<f64>();
            assert!((norm - 1.0).abs() < 1e-5, "{norm}");
        }
        assert_eq!(vectors[0], vectors[2]);
        assert_ne!(vectors[0], vectors[1]);
        assert_eq!(
            answer["usage"],
            json!({"prompt_tokens": 3, "total_tokens": 3})
        );
        assert_eq!(
            (&answer["object"], &answer["model"]),
            (&json!("list"), &json!("mock"))
        );
    }

    #[test]
    fn token_ids_are_one_input_or_several() {
        let count = |input: Value| {
            let answer = ask(&json!({"input": input, "dimensions": 2})).unwrap();
            let tokens = answer["usage"]["prompt_tokens"].as_u64().unwrap();
            (answer["data"].as_array().unwrap().len(), tokens)
        };
        assert_eq!(count(json!([1, 2, 3])), (1, 3));
        assert_eq!(count(json!([[1, 2], [3]])), (2, 3));
        assert_eq!(count(json!("a quiet river")), (1, 3));
    }

    #[test]
    fn base64_is_the_numbers_little_endian() {
        for (numbers, text) in [
            (&[1.0_f32][..], "AACAPw=="),
            (&[1.0, -2.0], "AACAPwAAAMA="),
            (&[1.0, -2.0, 0.5], "AACAPwAAAMAAAAA/"),
            (&[], ""),
        ] {
            assert_eq!(base64(numbers), text);
        }
        let ask = |format| {
            ask(&json!({"input": "x", "dimensions": 3, "encoding_format": format})).unwrap()
        };
        let floats = numbers(&ask("float")["data"][0]["embedding"]);
        let bytes = ask("base64")["data"][0]["embedding"].clone();
        #[expect(clippy::cast_possible_truncation, reason = "they were f32 before")]
        let floats: Vec<_> = floats.iter().map(|x| *x as f32).collect();
        assert_eq!(bytes, base64(&floats));
    }

    #[test]
    fn what_is_wrong_is_refused() {
        for body in [
            json!({}),
            json!({"input": []}),
            json!({"input": "x", "dimensions": 0}),
            json!({"input": "x", "dimensions": 9_000}),
            json!({"input": "x", "encoding_format": "int8"}),
            json!({"input": [1, "x"]}),
            json!({"input": {"text": "x"}}),
        ] {
            assert_eq!(ask(&body), Err(400), "{body}");
        }
    }
}
