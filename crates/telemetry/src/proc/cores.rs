/// How one core spent its time, in ticks, of `/proc/stat`. Busy times are sampled by the kernel's tick;
/// idle ones are exact where the tick stops on an idle core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreTicks {
    /// Its number.
    pub core: usize,
    /// Something ran: programs, the kernel, interrupts.
    pub busy: u64,
    /// Nothing ran, also while something waited for a disk.
    pub idle: u64,
    /// The hypervisor ran something else although there was work.
    pub stolen: u64,
}

/// Reads a `/proc/stat`: every core that is online, in its order.
#[must_use]
pub fn cores(text: &str) -> Vec<CoreTicks> {
    text.lines().filter_map(core).collect()
}

fn core(line: &str) -> Option<CoreTicks> {
    let mut fields = line.split_ascii_whitespace();
    let core = fields.next()?.strip_prefix("cpu")?.parse().ok()?;
    let ticks: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
    // Time of guests is part of user and nice.
    let [user, nice, system, idle, iowait, irq, softirq, stolen, ..] = ticks[..] else {
        return None;
    };
    let sum = |parts: &[u64]| {
        parts
            .iter()
            .fold(0_u64, |sum, &part| sum.saturating_add(part))
    };
    Some(CoreTicks {
        core,
        busy: sum(&[user, nice, system, irq, softirq]),
        idle: sum(&[idle, iowait]),
        stolen,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_core_is_read_and_the_sum_is_left_out() {
        let text = "cpu  2509140 15 370590 301956 89573 0 42631 6121 0 0\n\
             cpu0 1209175 5 168964 193185 61426 1 23284 3131 9 9\n\
             cpu11 1299965 10 201625 108770 28147 0 19346 2989 0 0\n\
             intr 14400700 0 0\nctxt 17\nprocs_running 3\n";
        let found = cores(text);
        let first = CoreTicks {
            core: 0,
            busy: 1_209_175 + 5 + 168_964 + 1 + 23_284,
            idle: 193_185 + 61_426,
            stolen: 3_131,
        };
        assert_eq!((found.len(), found[0], found[1].core), (2, first, 11));
    }

    #[test]
    fn what_is_strange_is_left_out() {
        assert_eq!(cores(""), []);
        // Before steal was counted; a word; a number beyond all.
        let text = "cpu0 1 2 3 4 5 6 7\ncpux 1 2 3 4 5 6 7 8\ncpu1 1 2 a 4 5 6 7 8\n\
             cpu2 18446744073709551615 1 1 1 1 1 1 1\n";
        let found = cores(text);
        assert_eq!(
            (found.len(), found[0].core, found[0].busy),
            (1, 2, u64::MAX)
        );
    }
}
