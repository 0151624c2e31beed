//! What can be measured on both sides, and the turns in which it is.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::thread;

use serde::Serialize;

/// CPU time in nanoseconds of one unit of work, by the name of what was done.
pub(crate) type Readings = BTreeMap<String, f64>;

/// Whose programs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Arm {
    /// The revision that is compared with.
    Base,
    /// The revision that is judged.
    Head,
    /// The base once more: what it seems to differ from itself is what the machine adds.
    Again,
}

/// The arms of a round.
const ARMS: [Arm; 3] = [Arm::Base, Arm::Head, Arm::Again];

/// Something that can be measured in each arm.
pub(crate) trait Subject: Sync {
    /// What people call it.
    fn name(&self) -> &str;

    /// Runs it once. `only`: the names that are wanted, all where there are none.
    ///
    /// # Errors
    /// When a program fails or its result can't be read.
    fn run(&self, arm: Arm, only: &BTreeSet<String>) -> io::Result<Readings>;
}

/// The readings of a name in one round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Round {
    pub(crate) base_ns: f64,
    pub(crate) head_ns: f64,
    /// The head's reading over the base's.
    pub(crate) ratio: f64,
    /// The second base's reading over the first one's.
    pub(crate) again_ratio: f64,
}

/// All rounds, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rounds {
    pub(crate) of_both: BTreeMap<String, Vec<Round>>,
    /// Names that only the base knows.
    pub(crate) base_only: BTreeSet<String>,
    /// Names that only the head knows.
    pub(crate) head_only: BTreeSet<String>,
}

/// Measures a subject in `rounds` rounds.
///
/// The arms of a round run at the same time on one core, where the scheduler lets them take turns of a few
/// milliseconds: whatever else the machine does, it does to all three. Only their CPU time is compared.
pub(crate) fn measure(
    subject: &dyn Subject,
    rounds: u32,
    only: &BTreeSet<String>,
) -> io::Result<Rounds> {
    let mut all = Rounds::default();
    for _ in 0..rounds {
        let ran = thread::scope(|scope| {
            let started = ARMS.map(|arm| scope.spawn(move || subject.run(arm, only)));
            started.map(|thread| {
                thread
                    .join()
                    .map_err(|_| io::Error::other("a run panicked"))?
            })
        });
        let [base, head, again] = ran;
        all.add(&base?, &head?, &again?);
    }
    Ok(all)
}

impl Rounds {
    /// Adds a round.
    fn add(&mut self, base: &Readings, head: &Readings, again: &Readings) {
        for (name, &base_ns) in base {
            let (Some(&head_ns), Some(&again_ns)) = (head.get(name), again.get(name)) else {
                self.base_only.insert(name.clone());
                continue;
            };
            self.of_both.entry(name.clone()).or_default().push(Round {
                base_ns,
                head_ns,
                ratio: head_ns / base_ns,
                again_ratio: again_ns / base_ns,
            });
        }
        let new = head.keys().filter(|&name| !base.contains_key(name));
        self.head_only.extend(new.cloned());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    /// Nobody ends before all have begun.
    struct Together(Barrier);

    impl Subject for Together {
        fn name(&self) -> &'static str {
            "together"
        }

        fn run(&self, arm: Arm, _: &BTreeSet<String>) -> io::Result<Readings> {
            self.0.wait();
            let (own, ns) = match arm {
                Arm::Base => ("old", 100.0),
                Arm::Head => ("new", 125.0),
                Arm::Again => ("old", 98.0),
            };
            Ok([("both", ns), (own, 1.0)]
                .map(|(name, ns)| (name.to_owned(), ns))
                .into())
        }
    }

    #[test]
    fn the_arms_of_a_round_run_at_the_same_time() {
        let together = Together(Barrier::new(3));
        let rounds = measure(&together, 3, &BTreeSet::new()).unwrap();
        let round = Round {
            base_ns: 100.0,
            head_ns: 125.0,
            ratio: 1.25,
            again_ratio: 0.98,
        };
        assert_eq!(rounds.of_both["both"], [round; 3]);
    }

    #[test]
    fn what_one_side_lacks_is_kept_apart() {
        let together = Together(Barrier::new(3));
        let rounds = measure(&together, 1, &BTreeSet::new()).unwrap();
        assert_eq!(rounds.base_only, ["old".to_owned()].into());
        assert_eq!(rounds.head_only, ["new".to_owned()].into());
        assert!(rounds.of_both.keys().eq(["both"]));
    }
}
