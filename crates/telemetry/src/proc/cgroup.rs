use std::path::{Path, PathBuf};

use ridgeline_clock::Nanos;

/// How a quota of CPU time held threads back, of a cgroup's `cpu.stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttling {
    /// Periods in which the quota was used up.
    pub periods: u64,
    /// How long it then held threads back; of all cores together.
    pub time: Nanos,
}

/// Reads a `cpu.stat`, of a cgroup of version 1 (`throttled_time`, ns) or 2 (`throttled_usec`). `None`
/// where the group has no quota to tell of.
#[must_use]
pub fn throttling(text: &str) -> Option<Throttling> {
    let number = |key: &str| {
        let mut pairs = text.lines().filter_map(|line| line.split_once(' '));
        let (_, value) = pairs.find(|&(name, _)| name == key)?;
        value.trim().parse::<u64>().ok()
    };
    let time = number("throttled_time").map(Nanos);
    let micros = || number("throttled_usec").map(Nanos::from_micros);
    Some(Throttling {
        periods: number("nr_throttled")?,
        time: time.or_else(micros)?,
    })
}

/// The folders whose `cpu.stat` tells of quotas that hold this process: that of its cgroup, and of every
/// group around it that can be seen. From `/proc/self/cgroup` and `/proc/self/mountinfo`.
#[must_use]
pub fn folders(cgroup: &str, mountinfo: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for mount in mountinfo.lines().filter_map(Mount::read) {
        let Some(path) = cgroup.lines().find_map(|line| mount.path_of(line)) else {
            continue;
        };
        // Of a group outside of what is mounted here only the mount can be seen.
        let below = Path::new(path)
            .strip_prefix(mount.root)
            .unwrap_or_else(|_| Path::new(""));
        let plain =
            |part: &std::path::Component<'_>| matches!(part, std::path::Component::Normal(_));
        let mut folder = PathBuf::from(mount.point);
        found.push(folder.clone());
        for part in below.components().filter(plain) {
            folder.push(part);
            found.push(folder.clone());
        }
    }
    found
}

/// A mounted hierarchy of cgroups that can hold CPU time.
#[derive(Debug)]
struct Mount<'a> {
    /// What of the hierarchy is mounted.
    root: &'a str,
    point: &'a str,
    is_v2: bool,
}

impl<'a> Mount<'a> {
    /// `36 35 98:0 /root /point rw - cgroup2 source options`; any number of fields before the dash.
    fn read(line: &'a str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, point) = (before.next()?, before.next()?);
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1)?);
        let has_cpu = || options.split(',').any(|option| option == "cpu");
        let is_v2 = kind == "cgroup2";
        // Blanks in paths are escaped; nobody mounts cgroups there.
        let plain = !root.contains('\\') && !point.contains('\\');
        (plain && (is_v2 || kind == "cgroup" && has_cpu())).then_some(Self { root, point, is_v2 })
    }

    /// The path of the process in this hierarchy, if the line `NUMBER:CONTROLLERS:PATH` is of it.
    fn path_of(&self, line: &'a str) -> Option<&'a str> {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let of_v2 = number == "0" && controllers.is_empty();
        let of_cpu = controllers.split(',').any(|controller| controller == "cpu");
        (if self.is_v2 { of_v2 } else { of_cpu }).then_some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(cgroup: &str, mountinfo: &str) -> Vec<String> {
        let folders = folders(cgroup, mountinfo);
        folders
            .iter()
            .map(|path| path.display().to_string())
            .collect()
    }

    #[test]
    fn both_versions_tell_of_their_quota() {
        let v1 = "nr_periods 9\nnr_throttled 3\nthrottled_time 71000000\nnr_bursts 0\n";
        let v2 = "usage_usec 5\nnr_periods 9\nnr_throttled 3\nthrottled_usec 71000\n";
        let expected = Throttling {
            periods: 3,
            time: Nanos::from_millis(71),
        };
        assert_eq!(throttling(v1), Some(expected));
        assert_eq!(throttling(v2), Some(expected));
        for wrong in [
            "",
            "usage_usec 5\n",
            "nr_throttled 3\n",
            "nr_throttled x\nthrottled_usec 1\n",
        ] {
            assert_eq!(throttling(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_group_and_those_around_it_are_found() {
        let v1 = "31 30 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 master:3 - cgroup cgroup rw,cpu,cpuacct\n\
                  32 30 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let cgroup = "9:memory:/x\n4:cpu,cpuacct:/a/b\n0::/\n";
        let base = "/sys/fs/cgroup/cpu,cpuacct";
        let expected = [base.to_owned(), format!("{base}/a"), format!("{base}/a/b")];
        assert_eq!(names(cgroup, v1), expected);
        let v2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(
            names("0::/user.slice\n", v2),
            ["/sys/fs/cgroup", "/sys/fs/cgroup/user.slice"]
        );
    }

    #[test]
    fn a_container_sees_its_own_group_at_the_mount() {
        // The path is the host's, the mount begins at the container's group.
        let v1 = "31 30 0:26 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n";
        assert_eq!(names("4:cpu:/docker/abc\n", v1), ["/sys/fs/cgroup/cpu"]);
        assert_eq!(names("4:cpu:/elsewhere\n", v1), ["/sys/fs/cgroup/cpu"]);
        let up = names("0::/../../x\n", "30 23 0:26 / /c rw - cgroup2 c rw\n");
        assert_eq!(up, ["/c", "/c/x"], "never above the mount");
    }

    #[test]
    fn what_is_strange_has_no_folders() {
        let mount = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert!(folders("", mount).is_empty() && folders("0::/", "").is_empty());
        assert!(folders("nonsense\n1:cpu\n", mount).is_empty());
        for line in [
            "30",
            "30 23 - cgroup2",
            "30 23 0:26 / /a\\040b rw - cgroup2 c rw",
        ] {
            assert!(folders("0::/", line).is_empty(), "{line}");
        }
    }
}
