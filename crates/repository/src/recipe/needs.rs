//! Which recipes are needed: by files that were dropped, and by other recipes' inputs.

use std::collections::{BTreeSet, HashMap};

use catalog::FileEntry;
use format::{Change, ContainerId, EntryKind, ErrorCode, StorePath};
use store::ClaimOwner;

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
    /// Removes these recipes. Refused for those that others than these need, and where one of them changes meanwhile: files are
    /// being dropped by it.
    pub fn remove_recipes(&self, claim_owner: ClaimOwner, ids: &[String]) -> Result<()> {
        let removed: Vec<StorePath> = ids.iter().map(|id| own_path(id)).collect();
        let (mut changes, mut references) = (Vec::new(), BTreeSet::new());
        for (id, path) in ids.iter().zip(&removed) {
            let Some(entry) = self.catalog.entry(path)?.filter(|_| is_recipe(path)) else {
                return Err(Error::Refused {
                    code: ErrorCode::NoSuchRecipe,
                    path: format!("recipe {id}"),
                    why: "the store has no such recipe".into(),
                });
            };
            changes.extend(self.written_as_found(path, entry, &mut references));
            changes.push(Change::Remove { path: path.clone(), recursive: false });
        }
        self.check_unneeded(ids, &removed)?;
        self.commit(claim_owner, changes, references, Vec::new()).map(drop)
    }

    /// A change that is refused unless the file is as it was found. None of one whose pages are lost: by such a recipe nothing is
    /// dropped.
    fn written_as_found(
        &self,
        path: &StorePath,
        entry: FileEntry,
        references: &mut BTreeSet<ContainerId>,
    ) -> Option<Change> {
        let base = Some(entry.head_id());
        let version = entry.head?.record;
        references.extend(self.references_of(&version.root).ok()?);
        Some(Change::Write { path: path.clone(), attributes: entry.attributes, version, base })
    }

    fn check_unneeded(&self, ids: &[String], removed: &[StorePath]) -> Result<()> {
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
        Ok(())
    }
}

fn named(path: &StorePath) -> String {
    match is_recipe(path) {
        true => format!("an input of recipe {}", String::from_utf8_lossy(path.name())),
        false => path.to_string(),
    }
}
