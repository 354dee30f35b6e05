//! What became of the files that a recipe made.

use catalog::FileEntry;
use format::RecipeOutput;

use super::DroppedContent;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputState {
    Kept,
    Dropped,
    /// Removed, or another file by now.
    Gone,
}

impl OutputState {
    /// Returns the state of an output whose path has this now.
    pub fn of(output: &RecipeOutput, entry: Option<&FileEntry>) -> Self {
        match entry.and_then(|entry| entry.head.as_ref()) {
            Some(head) if (head.record.content, head.record.size) != (Some(output.digest), output.bytes) => {
                OutputState::Gone
            }
            Some(head) if DroppedContent::of(&head.record).is_some() => OutputState::Dropped,
            Some(_) => OutputState::Kept,
            None => OutputState::Gone,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            OutputState::Kept => "kept",
            OutputState::Dropped => "dropped",
            OutputState::Gone => "gone",
        }
    }
}
