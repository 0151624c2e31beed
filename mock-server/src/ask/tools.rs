use serde_json::Value;

use super::dice::Dice;
use super::schema;
use super::vocabulary::Vocabulary;
use crate::answer::{Call, Text};
use crate::refusal::Refusal;

/// What a body says about tools.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tools<'a> {
    pub(super) tools: &'a [Value],
    /// `tool_choice`.
    pub(super) choice: Option<&'a Value>,
    /// `parallel_tool_calls`, asked for.
    pub(super) parallel: bool,
}

/// A tool that may be called.
#[derive(Clone, Copy, Debug)]
struct Tool<'a> {
    name: &'a str,
    parameters: &'a Value,
}

impl<'a> Tool<'a> {
    /// Chat nests the function, Responses does not.
    fn read(tool: &'a Value) -> Option<Self> {
        let function = tool.get("function").unwrap_or(tool);
        let name = function.get("name")?.as_str()?;
        let parameters = function.get("parameters").unwrap_or(&Value::Null);
        Some(Self { name, parameters })
    }
}

/// Calls of one choice; more tools than that are not called.
const CALLS_MAX: usize = 16;

impl<'a> Tools<'a> {
    /// The calls to answer with; none: a text.
    ///
    /// `auto`, which is the default, calls with this probability; `required` always does. Both call
    /// one of the tools, or each once if the body says `parallel_tool_calls`. A named tool is
    /// called once.
    pub(super) fn calls(
        &self,
        probability: f64,
        vocabulary: &Vocabulary,
        dice: &mut Dice,
    ) -> Result<Vec<Call>, Refusal> {
        let tools: Vec<_> = self.tools.iter().filter_map(Tool::read).collect();
        let chosen = match self.choice {
            None | Some(Value::Null) => self.some(&tools, probability, dice),
            Some(Value::String(choice)) => match choice.as_str() {
                "none" => Vec::new(),
                "auto" => self.some(&tools, probability, dice),
                "required" if tools.is_empty() => {
                    return Err(wrong(
                        "'tool_choice' is 'required' and there are no 'tools'",
                    ));
                }
                "required" => self.some(&tools, 1.0, dice),
                _ => {
                    return Err(wrong(
                        "'tool_choice' must be 'none', 'auto', 'required' or name a function",
                    ));
                }
            },
            Some(choice) => {
                let name = choice.get("function").unwrap_or(choice).get("name");
                let named = tools
                    .iter()
                    .find(|tool| name.is_some_and(|name| name.as_str() == Some(tool.name)));
                vec![*named.ok_or_else(|| wrong("'tool_choice' names none of the 'tools'"))?]
            }
        };
        Ok(chosen
            .into_iter()
            .map(|tool| call(tool, vocabulary, dice))
            .collect())
    }

    fn some(&self, tools: &[Tool<'a>], probability: f64, dice: &mut Dice) -> Vec<Tool<'a>> {
        if tools.is_empty() || !dice.happens(probability) {
            return Vec::new();
        }
        if self.parallel {
            return tools.iter().copied().take(CALLS_MAX).collect();
        }
        let index = dice.below(tools.len() as u64);
        vec![tools[usize::try_from(index).unwrap_or(0)]]
    }
}

fn call(tool: Tool<'_>, vocabulary: &Vocabulary, dice: &mut Dice) -> Call {
    let id = format!("call_{:016x}", dice.draw());
    let arguments = match tool.parameters {
        Value::Null => "{}".to_owned(),
        parameters => schema::value(parameters, dice).to_string(),
    };
    Call {
        id: id.into(),
        name: tool.name.into(),
        name_tokens: vocabulary.count(tool.name).max(1),
        arguments: Text::of(vocabulary.take_apart(&arguments).into(), u32::MAX),
    }
}

fn wrong(message: &'static str) -> Refusal {
    Refusal::invalid(Some("tool_choice"), message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn calls(body: &Value, probability: f64) -> Result<Vec<(String, Value)>, u16> {
        let tools = Tools {
            tools: body["tools"].as_array().map_or(&[], Vec::as_slice),
            choice: body.get("tool_choice"),
            parallel: body["parallel_tool_calls"] == true,
        };
        let vocabulary = Vocabulary::words();
        let calls = tools.calls(probability, &vocabulary, &mut Dice::new(3));
        let calls = calls.map_err(|refusal| refusal.status)?;
        Ok(calls
            .iter()
            .map(|call| {
                let arguments: String = call.arguments.pieces().collect();
                (
                    call.name.to_string(),
                    serde_json::from_str(&arguments).unwrap(),
                )
            })
            .collect())
    }

    fn body(choice: &Value, parallel: &Value) -> Value {
        json!({
            "tools": [
                {"type": "function", "function": {"name": "a"}},
                {"type": "function", "name": "b", "parameters": {"properties": {"n": {"type": "integer"}}}},
                {"type": "web_search"},
            ],
            "tool_choice": choice,
            "parallel_tool_calls": parallel,
        })
    }

    #[test]
    fn the_choice_decides_what_is_called() {
        let null = Value::Null;
        assert_eq!(calls(&body(&json!("none"), &null), 1.0), Ok(vec![]));
        assert_eq!(calls(&body(&json!("auto"), &null), 0.0), Ok(vec![]));
        assert_eq!(calls(&body(&null, &null), 1.0).unwrap().len(), 1);
        assert_eq!(
            calls(&body(&json!("required"), &null), 0.0).unwrap().len(),
            1
        );
        let both = vec![
            ("a".to_owned(), json!({})),
            ("b".to_owned(), json!({"n": 7})),
        ];
        assert_eq!(
            calls(&body(&json!("auto"), &json!(true)), 1.0),
            Ok(both.clone())
        );
        for named in [
            json!({"type": "function", "function": {"name": "b"}}),
            json!({"type": "function", "name": "b"}),
        ] {
            assert_eq!(
                calls(&body(&named, &json!(true)), 0.0),
                Ok(vec![both[1].clone()])
            );
        }
    }

    #[test]
    fn a_choice_of_nothing_is_refused() {
        for choice in [json!("maybe"), json!({"name": "c"}), json!({}), json!(7)] {
            assert_eq!(
                calls(&body(&choice, &Value::Null), 1.0),
                Err(400),
                "{choice}"
            );
        }
        assert_eq!(calls(&json!({"tool_choice": "required"}), 1.0), Err(400));
        assert_eq!(calls(&json!({}), 1.0), Ok(vec![]));
    }
}
