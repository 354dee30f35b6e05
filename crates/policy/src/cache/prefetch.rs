//! Memory that is needed soon, asked for now: most of a decision's time is waiting for it.

/// Asks for a place's cache lines, the first and the last.
pub(super) fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let first = std::ptr::from_ref(place).cast::<i8>();
        // SAFETY: both places lie within what is borrowed, and a prefetch changes nothing but when they are at hand.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(first);
            _mm_prefetch::<_MM_HINT_T0>(first.add(size_of::<T>().saturating_sub(1)));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
