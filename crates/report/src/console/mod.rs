//! The report as a person reads it: the verdict first, then the load, the table of latencies, and
//! what else there is to know, a line each.

mod endpoints;
mod machine;
mod stages;
mod table;
pub mod text;
mod truth;
mod workers;

use ridgeline_clock::Nanos;
use ridgeline_metrics::verdict::{LimitedBy, Reason, Status, Unit};
use ridgeline_metrics::{Attainment, Goodput};
use ridgeline_telemetry::Cause;

use crate::{Http2Figures, LoadFigures, LoadKind, Report, StallFigures};
use text::{bytes_per_s, clean, columns, count, mean, number, percent, shorten, span, wrap};
pub use truth::truth;

/// The page keeps to these widths, whatever the terminal has.
const WIDTH_MIN: usize = 80;
const WIDTH_MAX: usize = 120;

/// Columns of the labels at the left.
const LABEL: usize = 12;

/// How many different errors and finish reasons are named.
const NAMES_MAX: usize = 8;

/// How many shards are named each.
const SHARDS_MAX: usize = 4;

/// The console's page: `width` columns (80 to 120 are used), with ANSI colours if `colour`. It ends
/// with a line feed.
#[must_use]
pub fn render(report: &Report, width: usize, colour: bool) -> String {
    let mut page = Page {
        out: String::new(),
        width: width.clamp(WIDTH_MIN, WIDTH_MAX),
        colour,
    };
    verdict(&mut page, report);
    page.out.push('\n');
    load(&mut page, report);
    page.out.push('\n');
    stages::stages(&mut page, &report.stages);
    latencies(&mut page, report);
    page.out.push('\n');
    rates(&mut page, report);
    errors(&mut page, report);
    endpoints::endpoints(&mut page, &report.endpoints);
    goodput(&mut page, report);
    client(&mut page, report);
    workers::workers(&mut page, &report.harness.workers);
    headroom(&mut page, report);
    if let Some(folder) = &report.folder {
        page.field("Results", &clean(&folder.display().to_string()));
    }
    page.out
}

/// The page's first line alone: the verdict.
#[must_use]
pub fn headline(report: &Report, colour: bool) -> String {
    let status = report.verdict.status;
    let style = match status {
        Status::Valid => Style::Good,
        Status::Degraded => Style::Caution,
        Status::Invalid => Style::Bad,
    };
    let word = style.paint(&status.to_string().to_uppercase(), colour);
    let limited = match report.verdict.limited_by {
        LimitedBy::Client => "limited by the client",
        LimitedBy::Server => "limited by the server",
        LimitedBy::Load => "limited by the load that was asked for",
        LimitedBy::None => "too short to say what limited it",
    };
    let missed = report.goodput.as_ref().is_some_and(Goodput::failed);
    let ended = match report.load {
        _ if report.interrupted => "; interrupted: a partial report",
        LoadFigures {
            completed: 0,
            failed: 1..,
            ..
        } => "; every request failed",
        _ if missed => "; an SLO was missed",
        _ => "",
    };
    format!("{word}: {limited}{ended}")
}

fn verdict(page: &mut Page, report: &Report) {
    page.line(&headline(report, page.colour));
    let reasons = &report.verdict.reasons;
    for (place, reason) in reasons.iter().enumerate() {
        let (style, sign) = match reason.status {
            Status::Invalid => (Style::Bad, "x"),
            Status::Degraded | Status::Valid => (Style::Caution, "!"),
        };
        let (value, limit) = (
            quantity(reason.value, reason),
            quantity(reason.limit, reason),
        );
        let found = format!("{} ({value}, limit {limit})", clean(&reason.message));
        page.item(style, sign, &found);
        // Reasons in a row that have one remedy say it once.
        let next = reasons.get(place + 1);
        if next.is_none_or(|next| next.remedy != reason.remedy) {
            page.indented(4, &clean(&reason.remedy));
        }
    }
}

fn quantity(value: f64, reason: &Reason) -> String {
    match reason.unit {
        Unit::Ns => span(value),
        Unit::Share => percent(value),
        Unit::Count if value.fract() == 0.0 => {
            let tenths = mean(value);
            tenths.strip_suffix(".0").unwrap_or(&tenths).to_owned()
        }
        Unit::Count => mean(value),
    }
}

/// What HTTP/2 did, and what it waited for.
fn http2_words(http2: &Http2Figures) -> String {
    let many = |number: u64, one: &str, more: &str| match number {
        1 => format!("1 {one}"),
        number => format!("{} {more}", count(number)),
    };
    let mut words = format!(
        "HTTP/2: {} on {}",
        many(http2.streams, "stream", "streams"),
        many(http2.connections, "connection", "connections")
    );
    for (times, what) in [
        (http2.unprocessed, "sent again, as the server had not begun"),
        (http2.send_stalls, "waits for a window of the server"),
        (http2.receive_stalls, "waits of the server for ours"),
    ] {
        if times > 0 {
            words.push_str(&format!(", {} {what}", count(times)));
        }
    }
    words
}

fn load(page: &mut Page, report: &Report) {
    let (load, target) = (&report.load, &report.target);
    let streamed = if target.streaming {
        "streamed"
    } else {
        "not streamed"
    };
    let model = shorten(&clean(&target.model), 60);
    let endpoint = format!("{}, model {model}, {streamed}", clean(&target.url));
    page.field("Endpoint", &endpoint);
    if target.certificate_checked == Some(false) {
        let style = Style::Caution;
        page.item(
            style,
            "!",
            "its certificate was NOT checked (--insecure): it may be anybody",
        );
    }

    let duration = Nanos(load.duration_ns);
    let effective = mean(load.effective_concurrency);
    let asked = load.concurrency.map(count);
    let text = match load.kind {
        LoadKind::Closed => format!(
            "closed loop of {} in flight, {effective} effective; {duration}",
            asked.unwrap_or_default()
        ),
        LoadKind::Offline => format!(
            "offline: all due at the start, at most {} in flight, {effective} effective; {duration}",
            asked.unwrap_or_default()
        ),
        LoadKind::Open => {
            let rate = |rate: Option<f64>| rate.map_or_else(|| "N/A".to_owned(), number);
            let cap = asked.map_or_else(String::new, |cap| format!(", cap {cap}"));
            let pattern = load.arrival_pattern.as_deref().unwrap_or("a rate of");
            format!(
                "open loop, {} {}/s asked, {} scheduled, {} sent; {effective} in flight{cap}; \
                 {duration}",
                clean(pattern),
                rate(load.requested_rate),
                rate(load.scheduled_rate),
                rate(load.achieved_rate)
            )
        }
    };
    page.field("Load", &text);
    machine::little(page, load.littles_law.as_ref());

    let mut text = format!(
        "{} issued: {} ok",
        count(load.issued),
        count(load.completed)
    );
    for (number, what) in [
        (load.failed, "failed"),
        (load.cancelled, "cancelled"),
        (load.given_up, "of them as planned"),
        (load.never_sent, "never sent"),
        (load.retried, "retries"),
    ] {
        let always = what == "failed" || what == "cancelled";
        if always || number > 0 {
            text.push_str(&format!(", {} {what}", count(number)));
        }
    }
    if load.warmup.issued > 0 {
        text.push_str(&format!("; {} for warm-up", count(load.warmup.issued)));
        let failed = load.warmup.failed + load.warmup.cancelled;
        if failed > 0 {
            text.push_str(&format!(" ({} failed)", count(failed)));
        }
    }
    page.field("Requests", &text);
}

fn latencies(page: &mut Page, report: &Report) {
    if report.load.completed == 0 {
        page.line("No request succeeded: there are no latencies.");
        return;
    }
    let (lines, note) = table::lines(report, page.width);
    for (place, line) in lines.iter().enumerate() {
        let style = if place == 0 {
            Style::Faint
        } else {
            Style::Plain
        };
        let line = style.paint(line.trim_end(), page.colour);
        page.line(&line);
    }
    if let Some(note) = note {
        page.note(&note);
    }
}

fn rates(page: &mut Page, report: &Report) {
    let (rates, tokens) = (&report.throughput, &report.tokens);
    let mut parts = vec![format!("{} requests/s", number(rates.requests_per_s))];
    if tokens.output > 0 {
        let output = number(rates.output_tokens_per_s);
        parts.push(format!("{output} output tokens/s"));
    }
    if tokens.content_events > 0 && report.target.streaming {
        parts.push(format!("{} events/s", number(rates.content_events_per_s)));
    }
    parts.push(bytes_per_s(rates.bytes_per_s));
    page.field("Throughput", &parts.join(", "));
    if report.load.completed == 0 {
        return;
    }
    let each = |tokens: u64| mean(ratio(tokens, report.load.completed));
    let mut text = format!(
        "{} out ({} each)",
        count(tokens.output),
        each(tokens.output)
    );
    if tokens.input > 0 {
        let input = count(tokens.input);
        text = format!("{input} in ({} each), {text}", each(tokens.input));
    }
    let source = &tokens.source;
    let counted: Vec<&str> = [
        (source.usage, "server usage"),
        (source.tokenizer, "a tokenizer"),
        (source.events, "events, taken for tokens"),
    ]
    .into_iter()
    .filter_map(|(tokens, by)| (tokens > 0).then_some(by))
    .collect();
    if counted.is_empty() {
        text = "the answers said nothing of their tokens".to_owned();
    } else {
        text.push_str(&format!(", counted by {}", counted.join(" and ")));
    }
    if tokens.input_counted > 0 && (source.usage > 0 || source.tokenizer == 0) {
        text.push_str("; prompts by a tokenizer");
    }
    page.field("Tokens", &text);
    if let Some(note) = &tokens.note {
        page.more(&clean(note));
    }
    if let Some(per_event) = tokens.per_event
        && (per_event - 1.0).abs() > 0.01
        && report.target.streaming
    {
        let what = if report.icl_ns == report.itl_ns {
            "an event: gaps between events are not gaps between tokens (see TPOT)"
        } else {
            "an event"
        };
        page.more(&format!("{} tokens {what}", number(per_event)));
    }
}

fn errors(page: &mut Page, report: &Report) {
    let listed = |counts: &std::collections::BTreeMap<String, u64>| {
        let mut counts: Vec<(&String, &u64)> = counts.iter().collect();
        counts.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), (*name).clone()));
        let rest: u64 = counts
            .iter()
            .skip(NAMES_MAX)
            .map(|(_, count)| **count)
            .sum();
        let mut names: Vec<(String, u64)> = counts
            .into_iter()
            .take(NAMES_MAX)
            .map(|(name, count)| (name.clone(), *count))
            .collect();
        names.extend((rest > 0).then(|| ("others".to_owned(), rest)));
        names
    };
    for (place, (kind, times)) in listed(&report.errors).iter().enumerate() {
        let text = match report.error_examples.get(kind) {
            Some(example) => format!(
                "{} {kind}: {}",
                count(*times),
                shorten(&clean(example), 2 * page.width)
            ),
            None => format!("{} {}", count(*times), clean(kind)),
        };
        if place == 0 {
            page.field_in("Errors", &text, Style::Bad);
        } else {
            page.more(&text);
        }
    }
    let reasons: Vec<String> = listed(&report.finish_reasons)
        .iter()
        .map(|(reason, times)| format!("{} {}", count(*times), shorten(&clean(reason), 30)))
        .collect();
    if !reasons.is_empty() {
        page.field("Finished by", &reasons.join(", "));
    }
}

fn goodput(page: &mut Page, report: &Report) {
    let Some(goodput) = &report.goodput else {
        return;
    };
    let rate = goodput
        .requests_per_s
        .map_or_else(|| "N/A".to_owned(), number);
    let share = goodput.share.map_or_else(|| "N/A".to_owned(), percent);
    page.field(
        "Goodput",
        &format!(
            "{rate} requests/s: {share} of {} met every SLO",
            count(goodput.judged)
        ),
    );
    for slo in &goodput.slos {
        attainment(page, slo);
    }
}

fn attainment(page: &mut Page, slo: &Attainment) {
    let met = slo.share.map_or_else(|| "N/A".to_owned(), percent);
    let value = match (slo.slo.percentile, slo.value_ns) {
        (Some(percentile), Some(ns)) => format!(", {percentile} is {}", Nanos(ns)),
        (Some(percentile), None) => format!(", {percentile} is N/A"),
        (None, _) => String::new(),
    };
    let (word, style) = match slo.passed {
        Some(true) => (" - passed", Style::Good),
        Some(false) => (" - FAILED", Style::Bad),
        None => ("", Style::Plain),
    };
    let text = format!("{}: met by {met}{value}", slo.slo);
    let word = style.paint(word, page.colour);
    page.more(&format!("{text}{word}"));
}

fn client(page: &mut Page, report: &Report) {
    let harness = &report.harness;
    let shards = &harness.shards;
    let core = |core: Option<usize>| {
        core.map_or_else(
            || "unpinned shard".to_owned(),
            |core| format!("core {core}"),
        )
    };
    let busy = if shards.len() > SHARDS_MAX {
        let fractions = || shards.iter().map(|shard| shard.busy_fraction);
        let (least, most) = (
            fractions().fold(f64::INFINITY, f64::min),
            fractions().fold(0.0, f64::max),
        );
        let shards = shards.len();
        format!(
            "{shards} shards {} to {} busy",
            percent(least),
            percent(most)
        )
    } else {
        shards
            .iter()
            .map(|shard| format!("{} busy {}", core(shard.core), percent(shard.busy_fraction)))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let mut parts = vec![harness.driver.clone(), busy];
    if harness.shared_core {
        parts.push("shared with the server".to_owned());
    }
    let stalled = shards.iter().max_by_key(|shard| shard.stall_max_ns);
    parts.extend(stalled.map(|shard| {
        let known = |stall: &&StallFigures| stall.cause != Cause::Unknown;
        let stall = shard.stall.as_ref().filter(known);
        let why = stall.map_or_else(String::new, |stall| format!(" ({})", clean(&stall.words)));
        format!("longest stall {}{why}", Nanos(shard.stall_max_ns))
    }));
    parts.push(format!("{} carry copies", count(harness.carry_copies)));
    page.field("Client", &parts.join(", "));
    if let Some(http2) = &harness.http2 {
        page.more(&http2_words(http2));
    }
    let mut parts = Vec::new();
    if let Some(cpu) = harness.cpu_ns_per_request {
        parts.push(format!("CPU {} a request", span(cpu)));
    }
    if report.target.streaming {
        let cpu = harness.cpu_ns_per_event;
        parts.extend(cpu.map(|cpu| format!("{} an event", span(cpu))));
        // They are those of successes.
        let events = harness.events_per_read.filter(|events| *events > 0.0);
        parts.extend(events.map(|events| format!("{} events a read", number(events))));
    }
    let gathered = shards.iter().map(|shard| shard.gather_max_ns).max();
    let gathered = gathered.filter(|&span| span > 0);
    parts.extend(gathered.map(|span| format!("wake-ups gathered for up to {}", Nanos(span))));
    if !harness.rx_timestamps {
        parts.push("no kernel stamps".to_owned());
    }
    if !parts.is_empty() {
        page.more(&parts.join(", "));
    }
    machine::machine(page, report);
    records(page, report);
}

/// How near the client was to its own end.
fn headroom(page: &mut Page, report: &Report) {
    let Some(headroom) = &report.harness.headroom else {
        return;
    };
    let mut text = format!(
        "this run used {} of this machine's client ceiling ({})",
        percent(headroom.share),
        clean(&headroom.of)
    );
    if !headroom.reservations.is_empty() {
        let reservations = headroom.reservations.join(", ");
        text.push_str(&format!(
            "; the ceiling was measured {}",
            clean(&reservations)
        ));
    }
    page.field("Headroom", &text);
}

/// Only what went wrong with them.
fn records(page: &mut Page, report: &Report) {
    let dropped = report.harness.records_dropped;
    let Some(records) = &report.harness.records else {
        return;
    };
    let mut text = format!("{} written", count(records.written));
    if dropped > 0 {
        text.push_str(&format!(", {} dropped", count(dropped)));
    }
    if records.unconverted > 0 {
        let unconverted = count(records.unconverted);
        text.push_str(&format!(
            ", {unconverted} still in the spool (`ridgeline report` finishes them)"
        ));
    }
    if let Some(error) = &records.error {
        text.push_str(&format!("; {}", clean(error)));
    }
    if dropped > 0 || records.unconverted > 0 || records.error.is_some() {
        page.field_in("Records", &text, Style::Caution);
    }
}

#[expect(clippy::cast_precision_loss, reason = "a few digits are printed")]
fn ratio(of: u64, by: u64) -> f64 {
    of as f64 / by as f64
}

#[derive(Clone, Copy, Debug)]
enum Style {
    Plain,
    Good,
    Caution,
    Bad,
    Faint,
}

impl Style {
    fn paint(self, text: &str, colour: bool) -> String {
        let code = match self {
            Self::Plain => return text.to_owned(),
            _ if !colour || text.is_empty() => return text.to_owned(),
            Self::Good => "1;32",
            Self::Caution => "1;33",
            Self::Bad => "1;31",
            Self::Faint => "2",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

struct Page {
    out: String,
    width: usize,
    colour: bool,
}

impl Page {
    fn line(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
    }

    /// A label and what belongs to it, in lines below one another.
    fn field(&mut self, label: &str, text: &str) {
        self.field_in(label, text, Style::Plain);
    }

    fn field_in(&mut self, label: &str, text: &str, style: Style) {
        let padding = " ".repeat(LABEL.saturating_sub(columns(label)));
        let label = style.paint(label, self.colour);
        self.begun(&format!("{label}{padding}"), LABEL, text);
    }

    /// More under the label above.
    fn more(&mut self, text: &str) {
        self.begun(&" ".repeat(LABEL), LABEL, text);
    }

    fn indented(&mut self, indent: usize, text: &str) {
        self.begun(&" ".repeat(indent), indent, text);
    }

    fn item(&mut self, style: Style, sign: &str, text: &str) {
        let sign = style.paint(sign, self.colour);
        self.begun(&format!("  {sign} "), 4, text);
    }

    fn note(&mut self, text: &str) {
        let text = Style::Faint.paint(text, self.colour);
        self.line(&text);
    }

    /// Text after a beginning of `indent` columns; its further lines are indented as far.
    fn begun(&mut self, beginning: &str, indent: usize, text: &str) {
        let mut beginning = beginning.to_owned();
        for line in wrap(text, self.width - indent) {
            self.out.push_str(&beginning);
            self.out.push_str(&line);
            self.out.push('\n');
            beginning = " ".repeat(indent);
        }
    }
}

#[cfg(test)]
mod tests;
