use ridgeline_clock::Nanos;
use ridgeline_net::Turn;

/// How often it is decided anew.
const WINDOW: Nanos = Nanos::from_millis(10);

/// Waits are lengthened by at most this share of the gap between two events of a stream, one in so many.
const SHARE_OF_GAP: u64 = 100;

/// And never by more; less is not worth it.
const SPAN_MAX: Nanos = Nanos::from_micros(200);
const SPAN_MIN: Nanos = Nanos::from_micros(20);

/// The share of time not spent waiting, in percent, from which a shard gathers, and below which it stops: a
/// shard that gathers is less busy.
const BUSY_FROM: u64 = 50;
const BUSY_UNTIL: u64 = 20;

/// Completions a turn from which there is nothing to gain.
const LARGE_TURN: u64 = 8;

/// Decides whether a shard's driver gathers: many wake-ups for a little each cost a busy shard the time that
/// it needs to be on time. Arrivals must carry the kernel's stamps, so that no time is taken from a wake-up.
#[derive(Debug)]
pub(crate) struct Gather {
    began: Nanos,
    waited: Nanos,
    turns: u64,
    completions: u64,
    span: Nanos,
    span_max: Nanos,
}

impl Gather {
    /// Of a phase that begins now, with a driver that does not gather.
    pub(crate) const fn new(now: Nanos) -> Self {
        Self {
            began: now,
            waited: Nanos::ZERO,
            turns: 0,
            completions: 0,
            span: Nanos::ZERO,
            span_max: Nanos::ZERO,
        }
    }

    /// The longest span so far.
    pub(crate) const fn span_max(&self) -> Nanos {
        self.span_max
    }

    /// Notes a turn. Answers with what the driver is to be told, where that changes. `gap`: from one event of
    /// a stream to its next, in the mean; `None`: not known, or arrivals carry no stamps.
    #[inline]
    pub(crate) fn after(&mut self, turn: &Turn, gap: impl Fn() -> Option<Nanos>) -> Option<Nanos> {
        self.waited += turn.waited;
        self.turns += 1;
        self.completions += u64::from(turn.completions);
        let window = turn.reaped - self.began;
        if window < WINDOW {
            return None;
        }
        self.decide(turn.reaped, window, gap())
    }

    fn decide(&mut self, now: Nanos, window: Nanos, gap: Option<Nanos>) -> Option<Nanos> {
        let busy = (window - self.waited).0 * 100 / window.0;
        let gathers = self.span > Nanos::ZERO;
        let is_busy = busy >= if gathers { BUSY_UNTIL } else { BUSY_FROM };
        let in_pieces = gathers || self.completions < LARGE_TURN * self.turns;
        let longest = gap.map_or(Nanos::ZERO, |gap| (gap / SHARE_OF_GAP).min(SPAN_MAX));
        let span = if is_busy && in_pieces && longest >= SPAN_MIN {
            longest
        } else {
            Nanos::ZERO
        };
        let changes = span != self.span;
        *self = Self {
            span,
            span_max: self.span_max.max(span),
            ..Self::new(now)
        };
        changes.then_some(span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAP: Option<Nanos> = Some(Nanos::from_millis(5));

    /// Turns of 100 us for a little more than a window, `waited` of each spent waiting.
    fn window(
        gather: &mut Gather,
        waited_us: u64,
        completions: u32,
        gap: Option<Nanos>,
    ) -> Option<Nanos> {
        let began = gather.began;
        let mut told = None;
        for n in 1..=100 {
            let turn = Turn {
                completions,
                waited: Nanos::from_micros(waited_us),
                reaped: began + Nanos::from_micros(100 * n),
                ..Turn::default()
            };
            let answer = gather.after(&turn, || gap);
            told = told.or(answer);
        }
        told
    }

    #[test]
    fn only_a_busy_shard_gathers_and_stops_when_it_is_idle() {
        let mut gather = Gather::new(Nanos::from_secs(3));
        assert_eq!(window(&mut gather, 51, 1, GAP), None);
        assert_eq!(
            window(&mut gather, 49, 1, GAP),
            Some(Nanos::from_micros(50))
        );
        assert_eq!(window(&mut gather, 79, 1, GAP), None, "it stays");
        assert_eq!(window(&mut gather, 81, 1, GAP), Some(Nanos::ZERO));
        assert_eq!(gather.span_max(), Nanos::from_micros(50));
    }

    #[test]
    fn the_span_is_a_hundredth_of_the_gap_within_bounds() {
        for (gap_us, span_us) in [
            (1_999, 0),
            (2_000, 20),
            (5_000, 50),
            (20_000, 200),
            (90_000, 200),
        ] {
            let mut gather = Gather::new(Nanos::ZERO);
            window(&mut gather, 10, 1, Some(Nanos::from_micros(gap_us)));
            assert_eq!(gather.span_max(), Nanos::from_micros(span_us), "{gap_us}");
        }
    }

    #[test]
    fn without_stamps_or_with_large_turns_nothing_is_gathered() {
        let mut gather = Gather::new(Nanos::ZERO);
        assert_eq!(window(&mut gather, 10, 1, None), None);
        assert_eq!(window(&mut gather, 10, 8, GAP), None);
        assert_eq!(gather.span_max(), Nanos::ZERO);
    }
}
