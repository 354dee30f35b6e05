//! Dropping files that recipes make again: which recipe makes each, and the one transaction that drops them.

use std::collections::{BTreeSet, HashMap, HashSet};

use catalog::FileEntry;
use format::{Change, ErrorCode, FileId, FileTime, FileTimes, Root, StorePath, VersionRecord, recipe_id};
use store::ClaimOwner;

use super::order::{OrderRefusal, in_order};
use super::recording::times_of;
use super::{DroppedContent, InputState, Recipe};
use crate::tree::{Extents, splice};
use crate::{Error, Repository, Result};

/// A content: its digest and length.
type Content = ([u8; 32], u64);

const DAMAGED: &str = "an input or program that it keeps is damaged; `thalweg verify --data` names the damage, and a put of the \
                       same file mends it";

/// Files that can be dropped, and how.
pub struct DropPlan {
    pub files: Vec<DroppedFile>,
    /// Those that cannot be dropped and need not be, with the reason.
    pub left: Vec<Error>,
    recipes: Vec<Recipe>,
    /// What takes the place of inputs.
    contents: HashMap<Content, DroppedContent>,
    /// Recipes that the files are made again by.
    relied_on: HashSet<[u8; 32]>,
}

/// What to do where a file cannot be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropRequest {
    /// Drop nothing.
    Required,
    /// Leave it.
    IfPossible,
}

/// A file that is to be dropped.
pub struct DroppedFile {
    pub path: StorePath,
    pub recipe_id: String,
    pub bytes: u64,
    /// Snapshots that have the same content, and keep it.
    pub snapshots: Vec<String>,
    entry: FileEntry,
    content: DroppedContent,
    /// Numbers of the file's versions with this content.
    versions: Vec<u64>,
}

impl DropPlan {
    /// Returns what is to be made again, of each file.
    pub fn contents(&self) -> Vec<DroppedContent> {
        self.files.iter().map(|file| file.content).collect()
    }
}

/// The recipes of a store, and what was decided so far.
struct Planner<'a> {
    recipes: &'a [Recipe],
    by_digest: HashMap<[u8; 32], &'a Recipe>,
    makers: HashMap<Content, Vec<(&'a Recipe, u32)>>,
    contents: HashMap<Content, DroppedContent>,
    relied_on: HashSet<[u8; 32]>,
    /// Why recipes cannot be run, as far as asked.
    obstacles: HashMap<[u8; 32], Option<String>>,
    obstacle: &'a mut dyn FnMut(&Recipe) -> Option<String>,
}

impl Repository {
    /// Plans to drop these files; an error where one of them that must be dropped cannot. `obstacle` says why a recipe's
    /// programs cannot be run here, if they cannot.
    pub fn plan_drop(
        &self,
        paths: &[(StorePath, DropRequest)],
        obstacle: &mut dyn FnMut(&Recipe) -> Option<String>,
    ) -> Result<DropPlan> {
        let (recipes, damage) = (self.recipes()?.readable, self.known_damage()?);
        let mut obstacle = |recipe: &Recipe| match &damage {
            Some(damage) if damage.affects(self, &recipe.version.root) => Some(DAMAGED.to_owned()),
            _ if self.local.is_none() && recipe.is_marked_damaged() => Some(DAMAGED.to_owned()),
            _ => obstacle(recipe),
        };
        let mut planner = Planner::new(&recipes, &mut obstacle);
        let (mut files, mut left, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
        let open = self.files_of_sessions()?;
        for (path, need) in paths {
            let entry = self.catalog.entry(path)?.ok_or_else(|| catalog::Error::NotFound { path: path.clone() })?;
            let content = self.content_to_drop(path, &entry, &open);
            let chosen = content.and_then(|content| {
                let made_by = planner.choose(path, content).map_err(|why| refused(path, why))?;
                Ok((content, made_by))
            });
            match chosen {
                Ok((content, made_by)) if seen.insert(entry.file) => {
                    files.push(self.dropped_file(path, entry, content, made_by)?);
                }
                Ok(_) => {}
                Err(error @ Error::Refused { .. }) if *need == DropRequest::IfPossible => left.push(error),
                Err(error) => return Err(error),
            }
        }
        let (contents, relied_on) = (planner.exact_contents(), planner.relied_on);
        let mut plan = DropPlan { files, left, recipes, contents, relied_on };
        self.note_snapshots(&mut plan)?;
        Ok(plan)
    }

    /// Returns the files that sessions have, also those that were interrupted and may be recovered.
    fn files_of_sessions(&self) -> Result<HashSet<FileId>> {
        let mut files = HashSet::new();
        for session in self.catalog.path_sessions()? {
            files.extend(self.catalog.entry(&session.path)?.map(|entry| entry.file));
        }
        Ok(files)
    }

    /// Returns digest and length of a file that may be dropped.
    fn content_to_drop(&self, path: &StorePath, entry: &FileEntry, open: &HashSet<FileId>) -> Result<Content> {
        let head = entry.head.as_ref().ok_or_else(|| refused(path, "only regular files can be dropped".into()))?;
        if DroppedContent::of(&head.record).is_some() {
            return Err(refused(path, "it is dropped already".into()));
        }
        if head.record.size == 0 {
            return Err(refused(path, "it is empty: dropping it frees nothing".into()));
        }
        if open.contains(&entry.file) {
            let why = "a program has it open, or left it unfinished; drop it when the program has closed it, or `thalweg recover` \
                       has ended its session";
            return Err(refused(path, why.into()));
        }
        let digest = head.record.content.ok_or_else(|| {
            refused(path, "the store has no digest of it, since it was written in pieces; no recipe made it".into())
        })?;
        Ok((digest, head.record.size))
    }

    fn dropped_file(
        &self,
        path: &StorePath,
        entry: FileEntry,
        (digest, bytes): Content,
        content: DroppedContent,
    ) -> Result<DroppedFile> {
        let versions = self.catalog.versions(path)?.into_iter();
        let same = versions.filter(|version| version.record.size == bytes && version.record.content == Some(digest));
        let versions = same.map(|version| version.number).collect();
        let (path, recipe_id) = (path.clone(), recipe_id(&content.recipe));
        Ok(DroppedFile { path, recipe_id, bytes, snapshots: Vec::new(), entry, content, versions })
    }

    /// Finds the snapshots that keep what is to be dropped.
    fn note_snapshots(&self, plan: &mut DropPlan) -> Result<()> {
        for snapshot in self.snapshots()?.readable {
            let mut held = HashSet::new();
            let mut entries = snapshot.entries(self)?;
            while let Some((_, entry)) = entries.next(|_| true)? {
                let Some(head) = entry.head.filter(|head| DroppedContent::of(&head.record).is_none()) else { continue };
                held.extend(head.record.content.map(|digest| (digest, head.record.size)));
            }
            for file in &mut plan.files {
                let digest = file.entry.head.as_ref().and_then(|head| head.record.content);
                if digest.is_some_and(|digest| held.contains(&(digest, file.bytes))) {
                    file.snapshots.push(snapshot.id.clone());
                }
            }
        }
        Ok(())
    }

    /// Drops the files of a plan; all or none. Refused where one of them has changed since.
    pub fn drop_files(&self, claim_owner: ClaimOwner, plan: &DropPlan) -> Result<()> {
        let (mut changes, mut references) = (Vec::new(), BTreeSet::new());
        plan.files.iter().for_each(|file| changes.extend(file.changes()));
        for recipe in &plan.recipes {
            let edits = self.inputs_to_drop(recipe, &plan.contents)?;
            let has_edits = edits.iter().next().is_some();
            if !has_edits && !plan.relied_on.contains(&recipe.digest) {
                continue;
            }
            let (mut root, size) = (recipe.version.root.clone(), recipe.version.size);
            if has_edits {
                let built = splice(self, claim_owner, Some((&root, size)), &edits, size)?;
                references.extend(built.references);
                root = built.root;
            }
            self.with_references(&root, &mut references)?;
            changes.extend(recipe.written_again(root));
        }
        self.commit(claim_owner, changes, references, Vec::new())?;
        Ok(())
    }

    fn inputs_to_drop(&self, recipe: &Recipe, contents: &HashMap<Content, DroppedContent>) -> Result<Extents> {
        let mut edits = Extents::default();
        for (input, state) in recipe.record.inputs.iter().zip(&recipe.inputs) {
            let dropped = contents.get(&(input.digest, input.bytes));
            if let (InputState::Kept(start), Some(dropped)) = (state, dropped) {
                edits.lay(self, *start, dropped.entry(input.bytes))?;
            }
        }
        Ok(edits)
    }
}

impl Recipe {
    /// Whether the node that told of the recipe's file knows that it cannot be read whole.
    fn is_marked_damaged(&self) -> bool {
        self.attributes.times.changed == FileTime::default()
    }

    /// The changes that give the recipe's file this manifest, which may be the one that it has: then nobody has removed the recipe
    /// or dropped what it needs since it was read, or the commit is refused.
    fn written_again(&self, root: Root) -> [Change; 2] {
        let (path, times) = (self.path(), times_of(&self.record));
        let attributes = format::Attributes { times, ..self.attributes.clone() };
        let version = VersionRecord { root, size: self.version.size, content: None };
        let base = Some(Some(self.version_id()));
        let write = Change::Write { path: path.clone(), attributes, version, base };
        [write, Change::Forget { path, file: self.file, versions: vec![self.number] }]
    }
}

impl DroppedFile {
    /// The version that names the recipe, and the end of those with the data. Without a time of change, a `put` reads the
    /// file again.
    fn changes(&self) -> [Change; 2] {
        let (path, kept) = (self.path.clone(), self.entry.attributes.clone());
        let times = FileTimes { changed: FileTime::default(), ..kept.times };
        let digest = self.entry.head.as_ref().and_then(|head| head.record.content);
        let version = VersionRecord { root: self.content.root(self.bytes), size: self.bytes, content: digest };
        let base = Some(self.entry.head_id());
        let attributes = format::Attributes { times, ..kept };
        let write = Change::Write { path: path.clone(), attributes, version, base };
        [write, Change::Forget { path, file: self.entry.file, versions: self.versions.clone() }]
    }
}

impl<'a> Planner<'a> {
    fn new(recipes: &'a [Recipe], obstacle: &'a mut dyn FnMut(&Recipe) -> Option<String>) -> Self {
        let mut makers = HashMap::<Content, Vec<(&Recipe, u32)>>::new();
        // The newest first.
        for recipe in recipes.iter().rev() {
            for (number, output) in recipe.record.outputs.iter().enumerate() {
                makers.entry((output.digest, output.bytes)).or_default().push((recipe, number as u32));
            }
        }
        let by_digest = recipes.iter().map(|recipe| (recipe.digest, recipe)).collect();
        let (contents, relied_on, obstacles) = (HashMap::new(), HashSet::new(), HashMap::new());
        Planner { recipes, by_digest, makers, contents, relied_on, obstacles, obstacle }
    }

    /// Chooses what makes a file's content again, or says why nothing does: its own recipe, or else another with this result. A
    /// tolerance is for the file that it was stated for.
    fn choose(&mut self, path: &StorePath, content: Content) -> std::result::Result<DroppedContent, String> {
        let mut makers = self.makers.get(&content).cloned().unwrap_or_default();
        let is_own = |(recipe, output): &(&Recipe, u32)| recipe.record.outputs[*output as usize].path == *path;
        makers.retain(|maker| maker.0.record.outputs[maker.1 as usize].tolerance.is_none() || is_own(maker));
        makers.sort_by_key(|maker| !is_own(maker));
        let mut why = match self.recipes.is_empty() {
            true => "the store has no recipes; `thalweg record` runs a command and leaves one".to_owned(),
            false => "no recipe made just this version".to_owned(),
        };
        for (number, (recipe, output)) in makers.into_iter().enumerate() {
            let made_by = DroppedContent { recipe: recipe.digest, output };
            // What another file with this content relies on stays what takes the place of inputs, if it can.
            let before = self.contents.get(&content).copied();
            if !before.is_some_and(|before| self.is_exact(&before)) {
                self.contents.insert(content, made_by);
            }
            match self.is_computable(recipe) {
                Ok(()) => return Ok(made_by),
                Err(obstacle) if number == 0 => why = obstacle,
                Err(_) => {}
            }
            match before {
                Some(before) => self.contents.insert(content, before),
                None => self.contents.remove(&content),
            };
        }
        Err(why)
    }

    /// Whether all commands that the recipe needs can be run, one after the other.
    fn is_computable(&mut self, recipe: &Recipe) -> std::result::Result<(), String> {
        let ordered = in_order(&[recipe.digest], |digest| self.needs(digest));
        let ordered = ordered.map_err(|no_order| match no_order {
            OrderRefusal::Failed(why) => why,
            OrderRefusal::Cycle(cycle) => cycle_of(&cycle),
        })?;
        self.relied_on.extend(ordered);
        Ok(())
    }

    /// Returns what may take the place of inputs: contents that are made again bit for bit. Others would make other results of
    /// what is computed from them.
    fn exact_contents(&self) -> HashMap<Content, DroppedContent> {
        let exact = self.contents.iter().filter(|(_, dropped)| self.is_exact(dropped));
        exact.map(|(content, dropped)| (*content, *dropped)).collect()
    }

    fn is_exact(&self, dropped: &DroppedContent) -> bool {
        let output =
            self.by_digest.get(&dropped.recipe).and_then(|maker| maker.record.outputs.get(dropped.output as usize));
        output.is_some_and(|output| output.tolerance.is_none())
    }

    /// As [`Planner::is_exact`]; true where the recipe is gone, which is another obstacle.
    fn may_be_exact(&self, dropped: &DroppedContent) -> bool {
        !self.by_digest.contains_key(&dropped.recipe) || self.is_exact(dropped)
    }

    fn needs(&mut self, digest: [u8; 32]) -> std::result::Result<Vec<[u8; 32]>, String> {
        let Some(recipe) = self.by_digest.get(&digest).copied() else {
            return Err(format!("it needs recipe {}, which the store has no more", recipe_id(&digest)));
        };
        if let Some(what) = recipe.record.inputs_not_kept.first() {
            return Err(format!("recipe {} also needs what is not kept: {what}", recipe.id));
        }
        let obstacle = &mut self.obstacle;
        if let Some(why) = self.obstacles.entry(digest).or_insert_with(|| obstacle(recipe)) {
            return Err(format!("recipe {}: {why}", recipe.id));
        }
        let mut inputs = recipe.record.inputs.iter().zip(&recipe.inputs);
        let inexact =
            inputs.find(|(_, state)| matches!(state, InputState::Dropped(dropped) if !self.may_be_exact(dropped)));
        if let Some((input, _)) = inexact {
            return Err(format!("recipe {}: its input {} comes back within a tolerance alone", recipe.id, input.path));
        }
        let needed = recipe.record.inputs.iter().zip(&recipe.inputs).filter_map(|(input, state)| match state {
            InputState::Dropped(dropped) => Some(dropped.recipe),
            InputState::Kept(_) => {
                let dropped = self.contents.get(&(input.digest, input.bytes));
                dropped.filter(|dropped| self.is_exact(dropped)).map(|dropped| dropped.recipe)
            }
        });
        Ok(needed.collect())
    }
}

pub(super) fn cycle_of(cycle: &[[u8; 32]]) -> String {
    match cycle {
        [only] => {
            format!("recipe {} has an input with the same content: it would need its own output", recipe_id(only))
        }
        _ => {
            let ids: Vec<String> = cycle.iter().map(recipe_id).collect();
            format!("recipes would need each other: {} and again the first", ids.join(", "))
        }
    }
}

fn refused(path: &StorePath, why: String) -> Error {
    Error::Refused { code: ErrorCode::NotRecomputable, path: path.to_string(), why }
}
