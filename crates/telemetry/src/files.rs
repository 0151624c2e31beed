use std::fs;
use std::path::{Path, PathBuf};

use ridgeline_clock::Nanos;

use crate::proc::{self, CoreTicks, NetCounts, Sched, Stat, Switches, Throttling};

/// The kernel's files, below a root that tests may choose. What is missing is an absence.
#[derive(Debug)]
pub(crate) struct Files {
    root: PathBuf,
    /// Of every cgroup that may hold this process back.
    cpu_stats: Vec<PathBuf>,
    /// One tick of `/proc/stat`.
    tick: Nanos,
}

impl Files {
    pub(crate) fn new(root: &Path) -> Self {
        let mut files = Self {
            root: root.to_owned(),
            cpu_stats: Vec::new(),
            tick: Nanos::from_secs(1) / rustix::param::clock_ticks_per_second().max(1),
        };
        let cgroup = files.text("proc/self/cgroup").unwrap_or_default();
        let mounts = files.text("proc/self/mountinfo").unwrap_or_default();
        files.cpu_stats = proc::folders(&cgroup, &mounts)
            .into_iter()
            .filter_map(|folder| Some(folder.strip_prefix("/").ok()?.join("cpu.stat")))
            .filter(|path| files.text(path).is_some())
            .collect();
        files
    }

    fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        fs::read_to_string(self.root.join(path)).ok()
    }

    fn of_thread(&self, id: i32, file: &str) -> Option<String> {
        self.text(format!("proc/self/task/{id}/{file}"))
    }

    pub(crate) fn sched(&self, id: i32) -> Option<Sched> {
        self.of_thread(id, "schedstat")
            .as_deref()
            .and_then(proc::schedstat)
    }

    pub(crate) fn stat(&self, id: i32) -> Option<Stat> {
        self.of_thread(id, "stat").as_deref().and_then(proc::stat)
    }

    pub(crate) fn switches(&self, id: i32) -> Option<Switches> {
        self.of_thread(id, "status")
            .as_deref()
            .and_then(proc::switches)
    }

    /// The threads of this process.
    pub(crate) fn threads(&self) -> Vec<i32> {
        let Ok(entries) = fs::read_dir(self.root.join("proc/self/task")) else {
            return Vec::new();
        };
        entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect()
    }

    pub(crate) fn cores(&self) -> Vec<CoreTicks> {
        let text = self.text("proc/stat").unwrap_or_default();
        proc::cores(&text)
    }

    pub(crate) fn tick(&self) -> Nanos {
        self.tick
    }

    /// Of all groups together; `None` where no group has a quota to tell of.
    pub(crate) fn throttling(&self) -> Option<Throttling> {
        let texts = self.cpu_stats.iter().filter_map(|path| self.text(path));
        let found = texts.filter_map(|text| proc::throttling(&text));
        found.reduce(|sum, next| Throttling {
            periods: sum.periods + next.periods,
            time: sum.time + next.time,
        })
    }

    pub(crate) fn net(&self) -> NetCounts {
        let text = |path| self.text(path).unwrap_or_default();
        proc::net_counts(&text("proc/net/snmp"), &text("proc/net/netstat"))
    }

    pub(crate) fn governor(&self, core: usize) -> Option<String> {
        let path = format!("sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor");
        let text = self.text(path)?.trim().to_owned();
        (!text.is_empty()).then_some(text)
    }
}
