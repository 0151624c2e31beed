//! How many cores and hosts a load needs, by the profile of one machine, with the arithmetic shown.

use std::fmt;
use std::str::FromStr;

use ridgeline_report::console::text::{number, percent, utc};

use crate::words::{bytes, known, whole};
use crate::{Headline, Peak, Profile};

/// A count as people write it: `500`, `200k`, `1.5M`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Count(f64);

impl Count {
    /// The number.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }
}

/// Why a text is no count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CountError {
    /// There is no number in it.
    #[error("`{0}` is no count; write one like 500, 200k or 1.5M")]
    NoNumber(String),
    /// It asks for nothing, or for more than can be.
    #[error("`{0}` is out of range; it must be above 0 and at most 1000G")]
    Range(String),
}

impl FromStr for Count {
    type Err = CountError;

    fn from_str(text: &str) -> Result<Self, CountError> {
        let shown = || text.chars().take(40).collect();
        let (digits, scale) = match text.trim() {
            text if text.ends_with(['k', 'K']) => (&text[..text.len() - 1], 1e3),
            text if text.ends_with(['m', 'M']) => (&text[..text.len() - 1], 1e6),
            text if text.ends_with(['g', 'G']) => (&text[..text.len() - 1], 1e9),
            text => (text, 1.0),
        };
        // No exponents, no `inf`: people do not write them.
        let plain = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let number = plain.then(|| digits.parse::<f64>().ok()).flatten();
        let value = number.ok_or_else(|| CountError::NoNumber(shown()))? * scale;
        if value > 0.0 && value <= 1e12 {
            Ok(Self(value))
        } else {
            Err(CountError::Range(shown()))
        }
    }
}

/// A load that is asked for: all that is named at the same time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Requests/s.
    pub requests_per_s: Option<Count>,
    /// Streams open at a time.
    pub open_streams: Option<Count>,
    /// Events/s of all of them.
    pub events_per_s: Option<Count>,
    /// Whether servers send many events at a time; one is what real servers do.
    pub coalesced: bool,
    /// Cores that clients get on each host; those of the profile's machine where none is given.
    pub cores_per_host: Option<u32>,
    /// How much of a core's ceiling is used, above 0 and at most 1.
    pub safe_share: f64,
}

/// What a load needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Cores of clients.
    pub cores: f64,
    /// Hosts of so many cores.
    pub hosts: f64,
    lines: Vec<(&'static str, String)>,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Nothing was asked for.
    #[error(
        "a plan needs a load: name at least one of --requests-per-s, --open-streams and --events-per-s"
    )]
    NoDemand,
    /// The profile lacks a ceiling.
    #[error(
        "the profile has no ceiling of {what}: measure it with `ridgeline roofline --sections {section}`"
    )]
    NoCeiling {
        /// What is missing.
        what: &'static str,
        /// The section that measures it.
        section: &'static str,
    },
    /// Neither the flags nor the profile say how many cores a host has.
    #[error("the profile does not say how many cores its machine has: name --cores-per-host")]
    NoCores,
}

impl Plan {
    /// Reckons.
    ///
    /// # Errors
    /// When nothing is demanded, or the profile lacks what it takes.
    pub fn new(demand: &Demand, profile: &Profile) -> Result<Self, PlanError> {
        let cores_per_host = demand
            .cores_per_host
            .or(profile.environment.cores)
            .filter(|cores| *cores > 0)
            .ok_or(PlanError::NoCores)?;
        let mut lines = Vec::new();
        let cores = cores(demand, &profile.ceilings, &mut lines)?;
        let per_host = f64::from(cores_per_host);
        let hosts = (cores / per_host).ceil();
        lines.push((
            "Hosts",
            format!(
                "{} cores / {} a host -> {}",
                whole(cores),
                whole(per_host),
                plural(hosts, "host")
            ),
        ));
        each_host(demand, profile, hosts, &mut lines);
        Ok(Self {
            cores,
            hosts,
            lines,
        })
    }
}

/// The cores it takes. A request and an event cost time of the core that they are on: their shares add
/// up. An open stream costs memory, ports and places in tables, beside that.
fn cores(
    demand: &Demand,
    ceilings: &Headline,
    lines: &mut Vec<(&'static str, String)>,
) -> Result<f64, PlanError> {
    let (events, events_ceiling) = if demand.coalesced {
        ("coalesced events/s", &ceilings.coalesced)
    } else {
        ("paced events/s", &ceilings.paced)
    };
    let busy = [
        share(
            demand.requests_per_s,
            "requests/s",
            &ceilings.requests,
            "client",
        )?,
        share(demand.events_per_s, events, events_ceiling, "sse")?,
    ];
    let held = share(
        demand.open_streams,
        "open streams",
        &ceilings.streams,
        "streams",
    )?;
    let safe = demand.safe_share;
    let busy = ["Requests", "Events"].into_iter().zip(busy);
    let busy = busy.filter_map(|(label, share)| Some((label, share?)));
    let mut needed = Vec::from_iter(busy_cores(busy, safe, lines));
    if let Some((cores, words)) = held {
        let whole_cores = (cores / safe).ceil();
        lines.push((
            "Streams",
            format!(
                "{words} / {} = {}, in whole cores -> {}",
                percent(safe),
                number(cores / safe),
                whole(whole_cores)
            ),
        ));
        needed.push(whole_cores);
    }
    let cores = needed.iter().copied().fold(0.0, f64::max);
    match needed.as_slice() {
        [] => return Err(PlanError::NoDemand),
        [_] => lines.push(("Cores", whole(cores))),
        all => {
            let each: Vec<String> = all.iter().map(|cores| whole(*cores)).collect();
            lines.push((
                "Cores",
                format!("the larger of {} -> {}", each.join(" and "), whole(cores)),
            ));
        }
    }
    Ok(cores)
}

/// The cores that are busy with `shares`, each with its label and its words; none when there are none.
fn busy_cores(
    shares: impl Iterator<Item = (&'static str, (f64, String))>,
    safe: f64,
    lines: &mut Vec<(&'static str, String)>,
) -> Option<f64> {
    let mut terms = Vec::new();
    let mut sum = 0.0;
    for (label, (cores, words)) in shares {
        lines.push((label, format!("{words} = {} cores", number(cores))));
        terms.push(number(cores));
        sum += cores;
    }
    let terms = match terms.as_slice() {
        [] => return None,
        [one] => one.clone(),
        all => format!("({})", all.join(" + ")),
    };
    let cores = (sum / safe).ceil();
    lines.push((
        "Busy",
        format!(
            "{terms} cores / {} = {}, in whole cores -> {}",
            percent(safe),
            number(sum / safe),
            whole(cores)
        ),
    ));
    Some(cores)
}

/// Cores for one demand at its ceiling, and the division in words; none where nothing is demanded.
fn share(
    demanded: Option<Count>,
    what: &'static str,
    ceiling: &Option<Peak>,
    section: &'static str,
) -> Result<Option<(f64, String)>, PlanError> {
    let Some(Count(demanded)) = demanded else {
        return Ok(None);
    };
    let ceiling = ceiling.as_ref().map(|peak| peak.value);
    let ceiling = ceiling.filter(|value| *value > 0.0);
    let ceiling = ceiling.ok_or(PlanError::NoCeiling { what, section })?;
    let words = format!("{} {what} / {} a core", whole(demanded), whole(ceiling));
    Ok(Some((demanded / ceiling, words)))
}

/// What every host carries, and what that takes beside cores.
fn each_host(
    demand: &Demand,
    profile: &Profile,
    hosts: f64,
    lines: &mut Vec<(&'static str, String)>,
) {
    let parts: Vec<String> = [
        (demand.requests_per_s, "requests/s"),
        (demand.events_per_s, "events/s"),
        (demand.open_streams, "open streams"),
    ]
    .into_iter()
    .filter_map(|(count, what)| Some(format!("{} {what}", whole((count?.get() / hosts).ceil()))))
    .collect();
    lines.push(("Each host", parts.join(", ")));
    let Some(streams) = demand.open_streams else {
        return;
    };
    let streams = (streams.get() / hosts).ceil();
    if let Some((first, last)) = profile.environment.port_range {
        let ports = f64::from(last.saturating_sub(first)) + 1.0;
        let addresses = (streams / ports).ceil();
        let more = if addresses > 1.0 {
            " (`--source-addresses`), or as many server addresses or ports"
        } else {
            ""
        };
        lines.push((
            "Ports",
            format!(
                "{} connections a host / {} ports of one address pair -> {} a host{more}",
                whole(streams),
                whole(ports),
                plural_es(addresses, "source address")
            ),
        ));
    }
    lines.push((
        "Memory",
        match profile.ceilings.stream_bytes {
            Some(each) => format!(
                "{} streams x {} = {} a host, beside the kernel's socket buffers",
                whole(streams),
                bytes(each),
                bytes(streams * each)
            ),
            None => "not known: the profile has no bytes of an open stream".to_owned(),
        },
    ));
}

fn plural(number: f64, word: &str) -> String {
    let ending = if number == 1.0 { "" } else { "s" };
    format!("{} {word}{ending}", whole(number))
}

fn plural_es(number: f64, word: &str) -> String {
    let ending = if number == 1.0 { "" } else { "es" };
    format!("{} {word}{ending}", whole(number))
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} on {}\n",
            plural(self.cores, "core"),
            plural(self.hosts, "host")
        )?;
        self.lines
            .iter()
            .try_for_each(|(label, words)| writeln!(f, "{label:<11} {words}"))
    }
}

impl Profile {
    /// Where its figures are from, in one line.
    #[must_use]
    pub fn describe(&self) -> String {
        let quick = if self.quick { ", a quick run" } else { "" };
        let date = utc(self.measured_unix_ns);
        format!(
            "{}, {}, Linux {}, ridgeline {} {}, {}{quick}; per core, over loopback",
            self.host,
            known(self.environment.cpu_model.as_deref()),
            known(self.environment.kernel.as_deref()),
            self.ridgeline.version,
            known(self.ridgeline.revision.as_deref()),
            date.split(' ').next().unwrap_or_default(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    fn profile() -> Profile {
        Profile::of(&samples::roofline()).unwrap()
    }

    fn demand(requests: &str, streams: &str, events: &str) -> Demand {
        let count = |text: &str| (!text.is_empty()).then(|| text.parse().unwrap());
        Demand {
            requests_per_s: count(requests),
            open_streams: count(streams),
            events_per_s: count(events),
            coalesced: false,
            cores_per_host: None,
            safe_share: 0.7,
        }
    }

    #[test]
    fn the_arithmetic_is_shown_line_by_line() {
        let plan = Plan::new(&demand("1M", "200k", "3M"), &profile()).unwrap();
        assert_eq!((plan.cores, plan.hosts), (20.0, 10.0));
        let expected = "\
20 cores on 10 hosts

Requests    1,000,000 requests/s / 165,000 a core = 6.06 cores
Events      3,000,000 paced events/s / 412,000 a core = 7.28 cores
Busy        (6.06 + 7.28) cores / 70.0 % = 19.06, in whole cores -> 20
Streams     200,000 open streams / 50,000 a core / 70.0 % = 5.71, in whole cores -> 6
Cores       the larger of 20 and 6 -> 20
Hosts       20 cores / 2 a host -> 10 hosts
Each host   100,000 requests/s, 300,000 events/s, 20,000 open streams
Ports       20,000 connections a host / 28,232 ports of one address pair -> 1 source address a host
Memory      20,000 streams x 3.60 kB = 72.0 MB a host, beside the kernel's socket buffers
";
        assert_eq!(plan.to_string(), expected);
    }

    #[test]
    fn one_demand_is_enough() {
        let plan = Plan::new(&demand("", "100k", ""), &profile()).unwrap();
        assert_eq!((plan.cores, plan.hosts), (3.0, 2.0));
        let text = plan.to_string();
        assert!(
            !text.contains("Busy") && text.contains("Cores       3\n"),
            "{text}"
        );
        assert!(
            text.contains("2 source addresses a host (`--source-addresses`)"),
            "{text}"
        );
        let coalesced = Demand {
            coalesced: true,
            cores_per_host: Some(1),
            ..demand("", "", "50M")
        };
        let plan = Plan::new(&coalesced, &profile()).unwrap();
        assert_eq!((plan.cores, plan.hosts), (3.0, 3.0));
        assert!(
            plan.to_string()
                .contains("coalesced events/s / 34,100,000 a core")
        );
        assert!(
            plan.to_string()
                .contains("1.47 cores / 70.0 % = 2.09, in whole cores -> 3")
        );
    }

    #[test]
    fn what_is_missing_is_said_with_the_remedy() {
        let refused = |demand: &Demand, profile: &Profile| {
            Plan::new(demand, profile).unwrap_err().to_string()
        };
        let nothing = refused(&demand("", "", ""), &profile());
        assert!(
            nothing.contains("--requests-per-s, --open-streams"),
            "{nothing}"
        );
        let mut partial = profile();
        partial.ceilings.paced = None;
        partial.ceilings.stream_bytes = None;
        let events = refused(&demand("", "", "1"), &partial);
        assert!(
            events.contains("paced events/s") && events.contains("--sections sse"),
            "{events}"
        );
        let plan = Plan::new(&demand("", "1k", ""), &partial)
            .unwrap()
            .to_string();
        assert!(plan.contains("Memory      not known"), "{plan}");
        partial.environment.cores = None;
        assert_eq!(
            Plan::new(&demand("1", "", ""), &partial),
            Err(PlanError::NoCores)
        );
    }

    #[test]
    fn counts_are_read_as_people_write_them() {
        for (text, value) in [
            ("1", 1.0),
            ("200k", 200e3),
            ("1.5M", 1.5e6),
            ("3m", 3e6),
            ("2G", 2e9),
            (" 0.5k ", 500.0),
        ] {
            assert_eq!(text.parse::<Count>().unwrap().get(), value, "{text}");
        }
        for text in [
            "", "k", "x", "1e3", "-1", "1.2.3", "1 000", "1kk", "inf", "NaN", "漢",
        ] {
            let refused = text.parse::<Count>().unwrap_err().to_string();
            assert!(refused.contains("write one like"), "{text}: {refused}");
        }
        for text in ["0", "0.0k", "9999999G"] {
            let refused = text.parse::<Count>().unwrap_err().to_string();
            assert!(refused.contains("out of range"), "{text}: {refused}");
        }
    }
}
