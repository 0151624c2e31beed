//! What the kernel's files say. Pure: anything strange is an absence.

/// `0-3,8`: numbers and ranges by commas. Beyond `number_max` nothing is listed.
pub(super) fn list(text: &str, number_max: usize) -> Vec<usize> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<usize>(), last.trim().parse::<usize>())
        {
            numbers.extend(first..=last.min(number_max));
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// One line of `/proc/interrupts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interrupt {
    /// Its number.
    pub(super) number: u32,
    /// Core, and how often it served it.
    pub(super) counts: Vec<(usize, u64)>,
    /// Where it comes from, as drivers call it.
    pub(super) name: String,
}

/// The numbered interrupts of `/proc/interrupts`. The first line names the cores that have columns.
pub(super) fn interrupts(text: &str) -> Vec<Interrupt> {
    let mut lines = text.lines();
    let columns = lines.next().unwrap_or_default().split_whitespace();
    let cores: Vec<usize> = columns
        .filter_map(|column| column.strip_prefix("CPU")?.parse().ok())
        .collect();
    let interrupt = |line: &str| {
        let (number, rest) = line.split_once(':')?;
        let mut words = rest.split_whitespace();
        let counts = words.by_ref().take(cores.len());
        let counts: Option<Vec<u64>> = counts.map(|word| word.parse().ok()).collect();
        let counts = counts.filter(|counts| counts.len() == cores.len())?;
        Some(Interrupt {
            number: number.trim().parse().ok()?,
            counts: cores.iter().copied().zip(counts).collect(),
            name: words.next_back().unwrap_or_default().to_owned(),
        })
    };
    lines.filter_map(interrupt).collect()
}

/// Cores that serve a good part of these interrupts: at least half of the mean of those that serve any.
pub(super) fn serving<'a>(interrupts: impl Iterator<Item = &'a Interrupt>) -> Vec<usize> {
    let mut served: Vec<(usize, u64)> = Vec::new();
    for &(core, count) in interrupts.flat_map(|interrupt| &interrupt.counts) {
        match served.iter_mut().find(|(known, _)| *known == core) {
            Some((_, sum)) => *sum = sum.saturating_add(count),
            None => served.push((core, count)),
        }
    }
    served.retain(|(_, count)| *count > 0);
    let mean = served
        .iter()
        .map(|(_, count)| *count / served.len() as u64)
        .sum::<u64>();
    let part = served.iter().filter(|(_, count)| *count >= mean / 2);
    part.map(|(core, _)| *core).collect()
}
