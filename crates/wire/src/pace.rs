/// When to keep another original for a fast path to compare with.
///
/// Keeping one costs about as much as it saves once. So one that fits is given up only after two
/// misses in a row, and where none ever fits, new ones are tried ever more seldom.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// Since something fitted, or since an original was kept.
    misses: u32,
    /// Misses that an original may have.
    allowed: u32,
}

/// How many misses an original may have where none ever fits.
const ALLOWED_MAX: u32 = 63;

impl Pace {
    /// The original fitted.
    #[inline]
    pub(crate) fn hit(&mut self) {
        *self = Self {
            misses: 0,
            allowed: 1,
        };
    }

    /// Something was read in full. Whether it is to be the next original.
    pub(crate) fn miss(&mut self) -> bool {
        self.misses += 1;
        if self.misses <= self.allowed {
            return false;
        }
        self.misses = 0;
        self.allowed = (2 * self.allowed + 1).min(ALLOWED_MAX);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn originals_that_nothing_fits_are_tried_ever_more_seldom() {
        let mut pace = Pace::default();
        let kept: Vec<u32> = (0..200).filter(|_| pace.miss()).collect();
        assert_eq!(kept, [0, 2, 6, 14, 30, 62, 126, 190]);
        pace.hit();
        assert!(!pace.miss() && pace.miss());
        pace.hit();
        assert!(!pace.miss());
        pace.hit();
        assert!(!pace.miss() && pace.miss());
    }
}
