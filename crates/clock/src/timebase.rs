use std::fs;
use std::path::Path;

/// Which `CLOCK_MONOTONIC` this is. Stamps of two processes can be subtracted from one another when
/// both have the same one: it counts from a boot, and a time namespace shifts it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timebase {
    /// The kernel's id of this boot (`/proc/sys/kernel/random/boot_id`), where it tells.
    pub boot_id: Option<String>,
    /// The time namespace of this process (`/proc/self/ns/time`), where the kernel has them.
    pub time_namespace: Option<String>,
}

impl Timebase {
    /// That of this process.
    #[must_use]
    pub fn read() -> Self {
        Self::read_from(Path::new("/"))
    }

    fn read_from(root: &Path) -> Self {
        let boot_id = fs::read_to_string(root.join("proc/sys/kernel/random/boot_id"));
        let namespace = fs::read_link(root.join("proc/self/ns/time"));
        Self {
            boot_id: boot_id
                .ok()
                .map(|id| id.trim().to_owned())
                .filter(|id| !id.is_empty()),
            time_namespace: namespace.ok().map(|link| link.display().to_string()),
        }
    }

    /// Whether both are known to be the same clock.
    #[must_use]
    pub fn is_that_of(&self, other: &Self) -> bool {
        self.boot_id.is_some() && self == other
    }
}

/// Whether a time namespace shifts this process's `CLOCK_MONOTONIC` from that of the machine. The kernel
/// converts the absolute times that most calls are given, but not all: `io_uring_enter` takes them as
/// the machine's (seen up to Linux 6.18), so that a wait would be off by the shift.
#[must_use]
pub fn monotonic_is_shifted() -> bool {
    // A kernel without such namespaces has no such file.
    fs::read_to_string("/proc/self/timens_offsets").is_ok_and(|offsets| is_shifted(&offsets))
}

/// Reads lines of a clock's name, seconds and nanoseconds.
fn is_shifted(offsets: &str) -> bool {
    offsets.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some("monotonic") && words.any(|number| number != "0")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shift_of_the_monotonic_clock_is_seen() {
        for (offsets, shifted) in [
            ("", false),
            (
                "monotonic           0         0\nboottime            0         0\n",
                false,
            ),
            (
                "monotonic           0         0\nboottime           50         0\n",
                false,
            ),
            (
                "monotonic        1000         0\nboottime            0         0\n",
                true,
            ),
            ("monotonic          -5         0\n", true),
            ("monotonic           0         7\n", true),
        ] {
            assert_eq!(is_shifted(offsets), shifted, "{offsets:?}");
        }
    }

    #[test]
    fn one_boot_and_one_namespace_are_one_clock() {
        let base = |boot: &str, namespace: Option<&str>| Timebase {
            boot_id: Some(boot.to_owned()),
            time_namespace: namespace.map(str::to_owned),
        };
        let this = base("a", Some("time:[1]"));
        assert!(this.is_that_of(&this.clone()));
        assert!(!this.is_that_of(&base("b", Some("time:[1]"))));
        assert!(!this.is_that_of(&base("a", Some("time:[2]"))));
        assert!(base("a", None).is_that_of(&base("a", None)));
        // Two that say nothing may be two machines.
        assert!(!Timebase::default().is_that_of(&Timebase::default()));
    }

    #[test]
    fn a_process_has_one_timebase() {
        assert_eq!(Timebase::read(), Timebase::read());
        let nothing = Timebase::read_from(Path::new("no/such/root"));
        assert_eq!(nothing, Timebase::default());
    }
}
