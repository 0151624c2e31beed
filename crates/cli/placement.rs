use crate::complaint::Complaint;
use crate::config::BenchConfig;
use crate::machine;
use crate::topology::Topology;

/// Which thread runs on which core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) shards: u32,
    /// The core of each shard; none: they are not pinned.
    pub(crate) cores: Option<Vec<usize>>,
    /// The core of the embedded server.
    pub(crate) mock_core: Option<usize>,
    /// A shard and the embedded server have one core between them.
    pub(crate) shared_core: bool,
    /// For everything else: as few of the shards' cores as possible.
    helpers: Vec<usize>,
    allowed: Vec<usize>,
    /// What speaks against the cores that were listed.
    doubts: Vec<String>,
}

impl Placement {
    /// Places what `config` asks for on the cores that are `allowed`, of a machine with this topology.
    pub(crate) fn new(
        config: &BenchConfig,
        allowed: &[usize],
        topology: &Topology,
    ) -> Result<Self, Complaint> {
        if config.shards == Some(0) {
            return Err(Complaint::new(
                "--shards 0 would send nothing; it must be at least 1",
            ));
        }
        let given = config
            .cores
            .as_deref()
            .map(|text| named(text, config, allowed, topology))
            .transpose()?;
        let doubts = config
            .cores
            .as_deref()
            .filter(|text| Chosen::of(text).is_none())
            .zip(given.as_ref().and_then(Option::as_deref))
            .map_or_else(Vec::new, |(_, listed)| topology.doubts(listed));
        let mock = config.mock == Some(true);
        let mut shards = config.shards.unwrap_or(1);
        let cores = match given {
            Some(Some(cores)) => {
                let named = u32::try_from(cores.len()).unwrap_or(u32::MAX);
                shards = config.shards.unwrap_or(named);
                if !shards.is_multiple_of(named.max(1)) {
                    return Err(Complaint::new(format!(
                        "--cores names {named} cores and --shards asks for {shards} shards: each \
                         core has as many shards as the others; leave --shards out"
                    )));
                }
                Some(cores.repeat((shards / named.max(1)) as usize))
            }
            Some(None) => None,
            None if mock => beside_first(allowed, shards, topology),
            None => None,
        };
        let pin_mock = mock && (cores.is_some() || config.cores.is_none());
        let is_shard = |core: &usize| cores.as_ref().is_some_and(|cores| cores.contains(core));
        let mock_core = pin_mock
            .then(|| server_core(allowed, cores.as_deref().unwrap_or_default(), topology))
            .flatten();
        let shared_core = mock
            && match mock_core {
                Some(core) => is_shard(&core) || cores.is_none() && allowed.len() == 1,
                None => allowed.len() == 1,
            };
        let rest = |taken: &dyn Fn(&usize) -> bool| -> Vec<usize> {
            allowed
                .iter()
                .copied()
                .filter(|core| !taken(core))
                .collect()
        };
        let mut helpers = rest(&|core| is_shard(core) || Some(*core) == mock_core);
        if helpers.is_empty() {
            helpers = rest(&is_shard);
        }
        if helpers.is_empty() {
            helpers = allowed.to_vec();
        }
        Ok(Self {
            shards,
            mock_core,
            shared_core,
            helpers,
            allowed: allowed.to_vec(),
            doubts,
            cores,
        })
    }

    /// A worker's: so many shards, on `cores`, one each, if those are named.
    pub(crate) fn share(
        shards: u32,
        cores: Option<Vec<usize>>,
        allowed: &[usize],
    ) -> Result<Self, Complaint> {
        let wanted = cores.clone().unwrap_or_default();
        if let Some(core) = wanted.iter().find(|core| !allowed.contains(core)) {
            return Err(Complaint::new(format!(
                "a shard is to run on core {core}, which this process may not use: name others with \
                 --cores, here or at the coordinator"
            )));
        }
        let cores = cores.filter(|cores| !cores.is_empty()).map(|cores| {
            let shards = shards as usize;
            cores.into_iter().cycle().take(shards).collect::<Vec<_>>()
        });
        let free = |core: &usize| cores.as_ref().is_none_or(|cores| !cores.contains(core));
        let mut helpers: Vec<usize> = allowed.iter().copied().filter(free).collect();
        if helpers.is_empty() {
            helpers = allowed.to_vec();
        }
        Ok(Self {
            shards,
            cores,
            mock_core: None,
            shared_core: false,
            helpers,
            allowed: allowed.to_vec(),
            doubts: Vec::new(),
        })
    }

    /// Has each place of a shard taken by so many of them. Each has a ring of its own, and with it
    /// another table of sockets.
    pub(crate) fn multiply(&mut self, times: u32) {
        self.shards *= times;
        if let Some(cores) = &mut self.cores {
            *cores = cores.repeat(times as usize);
        }
    }

    /// Calls `start`, which starts threads that help the run: they stay off the shards' cores where
    /// possible. Shards that are not pinned would be kept off, too: then helpers roam like them.
    pub(crate) fn helping<T>(&self, start: impl FnOnce() -> T) -> T {
        if self.cores.is_none() {
            return start();
        }
        machine::keep_to(&self.helpers);
        let started = start();
        // A shard pins itself from what the thread that starts it may use.
        machine::keep_to(&self.allowed);
        started
    }

    /// `2 shards on cores 1-2`.
    pub(crate) fn describe(&self) -> String {
        let plural = if self.shards == 1 { "" } else { "s" };
        let place = match &self.cores {
            Some(cores) => {
                let mut named: Vec<usize> = Vec::new();
                for core in cores {
                    if !named.contains(core) {
                        named.push(*core);
                    }
                }
                let plural = if named.len() == 1 { "" } else { "s" };
                format!(" on core{plural} {}", machine::ranges(&named))
            }
            None => ", not pinned".to_owned(),
        };
        format!("{} shard{plural}{place}", self.shards)
    }

    /// What the user should know.
    pub(crate) fn notes(&self) -> Vec<String> {
        let shared = self.shared_core.then(|| {
            "the embedded server and a shard share a core: what is measured is both of them"
                .to_owned()
        });
        shared
            .into_iter()
            .chain(self.doubts.iter().cloned())
            .collect()
    }
}

/// Words of `--cores` that leave the choice to the topology.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chosen {
    Auto,
    Isolated,
}

impl Chosen {
    fn of(text: &str) -> Option<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "auto" => Some(Self::Auto),
            "isolated" => Some(Self::Isolated),
            _ => None,
        }
    }
}

/// The cores that `--cores` names: a list, none, or those that the topology speaks for.
fn named(
    text: &str,
    config: &BenchConfig,
    allowed: &[usize],
    topology: &Topology,
) -> Result<Option<Vec<usize>>, Complaint> {
    let candidates = match Chosen::of(text) {
        None => return machine::cores(text, allowed),
        Some(Chosen::Auto) => allowed.to_vec(),
        Some(Chosen::Isolated) => {
            let mut isolated = topology.isolated();
            isolated.retain(|core| allowed.contains(core));
            isolated
        }
    };
    if candidates.is_empty() {
        return Err(Complaint::new(
            "--cores isolated: no core that this process may use is isolated; isolate some (isolcpus= on the \
             kernel's command line) and allow them to this process (taskset), or use --cores auto",
        ));
    }
    let count = config.shards.unwrap_or(1);
    let chosen = topology.choose(&candidates, &[], count as usize);
    chosen.map(Some).ok_or_else(|| {
        Complaint::new(format!(
            "--cores {text}: {count} shards want a core each, and there are {}: lower --shards, or name the \
             cores",
            machine::ranges(&candidates)
        ))
    })
}

/// The core of the embedded server, beside those of shards: the first, if it does not share a physical core
/// with one of them.
fn server_core(allowed: &[usize], shards: &[usize], topology: &Topology) -> Option<usize> {
    let free: Vec<usize> = allowed
        .iter()
        .copied()
        .filter(|core| !shards.contains(core))
        .collect();
    match topology.choose(&free, shards, 1) {
        Some(chosen) => chosen.first().copied(),
        None => allowed.first().copied(),
    }
}

/// A core each for `shards`, beside the first, which is the embedded server's; none when there are
/// more shards than cores.
fn beside_first(allowed: &[usize], shards: u32, topology: &Topology) -> Option<Vec<usize>> {
    let shards = usize::try_from(shards).ok()?;
    let first = allowed.get(..1)?;
    topology.choose(allowed, first, shards).or_else(|| {
        // All of them, and the server shares one.
        (shards == allowed.len()).then(|| [&allowed[1..], first].concat())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(yaml: &str, allowed: &[usize]) -> Placement {
        let config = crate::file::parse(yaml).unwrap();
        Placement::new(&config, allowed, &Topology::default()).unwrap()
    }

    #[test]
    fn cores_may_be_left_to_the_topology() {
        assert_eq!(place("cores: auto", &[3, 5, 8]).cores, Some(vec![3]));
        let two = place("cores: auto\nshards: 2\nmock: true", &[3, 5, 8]);
        assert_eq!((two.cores, two.mock_core), (Some(vec![3, 5]), Some(8)));
        for (yaml, part) in [
            (
                "cores: isolated",
                "no core that this process may use is isolated",
            ),
            (
                "cores: auto\nshards: 4",
                "4 shards want a core each, and there are 3,5,8",
            ),
        ] {
            let config = crate::file::parse(yaml).unwrap();
            let error = Placement::new(&config, &[3, 5, 8], &Topology::default());
            let error = error.unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn the_embedded_server_takes_the_first_core_and_the_client_the_next() {
        let placement = place("mock: true", &[3, 5, 8]);
        assert_eq!(placement.cores, Some(vec![5]));
        assert_eq!(
            (placement.mock_core, placement.shared_core),
            (Some(3), false)
        );
        assert_eq!(placement.helpers, [8]);
        assert_eq!(placement.describe(), "1 shard on core 5");
        assert_eq!(place("mock: true", &[0, 1]).helpers, [0]);
    }

    #[test]
    fn on_one_core_they_share_it_and_it_is_said() {
        let placement = place("mock: true", &[2]);
        assert_eq!(
            (placement.cores.as_deref(), placement.mock_core),
            (Some(&[2][..]), Some(2))
        );
        assert!(placement.shared_core && placement.notes().len() == 1);
        assert!(place("mock: true\ncores: none", &[2]).shared_core);
        assert!(place("mock: true\nshards: 2", &[0, 1]).shared_core);
        assert!(place("mock: true\ncores: 0-1", &[0, 1]).shared_core);
        assert!(!place("mock: true\ncores: 0", &[0, 1]).shared_core);
    }

    #[test]
    fn a_core_may_have_several_shards() {
        let mut placement = place("cores: 1,3", &[0, 1, 2, 3]);
        placement.multiply(2);
        assert_eq!(
            placement.cores.as_deref(),
            Some(&[1, 3, 1, 3][..]),
            "shards in turn on both"
        );
        assert_eq!(placement.describe(), "4 shards on cores 1,3");
        // As the file that repeats the run says it.
        let repeated = place("cores: 1,3\nshards: 4", &[0, 1, 2, 3]);
        assert_eq!(repeated, placement);
        let mut roaming = place("", &[0]);
        roaming.multiply(3);
        assert_eq!(roaming.describe(), "3 shards, not pinned");
    }

    #[test]
    fn named_cores_have_one_shard_each() {
        let placement = place("cores: 1,3", &[0, 1, 2, 3]);
        assert_eq!(
            (placement.shards, placement.cores.clone()),
            (2, Some(vec![1, 3]))
        );
        assert_eq!(placement.helpers, [0, 2]);
        assert_eq!(placement.mock_core, None);
        assert_eq!(place("shards: 3", &[0]).describe(), "3 shards, not pinned");
        for yaml in ["cores: 0-1\nshards: 3", "shards: 0", "cores: 9"] {
            let config = crate::file::parse(yaml).unwrap();
            assert!(
                Placement::new(&config, &[0, 1], &Topology::default()).is_err(),
                "{yaml}"
            );
        }
    }
}
