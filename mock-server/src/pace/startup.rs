//! The time that a model takes to load.

use ridgeline_clock::Nanos;

/// How long a server is not ready yet, from the first time it is told on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Startup {
    span: Nanos,
    /// When it is over; unknown until a time is told.
    over: Option<Nanos>,
}

impl Startup {
    pub(crate) fn new(span: Nanos) -> Self {
        Self { span, over: None }
    }

    /// How long it still takes at `now`; `None`: it is ready.
    #[inline]
    pub(crate) fn left(&mut self, now: Nanos) -> Option<Nanos> {
        if self.span == Nanos::ZERO {
            return None;
        }
        let over = *self.over.get_or_insert(now + self.span);
        (now < over).then(|| over - now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_from_the_first_time_it_is_told() {
        let mut startup = Startup::new(Nanos(10));
        let left = [100, 104, 109, 110, 300].map(|now| startup.left(Nanos(now)));
        assert_eq!(
            left,
            [Some(Nanos(10)), Some(Nanos(6)), Some(Nanos(1)), None, None]
        );
        assert_eq!(Startup::new(Nanos::ZERO).left(Nanos(5)), None);
    }
}
