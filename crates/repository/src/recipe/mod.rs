//! Recipes: each is one file in a directory of the store's own, with the record of a command that made files of the store,
//! the program files that are kept of it, and the contents of its inputs, which its manifest shares with their own versions.
//!
//! A file that a recipe makes again can be dropped: its manifest then names the recipe instead of segments. So do those of
//! the recipes that have it as an input. No command is run here: the crate `recipe` does that.

mod drop;
mod dropped;
mod needs;
mod order;
mod output_state;
mod plan;
mod provided;
mod recording;
mod restoring;
mod stored;

use format::{RECIPE_DIRECTORY, StorePath};

use crate::{Repository, Result};

pub use self::drop::{DropPlan, DropRequest, DroppedFile};
pub use self::dropped::{Dropped, DroppedContent};
pub use self::needs::{RecipeNeeds, recipe_needs};
pub use self::output_state::OutputState;
pub use self::plan::{ComputeInput, ComputePlan, ComputeStep, ComputeTarget};
pub(crate) use self::provided::LocalContent;
pub use self::recording::{RecipeDraft, RecordedRecipe};
pub use self::restoring::RestoredFile;
pub use self::stored::{InputState, Recipe, RecipeDirectory, RecipeOrder, UnreadableRecipe};

/// Returns whether the path is in the directory of recipes.
pub(crate) fn is_own(path: &StorePath) -> bool {
    path.is_within(&directory())
}

/// Returns whether the path is that of a recipe's file.
pub(crate) fn is_recipe(path: &StorePath) -> bool {
    path.below(&directory()).is_some_and(|rest| !rest.is_empty() && !rest.contains(&b'/'))
}

/// Returns whether the store has ever had a recipe.
pub(crate) fn exist(repository: &Repository) -> Result<bool> {
    Ok(repository.catalog.entry(&directory())?.is_some())
}

fn directory() -> StorePath {
    StorePath::new(RECIPE_DIRECTORY).expect("a constant name")
}

fn own_path(id: &str) -> StorePath {
    directory().join(id.as_bytes()).expect("names of recipes are short")
}
