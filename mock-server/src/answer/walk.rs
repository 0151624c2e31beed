use super::{Answer, Step};

/// Goes through an answer, step by step, in rounds.
///
/// A round is what one step of a model generates: some tokens of each choice that is not over. All
/// steps of a round have the same time. The first round opens every choice first; the round of the
/// last token ends the answer, too.
///
/// ```text
/// while !walk.is_over() { walk.advance(tokens); while let Some(step) = walk.step(&answer) { .. } }
/// ```
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    /// Tokens of each choice in earlier rounds, as far as it has them.
    walked: u32,
    /// Tokens of this round.
    round: u32,
    choice: u32,
    /// Tokens of `choice` so far, in this round too.
    at: u32,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Open,
    Say,
    Finish,
    Usage,
    Done,
    Over,
}

impl Walk {
    pub(crate) fn new() -> Self {
        Self {
            walked: 0,
            round: 0,
            choice: 0,
            at: 0,
            stage: Stage::Open,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Begins a round of `tokens` tokens, 1 or more, of each choice.
    pub(crate) fn advance(&mut self, tokens: u32) {
        self.walked = self.walked.saturating_add(self.round);
        self.round = tokens.max(1);
        self.choice = 0;
        self.at = self.walked;
    }

    /// The next step of this round.
    pub(crate) fn step<'a>(&mut self, answer: &'a Answer) -> Option<Step<'a>> {
        let choice = self.choice;
        match self.stage {
            Stage::Open if choice < answer.choices() => {
                self.choice += 1;
                Some(Step::Open { choice })
            }
            Stage::Open => {
                self.choice = 0;
                self.stage = Stage::Say;
                self.step(answer)
            }
            Stage::Say if choice < answer.choices() => self.say(answer),
            Stage::Say => {
                let all = answer.tokens_longest() <= self.walked.saturating_add(self.round);
                if !all {
                    return None;
                }
                self.stage = Stage::Usage;
                self.step(answer)
            }
            Stage::Finish => {
                self.next_choice();
                self.stage = Stage::Say;
                let output = answer.output(choice);
                Some(Step::Finish {
                    choice,
                    reason: output.finish,
                    stop_reason: output.stop_reason.as_deref(),
                    usage: answer
                        .continuous_usage
                        .then(|| answer.usage_so_far(choice, output.tokens())),
                })
            }
            Stage::Usage => {
                self.stage = Stage::Done;
                if !answer.include_usage {
                    return self.step(answer);
                }
                Some(Step::Usage(answer.usage()))
            }
            Stage::Done => {
                self.stage = Stage::Over;
                Some(Step::Done)
            }
            Stage::Over => None,
        }
    }

    fn say<'a>(&mut self, answer: &'a Answer) -> Option<Step<'a>> {
        let choice = self.choice;
        let total = answer.output(choice).tokens();
        let end = self.walked.saturating_add(self.round).min(total);
        if self.at >= end {
            // A choice without tokens ends in the first round, all others with their last.
            let ends_here = if total == 0 {
                self.walked == 0
            } else {
                self.walked < total && end == total
            };
            if ends_here {
                self.stage = Stage::Finish;
            } else {
                self.next_choice();
            }
            return self.step(answer);
        }
        let from = self.at;
        let (part, tokens) = answer.part(choice, from, end);
        self.at += tokens;
        Some(Step::Delta {
            choice,
            from,
            tokens,
            part,
            usage: answer
                .continuous_usage
                .then(|| answer.usage_so_far(choice, self.at)),
        })
    }

    fn next_choice(&mut self) {
        self.choice += 1;
        self.at = self.walked;
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::answer::{Call, Endpoint, Finish, Output, Part, Text, Tokens, text};
    use proptest::prelude::*;

    fn answer(outputs: Vec<Output>) -> Answer {
        Answer {
            endpoint: Endpoint::Chat,
            stream: true,
            include_usage: true,
            continuous_usage: true,
            prompt_tokens: 7,
            cached_tokens: 2,
            logprobs: None,
            outputs: outputs.into(),
        }
    }

    fn call(name_tokens: u32, arguments: &str) -> Call {
        let ends = (1..=arguments.len()).map(|end| u32::try_from(end).unwrap());
        let tokens = Rc::new(Tokens {
            text: arguments.into(),
            ends: ends.collect(),
        });
        Call {
            id: "call-1".into(),
            name: "look".into(),
            name_tokens,
            arguments: Text::of(tokens, u32::MAX),
        }
    }

    /// What a reader of the steps of one choice makes of them.
    #[derive(Debug, Default, PartialEq, Eq)]
    struct Heard {
        reasoning: String,
        text: String,
        calls: Vec<String>,
        tokens: u32,
        rounds: usize,
        finished: u32,
    }

    fn hear(answer: &Answer, rounds: impl IntoIterator<Item = u32>) -> Vec<Heard> {
        let mut heard: Vec<Heard> = answer.outputs.iter().map(|_| Heard::default()).collect();
        let mut walk = Walk::new();
        let (mut opened, mut usage, mut done) = (0, 0, 0);
        let mut rounds = rounds.into_iter();
        let mut round = 0;
        while !walk.is_over() {
            round += 1;
            walk.advance(rounds.next().unwrap_or(1));
            while let Some(step) = walk.step(answer) {
                assert_eq!(done, 0);
                match step {
                    Step::Open { choice } => {
                        assert_eq!((choice, round), (opened, 1));
                        opened += 1;
                    }
                    Step::Delta {
                        choice,
                        from,
                        tokens,
                        part,
                        usage,
                    } => {
                        let heard = &mut heard[choice as usize];
                        assert_eq!((from, heard.finished), (heard.tokens, 0));
                        assert!(tokens > 0);
                        heard.tokens += tokens;
                        heard.rounds = round;
                        assert_eq!(usage.unwrap().completion, heard.tokens);
                        match part {
                            Part::Reasoning(text) => heard.reasoning += text,
                            Part::Text(text) => heard.text += text,
                            Part::Call {
                                index,
                                id,
                                name,
                                arguments,
                            } => {
                                assert_eq!(id.is_some(), name.is_some());
                                if id.is_some() {
                                    heard.calls.push(String::new());
                                }
                                heard.calls[index as usize] += arguments;
                            }
                        }
                    }
                    Step::Finish { choice, .. } => heard[choice as usize].finished += 1,
                    Step::Usage(counts) => {
                        assert_eq!(counts, answer.usage());
                        usage += 1;
                    }
                    Step::Done => done += 1,
                }
            }
        }
        assert_eq!((opened, usage, done), (answer.choices(), 1, 1));
        heard
    }

    #[test]
    fn nothing_is_opened_and_finished() {
        let answer = answer(vec![Output::words(0, 0, 0, Finish::Stop)]);
        assert_eq!(
            hear(&answer, []),
            [Heard {
                finished: 1,
                ..Heard::default()
            }]
        );
    }

    #[test]
    fn the_fixed_text_is_said_from_its_first_word() {
        let answer = answer(vec![Output::words(0, 0, 300, Finish::Stop)]);
        assert_eq!(hear(&answer, [])[0].text, text(300));
        assert_eq!(hear(&answer, [1_000])[0].text, text(300));
        assert_eq!(hear(&answer, [])[0].rounds, 300);
    }

    proptest! {
        #[test]
        fn rounds_of_any_size_say_the_same(
            shapes in proptest::collection::vec((0..40_u32, 0..40_u32, 0..4_u32, ".{0,12}"), 1..4),
            rounds in proptest::collection::vec(1..50_u32, 0..40),
        ) {
            let outputs = shapes.iter().map(|(reasoning, text, name, arguments)| Output {
                calls: [call(1 + name, "{}"), call(1, &arguments.replace(|c: char| !c.is_ascii(), ""))].into(),
                ..Output::words(*reasoning, *reasoning, *text, Finish::ToolCalls)
            });
            let answer = answer(outputs.collect());
            let by_ones = hear(&answer, []);
            let mut heard = hear(&answer, rounds);
            for (choice, heard) in (0..).zip(&mut heard) {
                let output = answer.output(choice);
                prop_assert_eq!(heard.tokens, output.tokens());
                prop_assert_eq!(heard.finished, 1);
                prop_assert_eq!(&heard.text, &output.text.pieces().collect::<String>());
                prop_assert_eq!(&heard.reasoning, &output.reasoning.pieces().collect::<String>());
                heard.rounds = by_ones[choice as usize].rounds;
            }
            prop_assert_eq!(heard, by_ones);
        }
    }
}
