//! Containers as files: writing parts, reading them back, and the index of their contents.
//!
//! A part is trusted when its checksums match. A footer is written only after everything before it was synced: a
//! container that has one is durable as a whole.

mod index;
mod read_ahead;
mod reader;
mod slots;
mod writer;

pub use index::{BlockPlan, BlockSpot, ContainerIndex, Damage, PartIndex};
pub use reader::{foreign_header, read_blocks, read_index, read_index_past_header, read_outline, refresh_index};
pub use writer::{PartBuilder, footer};

use format::{ContainerId, TableEntry};

/// The folder containers lie in, below the store's own.
pub const FOLDER: &str = "containers";

/// Returns `containers/<low byte>/<number>.twc`: spread over 256 folders.
pub fn file_name(container: ContainerId) -> String {
    format!("{FOLDER}/{:02x}/{container}.twc", container.0 & 0xff)
}

/// Returns the number in a file name; none when the name is not one of ours.
pub fn number_of(name: &str) -> Option<ContainerId> {
    let digits = name.rsplit('/').next()?.strip_suffix(".twc")?;
    let container = ContainerId(u64::from_str_radix(digits, 16).ok()?);
    (container.0 <= TableEntry::MAX_CONTAINER && file_name(container) == name).then_some(container)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_numbers_and_strangers_do_not() {
        let container = ContainerId(0x1234);
        assert_eq!(file_name(container), "containers/34/0000000000001234.twc");
        assert_eq!(number_of(&file_name(container)), Some(container));
        for stranger in ["containers/35/0000000000001234.twc", "containers/34/1234.twc", "containers/x", "a.twc"] {
            assert_eq!(number_of(stranger), None, "{stranger}");
        }
        assert_eq!(number_of("containers/ff/ffffffffffffffff.twc"), None);
    }
}
