use crate::complaint::Complaint;
use crate::config::BenchConfig;
use crate::machine;

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
}

impl Placement {
    /// Places what `config` asks for on the cores that are `allowed`.
    pub(crate) fn new(config: &BenchConfig, allowed: &[usize]) -> Result<Self, Complaint> {
        if config.shards == Some(0) {
            return Err(Complaint::new(
                "--shards 0 would send nothing; it must be at least 1",
            ));
        }
        let given = config
            .cores
            .as_deref()
            .map(|text| machine::cores(text, allowed))
            .transpose()?;
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
            None if mock => after_first(allowed, shards),
            None => None,
        };
        let pin_mock = mock && (cores.is_some() || config.cores.is_none());
        let is_shard = |core: &usize| cores.as_ref().is_some_and(|cores| cores.contains(core));
        let free = || allowed.iter().copied().find(|core| !is_shard(core));
        let mock_core = if pin_mock {
            free().or_else(|| allowed.first().copied())
        } else {
            None
        };
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
            cores,
            mock_core,
            shared_core,
            helpers,
            allowed: allowed.to_vec(),
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
    pub(crate) fn note(&self) -> Option<String> {
        self.shared_core.then(|| {
            "the embedded server and a shard share a core: what is measured is both of them"
                .to_owned()
        })
    }
}

/// A core each for `shards`, after the first, which is the embedded server's; none when there are
/// more shards than cores.
fn after_first(allowed: &[usize], shards: u32) -> Option<Vec<usize>> {
    let shards = usize::try_from(shards).ok()?;
    (shards <= allowed.len()).then(|| (1..=shards).map(|k| allowed[k % allowed.len()]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(yaml: &str, allowed: &[usize]) -> Placement {
        Placement::new(&crate::file::parse(yaml).unwrap(), allowed).unwrap()
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
        assert!(placement.shared_core && placement.note().is_some());
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
            assert!(Placement::new(&config, &[0, 1]).is_err(), "{yaml}");
        }
    }
}
