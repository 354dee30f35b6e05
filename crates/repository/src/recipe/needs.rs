//! Which recipes are needed: by files that were dropped, and by other recipes' inputs.

use std::collections::{BTreeSet, HashMap};

use format::{Change, EntryKind, ErrorCode, StorePath};

use super::{is_recipe, own_path};
use crate::repair::each_version;
use crate::tree::entries_in;
use crate::{Error, Repository, Result};

/// For each recipe that is needed, by its digest, the files that need it.
pub type RecipeNeeds = HashMap<[u8; 32], BTreeSet<StorePath>>;

/// Finds what needs which recipe. Looks at every version of every file.
pub fn recipe_needs(repository: &Repository) -> Result<RecipeNeeds> {
    let mut needs = RecipeNeeds::new();
    each_version(repository, &mut |path, version| {
        entries_in(repository, &version.record.root, 0..u64::MAX, &mut |_, entry| {
            if let EntryKind::Dropped { recipe, .. } = entry.kind {
                needs.entry(recipe).or_default().insert(path.clone());
            }
            Ok(())
        })
    })?;
    Ok(needs)
}

impl Repository {
    /// Returns the changes that remove these recipes. Refused for those that others than these need.
    pub fn without_recipes(&self, ids: &[String]) -> Result<Vec<Change>> {
        let removed: Vec<StorePath> = ids.iter().map(|id| own_path(id)).collect();
        for (id, path) in ids.iter().zip(&removed) {
            if !is_recipe(path) || self.catalog.entry(path)?.is_none() {
                return Err(Error::Refused {
                    code: ErrorCode::NoSuchRecipe,
                    path: format!("recipe {id}"),
                    why: "the store has no such recipe".into(),
                });
            }
        }
        for (digest, mut paths) in recipe_needs(self)? {
            let id = format::recipe_id(&digest);
            paths.retain(|path| !removed.contains(path));
            if let (true, Some(first)) = (ids.contains(&id), paths.first()) {
                let (more, first) = (paths.len() - 1, named(first));
                let more = if more == 0 { String::new() } else { format!(" and {more} more") };
                let why = format!(
                    "{first}{more} cannot be made again without it; `thalweg recompute` restores dropped files"
                );
                return Err(Error::Refused { code: ErrorCode::RecipeNeeded, path: format!("recipe {id}"), why });
            }
        }
        Ok(removed.into_iter().map(|path| Change::Remove { path, recursive: false }).collect())
    }
}

fn named(path: &StorePath) -> String {
    match is_recipe(path) {
        true => format!("an input of recipe {}", String::from_utf8_lossy(path.name())),
        false => path.to_string(),
    }
}
