//! How much of its machine's client ceiling a run used.

use ridgeline_report::console::text::{number, percent};

use crate::words::whole;
use crate::{Headline, Peak};

/// Below this many events a read a stream counts as paced, from that many on as coalesced.
const PACED_MAX: f64 = 1.5;
const COALESCED_MIN: f64 = 50.0;

/// What a run did, as a client.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Requests/s.
    pub requests_per_s: f64,
    /// Content events/s; 0 of answers that are not streamed.
    pub events_per_s: f64,
    /// Content events a read.
    pub events_per_read: Option<f64>,
    /// Streams open at one time; 0 of answers that are not streamed.
    pub open_streams: f64,
    /// The rate that a schedule sent at, where there was one.
    pub timely_per_s: Option<f64>,
    /// Cores that it ran on.
    pub cores: usize,
}

/// The ceiling that a run came nearest to.
#[derive(Clone, Debug, PartialEq)]
pub struct Nearest {
    /// What is counted: `paced events/s`.
    pub what: String,
    /// The run's figure.
    pub value: f64,
    /// That of the profile, for as many cores.
    pub ceiling: f64,
}

impl Nearest {
    /// Used share of the ceiling; above 1 when the run went further than the profile's.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.value / self.ceiling
    }
}

/// The ceiling that `usage` came nearest to; none when the profile has none for what it did.
#[must_use]
pub fn nearest(usage: &Usage, ceilings: &Headline) -> Option<Nearest> {
    let cores = f64::from(u32::try_from(usage.cores.max(1)).unwrap_or(u32::MAX));
    let of = |what: String, value: f64, one_core: f64| Nearest {
        what,
        value,
        ceiling: one_core * cores,
    };
    let peak = |what: &str, value: f64, peak: &Option<Peak>| {
        Some(of(what.to_owned(), value, peak.as_ref()?.value))
    };
    let events = ceiling_of_events(usage.events_per_read.unwrap_or(1.0), ceilings);
    let timely = usage.timely_per_s.unwrap_or(0.0);
    [
        peak("requests/s", usage.requests_per_s, &ceilings.requests),
        events.map(|(what, one_core)| of(what, usage.events_per_s, one_core)),
        peak("open streams", usage.open_streams, &ceilings.streams),
        peak("requests/s by a schedule", timely, &ceilings.timely),
    ]
    .into_iter()
    .flatten()
    .filter(|nearest| nearest.value > 0.0 && nearest.ceiling > 0.0)
    .max_by(|a, b| a.share().total_cmp(&b.share()))
}

/// The share of a ceiling that a load is planned for, as in `roofline plan`: what is beyond it waits.
const SAFE_SHARE: f64 = 0.7;

/// What `usage` took of the client, and what `wanted` times as much would take; `None` where the profile
/// has no ceiling for it. `machine_cores`: those of the machine it ran on, where known. A line, with its
/// line feed.
#[must_use]
pub fn scale_out(
    usage: &Usage,
    ceilings: &Headline,
    wanted: f64,
    machine_cores: Option<u32>,
) -> Option<String> {
    let nearest = nearest(usage, ceilings)?;
    let used = f64::from(u32::try_from(usage.cores.max(1)).unwrap_or(u32::MAX));
    let share = nearest.share();
    let needed = (share * wanted * used / SAFE_SHARE).ceil().max(1.0);
    let of_cores = |cores: f64| {
        let plural = if cores == 1.0 { "" } else { "s" };
        format!("{} core{plural}", whole(cores))
    };
    let took = format!(
        "Client: {} of what {} can do here ({} of {} {})",
        percent(share),
        of_cores(used),
        number(nearest.value),
        number(nearest.ceiling),
        nearest.what
    );
    let most = machine_cores.map_or(used, f64::from).max(1.0);
    let rest = if needed <= used {
        let times = SAFE_SHARE / share;
        format!("{} times this load fits", number(times))
    } else if needed <= most {
        format!(
            "what was asked for takes {}: --cores, or --workers {}",
            of_cores(needed),
            whole(needed)
        )
    } else {
        format!(
            "what was asked for takes {}: --workers {}, on {} machines like this one",
            of_cores(needed),
            whole(needed),
            whole((needed / most).ceil())
        )
    };
    Some(format!("{took}; {rest}\n"))
}

/// Events/s of one core at so many a read, and what that is called.
///
/// A read costs its system call and its wake-up once, and each event its bytes: with the paced ceiling P
/// (one event a read) and the coalesced one C (so many that the read's cost vanishes), an event costs
/// 1/C + (1/P - 1/C) / n.
fn ceiling_of_events(per_read: f64, ceilings: &Headline) -> Option<(String, f64)> {
    let value = |peak: &Option<Peak>| Some(peak.as_ref()?.value).filter(|value| *value > 0.0);
    let (paced, coalesced) = (value(&ceilings.paced), value(&ceilings.coalesced));
    if per_read < PACED_MAX {
        return Some(("paced events/s".to_owned(), paced?));
    }
    if per_read >= COALESCED_MIN {
        return Some(("coalesced events/s".to_owned(), coalesced?));
    }
    let (paced, coalesced) = (paced?, coalesced?);
    let event = 1.0 / coalesced;
    let read = (1.0 / paced - event).max(0.0);
    let what = format!("events/s at {} a read", number(per_read));
    Some((what, 1.0 / (event + read / per_read)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    fn ceilings() -> Headline {
        Headline::of(&samples::rows())
    }

    #[test]
    fn the_nearest_ceiling_is_the_one_that_counts() {
        let usage = Usage {
            requests_per_s: 1_650.0,
            events_per_s: 49_440.0,
            events_per_read: Some(1.02),
            open_streams: 500.0,
            timely_per_s: Some(1_650.0),
            cores: 1,
        };
        let found = nearest(&usage, &ceilings()).unwrap();
        assert_eq!(
            (found.what.as_str(), found.share()),
            ("paced events/s", 0.12)
        );
        let found = nearest(&Usage { cores: 2, ..usage }, &ceilings()).unwrap();
        assert_eq!((found.ceiling, found.share()), (824_000.0, 0.06));
        let held = Usage {
            open_streams: 10_000.0,
            ..usage
        };
        let found = nearest(&held, &ceilings()).unwrap();
        assert_eq!((found.what.as_str(), found.share()), ("open streams", 0.2));
        let scheduled = Usage {
            timely_per_s: Some(59_000.0),
            ..usage
        };
        let found = nearest(&scheduled, &ceilings()).unwrap();
        assert_eq!(
            (found.what.as_str(), found.share()),
            ("requests/s by a schedule", 0.5)
        );
    }

    #[test]
    fn events_are_judged_by_how_many_a_read_brings() {
        let of = |per_read| ceiling_of_events(per_read, &ceilings()).unwrap();
        assert_eq!(of(1.0), ("paced events/s".to_owned(), 412_000.0));
        assert_eq!(of(300.0), ("coalesced events/s".to_owned(), 34.1e6));
        let (what, four) = of(4.0);
        assert_eq!(what, "events/s at 4.00 a read");
        assert!((1.5e6..1.65e6).contains(&four), "{four}");
        // Between the two it only grows.
        let mut last = 0.0;
        for per_read in [1.0, 1.6, 2.0, 8.0, 49.0, 50.0] {
            let (_, ceiling) = of(per_read);
            assert!(ceiling > last);
            last = ceiling;
        }
    }

    #[test]
    fn what_a_load_takes_is_told_in_cores_and_machines() {
        // A core paces 412,000 events/s.
        let usage = Usage {
            events_per_s: 41_200.0,
            events_per_read: Some(1.0),
            cores: 1,
            ..Usage::default()
        };
        let told = |wanted, cores| scale_out(&usage, &ceilings(), wanted, cores).unwrap();
        assert_eq!(
            told(1.0, Some(2)),
            "Client: 10.0 % of what 1 core can do here (41,200 of 412,000 paced events/s); 7.00 times \
             this load fits\n"
        );
        let more = told(8.0, Some(2));
        assert!(
            more.ends_with("takes 2 cores: --cores, or --workers 2\n"),
            "{more}"
        );
        let many = told(40.0, Some(2));
        assert!(
            many.ends_with("takes 6 cores: --workers 6, on 3 machines like this one\n"),
            "{many}"
        );
        assert_eq!(scale_out(&usage, &Headline::default(), 1.0, None), None);
    }

    #[test]
    fn without_a_ceiling_there_is_no_headroom() {
        let usage = Usage {
            requests_per_s: 10.0,
            events_per_s: 10.0,
            events_per_read: Some(4.0),
            cores: 1,
            ..Usage::default()
        };
        assert_eq!(nearest(&usage, &Headline::default()), None);
        let paced = Headline {
            paced: ceilings().paced,
            ..Headline::default()
        };
        assert_eq!(nearest(&usage, &paced), None);
        assert_eq!(nearest(&Usage::default(), &ceilings()), None);
    }
}
