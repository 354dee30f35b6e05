//! The recipes that a store has, read from its own directory. One that cannot be read stops none of the others.

use std::collections::HashMap;

use catalog::FileEntry;
use format::{
    Attributes, EntryKind, ErrorCode, FileId, MAX_RECIPE_BYTES, RECIPE_ATTRIBUTE, RecipeAttribute, RecipeRecord,
    StorePath, VersionId, VersionRecord, recipe_id,
};

use super::drop::cycle_of;
use super::order::{OrderRefusal, in_order};
use super::{DroppedContent, directory, own_path};
use crate::list::list_everything;
use crate::tree::entries_in;
use crate::{Error, Repository, Result};

/// A recipe of the store.
#[derive(Clone, Debug)]
pub struct Recipe {
    pub id: String,
    pub digest: [u8; 32],
    pub record: RecipeRecord,
    pub(super) attributes: Attributes,
    pub(super) file: FileId,
    pub(super) number: u64,
    /// Its file.
    pub(super) version: VersionRecord,
    record_bytes: u64,
    /// For each input, where its content is.
    pub inputs: Vec<InputState>,
}

/// Where a recipe's input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputState {
    /// In the recipe's file, from this byte on.
    Kept(u64),
    /// Another recipe makes it.
    Dropped(DroppedContent),
}

/// The contents of the directory of recipes.
#[derive(Default)]
pub struct RecipeDirectory {
    /// In the order in which they were recorded.
    pub readable: Vec<Recipe>,
    pub unreadable: Vec<UnreadableRecipe>,
}

/// A file that is no recipe of ours, or a damaged one, or one of a newer version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableRecipe {
    pub id: String,
    pub why: String,
}

impl std::fmt::Display for UnreadableRecipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let UnreadableRecipe { id, why } = self;
        write!(f, "recipe {id} cannot be read: {why}; `thalweg recipes STORE --remove '{id}'` drops it")
    }
}

/// Returns the facts that a recipe's file shows.
pub(super) fn attribute_of(attributes: &Attributes) -> std::result::Result<RecipeAttribute, String> {
    let found = attributes.extended.iter().find(|(name, _)| name == RECIPE_ATTRIBUTE);
    let (_, bytes) = found.ok_or("its facts are missing")?;
    RecipeAttribute::decode(bytes).map_err(|error| error.to_string())
}

impl Recipe {
    pub fn path(&self) -> StorePath {
        own_path(&self.id)
    }

    pub(super) fn version_id(&self) -> VersionId {
        VersionId { file: self.file, number: self.number }
    }

    /// Returns where each program's content begins in the recipe's file; none of those that are not kept.
    pub fn program_starts(&self) -> Vec<Option<u64>> {
        let mut start = self.record_bytes;
        let of_program = |program: &format::RecipeProgram| {
            program.is_kept.then(|| {
                start += program.bytes;
                start - program.bytes
            })
        };
        self.record.programs.iter().map(of_program).collect()
    }

    /// Returns the version of its file: what [`Recipe::program_starts`] and [`InputState::Kept`] count in.
    pub fn version(&self) -> &VersionRecord {
        &self.version
    }

    /// Returns the bytes of the file that are the store's own: all but the inputs.
    pub(crate) fn own_bytes(&self) -> u64 {
        self.version.size - self.record.inputs.iter().map(|input| input.bytes).sum::<u64>()
    }
}

/// Which recipes need which.
pub struct RecipeOrder<'a> {
    by_digest: HashMap<[u8; 32], &'a Recipe>,
}

impl RecipeDirectory {
    pub fn order(&self) -> RecipeOrder<'_> {
        RecipeOrder { by_digest: self.readable.iter().map(|recipe| (recipe.digest, recipe)).collect() }
    }
}

impl<'a> RecipeOrder<'a> {
    /// Returns the recipes whose commands make a recipe's outputs again, in order, or why they cannot be made.
    pub fn needed(&self, recipe: &Recipe) -> std::result::Result<Vec<&'a Recipe>, String> {
        let needs = |digest: [u8; 32]| {
            let recipe = self.by_digest.get(&digest).ok_or_else(|| format!("recipe {} is gone", recipe_id(&digest)))?;
            if let Some(what) = recipe.record.inputs_not_kept.first() {
                return Err(format!("{what} is not kept"));
            }
            let dropped = recipe.inputs.iter().filter_map(|input| match input {
                InputState::Dropped(content) => Some(content.recipe),
                InputState::Kept(_) => None,
            });
            Ok(dropped.collect())
        };
        let order = in_order(&[recipe.digest], needs).map_err(|no_order| match no_order {
            OrderRefusal::Failed(why) => why,
            OrderRefusal::Cycle(cycle) => cycle_of(&cycle),
        })?;
        Ok(order.iter().map(|digest| self.by_digest[digest]).collect())
    }
}

impl Repository {
    /// Returns all recipes.
    pub fn recipes(&self) -> Result<RecipeDirectory> {
        let mut found = RecipeDirectory::default();
        for (path, entry) in self.recipe_files()? {
            let id = String::from_utf8_lossy(path.name()).into_owned();
            match self.read_recipe(&id, entry)? {
                Ok(recipe) => found.readable.push(recipe),
                Err(why) => found.unreadable.push(UnreadableRecipe { id, why }),
            }
        }
        found.readable.sort_by_key(|recipe| recipe.file);
        Ok(found)
    }

    fn recipe_files(&self) -> Result<Vec<(StorePath, FileEntry)>> {
        let mut files = Vec::new();
        if !super::exist(self)? {
            return Ok(files);
        }
        list_everything(self.catalog(), &directory(), false, |listed| {
            files.extend(listed);
            Ok::<_, Error>(())
        })?;
        Ok(files)
    }

    /// Returns the recipe with this digest; none where there is no such one, and why it cannot be read.
    pub fn recipe(&self, digest: &[u8; 32]) -> Result<Option<std::result::Result<Recipe, String>>> {
        let id = recipe_id(digest);
        let Some(entry) = self.catalog.entry(&own_path(&id))? else { return Ok(None) };
        match self.read_recipe(&id, entry)? {
            Ok(recipe) if recipe.digest != *digest => Ok(None),
            read => Ok(Some(read)),
        }
    }

    /// Damage of the one recipe is a reason; other errors stay errors.
    pub(crate) fn read_recipe(&self, id: &str, entry: FileEntry) -> Result<std::result::Result<Recipe, String>> {
        match self.decode_recipe(id, entry) {
            Err(error)
                if crate::repair::is_damage(&error) || matches!(error, Error::Format(_) | Error::Refused { .. }) =>
            {
                Ok(Err(error.reason()))
            }
            read => read.map(Ok),
        }
    }

    fn decode_recipe(&self, id: &str, entry: FileEntry) -> Result<Recipe> {
        let refused = |why: &str| Error::Refused {
            code: ErrorCode::NoSuchRecipe,
            path: format!("recipe {id}"),
            why: why.to_owned(),
        };
        let head = entry.head.ok_or_else(|| refused("it is no regular file"))?;
        let attribute = attribute_of(&entry.attributes).map_err(|why| refused(&why))?;
        let (version, length) = (head.record, attribute.record_bytes);
        if length > MAX_RECIPE_BYTES || length > version.size || recipe_id(&attribute.digest) != id {
            return Err(refused("its facts are not its own"));
        }
        let mut bytes = vec![0; length as usize];
        self.reader(&version.root, version.size).read_at(0, &mut bytes)?;
        if RecipeRecord::digest(&bytes) != attribute.digest {
            return Err(refused("its record is not the one that its digest names"));
        }
        let record = RecipeRecord::decode(&bytes)?;
        if record.kept_bytes().and_then(|kept| kept.checked_add(length)) != Some(version.size) {
            return Err(refused("it is not as long as its record says"));
        }
        let inputs = self.input_states(&record, &version)?;
        let (id, digest, attributes) = (id.to_owned(), attribute.digest, entry.attributes);
        let (file, number, record_bytes) = (entry.file, head.number, length);
        Ok(Recipe { id, digest, record, attributes, file, number, version, record_bytes, inputs })
    }

    fn input_states(&self, record: &RecipeRecord, version: &VersionRecord) -> Result<Vec<InputState>> {
        let mut start = version.size - record.inputs.iter().map(|input| input.bytes).sum::<u64>();
        let mut states = Vec::new();
        for input in &record.inputs {
            let mut state = InputState::Kept(start);
            // An input is dropped as a whole: its first entry tells.
            entries_in(self, &version.root, start..start + input.bytes.min(1), &mut |_, entry| {
                if let EntryKind::Dropped { output, recipe } = entry.kind {
                    state = InputState::Dropped(DroppedContent { output, recipe });
                }
                Ok(())
            })?;
            states.push(state);
            start += input.bytes;
        }
        Ok(states)
    }
}
