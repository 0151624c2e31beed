//! How far a run is, while it goes on.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use ridgeline_engine::{Control, LiveTotals, Plan};

/// A line for whoever reads a log, a bar for whoever looks at a terminal.
const LINE_EVERY: Duration = Duration::from_secs(1);
const BAR_EVERY: Duration = Duration::from_millis(200);
/// What a rate is taken over.
const RATE_SPAN: Nanos = Nanos::from_secs(2);

/// A thread that shows it, until it is dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Starts to show the run of `plan` on stderr.
    pub(crate) fn start(plan: &Plan, control: Arc<Control>) -> io::Result<Self> {
        let (over, told) = mpsc::channel::<()>();
        let ends = Ends {
            requests: plan.stop.requests_max,
            duration: plan.stop.duration,
        };
        let bar = io::stderr().is_terminal().then(|| bar(ends));
        let every = if bar.is_some() { BAR_EVERY } else { LINE_EVERY };
        let warmup = plan.warmup_requests > 0;
        let show = move || {
            let mut recent = Recent::default();
            while told.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let (totals, now) = (control.totals(), MonotonicClock.now());
                let started = control.started();
                if started == Nanos::ZERO {
                    continue;
                }
                if !warmup {
                    recent.begin(started);
                }
                let (requests_per_s, events_per_s) = recent.rates(now, totals);
                let view = View {
                    elapsed: now - started,
                    totals,
                    requests_per_s,
                    events_per_s,
                    warming: warmup && totals.issued == 0,
                };
                match &bar {
                    Some(bar) => draw(bar, ends, &view),
                    None => crate::terminal::note(&view.line()),
                }
            }
            if let Some(bar) = &bar {
                bar.finish_and_clear();
            }
        };
        let thread = thread::Builder::new()
            .name("progress".to_owned())
            .spawn(show)?;
        Ok(Self {
            over: Some(over),
            thread: Some(thread),
        })
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.over.take());
        if let Some(thread) = self.thread.take() {
            // It only shows: how it ended changes nothing.
            let _ = thread.join();
        }
    }
}

/// The counts of the last moments. Shards publish every 100 ms, and requests that started together
/// end together: a rate over less than a second jumps.
#[derive(Debug, Default)]
struct Recent(VecDeque<(Nanos, LiveTotals)>);

impl Recent {
    /// There was nothing at `started`.
    fn begin(&mut self, started: Nanos) {
        if self.0.is_empty() {
            self.0.push_back((started, LiveTotals::default()));
        }
    }

    /// Requests and events per second.
    fn rates(&mut self, now: Nanos, totals: LiveTotals) -> (f64, f64) {
        while self.0.get(1).is_some_and(|(at, _)| now - *at >= RATE_SPAN) {
            self.0.pop_front();
        }
        let rates = self.0.front().map(|(since, before)| {
            let span = now - *since;
            (
                per_second(before.completed, totals.completed, span),
                per_second(before.content_events, totals.content_events, span),
            )
        });
        self.0.push_back((now, totals));
        rates.unwrap_or((0.0, 0.0))
    }
}

#[derive(Clone, Copy)]
struct Ends {
    requests: Option<u64>,
    duration: Option<Nanos>,
}

/// The state of a run at one moment.
struct View {
    elapsed: Nanos,
    totals: LiveTotals,
    requests_per_s: f64,
    events_per_s: f64,
    warming: bool,
}

impl View {
    fn line(&self) -> String {
        let mut line = format!("{:>4.0} s: {}", self.elapsed.as_secs_f64(), self.counts());
        if !self.warming {
            let _ = write!(
                line,
                ", {}/s, {} events/s",
                short(self.requests_per_s),
                short(self.events_per_s)
            );
        }
        line
    }

    fn counts(&self) -> String {
        if self.warming {
            return format!("warming up, {} in flight", self.totals.in_flight);
        }
        let LiveTotals {
            completed,
            failed,
            in_flight,
            ..
        } = self.totals;
        let failed = if failed > 0 {
            format!(", {failed} failed")
        } else {
            String::new()
        };
        format!("{completed} done{failed}, {in_flight} in flight")
    }
}

fn bar(ends: Ends) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(
        ends.duration.map(millis).or(ends.requests),
        ProgressDrawTarget::stderr(),
    );
    let style = ProgressStyle::with_template("{bar:24} {percent:>3}%  {msg}");
    bar.set_style(
        style
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("=> "),
    );
    bar
}

/// Whichever end is nearer moves the bar.
fn draw(bar: &ProgressBar, ends: Ends, view: &View) {
    let done = view.totals.completed + view.totals.failed;
    let by_time = ends
        .duration
        .map(|end| share(millis(view.elapsed), millis(end)));
    let by_count = ends.requests.map(|end| share(done, end));
    let nearest = by_time.into_iter().chain(by_count).fold(0.0, f64::max);
    bar.set_length(1_000);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 1000"
    )]
    bar.set_position((nearest.min(1.0) * 1_000.0) as u64);
    bar.set_message(format!(
        "{}, {}/s",
        view.counts(),
        short(view.requests_per_s)
    ));
}

fn millis(span: Nanos) -> u64 {
    span.0 / 1_000_000
}

#[expect(clippy::cast_precision_loss, reason = "shown in three digits")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

#[expect(clippy::cast_precision_loss, reason = "shown in three digits")]
fn per_second(before: u64, after: u64, span: Nanos) -> f64 {
    after.saturating_sub(before) as f64 / span.as_secs_f64().max(1e-9)
}

/// Three digits and a unit: `7.52`, `843`, `12.3k`.
fn short(number: f64) -> String {
    let (number, unit) = match number {
        n if n >= 999_500.0 => (n / 1e6, "M"),
        n if n >= 9_995.0 => (n / 1e3, "k"),
        n => (n, ""),
    };
    let decimals = match number {
        n if n >= 99.95 || n == 0.0 => 0,
        n if n >= 9.995 => 1,
        _ => 2,
    };
    format!("{number:.decimals$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (number, text) in [
            (0.0, "0"),
            (0.5, "0.50"),
            (7.521, "7.52"),
            (99.99, "100"),
            (9_994.0, "9994"),
            (12_345.0, "12.3k"),
            (1_234_567.0, "1.23M"),
        ] {
            assert_eq!(short(number), text);
        }
    }

    #[test]
    fn a_rate_is_taken_over_the_last_two_seconds() {
        let totals = |completed| LiveTotals {
            completed,
            content_events: completed * 10,
            ..LiveTotals::default()
        };
        let mut recent = Recent::default();
        assert_eq!(recent.rates(Nanos::ZERO, totals(7)), (0.0, 0.0));
        let mut recent = Recent::default();
        recent.begin(Nanos::ZERO);
        recent.begin(Nanos::from_millis(400));
        assert_eq!(
            recent.rates(Nanos::from_millis(500), totals(5)),
            (10.0, 100.0)
        );
        assert_eq!(
            recent.rates(Nanos::from_millis(2_500), totals(25)),
            (10.0, 100.0)
        );
        assert_eq!(
            recent.rates(Nanos::from_millis(4_500), totals(25)),
            (0.0, 0.0)
        );
    }

    #[test]
    fn a_line_says_what_there_is() {
        let totals = LiveTotals {
            issued: 9,
            completed: 5,
            failed: 1,
            content_events: 50,
            in_flight: 3,
        };
        let mut view = View {
            elapsed: Nanos::from_millis(2_100),
            totals,
            requests_per_s: 2.5,
            events_per_s: 25.0,
            warming: false,
        };
        assert_eq!(
            view.line(),
            "   2 s: 5 done, 1 failed, 3 in flight, 2.50/s, 25.0 events/s"
        );
        view.warming = true;
        assert_eq!(view.line(), "   2 s: warming up, 3 in flight");
    }
}
