use std::collections::HashMap;
use std::rc::Rc;

use bytes::Bytes;
use ridgeline_clock::Nanos;
use serde_json::json;

use crate::ask::{Ask, Endpoint, parse};
use crate::config::{Mode, ServerConfig};
use crate::id::Id;
use crate::refusal::Refusal;
use crate::voice::{Framing, Reply, Stamp, Voice, stream};

/// An answer whose bytes exist, but for its head. Shared by everyone who asked for the same.
#[derive(Debug)]
pub(crate) struct Prebuilt {
    pub(crate) status: u16,
    pub(crate) allow: Option<&'static str>,
    pub(crate) framing: Framing,
    pub(crate) tokens: u32,
    body: Bytes,
    /// Where each write ends. INVARIANT: not empty, ascending, the last is `body.len()`.
    cuts: Box<[usize]>,
}

impl Prebuilt {
    fn new(status: u16, body: Vec<u8>) -> Self {
        Self {
            status,
            allow: None,
            framing: Framing::Length(body.len()),
            tokens: 0,
            cuts: Box::new([body.len()]),
            body: body.into(),
        }
    }

    pub(crate) fn refusal(refusal: &Refusal) -> Self {
        Self {
            allow: refusal.allow,
            ..Self::new(refusal.status, refusal.body())
        }
    }

    /// What goes into write number `index`, and whether it is the last.
    pub(crate) fn write(&self, index: usize) -> (Bytes, bool) {
        let start = if index == 0 { 0 } else { self.cuts[index - 1] };
        (
            self.body.slice(start..self.cuts[index]),
            index + 1 == self.cuts.len(),
        )
    }
}

/// What a body means here: it is asked for once per body, not once per request.
#[derive(Clone, Debug)]
pub(crate) struct Meaning {
    pub(crate) voice: Rc<Voice>,
    pub(crate) ask: Ask,
    /// Instant mode: the answer, and whether it is for a peer that takes chunks.
    prebuilt: Option<(bool, Rc<Prebuilt>)>,
}

/// Turns bodies into answers.
#[derive(Debug)]
pub(crate) struct Composer {
    config: ServerConfig,
    /// What to add to the run's clock for the time since 1970.
    epoch: Nanos,
    /// By model, for each endpoint.
    voices: [HashMap<Box<str>, Rc<Voice>>; 2],
    voices_made: u64,
    prebuilt: HashMap<Key, Rc<Prebuilt>>,
    prebuilt_bytes: usize,
    /// Answers so far that needed an id of their own.
    serial: u64,
    models: Rc<Prebuilt>,
    health: Rc<Prebuilt>,
}

/// The number of the voice, what was asked, and whether the peer takes chunks.
type Key = (u64, Ask, bool);

/// Models that are remembered for each endpoint; at this number all are forgotten.
const VOICES_MAX: usize = 256;

impl Composer {
    pub(crate) fn new(config: &ServerConfig, epoch: Nanos) -> Self {
        let models = json!({
            "object": "list",
            "data": [{
                "id": config.model,
                "object": "model",
                "created": seconds(epoch),
                "owned_by": "ridgeline",
                "max_model_len": config.limits.tokens_max,
            }],
        });
        Self {
            config: config.clone(),
            epoch,
            voices: [HashMap::new(), HashMap::new()],
            voices_made: 0,
            prebuilt: HashMap::new(),
            prebuilt_bytes: 0,
            serial: 0,
            models: Rc::new(Prebuilt::new(200, models.to_string().into_bytes())),
            health: Rc::new(Prebuilt::new(200, Vec::new())),
        }
    }

    pub(crate) fn models(&self) -> Rc<Prebuilt> {
        Rc::clone(&self.models)
    }

    pub(crate) fn health(&self) -> Rc<Prebuilt> {
        Rc::clone(&self.health)
    }

    /// Reads a body.
    pub(crate) fn read(&mut self, endpoint: Endpoint, body: &[u8]) -> Result<Meaning, Refusal> {
        let (ask, model) = parse(endpoint, body, &self.config)?;
        let model = model.as_deref().unwrap_or(&self.config.model);
        let voices = &mut self.voices[usize::from(endpoint == Endpoint::Completions)];
        if let Some(voice) = voices.get(model) {
            return Ok(Meaning {
                voice: Rc::clone(voice),
                ask,
                prebuilt: None,
            });
        }
        if voices.len() >= VOICES_MAX {
            voices.clear();
        }
        let voice = Rc::new(Voice::new(endpoint, model, self.voices_made));
        self.voices_made += 1;
        voices.insert(model.into(), Rc::clone(&voice));
        Ok(Meaning {
            voice,
            ask,
            prebuilt: None,
        })
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
        // A whole answer has no chunks: it is the same for every peer.
        let chunked = reply.chunks || !meaning.ask.stream;
        if let Some((for_chunks, prebuilt)) = &meaning.prebuilt
            && *for_chunks == chunked
        {
            return Rc::clone(prebuilt);
        }
        let key = (meaning.voice.number, meaning.ask, chunked);
        let prebuilt = match self.prebuilt.get(&key) {
            Some(prebuilt) => Rc::clone(prebuilt),
            None => self.build(key, meaning, at),
        };
        meaning.prebuilt = Some((chunked, Rc::clone(&prebuilt)));
        prebuilt
    }

    fn build(&mut self, key: Key, meaning: &Meaning, at: Nanos) -> Rc<Prebuilt> {
        let (_, ask, chunked) = key;
        self.serial += 1;
        let stamp = Stamp {
            id: Id::of_serial(self.serial),
            created: seconds(self.epoch + at),
        };
        let mut body = Vec::new();
        let prebuilt = if ask.stream {
            let mut ends = Vec::new();
            stream(&mut body, &meaning.voice, chunked, &stamp, &ask, |end| {
                ends.push(end)
            });
            body.shrink_to_fit();
            Prebuilt {
                framing: if chunked {
                    Framing::Chunked
                } else {
                    Framing::Close
                },
                cuts: self.cuts(&ends),
                tokens: ask.tokens,
                ..Prebuilt::new(200, body)
            }
        } else {
            meaning.voice.whole(&mut body, &stamp, &ask);
            body.shrink_to_fit();
            Prebuilt {
                tokens: ask.tokens,
                ..Prebuilt::new(200, body)
            }
        };
        let bytes = prebuilt.body.len() + size_of_val(&*prebuilt.cuts) + PREBUILT_BYTES;
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

    /// Where writes end, of a stream whose events end at `ends`.
    fn cuts(&self, ends: &[usize]) -> Box<[usize]> {
        let all = ends.len();
        let events_per_write = match self.config.mode {
            Mode::Instant {
                events_per_write: Some(events),
            } => events.get() as usize,
            _ => all,
        };
        let last = ends[all - 1..].iter().copied();
        let inner = ends[..all - 1].chunks_exact(events_per_write.min(all));
        inner
            .map(|write| write[write.len() - 1])
            .chain(last)
            .collect()
    }
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
        let mut meaning = composer.read(Endpoint::Chat, body.as_bytes()).unwrap();
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
            let mut joined = Vec::new();
            for (index, count) in counts.iter().enumerate() {
                let (write, last) = prebuilt.write(index);
                let events = write.windows(6).filter(|bytes| bytes == b"data: ").count();
                assert_eq!(
                    (events, last),
                    (*count, index + 1 == counts.len()),
                    "{per_write:?}"
                );
                joined.extend_from_slice(&write);
            }
            assert_eq!(joined, prebuilt.body);
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
                .read(Endpoint::Completions, body.as_bytes())
                .unwrap();
        }
        assert!(composer.voices[1].len() <= VOICES_MAX);
        assert!(composer.voices[0].is_empty());
    }
}
