//! Messages to queries.

use std::ops::Range;
use std::sync::Arc;

use ridgeline_clock::{Clock, Nanos};
use ridgeline_engine::{Bell, Query, Supply};
use ridgeline_transport::{Cause, Flow, Left, PeerId, Receiver};
use ridgeline_wire::exchange::Asked;

use crate::heads::{Head, Heads};
use crate::protocol::{BodyFrame, Code, Inward, Queries, QueryFrame, Trouble, Value, read_inward};
use crate::shared::Shared;
use crate::templates::Templates;

/// Takes messages, and hands their queries to the shards in turn.
pub(crate) struct Intake<C> {
    clock: C,
    shared: Arc<Shared>,
    heads: Heads,
    templates: Templates,
    supplies: Vec<Supply>,
    next_supply: usize,
    /// Rung when there are errors to tell.
    told: Arc<Bell>,
    /// The queries of the message that is being read, until all of it has been.
    staged: Vec<Staged>,
    troubles: Vec<Trouble>,
    has_ended: bool,
}

struct Staged {
    id: u64,
    due: Nanos,
    head: Head,
    stream: bool,
    text: bool,
    body: Range<usize>,
}

impl<C: Clock> Intake<C> {
    pub(crate) fn new(
        clock: C,
        shared: Arc<Shared>,
        heads: Heads,
        supplies: Vec<Supply>,
        told: Arc<Bell>,
    ) -> Self {
        let limits = &shared.limits;
        Self {
            clock,
            heads,
            templates: Templates::new(limits.templates_max, limits.templates_bytes_max),
            supplies,
            next_supply: 0,
            told,
            staged: Vec::with_capacity(limits.batch_max),
            troubles: Vec::new(),
            has_ended: false,
            shared,
        }
    }

    /// Whether a client said that no more come.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Wakes the shards for what they were handed.
    pub(crate) fn ring(&self) {
        self.supplies.iter().for_each(Supply::ring);
    }

    fn take(&mut self, message: &[u8]) -> Result<(), Trouble> {
        let bytes_max = self.shared.limits.message_bytes_max;
        if message.len() > bytes_max {
            return Err(too_long(message.len() as u64, bytes_max));
        }
        match read_inward(message)? {
            Inward::Queries(queries) => self.take_batch(queries),
            Inward::Template(template) => self.templates.register(template),
            Inward::End => {
                self.has_ended = true;
                Ok(())
            }
        }
    }

    /// Takes the whole batch, or nothing of it.
    fn take_batch(&mut self, queries: Queries<'_>) -> Result<(), Trouble> {
        let batch_max = self.shared.limits.batch_max;
        if queries.said() as usize > batch_max {
            let text = format!(
                "{} queries in a message: {batch_max} are allowed",
                queries.said()
            );
            return Err(Trouble::new(Code::Oversized, text));
        }
        self.staged.clear();
        self.troubles.clear();
        let now = self.clock.now();
        let mut bodies = self.shared.bodies.take();
        let mut values = Vec::new();
        for query in queries {
            let query = query?;
            match self.stage(&query, now, &mut bodies, &mut values) {
                Ok(staged) => self.staged.push(staged),
                Err(trouble) => self.troubles.push(trouble.of(query.id)),
            }
        }
        self.commit(bodies);
        Ok(())
    }

    fn stage<'a>(
        &mut self,
        query: &QueryFrame<'a>,
        now: Nanos,
        bodies: &mut Vec<u8>,
        values: &mut Vec<Value<'a>>,
    ) -> Result<Staged, Trouble> {
        let limits = &self.shared.limits;
        let due = match query.due_ns {
            0 => now,
            due => Nanos(due),
        };
        if due > now + limits.due_ahead_max {
            let text = format!(
                "due {} ns, more than a day after now, {} ns: due times are of CLOCK_MONOTONIC, not of the wall clock",
                due.0, now.0
            );
            return Err(Trouble::new(Code::Due, text));
        }
        let head = self.heads.get(query.endpoint, query.stream)?.clone();
        let start = bodies.len();
        match query.body {
            BodyFrame::Whole(body) => bodies.extend_from_slice(body),
            BodyFrame::Filled {
                template,
                values: given,
            } => {
                given.read_into(values);
                let templates = &self.templates;
                templates.fill(template, values, bodies, limits.message_bytes_max)?;
            }
        }
        Ok(Staged {
            id: query.id,
            due,
            head,
            stream: query.stream,
            text: query.text,
            body: start..bodies.len(),
        })
    }

    /// The message is in order: its queries are taken, but for those whose id is in use.
    fn commit(&mut self, bodies: Vec<u8>) {
        let bodies = self.shared.bodies.share(bodies);
        let Self {
            staged, troubles, ..
        } = self;
        self.shared.take(|unanswered| {
            staged.retain(|query| {
                let is_new = unanswered.insert(query.id);
                if !is_new {
                    let text = "a query of this id has no result yet";
                    troubles.push(Trouble::new(Code::Duplicate, text).of(query.id));
                }
                is_new
            });
        });
        for query in self.staged.drain(..) {
            let query = Query {
                id: query.id,
                due: query.due,
                heads: query.head.templates,
                body: bodies.slice(query.body),
                asked: Asked {
                    endpoint: query.head.endpoint,
                    streaming: query.stream,
                    save_text: query.text,
                },
            };
            let place = self.next_supply;
            self.next_supply = (place + 1) % self.supplies.len();
            if let Err(query) = self.supplies[place].push(query) {
                // The ring holds as many as may be unanswered.
                self.shared.answered(&[query.id]);
                let text = "the shard takes no more queries";
                self.troubles
                    .push(Trouble::new(Code::Oversized, text).of(query.id));
            }
        }
        if !self.troubles.is_empty() {
            self.shared.tell(self.troubles.drain(..));
            self.told.ring();
        }
    }

    fn tell(&self, trouble: Trouble) {
        self.shared.tell([trouble]);
        self.told.ring();
    }
}

impl<C: Clock> Receiver for Intake<C> {
    fn joined(&mut self, _: PeerId, _: &str) {}

    fn message(&mut self, _: PeerId, message: &[u8]) -> Flow {
        if let Err(trouble) = self.take(message) {
            self.tell(trouble);
        }
        self.flow()
    }

    fn left(&mut self, _: PeerId, left: &Left) {
        if let Cause::TooLong { bytes, .. } = left.cause {
            self.tell(too_long(bytes, self.shared.limits.message_bytes_max));
        }
    }

    fn flow(&self) -> Flow {
        if self.has_ended || self.shared.is_full() {
            Flow::Hold
        } else {
            Flow::More
        }
    }
}

fn too_long(bytes: u64, bytes_max: usize) -> Trouble {
    let text = format!("a message of {bytes} bytes: {bytes_max} are allowed");
    Trouble::new(Code::Oversized, text)
}
