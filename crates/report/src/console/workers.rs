use ridgeline_clock::Nanos;

use super::text::{clean, count};
use super::{Page, Style};
use crate::{WorkerFigures, WorkerStatus};

/// How many workers are named each, beside those that did not finish.
const NAMED_MAX: usize = 8;

/// A line for each worker of a run of several.
pub(super) fn workers(page: &mut Page, workers: &[WorkerFigures]) {
    if workers.is_empty() {
        return;
    }
    let number = |status| workers.iter().filter(|w| w.status == status).count();
    let finished = number(WorkerStatus::Finished);
    let mut text = format!("{finished} of {} finished", workers.len());
    for (status, word) in [(WorkerStatus::Left, "left"), (WorkerStatus::Lost, "lost")] {
        if number(status) > 0 {
            text.push_str(&format!(", {} {word}", number(status)));
        }
    }
    let style = if finished == workers.len() {
        Style::Plain
    } else {
        Style::Bad
    };
    page.field_in("Workers", &text, style);
    let mut unnamed = 0;
    for (place, worker) in workers.iter().enumerate() {
        if place < NAMED_MAX || worker.status != WorkerStatus::Finished {
            page.more(&line(worker));
        } else {
            unnamed += 1;
        }
    }
    if unnamed > 0 {
        page.more(&format!(
            "and {unnamed} more that finished: see report.json"
        ));
    }
}

fn line(worker: &WorkerFigures) -> String {
    let host = worker.host.as_deref().map(clean);
    let host = host.map_or_else(String::new, |host| format!(" on {host}"));
    let shards = match worker.shards {
        0 | 1 => format!("shard {}", worker.first_shard),
        more => format!(
            "shards {}-{}",
            worker.first_shard,
            worker.first_shard + (more - 1)
        ),
    };
    let status = match worker.status {
        WorkerStatus::Finished => String::new(),
        WorkerStatus::Left => format!(", LEFT after {}", Nanos(worker.ended_ns)),
        WorkerStatus::Lost => format!(", LOST after {}", Nanos(worker.ended_ns)),
    };
    let mut line = format!(
        "{}{host}, {shards}{status}: {} ok",
        clean(&worker.name),
        count(worker.completed)
    );
    if worker.failed > 0 {
        line.push_str(&format!(", {} failed", count(worker.failed)));
    }
    if let Some(clock) = clock(worker) {
        line.push_str(&format!("; {clock}"));
    }
    if let Some(records) = &worker.records
        && let Some(folder) = &records.folder
    {
        let written = count(records.written);
        line.push_str(&format!("; {written} records in {}", clean(folder)));
    }
    line
}

fn clock(worker: &WorkerFigures) -> Option<String> {
    if worker.same_clock {
        return Some("the same clock".to_owned());
    }
    let (offset, error) = (worker.clock_offset_ns?, worker.clock_error_ns?);
    let signed = |ns: i64| {
        let sign = if ns < 0 { '-' } else { '+' };
        format!("{sign}{}", Nanos(ns.unsigned_abs()))
    };
    let drift = worker.clock_drift_ns.map_or_else(String::new, |drift| {
        format!(", {} more at the end", signed(drift))
    });
    Some(format!(
        "its clock {} to {}{drift}",
        signed(offset),
        Nanos(error)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(name: &str) -> WorkerFigures {
        WorkerFigures {
            name: name.to_owned(),
            host: Some("h1".to_owned()),
            pid: Some(7),
            driver: "io_uring".to_owned(),
            first_shard: 2,
            shards: 2,
            status: WorkerStatus::Finished,
            why: None,
            ended_ns: 3_000_000_000,
            same_clock: false,
            clock_offset_ns: Some(-1_500_000),
            clock_error_ns: Some(80_000),
            clock_drift_ns: Some(2_000),
            issued: 5_000,
            completed: 4_999,
            failed: 1,
            content_events: 9,
            records: None,
        }
    }

    fn page(of: &[WorkerFigures]) -> String {
        let mut page = Page {
            out: String::new(),
            width: 120,
            colour: false,
        };
        workers(&mut page, of);
        page.out
    }

    #[test]
    fn each_worker_has_a_line_and_none_of_them_is_overlooked() {
        assert_eq!(page(&[]), "");
        let text = page(&[worker("tcp://b:7000")]);
        assert!(text.starts_with("Workers     1 of 1 finished\n"), "{text}");
        assert!(text.contains("tcp://b:7000 on h1, shards 2-3: 4,999 ok, 1 failed"));
        assert!(
            text.contains("its clock -1.50 ms to 80.0 us, +2.00 us more at the end"),
            "{text}"
        );
        let mut many = vec![worker("w"); 12];
        many[11].status = WorkerStatus::Lost;
        many[11].same_clock = true;
        let text = page(&many);
        assert!(text.contains("11 of 12 finished, 1 lost"), "{text}");
        assert!(
            text.contains("LOST after 3.00 s: 4,999 ok, 1 failed; the same clock"),
            "{text}"
        );
        assert!(text.contains("and 3 more that finished"), "{text}");
    }
}
