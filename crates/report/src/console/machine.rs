//! The lines about the machine, and those about the load that need an explanation.

use ridgeline_clock::Nanos;

use super::text::{clean, mean, number, percent, span};
use super::{Page, SHARDS_MAX, Style};
use crate::{LittlesLaw, Report};

/// What the kernel says of the machine and the shards' threads, and what is worth a warning.
pub(super) fn machine(page: &mut Page, report: &Report) {
    if let Some(machine) = &report.harness.machine {
        let mut parts = Vec::new();
        if let Some(steal) = machine.steal_share {
            parts.push(format!("steal {}", percent(steal)));
        }
        let shards = machine.cores.iter().filter(|core| core.has_shard);
        parts.extend(shards.take(SHARDS_MAX).map(|core| {
            let foreign = percent(core.foreign_busy_share);
            format!("others on core {} {foreign}", core.core)
        }));
        if let Some(throttled) = machine.throttled_ns {
            parts.push(format!("throttled {}", Nanos(throttled)));
        }
        let governor = machine.governor.as_deref().map(clean);
        parts.push(governor.map_or_else(
            || "no frequency governor to be seen".to_owned(),
            |name| format!("governor {name}"),
        ));
        page.field("Machine", &parts.join(", "));
    }
    for note in &report.harness.notes {
        page.item(Style::Caution, "!", &clean(note));
    }
}

/// Both sides of Little's law.
pub(super) fn little(page: &mut Page, law: Option<&LittlesLaw>) {
    let Some(law) = law else {
        return;
    };
    page.more(&format!(
        "Little's law: {} in flight, X R = {}/s x {} = {}",
        mean(law.in_flight),
        number(law.requests_per_s),
        span(law.latency_mean_ns),
        mean(law.in_flight / law.ratio)
    ));
}
