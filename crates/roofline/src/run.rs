//! The sections one after another, each on a thread of its own.
//!
//! A section that fails, or that takes far longer than it may, costs its own rows and nothing that was
//! found before.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};

use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use serde::{Deserialize, Serialize};

use crate::{Context, Row, Section};

/// What a section that is told to end is given to do so.
const GRACE: Nanos = Nanos::from_secs(2);

/// How often a section is looked after that tells nothing.
const LOOK: Nanos = Nanos::from_secs(1);

/// A roofline that is to be measured.
#[derive(Debug)]
pub struct Run {
    sections: Vec<Section>,
    context: Context,
    grace: Nanos,
    tell: Sender<News>,
    heard: Receiver<News>,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// In the order in which they were found.
    pub rows: Vec<Row>,
    /// The sections that were begun.
    pub sections: Vec<SectionRun>,
    /// From beginning to end, ns.
    pub duration_ns: u64,
    /// Whether [`Interrupt::now`] ended it.
    pub interrupted: bool,
}

/// How a section fared.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct SectionRun {
    /// Which.
    pub section: Section,
    /// From beginning to end, ns.
    pub duration_ns: u64,
    /// Why it ended early, if it did.
    pub failure: Option<String>,
}

/// News of a run that goes on.
#[derive(Clone, Copy, Debug)]
pub enum Told<'a> {
    /// A section begins.
    Begun {
        /// Which.
        section: Section,
        /// How many came before it.
        place: usize,
        /// How many there are.
        of: usize,
    },
    /// A row was found.
    Row(&'a Row),
}

/// Ends a run early, from any thread.
#[derive(Clone, Debug)]
pub struct Interrupt(Sender<News>);

impl Interrupt {
    /// The section at work is the last one; what it does not finish within two seconds is lost.
    pub fn now(&self) {
        // A run that is over has no need of it.
        let _ = self.0.send(News::Interrupted);
    }
}

#[derive(Debug)]
enum News {
    Row(Row),
    Ended(io::Result<()>),
    Interrupted,
}

/// What measures one section.
type Work = Box<dyn FnOnce(&Context, &mut dyn FnMut(Row)) -> io::Result<()> + Send>;

impl Run {
    /// Of `sections`, each once, in the order of [`Section::ALL`].
    #[must_use]
    pub fn new(sections: &[Section], context: Context) -> Self {
        let (tell, heard) = mpsc::channel();
        let asked = Section::ALL.into_iter().filter(|s| sections.contains(s));
        Self {
            sections: asked.collect(),
            context,
            grace: GRACE,
            tell,
            heard,
        }
    }

    /// What ends it early.
    #[must_use]
    pub fn interrupt(&self) -> Interrupt {
        Interrupt(self.tell.clone())
    }

    /// Measures. `told` hears of every section and every row at once.
    #[must_use]
    pub fn run(self, told: &mut dyn FnMut(Told<'_>)) -> Found {
        self.with(|section| Box::new(section.work()), told)
    }

    fn with(self, work: impl Fn(Section) -> Work, told: &mut dyn FnMut(Told<'_>)) -> Found {
        let began = MonotonicClock.now();
        let mut found = Found::default();
        let of = self.sections.len();
        let whole = began + whole_budget(self.context.quick);
        for (place, &section) in self.sections.iter().enumerate() {
            told(Told::Begun { section, place, of });
            let (start, before) = (MonotonicClock.now(), found.rows.len());
            let budget = section.budget(self.context.quick);
            let end = if whole - start < budget / 2 {
                End::Failed("no time was left".to_owned())
            } else {
                let until = whole.min(start + budget * 2);
                self.section(section, work(section), until, &mut found, told)
            };
            let what = if found.rows.len() > before {
                "the rest"
            } else {
                "all of it"
            };
            if let End::Failed(why) | End::Abandoned(why) = &end {
                found.add(lost(section, what, why), told);
            }
            let abandoned = matches!(end, End::Abandoned(_));
            found.sections.push(SectionRun {
                section,
                duration_ns: (MonotonicClock.now() - start).0,
                failure: end.failure(),
            });
            if found.interrupted {
                break;
            }
            if abandoned {
                // It may still be at work, and would disturb the others.
                for &later in &self.sections[place + 1..] {
                    let why = format!("section {} did not end", section.name());
                    found.add(lost(later, "all of it", &why), told);
                }
                break;
            }
        }
        found.duration_ns = (MonotonicClock.now() - began).0;
        found
    }

    fn section(
        &self,
        section: Section,
        work: Work,
        mut until: Nanos,
        found: &mut Found,
        told: &mut dyn FnMut(Told<'_>),
    ) -> End {
        let thread = match self.start(section, work) {
            Ok(thread) => thread,
            Err(error) => return End::Failed(format!("cannot start a thread: {error}")),
        };
        let began = MonotonicClock.now();
        loop {
            // Looked at first: what it told before its end is heard then.
            let over = thread.is_finished();
            let left = until - MonotonicClock.now();
            match self.heard.recv_timeout(left.min(LOOK).into()) {
                Ok(News::Row(row)) => found.add(row.checked(), told),
                Ok(News::Ended(Ok(()))) => return End::Done,
                Ok(News::Ended(Err(_))) if found.interrupted => {
                    return End::Failed("interrupted".to_owned());
                }
                Ok(News::Ended(Err(error))) => return End::Failed(error.to_string()),
                Ok(News::Interrupted) => {
                    found.interrupted = true;
                    until = MonotonicClock.now() + self.grace;
                }
                Err(RecvTimeoutError::Timeout) if over => {
                    return End::Failed("the section panicked".to_owned());
                }
                Err(RecvTimeoutError::Timeout) if MonotonicClock.now() < until => {}
                Err(_) if found.interrupted => return End::Abandoned("interrupted".to_owned()),
                Err(_) => {
                    let took = MonotonicClock.now() - began;
                    return End::Abandoned(format!("no end within {took}"));
                }
            }
        }
    }

    /// Every section has a thread of its own: one that pinned itself pins no other.
    fn start(&self, section: Section, work: Work) -> io::Result<JoinHandle<()>> {
        let (context, tell) = (self.context.clone(), self.tell.clone());
        let body = move || {
            // A run that does not listen any more is over.
            let ended = work(&context, &mut |row| {
                let _ = tell.send(News::Row(row));
            });
            let _ = tell.send(News::Ended(ended));
        };
        let name = section.name().to_owned();
        thread::Builder::new().name(name).spawn(body)
    }
}

/// What all sections together may take.
fn whole_budget(quick: bool) -> Nanos {
    Section::ALL
        .into_iter()
        .fold(Nanos::ZERO, |sum, section| sum + section.budget(quick))
}

/// How a section ended.
#[derive(Debug)]
enum End {
    Done,
    Failed(String),
    /// It did not end.
    Abandoned(String),
}

impl End {
    fn failure(self) -> Option<String> {
        match self {
            Self::Done => None,
            Self::Failed(why) | Self::Abandoned(why) => Some(why),
        }
    }
}

impl Found {
    fn add(&mut self, row: Row, told: &mut dyn FnMut(Told<'_>)) {
        told(Told::Row(&row));
        self.rows.push(row);
    }
}

fn lost(section: Section, what: &str, why: &str) -> Row {
    Row::new(section, what, section.unit()).limited_by(format!("not measured: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Measured, Unit};

    fn context() -> Context {
        Context {
            quick: true,
            ridgeline: "ridgeline".into(),
            drivers: Vec::new(),
            server_core: 0,
            client_core: 0,
            run_length: None,
        }
    }

    fn row(section: Section, achieved: f64) -> Row {
        Row::new(section, "a", section.unit()).measured(Measured {
            achieved,
            cpu_ns: None,
            ceiling: None,
        })
    }

    fn names(found: &Found) -> Vec<(Section, &str, &str)> {
        let rows = found.rows.iter();
        rows.map(|row| (row.section, row.name.as_str(), row.limited_by.as_str()))
            .collect()
    }

    #[test]
    fn a_section_that_fails_costs_only_its_own_rows() {
        let run = Run::new(
            &[Section::Records, Section::Scanner, Section::Engine],
            context(),
        );
        let mut told = Vec::new();
        let found = run.with(
            |section| {
                Box::new(move |_, tell| {
                    if section != Section::Scanner {
                        tell(row(section, 1.0));
                    }
                    match section {
                        Section::Records => Ok(()),
                        _ => Err(io::Error::other("no room")),
                    }
                })
            },
            &mut |news| {
                told.push(match news {
                    Told::Begun { section, place, of } => {
                        format!("{} {place}/{of}", section.name())
                    }
                    Told::Row(row) => row.name.clone(),
                });
            },
        );
        assert_eq!(
            names(&found),
            [
                (Section::Scanner, "all of it", "not measured: no room"),
                (Section::Engine, "a", ""),
                (Section::Engine, "the rest", "not measured: no room"),
                (Section::Records, "a", ""),
            ]
        );
        assert_eq!(
            told,
            [
                "scanner 0/3",
                "all of it",
                "engine 1/3",
                "a",
                "the rest",
                "records 2/3",
                "a"
            ]
        );
        let failures: Vec<bool> = found.sections.iter().map(|s| s.failure.is_some()).collect();
        assert_eq!(failures, [true, true, false]);
        assert!(!found.interrupted);
    }

    #[test]
    fn a_figure_that_is_no_number_is_not_measured() {
        let run = Run::new(&[Section::Client], context());
        let found = run.with(
            |section| {
                Box::new(move |_, tell| {
                    tell(row(section, f64::NAN));
                    Ok(())
                })
            },
            &mut |_| (),
        );
        assert_eq!(found.rows[0].measured, None);
        assert!(found.rows[0].limited_by.starts_with("not measured: "));
    }

    #[test]
    fn an_interrupt_keeps_what_was_found_and_begins_nothing_more() {
        let run = Run {
            grace: Nanos::ZERO,
            ..Run::new(&[Section::Scanner, Section::Engine], context())
        };
        let interrupt = run.interrupt();
        let found = run.with(
            |section| {
                let interrupt = interrupt.clone();
                Box::new(move |_, tell| {
                    tell(row(section, 1.0));
                    interrupt.now();
                    loop {
                        thread::park();
                    }
                })
            },
            &mut |_| (),
        );
        assert!(found.interrupted);
        assert_eq!(
            names(&found),
            [
                (Section::Scanner, "a", ""),
                (Section::Scanner, "the rest", "not measured: interrupted"),
            ]
        );
        assert_eq!(found.rows[0].unit, Unit::BytesPerS);
    }

    #[test]
    fn all_sections_fit_the_promised_time() {
        assert_eq!(whole_budget(false), Nanos::from_secs(600));
        assert_eq!(whole_budget(true), Nanos::from_secs(120));
    }

    #[test]
    fn a_section_that_does_not_end_is_the_last_one() {
        let run = Run::new(&[Section::Scanner, Section::Engine], context());
        let forever: Work = Box::new(|_, _| {
            loop {
                thread::park();
            }
        });
        let mut found = Found::default();
        let end = run.section(
            Section::Scanner,
            forever,
            Nanos::ZERO,
            &mut found,
            &mut |_| (),
        );
        assert!(matches!(end, End::Abandoned(why) if why.starts_with("no end within ")));
    }

    #[test]
    fn a_section_that_panicked_is_not_waited_for() {
        let run = Run::new(&[Section::Scanner], context());
        let found = run.with(
            |_| Box::new(|_, _| panic!("as a test wants it")),
            &mut |_| (),
        );
        assert_eq!(
            names(&found),
            [(
                Section::Scanner,
                "all of it",
                "not measured: the section panicked"
            )]
        );
    }
}
