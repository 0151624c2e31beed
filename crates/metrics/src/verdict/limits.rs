use ridgeline_clock::Nanos;
use serde::{Deserialize, Serialize};

/// The limits of the verdict; each is a key of the plan. A limit is passed *beyond* its value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VerdictLimits {
    /// Timed loads: the share of the schedule's arrivals that may be missing (0.005) …
    pub rate_missing_share: f64,
    /// … or their number, whichever is more (2).
    pub rate_missing_requests: u64,
    /// Timed loads: the median schedule lag, ns (10 ms).
    pub lag_median_ns: u64,
    /// Timed loads: a request is late beyond this schedule lag, ns (10 ms) …
    pub lag_late_ns: u64,
    /// … or this share of the median TTFT, whichever is more (0.5).
    pub lag_late_ttft_share: f64,
    /// Timed loads: the share of requests that may be late (0.05).
    pub lag_late_requests_share: f64,
    /// Timed loads: the 99th percentile of the schedule lag, ns (1 ms) …
    pub lag_p99_ns: u64,
    /// … or this share of the median TTFT, whichever is more (0.05).
    pub lag_p99_ttft_share: f64,
    /// Requests due that may stay unsent (0).
    pub never_sent: u64,
    /// Closed loop: the least effective concurrency, as a share of what was asked (0.95).
    pub concurrency_share: f64,
    /// A rate with a cap: the share of requests that may wait under it (0.01).
    pub capped_share: f64,
    /// Streams: p99 of the harness delay and of the stamps' width, as a share of the median TTFT or
    /// ITL, whichever is less (0.05).
    pub harness_delay_share: f64,
    /// The 99th percentile of how long handing a request to the kernel takes, ns (1 ms) or
    /// `harness_delay_share` of the median TTFT, whichever is more.
    pub send_p99_ns: u64,
    /// Timed loads: how much longer the last request may take than the first, as a share, before the
    /// server counts as falling behind (0.5).
    pub latency_growth_share: f64,
    /// How busy a shard may be, 0 to 1 (0.9).
    pub busy_fraction: f64,
    /// The longest that a shard may stand still, ns (5 ms).
    pub stall_ns: u64,
    /// The share of finished requests that may fail (0.01).
    pub error_rate: f64,
    /// The error rate beyond which the run ends with exit code 4 (`--max-error-rate`); off by default.
    pub max_error_rate: Option<f64>,
    /// Requests that the drain deadline may cancel (0).
    pub censored: u64,
    /// Records that may be dropped (0).
    pub records_dropped: u64,
    /// Shorter runs are not judged for rate, lag and concurrency, ns (1 s).
    pub run_ns_min: u64,
    /// Nor are runs of fewer requests (100).
    pub run_requests_min: u64,
}

impl Default for VerdictLimits {
    fn default() -> Self {
        Self {
            rate_missing_share: 0.005,
            rate_missing_requests: 2,
            lag_median_ns: Nanos::from_millis(10).0,
            lag_late_ns: Nanos::from_millis(10).0,
            lag_late_ttft_share: 0.5,
            lag_late_requests_share: 0.05,
            lag_p99_ns: Nanos::from_millis(1).0,
            lag_p99_ttft_share: 0.05,
            never_sent: 0,
            concurrency_share: 0.95,
            capped_share: 0.01,
            harness_delay_share: 0.05,
            send_p99_ns: Nanos::from_millis(1).0,
            latency_growth_share: 0.5,
            busy_fraction: 0.9,
            stall_ns: Nanos::from_millis(5).0,
            error_rate: 0.01,
            max_error_rate: None,
            censored: 0,
            records_dropped: 0,
            run_ns_min: Nanos::from_secs(1).0,
            run_requests_min: 100,
        }
    }
}

/// A limit that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("verdict limit `{key}` is {value}; it must lie between 0 and 1")]
pub struct LimitsError {
    key: &'static str,
    value: f64,
}

impl VerdictLimits {
    /// Checks that every share is one.
    ///
    /// # Errors
    /// At the first share that is not between 0 and 1.
    pub fn check(&self) -> Result<(), LimitsError> {
        let shares = [
            ("rate_missing_share", self.rate_missing_share),
            ("lag_late_ttft_share", self.lag_late_ttft_share),
            ("lag_late_requests_share", self.lag_late_requests_share),
            ("lag_p99_ttft_share", self.lag_p99_ttft_share),
            ("concurrency_share", self.concurrency_share),
            ("capped_share", self.capped_share),
            ("harness_delay_share", self.harness_delay_share),
            ("latency_growth_share", self.latency_growth_share),
            ("busy_fraction", self.busy_fraction),
            ("error_rate", self.error_rate),
            ("max_error_rate", self.max_error_rate.unwrap_or(0.0)),
        ];
        // NaN lies nowhere.
        match shares
            .into_iter()
            .find(|(_, share)| !(0.0..=1.0).contains(share))
        {
            Some((key, value)) => Err(LimitsError { key, value }),
            None => Ok(()),
        }
    }
}
