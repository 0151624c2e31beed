use serde::Deserialize;
use serde_json::json;

use super::prompt::{Message, Text};
use super::{check_model, missing, object};
use crate::config::ServerConfig;
use crate::refusal::Refusal;

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    model: Option<Text<'a>>,
    prompt: Option<Text<'a>>,
    messages: Option<Vec<Message<'a>>>,
    return_token_strings: Option<bool>,
}

/// The answer to a request of tokens, in vLLM's form. There are no special tokens to add.
pub(crate) fn tokenize(bytes: &[u8], config: &ServerConfig) -> Result<Vec<u8>, Refusal> {
    let body: Body<'_> = object(bytes)?;
    check_model(body.model.as_ref().map(|model| model.0.as_ref()), config)?;
    let vocabulary = &config.vocabulary;
    let mut ids = Vec::new();
    match (&body.prompt, &body.messages) {
        (Some(prompt), _) => vocabulary.encode(&prompt.0, &mut ids),
        (None, Some(messages)) => {
            for text in messages.iter().flat_map(|message| &message.content.0) {
                vocabulary.encode(text, &mut ids);
            }
        }
        (None, None) => return Err(missing("prompt")),
    }
    let strings = body.return_token_strings == Some(true);
    let strings: Option<Vec<_>> =
        strings.then(|| ids.iter().map(|id| vocabulary.piece(*id)).collect());
    let body = json!({
        "count": ids.len(),
        "max_model_len": config.context(),
        "tokens": ids,
        "token_strings": strings,
    });
    Ok(body.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn ask(body: &Value) -> Result<Value, u16> {
        tokenize(body.to_string().as_bytes(), &ServerConfig::default())
            .map(|answer| serde_json::from_slice(&answer).unwrap())
            .map_err(|refusal| refusal.status)
    }

    #[test]
    fn tokens_are_counted_and_named() {
        let answer = ask(&json!({"prompt": "A quiet river", "return_token_strings": true}));
        let answer = answer.unwrap();
        assert_eq!(answer["count"], 3);
        assert_eq!(answer["token_strings"], json!(["A", " quiet", " river"]));
        assert_eq!(answer["tokens"].as_array().unwrap().len(), 3);
        let messages =
            json!([{"role": "user", "content": "A quiet"}, {"role": "user", "content": " river"}]);
        let same = ask(&json!({"messages": messages, "add_special_tokens": true})).unwrap();
        assert_eq!(same["tokens"], answer["tokens"]);
        assert_eq!(same["token_strings"], Value::Null);
        assert_eq!(ask(&json!({})), Err(400));
    }
}
