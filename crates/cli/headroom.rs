//! How much of this machine's client ceiling a run used.

use std::collections::BTreeSet;

use ridgeline_report::{Headroom, LoadKind, Program, Report};
use ridgeline_roofline::Profile;
use ridgeline_roofline::headroom::{Usage, nearest};

use crate::folder;

/// Whether this program was built with all optimisation.
pub(crate) const OPTIMISED: bool = !cfg!(debug_assertions);

/// This program.
pub(crate) fn program() -> Program {
    Program {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        revision: option_env!("RIDGELINE_REVISION").map(str::to_owned),
    }
}

/// Where profiles are kept.
pub(crate) fn profiles() -> Option<std::path::PathBuf> {
    ridgeline_roofline::profiles(|name| std::env::var_os(name))
}

/// This machine's profile, if it has one.
pub(crate) fn own_profile() -> Option<Profile> {
    let host = ridgeline_roofline::host();
    Profile::find(&profiles()?, &host, &program(), OPTIMISED)
}

/// What the run used of the ceilings in `profile`; none when that has none for what the run did.
pub(crate) fn of(report: &Report, profile: &Profile) -> Option<Headroom> {
    let nearest = nearest(&usage(report), &profile.ceilings)?;
    let kernel = report.environment.kernel.as_deref();
    let reservations = profile.reservations(&report.ridgeline, kernel, folder::wall_clock().0);
    Some(Headroom {
        share: nearest.share(),
        of: nearest.what,
        value: nearest.value,
        ceiling: nearest.ceiling,
        profile: profile.ridgeline.clone(),
        measured_unix_ns: profile.measured_unix_ns,
        reservations,
    })
}

/// What the run did as a client.
pub(crate) fn usage(report: &Report) -> Usage {
    let (load, streaming) = (&report.load, report.target.streaming);
    let streamed = |figure: f64| if streaming { figure } else { 0.0 };
    #[expect(clippy::cast_precision_loss, reason = "a share needs a few digits")]
    let peak = load.peak_concurrency as f64;
    Usage {
        requests_per_s: report.throughput.requests_per_s,
        events_per_s: streamed(report.throughput.content_events_per_s),
        events_per_read: report.harness.events_per_read,
        open_streams: streamed(peak),
        timely_per_s: load.achieved_rate.filter(|_| load.kind == LoadKind::Open),
        cores: cores(report),
    }
}

/// The cores that shards ran on: several may have one between them, and each that roams counts as one
/// as far as there are cores.
fn cores(report: &Report) -> usize {
    let shards = &report.harness.shards;
    let pinned: BTreeSet<usize> = shards.iter().filter_map(|shard| shard.core).collect();
    let roaming = shards.iter().filter(|shard| shard.core.is_none()).count();
    let online = report
        .environment
        .cores
        .and_then(|n| usize::try_from(n).ok());
    let most = online.unwrap_or(usize::MAX).max(pinned.len());
    (pinned.len() + roaming).min(most)
}
