//! Which part of a run this process has: all of it, its coordination, or some of its shards.

use std::ops::Range;

use ridgeline_engine::Plan;

use crate::complaint::Complaint;
use crate::config::BenchConfig;
use crate::fleet::Workers;
use crate::machine;
use crate::placement::Placement;
use crate::topology::Topology;

/// The part of a run that this process has.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// All of it.
    Whole,
    /// Workers drive the load: it plans, and gathers.
    Coordinator,
    /// Some of its shards, for a coordinator.
    Share {
        run_id: u32,
        shards: Range<u32>,
        /// The core of each.
        cores: Option<Vec<usize>>,
        api_key: Option<String>,
    },
}

impl Part {
    /// The plan of this part, from that of the shards placed here.
    pub(crate) fn of_plan(&self, plan: Plan, config: &BenchConfig) -> Plan {
        match self {
            Self::Whole => plan,
            Self::Coordinator => Plan {
                own_shards: 0..0,
                ..plan
            },
            Self::Share { shards, .. } => Plan {
                shards: config.shards.unwrap_or(shards.end),
                own_shards: shards.clone(),
                ..plan
            },
        }
    }

    /// Of a run with this configuration, in the process that was asked for it.
    pub(crate) const fn of(config: &BenchConfig) -> Self {
        if config.workers.is_some() {
            Self::Coordinator
        } else {
            Self::Whole
        }
    }

    /// Where its shards run.
    pub(crate) fn placement(
        &self,
        config: &BenchConfig,
        topology: &Topology,
    ) -> Result<Placement, Complaint> {
        let allowed = machine::allowed_cores()?;
        match self {
            Self::Whole => Placement::new(config, &allowed, topology),
            Self::Coordinator => of_workers(config, &allowed, topology),
            Self::Share { shards, cores, .. } => {
                let count = shards.end.saturating_sub(shards.start);
                Placement::share(count, cores.clone(), &allowed)
            }
        }
    }
}

/// Where the shards of all workers run: a shard each, unless more are asked for.
fn of_workers(
    config: &BenchConfig,
    allowed: &[usize],
    topology: &Topology,
) -> Result<Placement, Complaint> {
    let count = config.workers.as_ref().map_or(1, Workers::count);
    let elsewhere = matches!(config.workers, Some(Workers::At(_)));
    if elsewhere && config.cores.is_some() {
        return Err(Complaint::new(
            "--cores are those of workers that are started here: workers that run already name their own \
             (ridgeline worker --cores)",
        ));
    }
    let named = config.shards.is_some() || config.cores.is_some();
    let asked = BenchConfig {
        shards: config.shards.or_else(|| (!named).then_some(count)),
        ..config.clone()
    };
    let placement = Placement::new(&asked, allowed, topology)?;
    if !placement.shards.is_multiple_of(count) {
        return Err(Complaint::new(format!(
            "{} shards can't be divided between {count} workers: ask for a multiple (--shards, --cores)",
            placement.shards
        )));
    }
    Ok(placement)
}

/// Who drives the load, in words.
pub(crate) fn workers_words(workers: &Workers, placement: &Placement) -> String {
    let all = placement.describe();
    match workers {
        Workers::Here(count) => {
            let plural = if *count == 1 { "" } else { "es" };
            format!("{count} process{plural} of this machine, {all}")
        }
        Workers::At(_) => {
            let plural = if placement.shards == 1 { "" } else { "s" };
            format!("{workers}, {} shard{plural}", placement.shards)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(yaml: &str) -> Result<u32, String> {
        let config = crate::file::parse(yaml)?;
        let placed = of_workers(&config, &[0, 1, 2, 3], &Topology::default());
        placed.map(|p| p.shards).map_err(|error| error.to_string())
    }

    #[test]
    fn the_shards_of_all_workers_are_divided_evenly() {
        assert_eq!(placed("workers: 3"), Ok(3));
        assert_eq!(placed("workers: 2\nshards: 6"), Ok(6));
        assert_eq!(placed("workers: 2\ncores: 0-3"), Ok(4));
        assert_eq!(placed("workers: tcp://a:1,tcp://b:1"), Ok(2));
        for (yaml, part) in [
            (
                "workers: 3\nshards: 4",
                "can't be divided between 3 workers",
            ),
            ("workers: 2\ncores: 1-3", "can't be divided"),
            ("workers: tcp://a:1\ncores: 0", "ridgeline worker --cores"),
        ] {
            let error = placed(yaml).unwrap_err();
            assert!(error.contains(part), "{yaml}: {error}");
        }
    }
}
