//! The five rules, and where they differ.

use std::str::FromStr;

/// The treatment of a task for which no free worker has any input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// First-available: runs on the worker that is free longest; no index, no caches. The baseline.
    FirstAvailable,
    /// Max-cache-hit: held as long as any worker has its input.
    MaxCacheHit,
    /// Max-compute-util: never held.
    MaxComputeUtil,
    /// Good-cache-compute: held only when most slots are busy anyway.
    GoodCacheCompute,
    /// Ours: held as long as waiting costs less than fetching; the store is read by few at a time, for the input that
    /// most tasks wait for; copies are made while there is room, and the last one leaves last.
    Thalweg,
}

impl Rule {
    pub const ALL: [Rule; 5] =
        [Rule::FirstAvailable, Rule::MaxCacheHit, Rule::MaxComputeUtil, Rule::GoodCacheCompute, Rule::Thalweg];

    pub fn name(self) -> &'static str {
        match self {
            Rule::FirstAvailable => "fa",
            Rule::MaxCacheHit => "mch",
            Rule::MaxComputeUtil => "mcu",
            Rule::GoodCacheCompute => "gcc",
            Rule::Thalweg => "thalweg",
        }
    }

    /// Returns the share of busy slots below which the source feeds a free worker with anything
    /// (`CPU_UTILIZATION_THRESHOLD`).
    pub(super) fn threshold(self) -> f64 {
        match self {
            Rule::MaxCacheHit => 0.0,
            Rule::GoodCacheCompute => 0.9,
            Rule::FirstAvailable | Rule::MaxComputeUtil | Rule::Thalweg => f64::INFINITY,
        }
    }

    pub fn uses_caches(self) -> bool {
        self != Rule::FirstAvailable
    }

    /// Returns how many waiting tasks a freed worker looks through: the source's slide says 2500. Ours keeps its
    /// candidates sorted and need not look through anything.
    pub fn window(self) -> usize {
        if self == Rule::Thalweg { usize::MAX } else { 2500 }
    }

    /// The source counts files, ours bytes.
    pub(super) fn score(self, bytes: u64) -> u64 {
        if self == Rule::Thalweg { bytes } else { 1 }
    }

    pub(super) fn is_ours(self) -> bool {
        self == Rule::Thalweg
    }
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Rule::ALL.into_iter().find(|rule| rule.name() == name);
        found.ok_or_else(|| format!("no policy is named {name}: fa, mch, mcu, gcc or thalweg"))
    }
}
