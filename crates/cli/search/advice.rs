//! How far the client is from its own limits, and what more would take.

use ridgeline_report::{LoadKind, Report};
use ridgeline_roofline::Profile;
use ridgeline_roofline::headroom::scale_out;

use crate::headroom;

/// One line on what the run took of this machine, and on what the load that was asked for takes. It ends
/// with a line feed.
pub(crate) fn advice(report: &Report, profile: Option<&Profile>) -> String {
    let usage = headroom::usage(report);
    let cores = report.environment.cores;
    let known = profile.and_then(|own| scale_out(&usage, &own.ceilings, wanted(report), cores));
    known.unwrap_or_else(|| {
        "Client: how far it can go on this machine is not known; `ridgeline roofline --quick` measures it\n"
            .to_owned()
    })
}

/// How many times the load that was reached was asked for; at least once.
fn wanted(report: &Report) -> f64 {
    let load = &report.load;
    let times = match load.kind {
        LoadKind::Open => load.requested_rate.zip(load.achieved_rate),
        LoadKind::Closed => load.concurrency.map(|asked| {
            let asked = super::figures::float(asked);
            (asked, load.effective_concurrency)
        }),
        LoadKind::Offline => None,
    };
    let times = times.filter(|(_, reached)| *reached > 0.0);
    times.map_or(1.0, |(asked, reached)| (asked / reached).max(1.0))
}
