use ridgeline_clock::Nanos;

/// `/proc/PID/task/TID/schedstat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sched {
    /// Time on the CPU.
    pub ran: Nanos,
    /// Time in a run queue: runnable, and something else ran.
    pub waited: Nanos,
    /// Times it was put on the CPU.
    pub timeslices: u64,
}

/// Reads a `schedstat`. A kernel that keeps no such account writes three zeros.
#[must_use]
pub fn schedstat(text: &str) -> Option<Sched> {
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    let (ran, waited, timeslices) = (next()?, next()?, next()?);
    (timeslices > 0 || ran > 0).then_some(Sched {
        ran: Nanos(ran),
        waited: Nanos(waited),
        timeslices,
    })
}

/// `/proc/PID/task/TID/stat`, as far as it is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Page faults that needed no disk.
    pub faults_minor: u64,
    /// Page faults that did.
    pub faults_major: u64,
    /// The core it last ran on.
    pub core: usize,
}

/// Reads a `stat`. The name of a thread may hold anything, also `)` and blanks: the fields are counted
/// after the last one.
#[must_use]
pub fn stat(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    // The state is field 3 of proc(5); faults are 10 and 12, the core is 39.
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse().ok();
    Some(Stat {
        faults_minor: number(10)?,
        faults_major: number(12)?,
        core: usize::try_from(number(39)?).ok()?,
    })
}

/// Context switches, of `/proc/PID/task/TID/status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// It had nothing to do.
    pub voluntary: u64,
    /// It was taken off the CPU.
    pub involuntary: u64,
}

/// Reads a `status`.
#[must_use]
pub fn switches(text: &str) -> Option<Switches> {
    let number = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.trim().parse().ok()
    };
    Some(Switches {
        voluntary: number("voluntary_ctxt_switches:")?,
        involuntary: number("nonvoluntary_ctxt_switches:")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "29779 (a) b (cat) R 29759 29759 28097 0 -1 4194304 98 0 3 0 0 0 0 0 20 0 1 0 \
         1666389 3133440 383 18446744073709551615 94035675979776 94035675999657 140726902480160 0 0 0 0 \
         0 0 0 0 0 17 1 0 0 0 0 0 94035676015664 94035676017280 94036282777600\n";

    #[test]
    fn a_thread_is_read_whatever_its_name() {
        let found = stat(STAT).unwrap();
        assert_eq!(
            (found.faults_minor, found.faults_major, found.core),
            (98, 3, 1)
        );
        for wrong in ["", "1 (x", "1 (x) R 2 3", &STAT[..STAT.len() / 2]] {
            assert_eq!(stat(wrong), None, "{wrong:?}");
        }
        assert_eq!(stat(&STAT.replace(" 98 ", " -98 ")), None);
    }

    #[test]
    fn a_kernel_without_an_account_is_told_from_a_thread_that_did_not_run() {
        let found = schedstat("1948328 155659 2\n").unwrap();
        assert_eq!(
            (found.ran.0, found.waited.0, found.timeslices),
            (1_948_328, 155_659, 2)
        );
        assert!(schedstat("0 0 1\n").is_some());
        for wrong in ["", "0 0 0\n", "1 2", "1 x 3", "18446744073709551616 0 1"] {
            assert_eq!(schedstat(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn switches_are_read() {
        let text = "Name:\tcat\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t1\n";
        let found = switches(text).unwrap();
        assert_eq!((found.voluntary, found.involuntary), (7, 1));
        assert_eq!(switches("voluntary_ctxt_switches:\t7\n"), None);
        assert_eq!(switches(&text.replace('7', "many")), None);
    }
}
