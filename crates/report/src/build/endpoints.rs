use ridgeline_metrics::{Collector, PerEndpoint};

use crate::EndpointFigures;

/// What each of several endpoints did.
pub(super) fn endpoints(collector: &Collector, urls: &[String]) -> Vec<EndpointFigures> {
    let figures = |(url, of): (&String, &PerEndpoint)| EndpointFigures {
        url: url.clone(),
        requests: of.counts.issued,
        completed: of.counts.completed,
        failed: of.counts.failed,
        cancelled: of.counts.cancelled,
        retried: of.counts.retried,
        errors: of.errors.to_map(),
        latency_ns: of.latency.summary(),
        ttft_ns: of.ttft.summary(),
    };
    urls.iter()
        .zip(collector.endpoints())
        .map(figures)
        .collect()
}
