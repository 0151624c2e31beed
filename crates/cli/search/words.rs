//! What a series came to, in words.

use ridgeline_metrics::verdict::Status;
use ridgeline_report::console::text::{count, number, percent, span};
use ridgeline_search::{Ending, Estimate, KneeFinding, MaxRateFinding, Standing};

use super::document::RepeatsDocument;
use super::runs::Runs;

/// The lines below the table, the most important one first.
pub(crate) fn conclusion(runs: &Runs) -> String {
    let document = &runs.document;
    let mut text = match (&document.knee, &document.max_rate) {
        (Some(found), _) => knee(found),
        (None, Some(found)) => max_rate(found),
        (None, None) if runs.config().find.is_some() => {
            "NOTHING: not even one request at a time got through\n".to_owned()
        }
        (None, None) => verdicts(runs),
    };
    for repeats in &document.repeats {
        text.push_str(&repeated(repeats));
    }
    text
}

/// `VALID: 5 runs`.
fn verdicts(runs: &Runs) -> String {
    let of = |status| {
        let is = |point: &&super::runs::Point| point.report.verdict.status == status;
        runs.points.iter().filter(is).count()
    };
    let worst = runs.points.iter().map(|point| point.report.verdict.status);
    let worst = worst
        .max()
        .unwrap_or(Status::Valid)
        .to_string()
        .to_uppercase();
    let counted = [Status::Valid, Status::Degraded, Status::Invalid]
        .map(|status| (of(status), status))
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, status)| format!("{count} {status}"));
    let ended = if runs.is_interrupted() {
        "; interrupted"
    } else {
        ""
    };
    format!(
        "{worst}: {} runs, {}{ended}\n",
        runs.points.len(),
        counted.collect::<Vec<String>>().join(", ")
    )
}

fn repeated(repeats: &RepeatsDocument) -> String {
    let per_s = figure("requests/s", repeats.requests_per_s, number);
    let times = [
        figure("median latency", repeats.latency_p50_ns, span),
        figure("median TTFT", repeats.ttft_p50_ns, span),
    ];
    let figures: Vec<String> = [per_s].into_iter().chain(times).flatten().collect();
    let converged = if repeats.has_converged {
        ", as certain as was asked"
    } else {
        ""
    };
    format!(
        "{}: {} runs{converged}: {}\n",
        repeats.load,
        repeats.runs,
        figures.join("; ")
    )
}

/// `requests/s 143.2 (142.0 to 144.5)`.
fn figure(name: &str, found: Option<Estimate>, show: impl Fn(f64) -> String) -> Option<String> {
    let found = found?;
    let (low, high) = (show(found.low.max(0.0)), show(found.high));
    Some(format!("{name} {} ({low} to {high})", show(found.value)))
}

fn knee(found: &KneeFinding) -> String {
    let rung = found
        .rungs
        .iter()
        .find(|rung| Some(rung.level) == found.knee);
    let at = rung.and_then(|rung| rung.throughput_per_s.zip(rung.response_s));
    let at = at.map_or_else(String::new, |(throughput, response)| {
        format!(
            ": {} requests/s, {} each",
            number(throughput.value),
            span(response.value * 1e9)
        )
    });
    let level = count(u64::from(found.knee.unwrap_or(0)));
    let mut text = match found.ending {
        Ending::Found => format!("FOUND: the knee is at {level} in flight{at}\n"),
        Ending::LowerBound => format!("LOWER BOUND: the knee is not below {level} in flight{at}\n"),
        Ending::Nothing => "NOTHING: no level could be measured\n".to_owned(),
        Ending::Aborted => "INTERRUPTED: the knee was not found\n".to_owned(),
    };
    if let (Ending::Found, Some([below, above])) = (found.ending, found.between) {
        text.push_str(&format!(
            "  power (throughput over response time) is greatest between {below} and {above}; {} \
             requests/s at the most\n",
            found.throughput_max_per_s.map_or_else(String::new, number)
        ));
    }
    text.extend(found.why.as_ref().map(|why| format!("  {why}\n")));
    for rung in &found.rungs {
        if let Some(why) = &rung.why {
            text.push_str(&format!("  no bound: {} in flight, {why}\n", rung.level));
        }
    }
    text
}

fn max_rate(found: &MaxRateFinding) -> String {
    let rate = number(found.rate_per_s.unwrap_or(0.0));
    let mut text = match found.ending {
        Ending::Found => format!("FOUND: every service level is met up to {rate} requests/s\n"),
        Ending::LowerBound => format!(
            "LOWER BOUND: every service level is met at {rate} requests/s, and perhaps beyond\n"
        ),
        Ending::Nothing => "NOTHING: no rate that was tried meets every service level\n".to_owned(),
        Ending::Aborted => match found.rate_per_s {
            Some(_) => format!("INTERRUPTED: {rate} requests/s was met\n"),
            None => "INTERRUPTED: no rate was found\n".to_owned(),
        },
    };
    if let Some(failed) = found.failed_per_s {
        let why = found
            .probes
            .iter()
            .find(|probe| probe.rate_per_s >= failed)
            .and_then(|probe| probe.why.clone());
        text.push_str(&format!(
            "  not at {}: {}\n",
            number(failed),
            why.unwrap_or_default()
        ));
    }
    text.extend(found.why.as_ref().map(|why| format!("  {why}\n")));
    for probe in &found.probes {
        let undecided = matches!(probe.standing, Standing::Unresolved | Standing::Unsound);
        if let Some(why) = probe.why.as_ref().filter(|_| undecided) {
            let rate = number(probe.rate_per_s);
            text.push_str(&format!("  no bound: {rate} requests/s, {why}\n"));
        }
    }
    if let Some(probe) = found
        .probes
        .iter()
        .find(|probe| Some(probe.rate_per_s) == found.rate_per_s)
    {
        for share in probe.missed.iter().flatten() {
            text.push_str(&format!(
                "  at {rate}: {} miss, at most {} for certain\n",
                percent(share.value),
                percent(share.high)
            ));
        }
    }
    text
}
