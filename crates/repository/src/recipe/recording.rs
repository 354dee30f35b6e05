//! A recipe on its way into the store, with the files that its command made: one transaction.

use std::collections::BTreeSet;
use std::sync::Arc;

use format::{
    Attributes, Change, ContainerId, ErrorCode, FileTimes, RECIPE_ATTRIBUTE, RecipeAttribute, RecipeRecord, Root,
    VersionRecord, recipe_id,
};
use store::ClaimOwner;

use super::own_path;
use crate::tree::{Builder, append};
use crate::{CommitEntry, Error, FileWriter, Repository, Result};

/// What a recipe is made of.
pub struct RecipeDraft {
    pub record: RecipeRecord,
    /// Contents of the program files that are kept, in the order of the record.
    pub programs: Vec<Vec<u8>>,
    /// The versions that the inputs were, in the order of the record.
    pub inputs: Vec<VersionRecord>,
}

/// A recipe that was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedRecipe {
    pub id: String,
    pub digest: [u8; 32],
}

impl Repository {
    /// Gives the outputs their names, and keeps the recipe that makes them; all or nothing. `claim_owner` must be the
    /// caller's alone.
    pub fn record_recipe(
        self: &Arc<Self>,
        claim_owner: ClaimOwner,
        draft: &RecipeDraft,
        outputs: &[CommitEntry],
    ) -> Result<RecordedRecipe> {
        let encoded = draft.record.encode();
        if let Some(why) = draft.record.refusal() {
            return Err(Error::Refused {
                code: ErrorCode::InvalidName,
                path: "the recipe".into(),
                why: why.to_owned(),
            });
        }
        let attribute = RecipeAttribute::of(&draft.record, &encoded);
        let id = recipe_id(&attribute.digest);
        let (version, mut references) = self.recipe_file(claim_owner, draft, &encoded)?;
        let mut changes = Vec::new();
        for path in outputs.iter().map(|output| &output.path).chain([&own_path(&id)]) {
            for change in self.make_above(path, draft.record.recorded)? {
                if !changes.contains(&change) {
                    changes.push(change);
                }
            }
        }
        for output in outputs {
            changes.push(self.change_of(claim_owner, output, &mut references)?);
        }
        let times = times_of(&draft.record);
        let extended = vec![(RECIPE_ATTRIBUTE.to_vec(), attribute.encode())];
        let attributes = Attributes { mode: 0o600, times, extended, ..Attributes::default() };
        changes.push(Change::Write { path: own_path(&id), attributes, version, base: Some(None) });
        self.commit(claim_owner, changes, references, Vec::new())?;
        Ok(RecordedRecipe { id, digest: attribute.digest })
    }

    /// Stores record and programs, and puts the inputs behind them as they are.
    fn recipe_file(
        self: &Arc<Self>,
        claim_owner: ClaimOwner,
        draft: &RecipeDraft,
        encoded: &[u8],
    ) -> Result<(VersionRecord, BTreeSet<ContainerId>)> {
        let mut writer = FileWriter::new(self.clone(), claim_owner);
        writer.write(encoded)?;
        draft.programs.iter().try_for_each(|program| writer.write(program))?;
        let own = writer.finish()?;
        let mut builder = Builder::new(self, claim_owner);
        append(self, &own.version().root, own.version().size, &mut builder)?;
        for input in &draft.inputs {
            append(self, &input.root, input.size, &mut builder)?;
        }
        let built = builder.finish()?;
        let mut references = built.references;
        references.extend(self.references_of(&built.root)?);
        let version = VersionRecord { root: built.root, size: built.length, content: None };
        Ok((version, references))
    }

    /// Returns a manifest's containers, and those of its pages.
    pub(super) fn with_references(&self, root: &Root, references: &mut BTreeSet<ContainerId>) -> Result<()> {
        references.extend(self.references_of(root)?);
        Ok(())
    }
}

/// A recipe file's times, both that of the recording: a node takes the time of change from files that it knows to be
/// damaged, and that shows.
pub(super) fn times_of(record: &RecipeRecord) -> FileTimes {
    FileTimes { modified: record.recorded, changed: record.recorded }
}
