//! First in, first out: the baseline. Weights are ignored; with automatic depth nothing is held back at all, as if
//! there were no scheduler.

use super::in_order::InOrder;
use super::{Depth, Settings, Time};

pub fn fifo(settings: &Settings) -> InOrder {
    let depth_bytes = match settings.depth {
        Depth::Auto => u64::MAX,
        Depth::Bytes(bytes) => bytes,
    };
    InOrder::new(settings, depth_bytes, |_| Time(0))
}
