use ridgeline_clock::Nanos;

use super::Coordinator;
use crate::brief::Event;
use crate::member::{Fetched, Member, State};
use crate::message::ToWorker;

/// The end of a run: records, if they are wanted, and everybody is free.
impl Coordinator {
    /// Fetches the records, one worker's after the other's, once all numbers are there.
    pub(super) fn gather(&mut self, now: Nanos) {
        let all_in = |m: &Member| matches!(m.state, State::Finished | State::Lost);
        if self.begun.is_none() || !self.members.iter().all(all_in) || self.released {
            return;
        }
        let mut next = self.gathering.unwrap_or(0);
        while next < self.members.len() && !self.fetch(next, now) {
            next += 1;
        }
        self.gathering = Some(next);
    }

    /// Asks for more of a worker's records; no when there is nothing more to come.
    fn fetch(&mut self, worker: usize, now: Nanos) -> bool {
        let (gathers, limits) = (self.brief.gathers, self.limits);
        let new = self.gathering != Some(worker);
        let member = &mut self.members[worker];
        let records = member.finished.as_ref().and_then(|f| f.records.as_ref());
        let Some(whole) = records.map(|records| records.bytes).filter(|_| gathers) else {
            return false;
        };
        if new {
            member.fetched = Fetched {
                by: now + limits.finish,
                ..Fetched::default()
            };
        }
        if let Some(why) = &member.gone {
            let missing = Some(why.clone());
            self.events.push_back(Event::Gathered { worker, missing });
            return false;
        }
        if member.fetched.came >= whole {
            member.fetched.whole = true;
            let missing = None;
            self.events.push_back(Event::Gathered { worker, missing });
            return false;
        }
        let window = u64::from(limits.part_bytes) * u64::from(limits.parts_asked);
        while member.fetched.asked < whole && member.fetched.asked - member.fetched.came < window {
            let offset = member.fetched.asked;
            let bytes = u64::from(limits.part_bytes).min(whole - offset);
            member.say(&ToWorker::Fetch {
                offset,
                bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            });
            member.fetched.asked += bytes;
        }
        true
    }

    pub(super) fn part(&mut self, worker: usize, offset: u64, bytes: Vec<u8>, now: Nanos) {
        let fetched = &mut self.members[worker].fetched;
        let length = bytes.len() as u64;
        let asked = fetched.asked - fetched.came;
        if self.gathering != Some(worker) || offset != fetched.came || length > asked {
            let why = "it sent a part of its records that was not asked for".to_owned();
            return self.lose(worker, why, now);
        }
        if bytes.is_empty() {
            let why = "its records are shorter than it said".to_owned();
            return self.lose(worker, why, now);
        }
        fetched.came += length;
        fetched.by = now + self.limits.finish;
        self.events.push_back(Event::Part { worker, bytes });
        self.gather(now);
        self.release_if_over();
    }

    pub(super) fn release_if_over(&mut self) {
        let gathered = self
            .gathering
            .is_some_and(|next| next >= self.members.len());
        if gathered && !self.released {
            self.release();
        }
    }

    pub(super) fn release(&mut self) {
        self.released = true;
        for member in &mut self.members {
            if member.hello.is_some() && member.gone.is_none() {
                let gathered = member.fetched.whole;
                member.say(&ToWorker::Release { gathered });
            }
        }
    }
}
