use ridgeline_clock::Nanos;
use ridgeline_metrics::Summary;

use super::text::{clean, count};
use super::{Page, Style};
use crate::EndpointFigures;

/// How many endpoints are named each, beside those with failures.
const NAMED_MAX: usize = 16;

/// A line for each of several endpoints.
pub(super) fn endpoints(page: &mut Page, endpoints: &[EndpointFigures]) {
    if endpoints.is_empty() {
        return;
    }
    let failing = endpoints.iter().filter(|of| of.failed > 0).count();
    let (text, style) = match failing {
        0 => (endpoints.len().to_string(), Style::Plain),
        some => (
            format!("{}, {some} of them with failures", endpoints.len()),
            Style::Bad,
        ),
    };
    page.field_in("Endpoints", &text, style);
    let mut unnamed = 0;
    for (place, endpoint) in endpoints.iter().enumerate() {
        if place < NAMED_MAX || endpoint.failed > 0 {
            page.more(&line(endpoint));
        } else {
            unnamed += 1;
        }
    }
    if unnamed > 0 {
        page.more(&format!("and {unnamed} more: see report.json"));
    }
}

fn line(endpoint: &EndpointFigures) -> String {
    let mut line = format!(
        "{}: {} ok, {} failed",
        clean(&endpoint.url),
        count(endpoint.completed),
        count(endpoint.failed)
    );
    for (number, what) in [
        (endpoint.cancelled, "cancelled"),
        (endpoint.retried, "retries"),
    ] {
        if number > 0 {
            line.push_str(&format!(", {} {what}", count(number)));
        }
    }
    let metrics = [
        ("TTFT", &endpoint.ttft_ns),
        ("latency", &endpoint.latency_ns),
    ];
    for (name, summary) in metrics {
        if let Some(summary) = summary {
            line.push_str(&format!("; {name} {}", percentiles(summary)));
        }
    }
    line
}

fn percentiles(summary: &Summary) -> String {
    format!("p50 {}, p99 {}", Nanos(summary.p50), Nanos(summary.p99))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_told_in_a_line() {
        let endpoint = EndpointFigures {
            url: "http://a/v1".to_owned(),
            requests: 1_010,
            completed: 1_000,
            failed: 7,
            cancelled: 3,
            retried: 2,
            errors: [("reset".to_owned(), 7)].into(),
            latency_ns: None,
            ttft_ns: None,
        };
        assert_eq!(
            line(&endpoint),
            "http://a/v1: 1,000 ok, 7 failed, 3 cancelled, 2 retries"
        );
    }
}
