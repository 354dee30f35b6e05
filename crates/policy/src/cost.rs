//! What a system costs and how fast it is, with data reduced and without: the sources' own models.
//!
//! One file a source's idea, one function an equation, named after its paper and number. Symbols, units, and where a
//! source's sentence disagrees with its equation: docs/models.md, "Cost models". The golden tests beside the functions
//! hold every figure that the sources print.

pub mod codecs;
pub mod compression;
pub mod ddiha;
pub mod dedup_nodes;
pub mod dedup_table;
pub mod deduplication;
pub mod energy;
pub mod machine;
pub mod network;
pub mod procurement;
pub mod recommendation;
pub mod recomputation;
pub mod store_overhead;
pub mod system;
pub mod write_time;

#[cfg(test)]
mod printed {
    /// Asserts that a value is what a slide prints, whose last digit stands for `unit`.
    pub fn assert_printed(value: f64, printed: f64, unit: f64, what: &str) {
        // A value half-way may be rounded either way.
        assert!((value - printed).abs() <= unit * 0.5001, "{what}: {value} is not what the slide prints, {printed}");
    }
}
