use ridgeline_clock::Nanos;

/// When to stop issuing requests: at whichever limit comes first. Without a limit, never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StopRule {
    /// How many requests all shards issue together.
    pub requests_max: Option<u64>,
    /// How long requests are issued, from the start of the measured phase.
    pub duration: Option<Nanos>,
}

impl StopRule {
    /// Whether request `index` (over all shards) may be issued `at` after the start. Once false for
    /// an index or a time, it is false for every later one: the shard stops issuing.
    #[must_use]
    pub fn may_issue(&self, index: u64, at: Nanos) -> bool {
        self.requests_max.is_none_or(|max| index < max) && !self.expired(at)
    }

    /// Whether the duration is over `at` after the start.
    #[must_use]
    pub fn expired(&self, at: Nanos) -> bool {
        self.duration.is_some_and(|duration| at >= duration)
    }

    /// The time after the start at which the duration is over; [`Nanos::MAX`] without one. A shard
    /// that waits with free slots must wake then.
    #[must_use]
    pub fn deadline(&self) -> Nanos {
        self.duration.unwrap_or(Nanos::MAX)
    }

    /// Whether the rule ends a run by itself.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        self.requests_max.is_some() || self.duration.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_limit_stops() {
        let rule = StopRule {
            requests_max: Some(3),
            duration: Some(Nanos(10)),
        };
        assert!(rule.may_issue(2, Nanos(9)));
        assert!(!rule.may_issue(3, Nanos(0)));
        assert!(!rule.may_issue(0, Nanos(10)));
        assert_eq!(rule.deadline(), Nanos(10));
    }

    #[test]
    fn without_limits_it_never_stops() {
        let rule = StopRule::default();
        assert!(rule.may_issue(u64::MAX, Nanos::MAX));
        assert_eq!(rule.deadline(), Nanos::MAX);
        assert!(!rule.is_bounded());
    }
}
