//! Pauses between attempts, each twice as long as the one before.

use std::time::Duration;

pub(crate) struct BackOff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl BackOff {
    pub fn new(first: Duration, longest: Duration) -> Self {
        BackOff { first, longest, next: first }
    }

    /// Returns the pause before the next attempt.
    pub fn next(&mut self) -> Duration {
        let longer = (self.next * 2).min(self.longest);
        std::mem::replace(&mut self.next, longer)
    }

    /// Begins again with the first pause: an attempt has succeeded.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_longest_and_begin_again_after_success() {
        let ms = Duration::from_millis;
        let mut pauses = BackOff::new(ms(20), ms(100));
        assert_eq!([(); 4].map(|()| pauses.next()), [ms(20), ms(40), ms(80), ms(100)]);
        pauses.reset();
        assert_eq!(pauses.next(), ms(20));
    }
}
