use std::fs;
use std::path::Path;

use ridgeline_clock::{Nanos, Timebase, realtime_bracket};
use serde::{Deserialize, Serialize};

/// The machine that the client ran on, as far as it tells: what is unknown is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The processor, as it names itself.
    pub cpu_model: Option<String>,
    /// Logical cores that are online.
    pub cores: Option<u32>,
    /// The frequency governor of core 0.
    pub governor: Option<String>,
    /// TCP's congestion control.
    pub congestion_control: Option<String>,
    /// What drives the sockets.
    pub driver: String,
    /// The longest backlog of a listening socket.
    pub somaxconn: Option<u32>,
    /// The first and the last local port that connections get.
    pub port_range: Option<(u16, u16)>,
    /// The soft limit of open descriptors (`RLIMIT_NOFILE`).
    pub nofile_soft: Option<u64>,
    /// The hard limit.
    pub nofile_hard: Option<u64>,
    /// What the kernel reads its clock from.
    pub clocksource: Option<String>,
    /// The clock of the run's stamps; `None` in reports of versions that did not say.
    #[serde(default)]
    pub clock: Option<RunClock>,
}

/// Where the stamps of a run stand on the clocks of its machine: what another program's stamps can be
/// compared by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunClock {
    /// Which boot the monotonic clock counts from (see [`Timebase`]).
    pub boot_id: Option<String>,
    /// The time namespace it is read in.
    pub time_namespace: Option<String>,
    /// When the run began, on `CLOCK_MONOTONIC`: what the stamps of records count from.
    pub start_monotonic_ns: u64,
    /// The same on the wall clock: ns since 1970. Read when the run was over: a wall clock that was set
    /// meanwhile moved it.
    pub start_realtime_ns: u64,
    /// The largest error of the wall clock's reading against the monotonic one. How far the wall clock
    /// is from the world's, nobody here knows.
    pub realtime_error_ns: u64,
}

impl RunClock {
    /// Of a run that began at `started`, by this machine's clocks as they are now.
    #[must_use]
    pub fn of(started: Nanos) -> Self {
        let (timebase, bracket) = (Timebase::read(), realtime_bracket());
        Self {
            boot_id: timebase.boot_id,
            time_namespace: timebase.time_namespace,
            start_monotonic_ns: started.0,
            start_realtime_ns: (started + bracket.offset).0,
            realtime_error_ns: bracket.error.0,
        }
    }
}

impl Environment {
    /// Reads `/proc` and `/sys`.
    #[must_use]
    pub fn read(driver: &str) -> Self {
        Self::read_from(Path::new("/"), driver)
    }

    fn read_from(root: &Path, driver: &str) -> Self {
        let text = |path: &str| fs::read_to_string(root.join(path)).ok();
        let word = |path: &str| {
            let text = text(path)?.trim().to_owned();
            (!text.is_empty()).then_some(text)
        };
        let (nofile_soft, nofile_hard) = text("proc/self/limits")
            .as_deref()
            .map_or((None, None), nofile);
        Self {
            kernel: word("proc/sys/kernel/osrelease"),
            cpu_model: text("proc/cpuinfo").as_deref().and_then(cpu_model),
            cores: word("sys/devices/system/cpu/online")
                .as_deref()
                .and_then(count),
            governor: word("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            congestion_control: word("proc/sys/net/ipv4/tcp_congestion_control"),
            driver: driver.to_owned(),
            somaxconn: word("proc/sys/net/core/somaxconn").and_then(|text| text.parse().ok()),
            port_range: word("proc/sys/net/ipv4/ip_local_port_range")
                .as_deref()
                .and_then(range),
            nofile_soft,
            nofile_hard,
            clocksource: word("sys/devices/system/clocksource/clocksource0/current_clocksource"),
            clock: None,
        }
    }
}

/// The model of the first processor; ARM has none by that name.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    let value = |name: &str| {
        cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    };
    value("model name").or_else(|| value("Hardware"))
}

/// How many there are in a list like `0-3,8`.
fn count(list: &str) -> Option<u32> {
    list.split(',')
        .map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            last.checked_sub(first)?.checked_add(1)
        })
        .try_fold(0_u32, |sum, part| sum.checked_add(part?))
}

fn range(text: &str) -> Option<(u16, u16)> {
    let mut ports = text.split_whitespace().map(|port| port.parse().ok());
    Some((ports.next()??, ports.next()??))
}

/// Soft and hard; `None` where there is no limit.
fn nofile(limits: &str) -> (Option<u64>, Option<u64>) {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))
        .unwrap_or_default();
    let mut fields = line.split_whitespace().map(|field| field.parse().ok());
    (fields.next().flatten(), fields.next().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> Environment {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Environment::read_from(root.path(), "uring")
    }

    #[test]
    fn a_machine_is_read() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
             Max processes             15000                unlimited            processes\n\
             Max open files            1024                 unlimited            files\n";
        let found = machine(&[
            ("proc/sys/kernel/osrelease", "6.12.1\n"),
            ("proc/cpuinfo", "processor\t: 0\nmodel name\t: Fast CPU\n"),
            ("sys/devices/system/cpu/online", "0-3,8\n"),
            ("proc/sys/net/ipv4/tcp_congestion_control", "cubic\n"),
            ("proc/sys/net/core/somaxconn", "4096\n"),
            ("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n"),
            ("proc/self/limits", limits),
        ]);
        let expected = Environment {
            kernel: Some("6.12.1".to_owned()),
            cpu_model: Some("Fast CPU".to_owned()),
            cores: Some(5),
            congestion_control: Some("cubic".to_owned()),
            driver: "uring".to_owned(),
            somaxconn: Some(4096),
            port_range: Some((32768, 60999)),
            nofile_soft: Some(1024),
            ..Environment::default()
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_missing_or_strange_is_unknown() {
        let expected = Environment {
            driver: "uring".to_owned(),
            ..Environment::default()
        };
        assert_eq!(machine(&[]), expected);
        let strange = machine(&[
            ("proc/cpuinfo", "nothing"),
            ("sys/devices/system/cpu/online", "3-1,x"),
            ("proc/sys/net/ipv4/ip_local_port_range", "1 99999"),
            ("proc/self/limits", "Max open files"),
        ]);
        assert_eq!(strange, expected);
    }

    #[test]
    fn this_machine_has_a_kernel_and_cores() {
        let found = Environment::read("epoll");
        assert!(found.kernel.is_some() && found.cores > Some(0));
    }
}
