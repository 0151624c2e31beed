//! ShareGPT: recorded conversations, of which the first answered question is asked again.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::WorkloadError;
use crate::load::{FORMS, LoadOptions, Text};
use crate::sample::{Dataset, Input, OutputLength, Sample};

/// What the files in circulation call the two sides.
const HUMAN: [&str; 2] = ["human", "user"];
const MODEL: [&str; 5] = ["gpt", "assistant", "chatgpt", "bing", "bard"];

pub(crate) fn parse(file: &Text<'_>, options: &LoadOptions<'_>) -> Result<Dataset, WorkloadError> {
    let mut dataset = Dataset::default();
    let mut stopped = None;
    let mut json = serde_json::Deserializer::from_str(file.text);
    let each = |element: &str| {
        let taken = take(file, element, options, &mut dataset);
        taken.map_err(|error| stopped = Some(error))
    };
    let result = json
        .deserialize_seq(Elements(each))
        .and_then(|()| json.end());
    if let Some(error) = stopped {
        return Err(error);
    }
    if let Err(cause) = result {
        let problem = match cause.classify() {
            serde_json::error::Category::Data => format!("it is not a JSON array: {cause}"),
            _ => format!("it is not complete, correct JSON: {cause}"),
        };
        return Err(file.wrong(problem, ARRAY));
    }
    if dataset.samples.is_empty() {
        return Err(nothing_asked(file, dataset.skipped));
    }
    Ok(dataset)
}

const ARRAY: &str = "ShareGPT is a JSON array of \
                     {\"conversations\": [{\"from\": \"human\", \"value\": ..}, ..]}";

pub(crate) fn nothing_asked(file: &Text<'_>, skipped: u64) -> WorkloadError {
    let problem = format!(
        "it has nothing to ask: none of its {skipped} entries is a conversation in which a human \
         asks and a model answers"
    );
    file.wrong(problem, FORMS)
}

fn take(
    file: &Text<'_>,
    element: &str,
    options: &LoadOptions<'_>,
    dataset: &mut Dataset,
) -> Result<(), WorkloadError> {
    #[derive(Deserialize)]
    struct Conversation<'a> {
        #[serde(borrow)]
        conversations: &'a RawValue,
    }
    // An element of another shape is a conversation without an exchange: files in circulation
    // have some.
    let conversation = serde_json::from_str::<Conversation<'_>>(element);
    let Some(exchange) = conversation
        .ok()
        .and_then(|c| exchange(c.conversations.get()))
    else {
        dataset.skipped += 1;
        return Ok(());
    };
    file.room(dataset.samples.len(), options)?;
    dataset.samples.push(Sample {
        output: exchange.output(options)?,
        input: exchange.input(),
        ..Sample::prompt("")
    });
    Ok(())
}

/// A question and its answer.
#[derive(Debug)]
pub(crate) struct Exchange<'a> {
    system: Option<Cow<'a, str>>,
    question: Cow<'a, str>,
    answer: Cow<'a, str>,
}

impl Exchange<'_> {
    pub(crate) fn input(&self) -> Input {
        Input::Prompt {
            system: self.system.as_deref().map(Into::into),
            text: self.question.as_ref().into(),
        }
    }

    /// The length of the answer, when the options ask for it.
    pub(crate) fn output(
        &self,
        options: &LoadOptions<'_>,
    ) -> Result<Option<OutputLength>, WorkloadError> {
        match options.tokenizer {
            Some(tokenizer) if options.answer_lengths => Ok(Some(OutputLength::AtMost(
                tokenizer.count(&self.answer)?.max(1),
            ))),
            _ => Ok(None),
        }
    }
}

/// The first non-empty turn of a human that a model answers with text, and the system text that
/// precedes it, of the JSON array `conversations`.
pub(crate) fn exchange(conversations: &str) -> Option<Exchange<'_>> {
    #[derive(Deserialize)]
    struct Turn<'a> {
        #[serde(borrow)]
        from: Cow<'a, str>,
        #[serde(borrow)]
        value: Cow<'a, str>,
    }
    let mut turns: Vec<Turn<'_>> = serde_json::from_str(conversations).ok()?;
    let first = turns.windows(2).position(|pair| {
        let asked = HUMAN.contains(&&*pair[0].from) && !pair[0].value.is_empty();
        asked && MODEL.contains(&&*pair[1].from) && !pair[1].value.is_empty()
    })?;
    let mut rest = turns.drain(first..first + 2).map(|turn| turn.value);
    let (question, answer) = (rest.next()?, rest.next()?);
    drop(rest);
    let system = turns
        .into_iter()
        .take(first)
        .find(|turn| turn.from == "system");
    let system = system
        .map(|turn| turn.value)
        .filter(|text| !text.is_empty());
    Some(Exchange {
        system,
        question,
        answer,
    })
}

/// Hands over the elements of a JSON array one by one, so that only one is in memory beside the
/// file, until one is refused.
struct Elements<F>(F);

impl<'de, F: FnMut(&str) -> Result<(), ()>> Visitor<'de> for Elements<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of conversations")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<(), A::Error> {
        while let Some(element) = elements.next_element::<&RawValue>()? {
            self.0(element.get()).map_err(|()| serde::de::Error::custom("refused"))?;
        }
        Ok(())
    }
}
