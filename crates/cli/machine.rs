//! What this machine lends to a run: cores, descriptors, ports, memory.

use std::fs;

use ridgeline_net::raise_descriptor_limit;
use rustix::thread::CpuSet;

use crate::complaint::Complaint;

/// Descriptors that are left for everything that is not a connection.
pub(crate) const DESCRIPTORS_SPARE: u64 = 64;

/// Connections that one table of descriptors has room for, once the process's limit is raised as far
/// as it may be.
pub(crate) fn descriptors() -> u64 {
    raise_descriptor_limit().saturating_sub(DESCRIPTORS_SPARE)
}

/// The cores that this process may use, in order.
pub(crate) fn allowed_cores() -> Result<Vec<usize>, Complaint> {
    let set = rustix::thread::sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|&core| set.is_set(core))
        .collect())
}

/// Lets the calling thread, and those that it starts, run on `cores` only. Threads that have a core
/// of their own pin themselves. That it fails is no reason not to run.
pub(crate) fn keep_to(cores: &[usize]) {
    let mut set = CpuSet::new();
    cores.iter().for_each(|&core| set.set(core));
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

/// Reads `0,2-3` or `none`; the cores must be `allowed`.
pub(crate) fn cores(text: &str, allowed: &[usize]) -> Result<Option<Vec<usize>>, Complaint> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("none") {
        return Ok(None);
    }
    let wrong = |why: String| Complaint::new(format!("--cores {text}: {why}"));
    let number = |part: &str| {
        part.trim().parse::<usize>().map_err(|_| {
            wrong(format!(
                "`{part}` is no core; write a list like 0,2-3, or none"
            ))
        })
    };
    let mut cores = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(wrong(format!("the range {part} ends before it begins")));
        }
        for core in first..=last {
            if !allowed.contains(&core) {
                let list = ranges(allowed);
                return Err(wrong(format!(
                    "this process may not use core {core}, or there is none; it may use {list}"
                )));
            }
            if cores.contains(&core) {
                return Err(wrong(format!("core {core} is named twice; one shard each")));
            }
            cores.push(core);
        }
    }
    Ok(Some(cores))
}

/// `0-3,7`.
pub(crate) fn ranges(cores: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &core in cores {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == core => *last = core,
            _ => runs.push((core, core)),
        }
    }
    let texts = runs.iter().map(|&(first, last)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    });
    texts.collect::<Vec<_>>().join(",")
}

/// Local ports of one address that the kernel gives to connections. Without the file: what Linux is
/// delivered with.
pub(crate) fn ports() -> u64 {
    let read = || {
        let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
        let mut numbers = text.split_whitespace().map(str::parse::<u64>);
        let (low, high) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        Some((high + 1).saturating_sub(low))
    };
    read().unwrap_or(28_232)
}

/// Bytes that could be had without swapping, if the kernel says.
pub(crate) fn memory_available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores() {
        let allowed = [0, 1, 2, 5];
        assert_eq!(cores("none", &allowed).unwrap(), None);
        assert_eq!(cores("0-2, 5", &allowed).unwrap(), Some(vec![0, 1, 2, 5]));
        assert_eq!(ranges(&allowed), "0-2,5");
        for (text, part) in [
            (
                "3",
                "may not use core 3, or there is none; it may use 0-2,5",
            ),
            ("0-99999999", "may not use core 3"),
            ("", "`` is no core"),
            ("1,x", "`x` is no core"),
            ("2-1", "ends before it begins"),
            ("1,1", "named twice"),
        ] {
            let error = cores(text, &allowed).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn the_machine_answers() {
        assert!(!allowed_cores().unwrap().is_empty());
        assert!(ports() > 0);
    }
}
