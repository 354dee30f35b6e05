//! Recipes against a plain map: whatever is recorded, dropped, restored and removed, and whenever a collection comes, each
//! file reads as it was made, or can be made again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use format::{
    Attributes, Change, FileTime, Page, RecipeInput, RecipeOutput, RecipeProgram, RecipeRecord, Root, StorePath,
    VersionRecord,
};
use random::Random;
use repository::{
    CommitEntry, ComputeInput, ComputePlan, Damage, DropPlan, DropRequest, DroppedContent, Error, FileWriter,
    InputState, RecipeDraft, Repository, RestoredFile, WriteMode, collect, recipe_needs, verify,
};
use store::ClaimOwner;

use crate::files::put;
use crate::fixture::{CLAIM_OWNER, World, content, path, with_seeds};

/// What the commands of these tests do: each output is another function of all inputs.
fn made(inputs: &[Vec<u8>], output: usize) -> Vec<u8> {
    let mut made = vec![output as u8; 3000];
    inputs.iter().for_each(|input| made.extend(input.iter().rev().map(|byte| byte ^ output as u8)));
    made
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    RecipeRecord::digest(bytes)
}

struct Claims(u64);

impl Claims {
    fn next(&mut self) -> ClaimOwner {
        self.0 += 1;
        ClaimOwner(self.0)
    }
}

fn stored(process: &Arc<Repository>, claims: &mut Claims, bytes: &[u8]) -> repository::Draft {
    let mut writer = FileWriter::new(process.clone(), claims.next());
    bytes.chunks(700).for_each(|piece| writer.write(piece).unwrap());
    writer.finish().unwrap()
}

/// Records a command that reads and makes these files; returns what it made.
fn record(
    process: &Arc<Repository>,
    claims: &mut Claims,
    inputs: &[&str],
    outputs: &[&str],
    count: u64,
) -> Vec<Vec<u8>> {
    let (mut contents, mut versions, mut described) = (Vec::new(), Vec::new(), Vec::new());
    for name in inputs {
        let entry = process.catalog().entry(&path(name)).unwrap().unwrap();
        let (head, bytes) = (entry.head.unwrap(), content(process, name));
        let (file, number, digest) = (entry.file, head.number, digest(&bytes));
        let (name, path) = (name.as_bytes().to_vec(), path(name));
        described.push(RecipeInput { name, path, file, number, bytes: bytes.len() as u64, digest });
        versions.push(head.record);
        contents.push(bytes);
    }
    let made: Vec<Vec<u8>> = (0..outputs.len()).map(|output| made(&contents, output)).collect();
    let output = |(name, bytes): (&&str, &Vec<u8>)| RecipeOutput {
        name: name.as_bytes().to_vec(),
        path: path(name),
        bytes: bytes.len() as u64,
        digest: digest(bytes),
        tolerance: None,
    };
    let program =
        RecipeProgram { name: b"p".to_vec(), digest: digest(b"program"), bytes: 7, mode: 0o755, is_kept: true };
    let record = RecipeRecord {
        arguments: vec![b"./p".to_vec()],
        programs: vec![program],
        inputs: described,
        outputs: outputs.iter().zip(&made).map(output).collect(),
        duration_ns: 1000 + count,
        recorded: FileTime::from_ns(count as i64),
        ..RecipeRecord::default()
    };
    let entries: Vec<CommitEntry> = outputs
        .iter()
        .zip(&made)
        .map(|(name, bytes)| {
            let (path, draft) = (path(name), stored(process, claims, bytes));
            CommitEntry { path, attributes: Attributes::default(), mode: WriteMode::Replace, draft }
        })
        .collect();
    let draft = RecipeDraft { record, programs: vec![b"program".to_vec()], inputs: versions };
    process.record_recipe(claims.next(), &draft, &entries).unwrap();
    made
}

fn plan_drop(process: &Repository, names: &[&str]) -> repository::Result<DropPlan> {
    let paths: Vec<StorePath> = names.iter().map(|name| path(name)).collect();
    let paths: Vec<_> = paths.into_iter().map(|path| (path, DropRequest::Required)).collect();
    process.plan_drop(&paths, &mut |_| None)
}

fn drop_files(process: &Repository, names: &[&str]) -> repository::Result<()> {
    process.drop_files(CLAIM_OWNER, &plan_drop(process, names)?)
}

fn dropped(process: &Repository, name: &str) -> DroppedContent {
    let head = process.catalog().entry(&path(name)).unwrap().unwrap().head.unwrap();
    DroppedContent::of(&head.record).unwrap_or_else(|| panic!("{name} is not dropped"))
}

/// Runs a plan; returns what it makes for its targets, and checks each output against its digest.
fn computed(process: &Repository, plan: &ComputePlan) -> Vec<Vec<u8>> {
    let mut outputs: Vec<Vec<Vec<u8>>> = Vec::new();
    for step in &plan.steps {
        let inputs = step.recipe.record.inputs.iter().zip(&step.inputs).map(|(input, from)| match from {
            ComputeInput::Kept(start) => read(process, step.recipe.version(), *start, input.bytes),
            ComputeInput::Stored(version) => read(process, version, 0, input.bytes),
            ComputeInput::Made(target) => outputs[target.step][target.output].clone(),
        });
        let inputs: Vec<Vec<u8>> = inputs.collect();
        let made: Vec<Vec<u8>> = (0..step.recipe.record.outputs.len()).map(|output| made(&inputs, output)).collect();
        for (output, bytes) in step.recipe.record.outputs.iter().zip(&made) {
            assert_eq!(digest(bytes), output.digest, "{}", output.path);
        }
        let start = step.recipe.program_starts()[0].unwrap();
        assert_eq!(read(process, step.recipe.version(), start, 7), b"program");
        outputs.push(made);
    }
    plan.targets.iter().map(|target| outputs[target.step][target.output].clone()).collect()
}

fn read(process: &Repository, version: &VersionRecord, start: u64, bytes: u64) -> Vec<u8> {
    let mut read = vec![0xee; bytes as usize];
    assert_eq!(process.version_reader(version).read_at(start, &mut read).unwrap(), read.len());
    read
}

fn restore(process: &Arc<Repository>, claims: &mut Claims, name: &str) {
    let plan = process.plan_compute(&[dropped(process, name)]).unwrap();
    let made = computed(process, &plan).remove(0);
    let (path, draft) = (path(name), stored(process, claims, &made));
    let entry = process.catalog().entry(&path).unwrap().unwrap();
    process.restore_files(CLAIM_OWNER, &[RestoredFile { path, entry, draft }]).unwrap();
}

fn read_error(process: &Repository, name: &str) -> Error {
    let head = process.catalog().entry(&path(name)).unwrap().unwrap().head.unwrap();
    process.version_reader(&head.record).read_at(0, &mut [0; 8]).unwrap_err()
}

#[test]
fn whatever_is_recorded_dropped_and_restored_reads_as_it_was_made() {
    with_seeds(25, |seed| {
        let (mut random, world) = (Random::new(seed), World::new());
        let (mut process, mut claims) = (world.process(), Claims(1000));
        let (mut files, mut gone) = (BTreeMap::<String, Vec<u8>>::new(), BTreeSet::<String>::new());
        for step in 1..40_u64 {
            let some = |random: &mut Random, names: &BTreeSet<String>| -> Option<String> {
                (!names.is_empty())
                    .then(|| names.iter().nth(random.below(names.len() as u64) as usize).unwrap().clone())
            };
            let kept: BTreeSet<String> = files.keys().filter(|name| !gone.contains(*name)).cloned().collect();
            match random.below(9) {
                0..=1 => {
                    let (name, count) =
                        (format!("f{}", random.below(8)), [1, 700, 20_000, 90_000][random.below(4) as usize]);
                    let bytes = random.mixed_bytes(count);
                    put(&process, &[(&name, &bytes)]);
                    gone.remove(&name);
                    files.insert(name, bytes);
                }
                2..=3 => {
                    let inputs: BTreeSet<String> =
                        (0..random.below(3)).filter_map(|_| some(&mut random, &kept)).collect();
                    let outputs: BTreeSet<String> =
                        (0..=random.below(2)).map(|_| format!("f{}", random.below(8))).collect();
                    let outputs: Vec<&str> =
                        outputs.iter().filter(|name| !inputs.contains(*name)).map(String::as_str).collect();
                    if outputs.is_empty() {
                        continue;
                    }
                    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
                    let made = record(&process, &mut claims, &inputs, &outputs, step);
                    for (name, bytes) in outputs.into_iter().zip(made) {
                        gone.remove(name);
                        files.insert(name.to_owned(), bytes);
                    }
                }
                4..=5 => {
                    let Some(name) = some(&mut random, &kept) else { continue };
                    match drop_files(&process, &[&name]) {
                        Ok(()) => drop(gone.insert(name)),
                        Err(Error::Refused { .. }) => {}
                        Err(other) => panic!("{other}"),
                    }
                }
                6 => {
                    let Some(name) = some(&mut random, &gone) else { continue };
                    restore(&process, &mut claims, &name);
                    gone.remove(&name);
                }
                7 => {
                    let found = process.recipes().unwrap().readable;
                    let Some(recipe) = found.get(random.below(4) as usize) else { continue };
                    let is_needed = recipe_needs(&process).unwrap().contains_key(&recipe.digest);
                    let removed = process.remove_recipes(CLAIM_OWNER, std::slice::from_ref(&recipe.id));
                    assert_eq!(removed.is_err(), is_needed, "recipe {}", recipe.id);
                }
                _ => {
                    process.close().unwrap();
                    process = world.process();
                    collect(&process).unwrap();
                    world.pass_leases();
                    process = world.process();
                    collect(&process).unwrap();
                }
            }
            for (name, bytes) in &files {
                match gone.contains(name) {
                    false => assert!(content(&process, name) == *bytes, "{name} reads as another file"),
                    true => {
                        assert!(matches!(read_error(&process, name), Error::Dropped(_)), "{name}");
                        let plan = process.plan_compute(&[dropped(&process, name)]).unwrap();
                        assert!(computed(&process, &plan)[0] == *bytes, "{name} is made as another file");
                    }
                }
            }
        }
        let verified = verify(&process, true, &mut |_| ()).unwrap();
        assert_eq!(verified.damages, Vec::<Damage>::new());
        let listed: BTreeSet<String> = verified.dropped.iter().map(|version| version.path.to_string()).collect();
        assert!(gone.is_subset(&listed), "{gone:?} {listed:?}");
    });
}

#[test]
fn inputs_outlive_their_names_as_long_as_the_recipe_is_there() {
    let world = World::new();
    let (process, mut claims) = (world.process(), Claims(1000));
    let bytes = Random::new(5).bytes(200_000);
    put(&process, &[("in", &bytes)]);
    record(&process, &mut claims, &["in"], &["out"], 1);
    let remove = format::Change::Remove { path: path("in"), recursive: false };
    process.commit(CLAIM_OWNER, vec![remove], BTreeSet::new(), Vec::new()).unwrap();
    drop_files(&process, &["out"]).unwrap();
    process.close().unwrap();
    let process = world.process();
    collect(&process).unwrap();
    restore(&process, &mut claims, "out");
    assert_eq!(content(&process, "out"), made(&[bytes], 0));
}

#[test]
fn a_chain_frees_what_stands_between_and_runs_each_command_once() {
    let world = World::new();
    let (process, mut claims) = (world.process(), Claims(1000));
    put(&process, &[("a", &Random::new(6).bytes(300_000))]);
    record(&process, &mut claims, &["a"], &["b"], 1);
    record(&process, &mut claims, &["b"], &["c"], 2);
    record(&process, &mut claims, &["b", "c"], &["d", "e"], 3);
    let want = content(&process, "e");
    drop_files(&process, &["b", "c", "d", "e"]).unwrap();
    process.close().unwrap();
    let process = world.process();
    let before = world.catalog_bytes();
    collect(&process).unwrap();
    world.pass_leases();
    collect(&world.process()).unwrap();
    assert!(world.catalog_bytes() + 600_000 < before, "{} of {before} are left", world.catalog_bytes());
    let process = world.process();
    let plan = process.plan_compute(&[dropped(&process, "e"), dropped(&process, "d"), dropped(&process, "c")]).unwrap();
    let commands: Vec<String> = plan.steps.iter().map(|step| step.recipe.record.outputs[0].path.to_string()).collect();
    assert_eq!(commands, ["b", "c", "d"]);
    assert!(computed(&process, &plan)[0] == want);
}

#[test]
fn a_file_that_would_need_itself_is_not_dropped() {
    let world = World::new();
    let (process, mut claims) = (world.process(), Claims(1000));
    put(&process, &[("a", &Random::new(7).bytes(50_000))]);
    record(&process, &mut claims, &["a"], &["b"], 1);
    // Another command makes of the result what the first one read.
    let (a, b) = (content(&process, "a"), content(&process, "b"));
    assert_ne!(a, b);
    let entry = process.catalog().entry(&path("b")).unwrap().unwrap();
    let head = entry.head.unwrap();
    let input = RecipeInput {
        name: b"b".to_vec(),
        path: path("b"),
        file: entry.file,
        number: head.number,
        bytes: b.len() as u64,
        digest: digest(&b),
    };
    let output = RecipeOutput {
        name: b"a".to_vec(),
        path: path("a"),
        bytes: a.len() as u64,
        digest: digest(&a),
        tolerance: None,
    };
    let record = RecipeRecord {
        arguments: vec![b"back".to_vec()],
        inputs: vec![input],
        outputs: vec![output],
        ..RecipeRecord::default()
    };
    let draft = RecipeDraft { record, programs: Vec::new(), inputs: vec![head.record] };
    process.record_recipe(claims.next(), &draft, &[]).unwrap();
    let refused = plan_drop(&process, &["a", "b"]).map(drop).unwrap_err();
    assert!(refused.to_string().contains("recipes would need each other"), "{refused}");
    drop_files(&process, &["a"]).unwrap();
    let refused = drop_files(&process, &["b"]).unwrap_err();
    assert!(refused.to_string().contains("recipes would need each other"), "{refused}");
    assert_eq!(content(&process, "b"), b);
}

#[test]
fn a_drop_of_a_file_that_changed_meanwhile_is_refused() {
    let world = World::new();
    let (process, mut claims) = (world.process(), Claims(1000));
    record(&process, &mut claims, &[], &["out"], 1);
    let plan = plan_drop(&process, &["out"]).unwrap();
    put(&process, &[("out", b"another")]);
    let refused = process.drop_files(CLAIM_OWNER, &plan).unwrap_err();
    assert!(matches!(refused, Error::Catalog(catalog::Error::HeadMoved { .. })), "{refused}");
    assert_eq!(content(&process, "out"), b"another");
    let refused = plan_drop(&process, &["out"]).map(drop).unwrap_err();
    assert!(refused.to_string().contains("no recipe made just this version"), "{refused}");
}

#[test]
fn a_drop_whose_recipe_was_removed_or_lost_an_input_meanwhile_is_refused() {
    let world = World::new();
    let (process, mut claims) = (world.process(), Claims(1000));
    record(&process, &mut claims, &[], &["one"], 1);
    record(&process, &mut claims, &["one"], &["two"], 2);
    let plan = plan_drop(&process, &["two"]).unwrap();
    let id = process.recipes().unwrap().readable[1].id.clone();
    process.remove_recipes(CLAIM_OWNER, &[id]).unwrap();
    let refused = process.drop_files(CLAIM_OWNER, &plan).unwrap_err();
    assert!(matches!(refused, Error::Catalog(_)), "{refused}");
    content(&process, "two");

    record(&process, &mut claims, &["one"], &["two"], 3);
    let plans = ["one", "two"].map(|name| plan_drop(&process, &[name]).unwrap());
    process.drop_files(CLAIM_OWNER, &plans[0]).unwrap();
    let refused = process.drop_files(CLAIM_OWNER, &plans[1]).unwrap_err();
    assert!(matches!(refused, Error::Catalog(catalog::Error::HeadMoved { .. })), "{refused}");
    drop_files(&process, &["two"]).unwrap();
}

#[test]
fn a_recipe_whose_bytes_are_others_is_named_and_stops_no_other() {
    let world = World::new();
    let (process, mut claims) = (world.process(), Claims(1000));
    put(&process, &[("in", b"input")]);
    record(&process, &mut claims, &[], &["one"], 1);
    record(&process, &mut claims, &["in"], &["other"], 2);
    let recipe = process.recipes().unwrap().readable.remove(0);
    let entry = process.catalog().entry(&recipe.path()).unwrap().unwrap();
    let draft = stored(&process, &mut claims, &vec![b'x'; recipe.version().size as usize]);
    let forged = CommitEntry { path: path("forged"), attributes: entry.attributes, mode: WriteMode::Replace, draft };
    process.name(CLAIM_OWNER, &[forged]).unwrap();
    // As another program may: this one refuses to write there.
    let rename = Change::Rename { from: path("forged"), to: recipe.path() };
    process.commit(CLAIM_OWNER, vec![rename], Default::default(), Vec::new()).unwrap();
    let found = process.recipes().unwrap();
    assert_eq!((found.readable.len(), found.unreadable.len()), (1, 1));
    assert_eq!(found.unreadable[0].id, recipe.id);
    assert_eq!(verify(&process, false, &mut |_| ()).unwrap().damages.len(), 1);
    drop_files(&process, &["other"]).unwrap();
    let refused = drop_files(&process, &["one"]).unwrap_err();
    assert!(refused.to_string().contains("no recipe"), "{refused}");
}

#[test]
fn manifests_that_name_recipes_wrongly_are_errors() {
    let world = World::new();
    let (process, mut claims) = (world.process(), Claims(1000));
    record(&process, &mut claims, &[], &["out"], 1);
    let recipe = process.recipes().unwrap().readable.remove(0);
    assert!(recipe.inputs.iter().all(|input| matches!(input, InputState::Kept(_))));
    let missing = DroppedContent { recipe: [9; 32], output: 0 };
    let beyond = DroppedContent { recipe: recipe.digest, output: 1 };
    for (content, why) in [(missing, "no such recipe"), (beyond, "no output 1")] {
        let refused = process.plan_compute(&[content]).map(drop).unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
    }
    let kind = format::EntryKind::Dropped { output: 0, recipe: [9; 32] };
    let root = Root::Inline(Page { level: 0, entries: vec![format::Entry { length: 5, kind }] }.encode());
    let version = VersionRecord { root, size: 5, content: None };
    let change = format::Change::Write { path: path("f"), attributes: Attributes::default(), version, base: None };
    process.commit(CLAIM_OWNER, vec![change], BTreeSet::new(), Vec::new()).unwrap();
    assert!(read_error(&process, "f").to_string().contains("no recipe 0909090909090909"));
    assert_eq!(verify(&process, true, &mut |_| ()).unwrap().damages.len(), 1);
}
