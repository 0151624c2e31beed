use std::collections::HashMap;
use std::rc::Rc;

use bytes::Bytes;
use ridgeline_clock::Nanos;
use serde_json::{Value, json};

use crate::answer::{Answer, Endpoint, Output, Step, Walk};
use crate::ask::{Asked, embeddings, parse, tokenize};
use crate::cache::Cache;
use crate::config::{Mode, ServerConfig};
use crate::id::Id;
use crate::ledger::Load;
use crate::refusal::{Advice, Refusal};
use crate::wording::{Content, Dialect, Framing, Http, Reply, Stamp, Telling, Voice};

/// An answer whose bytes exist, but for its head. Shared by everyone who asked for the same.
#[derive(Debug)]
pub(crate) struct Prebuilt {
    pub(crate) status: u16,
    pub(crate) advice: Advice,
    pub(crate) http: &'static Http,
    pub(crate) content: Content,
    pub(crate) framing: Framing,
    body: Bytes,
    /// INVARIANT: not empty, ascending by `end`, the last of which is `body.len()`.
    writes: Box<[Cut]>,
}

/// One write of a prebuilt answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cut {
    /// Where it ends in the body.
    end: usize,
    load: Load,
}

impl Prebuilt {
    fn new(status: u16, body: Vec<u8>) -> Self {
        let end = body.len();
        Self {
            status,
            advice: Advice::default(),
            http: Dialect::Vllm.http(),
            content: Content::Json,
            framing: Framing::Length(end),
            writes: Box::new([Cut {
                end,
                load: Load::default(),
            }]),
            body: body.into(),
        }
    }

    /// What was asked of the server itself, as JSON.
    pub(crate) fn json(value: &Value) -> Self {
        Self::new(200, value.to_string().into_bytes())
    }

    /// `/metrics`.
    pub(crate) fn page(text: String) -> Self {
        Self {
            content: Content::Page,
            ..Self::new(200, text.into_bytes())
        }
    }

    pub(crate) fn refusal(refusal: &Refusal) -> Self {
        Self {
            advice: refusal.advice,
            ..Self::new(refusal.status, refusal.body())
        }
    }

    /// What goes into write number `index`, and whether it is the last.
    pub(crate) fn write(&self, index: usize) -> (Bytes, Load, bool) {
        let start = if index == 0 {
            0
        } else {
            self.writes[index - 1].end
        };
        let Cut { end, load } = self.writes[index];
        (
            self.body.slice(start..end),
            load,
            index + 1 == self.writes.len(),
        )
    }
}

/// What a body means here: it is asked for once per body, not once per request.
#[derive(Clone, Debug)]
pub(crate) struct Meaning {
    pub(crate) voice: Rc<Voice>,
    pub(crate) answer: Answer,
    /// Hashes of the prompt's blocks, each with all before it.
    pub(crate) blocks: Rc<[u64]>,
    pub(crate) seed: Option<u64>,
    /// Instant mode: the answer, and whether it is for a peer that takes chunks.
    prebuilt: Option<(bool, Rc<Prebuilt>)>,
}

impl Meaning {
    /// About the memory behind it.
    fn bytes(&self) -> usize {
        let outputs = self.answer.outputs.iter().map(Output::bytes);
        outputs.sum::<usize>() + size_of_val(&*self.blocks)
    }
}

/// What is asked for besides texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Question {
    Embeddings,
    Tokenize,
}

/// Turns bodies into answers.
#[derive(Debug)]
pub(crate) struct Composer {
    config: ServerConfig,
    /// What to add to the run's clock for the time since 1970.
    epoch: Nanos,
    /// By model, for each endpoint and dialect.
    voices: HashMap<(Endpoint, Dialect), HashMap<Box<str>, Rc<Voice>>>,
    voices_made: u64,
    meanings: Cache<(Endpoint, Dialect), Meaning>,
    replies: Cache<Question, (Rc<Prebuilt>, u32)>,
    prebuilt: HashMap<Key, Rc<Prebuilt>>,
    prebuilt_bytes: usize,
    /// Answers so far that needed an id of their own.
    serial: u64,
    models: Rc<Prebuilt>,
    health: Rc<Prebuilt>,
}

/// The number of the voice, the answer, and whether the peer takes chunks.
type Key = (u64, Answer, bool);

/// Models that are remembered for each endpoint and dialect; at this number all are forgotten.
const VOICES_MAX: usize = 256;

impl Composer {
    pub(crate) fn new(config: &ServerConfig, epoch: Nanos) -> Self {
        let models = config.models().map(|model| described(model, config, epoch));
        let models = json!({"object": "list", "data": models.collect::<Vec<_>>()});
        Self {
            config: config.clone(),
            epoch,
            voices: HashMap::new(),
            voices_made: 0,
            meanings: Cache::new(config.limits.cache_bytes_max),
            replies: Cache::new(config.limits.cache_bytes_max),
            prebuilt: HashMap::new(),
            prebuilt_bytes: 0,
            serial: 0,
            models: Rc::new(Prebuilt::new(200, models.to_string().into_bytes())),
            health: Rc::new(Prebuilt::new(200, Vec::new())),
        }
    }

    /// Whose words are used where a request names none.
    pub(crate) fn dialect(&self) -> Dialect {
        self.config.dialect
    }

    /// Answers from now on as `config` says. Serial numbers go on.
    pub(crate) fn take_up(&mut self, config: &ServerConfig) {
        let (serial, voices_made) = (self.serial, self.voices_made);
        *self = Self {
            serial,
            voices_made,
            ..Self::new(config, self.epoch)
        };
    }

    pub(crate) fn models(&self) -> Rc<Prebuilt> {
        Rc::clone(&self.models)
    }

    /// One model of those that are listed.
    ///
    /// # Errors
    /// 404 where it is not among them.
    pub(crate) fn model(&self, name: &str) -> Result<Rc<Prebuilt>, Refusal> {
        let config = &self.config;
        let known = config.models().find(|model| *model == name);
        let known = known.ok_or_else(|| Refusal::model(name))?;
        let model = described(known, config, self.epoch);
        Ok(Rc::new(Prebuilt::json(&model)))
    }

    pub(crate) fn health(&self) -> Rc<Prebuilt> {
        Rc::clone(&self.health)
    }

    /// What a body means; `dialect`: the request's own, if it names one. It is read unless it is
    /// remembered.
    pub(crate) fn read(
        &mut self,
        endpoint: Endpoint,
        dialect: Option<Dialect>,
        body: &[u8],
    ) -> Result<Meaning, Refusal> {
        let dialect = dialect.unwrap_or(self.config.dialect);
        if let Some(meaning) = self.meanings.get(&(endpoint, dialect), body) {
            return Ok(meaning.clone());
        }
        let asked = parse(endpoint, body, &self.config)?;
        let model = asked.model.as_deref().unwrap_or(&self.config.model);
        let voices = self.voices.entry((endpoint, dialect)).or_default();
        let voice = match voices.get(model) {
            Some(voice) => Rc::clone(voice),
            None => {
                if voices.len() >= VOICES_MAX {
                    voices.clear();
                }
                let voice = Rc::new(Voice::new(dialect, endpoint, model, self.voices_made));
                self.voices_made += 1;
                voices.insert(model.into(), Rc::clone(&voice));
                voice
            }
        };
        let Asked {
            mut answer,
            blocks,
            seed,
            ..
        } = asked;
        dialect.bend(&mut answer);
        let meaning = Meaning {
            voice,
            answer,
            blocks,
            seed,
            prebuilt: None,
        };
        let bytes = meaning.bytes();
        self.meanings
            .put((endpoint, dialect), body, meaning.clone(), bytes);
        Ok(meaning)
    }

    /// The reply to a body that asks for no text, and the tokens of its prompt. It is made unless
    /// it is remembered.
    pub(crate) fn reply(
        &mut self,
        question: Question,
        body: &[u8],
    ) -> Result<(Rc<Prebuilt>, u32), Refusal> {
        if let Some((prebuilt, tokens)) = self.replies.get(&question, body) {
            return Ok((Rc::clone(prebuilt), *tokens));
        }
        let (reply, tokens) = match question {
            Question::Embeddings => embeddings(body, &self.config)?,
            Question::Tokenize => (tokenize(body, &self.config)?, 0),
        };
        let bytes = reply.len();
        let prebuilt = Rc::new(Prebuilt::new(200, reply));
        let kept = (Rc::clone(&prebuilt), tokens);
        self.replies.put(question, body, kept, bytes);
        Ok((prebuilt, tokens))
    }

    /// The id and the time of an answer to a request that was complete `at`.
    pub(crate) fn stamp(&mut self, reply: &Reply, at: Nanos) -> Stamp {
        let id = if reply.request_id.is_plain() {
            reply.request_id
        } else {
            self.serial += 1;
            Id::of_serial(self.serial)
        };
        Stamp {
            id,
            created: seconds(self.epoch + at),
        }
    }

    /// Instant mode: the answer, built unless it is remembered. All who ask for the same get the
    /// same id and `created`.
    pub(crate) fn prebuilt(
        &mut self,
        meaning: &mut Meaning,
        reply: &Reply,
        at: Nanos,
    ) -> Rc<Prebuilt> {
        // A whole answer has no chunks, mostly: it is the same for every peer.
        let plain = !meaning.answer.stream && meaning.voice.http().whole_is_plain();
        let chunked = reply.chunks || plain;
        if let Some((for_chunks, prebuilt)) = &meaning.prebuilt
            && *for_chunks == chunked
        {
            return Rc::clone(prebuilt);
        }
        let key = (meaning.voice.number, meaning.answer.clone(), chunked);
        let prebuilt = match self.prebuilt.get(&key) {
            Some(prebuilt) => Rc::clone(prebuilt),
            None => self.build(key, &meaning.voice, at),
        };
        meaning.prebuilt = Some((chunked, Rc::clone(&prebuilt)));
        prebuilt
    }

    fn build(&mut self, key: Key, voice: &Voice, at: Nanos) -> Rc<Prebuilt> {
        let (_, answer, chunked) = &key;
        self.serial += 1;
        let stamp = Stamp {
            id: Id::of_serial(self.serial),
            created: seconds(self.epoch + at),
        };
        let framing = voice.http().stream_framing(*chunked);
        let prebuilt = match framing.filter(|_| answer.stream) {
            Some(framing) => self.stream(voice, answer, &stamp, framing),
            None => whole(voice, answer, &stamp, *chunked),
        };
        let bytes = prebuilt.body.len() + size_of_val(&*prebuilt.writes) + PREBUILT_BYTES;
        if self.prebuilt_bytes + bytes > self.config.limits.cache_bytes_max {
            self.prebuilt.clear();
            self.prebuilt_bytes = 0;
        }
        let prebuilt = Rc::new(prebuilt);
        if bytes <= self.config.limits.cache_bytes_max {
            self.prebuilt_bytes += bytes;
            self.prebuilt.insert(key, Rc::clone(&prebuilt));
        }
        prebuilt
    }

    /// A whole event stream, cut into writes.
    fn stream(&self, voice: &Voice, answer: &Answer, stamp: &Stamp, framing: Framing) -> Prebuilt {
        let events_per_write = match self.config.mode {
            Mode::Instant {
                events_per_write: Some(events),
            } => events.get() as usize,
            _ => usize::MAX,
        };
        let mut body = Vec::new();
        let mut writes = Vec::new();
        let mut walk = Walk::new();
        let mut telling = Telling::default();
        let http = voice.http();
        let (mut load, mut events) = (Load::default(), 0);
        http.event(&mut body, framing, &mut telling, |out, telling| {
            voice.greeting(out, telling, stamp, answer);
        });
        let mut start_of_write = 0;
        while !walk.is_over() {
            walk.advance(1);
            while let Some(step) = walk.step(answer) {
                let start = body.len();
                http.event(&mut body, framing, &mut telling, |out, telling| {
                    voice.event(out, telling, stamp, answer, &step);
                });
                if body.len() == start {
                    continue;
                }
                load.add(&step, voice.dialect());
                events += 1;
                if events == events_per_write && step != Step::Done {
                    http.write(&mut body, framing, &mut telling, start_of_write);
                    start_of_write = body.len();
                    writes.push(Cut {
                        end: body.len(),
                        load: std::mem::take(&mut load),
                    });
                    events = 0;
                }
            }
        }
        http.write(&mut body, framing, &mut telling, start_of_write);
        http.end(&mut body, framing);
        body.shrink_to_fit();
        writes.push(Cut {
            end: body.len(),
            load,
        });
        Prebuilt {
            http,
            content: Content::Events,
            framing,
            writes: writes.into(),
            ..Prebuilt::new(200, body)
        }
    }
}

/// What `/v1/models` says of a model.
fn described(model: &str, config: &ServerConfig, epoch: Nanos) -> Value {
    json!({
        "id": model,
        "object": "model",
        "created": seconds(epoch),
        "owned_by": "ridgeline",
        "max_model_len": config.context(),
    })
}

/// An answer that is sent when it is complete, in one write.
fn whole(voice: &Voice, answer: &Answer, stamp: &Stamp, chunks: bool) -> Prebuilt {
    let mut body = Vec::new();
    let mut load = Load::default();
    let content = voice.complete(&mut body, stamp, answer, |step| {
        load.add(step, voice.dialect());
    });
    if content == Content::Json {
        load = Load::whole(answer, voice.dialect());
    }
    let http = voice.http();
    let framing = http.complete(&mut body, content, chunks);
    body.shrink_to_fit();
    let mut prebuilt = Prebuilt {
        http,
        content,
        framing,
        ..Prebuilt::new(200, body)
    };
    prebuilt.writes[0].load = load;
    prebuilt
}

/// What a remembered answer takes besides its bytes, about.
const PREBUILT_BYTES: usize = 256;

fn seconds(time: Nanos) -> u64 {
    time.0 / 1_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU32;

    fn composer(events_per_write: Option<u32>) -> Composer {
        let events_per_write = events_per_write.and_then(NonZeroU32::new);
        let mode = Mode::Instant { events_per_write };
        let mut config = ServerConfig {
            mode,
            ..ServerConfig::default()
        };
        config.limits.cache_bytes_max = 16 << 10;
        Composer::new(&config, Nanos::from_secs(1_000))
    }

    const REPLY: Reply = Reply {
        request_id: Id::EMPTY,
        keep_alive: true,
        chunks: true,
    };

    fn answer(composer: &mut Composer, tokens: u32) -> Rc<Prebuilt> {
        let body = format!(
            r#"{{"stream":true,"max_tokens":{tokens},"messages":[{{"role":"user","content":"x"}}]}}"#
        );
        let mut meaning = composer
            .read(Endpoint::Chat, None, body.as_bytes())
            .unwrap();
        composer.prebuilt(&mut meaning, &REPLY, Nanos::ZERO)
    }

    #[test]
    fn writes_hold_the_asked_number_of_events() {
        // Role, 5 tokens, finish, DONE (with the last chunk): 8 events.
        for (per_write, counts) in [
            (None, vec![8]),
            (Some(1), vec![1; 8]),
            (Some(3), vec![3, 3, 2]),
            (Some(4), vec![4, 4]),
            (Some(7), vec![7, 1]),
            (Some(8), vec![8]),
            (Some(100), vec![8]),
        ] {
            let prebuilt = answer(&mut composer(per_write), 5);
            let (mut joined, mut tokens) = (Vec::new(), 0);
            for (index, count) in counts.iter().enumerate() {
                let (write, load, last) = prebuilt.write(index);
                let events = write.windows(6).filter(|bytes| bytes == b"data: ").count();
                assert_eq!(
                    (events, last),
                    (*count, index + 1 == counts.len()),
                    "{per_write:?}"
                );
                joined.extend_from_slice(&write);
                tokens += load.tokens;
            }
            assert_eq!(joined, prebuilt.body);
            assert_eq!(tokens, 5);
        }
    }

    #[test]
    fn the_same_is_built_once_until_the_cache_is_full() {
        let mut composer = composer(None);
        let first = answer(&mut composer, 3);
        assert!(Rc::ptr_eq(&first, &answer(&mut composer, 3)));
        assert!(!Rc::ptr_eq(&first, &answer(&mut composer, 4)));
        for tokens in 5..50 {
            answer(&mut composer, tokens);
            assert!(composer.prebuilt_bytes <= 16 << 10);
        }
        assert!(!Rc::ptr_eq(&first, &answer(&mut composer, 3)));
        // Larger than the whole cache: served all the same, remembered not.
        let large = answer(&mut composer, 1_000);
        assert!(large.body.len() > 16 << 10);
        assert_eq!(composer.prebuilt_bytes, 0);
    }

    #[test]
    fn models_are_forgotten_when_too_many() {
        let mut composer = composer(None);
        for model in 0..1_000 {
            let body = format!(r#"{{"model":"m{model}","prompt":"x"}}"#);
            composer
                .read(Endpoint::Completions, None, body.as_bytes())
                .unwrap();
        }
        assert_eq!(composer.voices.len(), 1);
        assert!(
            composer
                .voices
                .values()
                .all(|voices| voices.len() <= VOICES_MAX)
        );
    }
}
