//! The golden files of the layouts that stand alone: they read as the values written here, and these are written as
//! they are. `THALWEG_WRITE_GOLDEN=1` writes the files again: only when a layout changes on purpose, before v1 is
//! frozen. Then the decoder in Python, which knows `docs/format.md` and none of our code; then mutations.

extern crate thalweg_format as format;

use std::path::PathBuf;
use std::process::Command;

use format::{
    Attributes, CandidateEncoding, Change, ChunkerKind, CodecChoice, CodecId, ContainerId, ElementId, Entry, EntryKind,
    FileId, FileKind, FileTime, FileTimes, FilterId, Fingerprint, FingerprintKind, FloatType, JournalRecord, LinkKind,
    Model, ModelNode, ModelTree, Page, Reader, RecipeAttribute, RecipeInput, RecipeOutput, RecipeProgram, RecipeRecord,
    RecipeStatistics, RecipeTolerance, Root, Run, SegmentAddress, SessionId, Settings, SnapshotContent, SnapshotEntry,
    SnapshotRecord, StoreId, StorePath, VersionId, VersionRecord, Writer, page_digest, run_digest,
};

#[path = "../../../fuzz/src/layouts.rs"]
mod layouts;
#[path = "../../../fuzz/src/mutation.rs"]
mod mutation;

#[global_allocator]
static ALLOCATOR: mutation::Measured = mutation::Measured;

/// Lengths of the data segments: two stored as they are, two as LZ4, three as Zstandard.
const SEGMENT_BYTES: [usize; 7] = [1000, 2000, 1500, 2500, 2000, 2000, 2000];
/// The container of the other golden files, and the ordinals its pages have there.
const CONTAINER: ContainerId = ContainerId(1);
const LEAF: SegmentAddress = SegmentAddress { container: CONTAINER, ordinal: 7 };
const INTERIOR: SegmentAddress = SegmentAddress { container: CONTAINER, ordinal: 8 };
/// Decoders of small files: what they read, and room for vectors that grew.
const MAX_BYTES: usize = 256 << 10;

/// Returns the raw bytes of all data segments: noise, then text.
fn segments() -> Vec<u8> {
    let mut state = 1u64;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 56) as u8
    });
    let text =
        (0..).flat_map(|line: u32| format!("line {line}: the thalweg runs where the bed lies deepest\n").into_bytes());
    noise.take(3000).chain(text.take(10_000)).collect()
}

fn fingerprints() -> Vec<Fingerprint> {
    let (segments, mut at) = (segments(), 0);
    let named = SEGMENT_BYTES.map(|bytes| {
        at += bytes;
        Fingerprint(page_digest(&segments[at - bytes..at]))
    });
    assert_eq!(at, segments.len());
    named.to_vec()
}

/// Returns all kinds of content entries: a run, zeros, a run of which the beginning and the end are not used, a hole.
fn leaf() -> Page {
    let data = |first: u32, count: u32, skip, length| {
        let digest = run_digest(&fingerprints()[first as usize..(first + count) as usize]);
        Entry { length, kind: EntryKind::Data { run: Run { container: CONTAINER, first, count }, skip, digest } }
    };
    let zeros = Entry { length: 500, kind: EntryKind::Zero };
    let hole = Entry { length: 1 << 32, kind: EntryKind::Hole };
    Page { level: 0, entries: vec![data(0, 2, 0, 3000), zeros, data(2, 5, 100, 9850), hole] }
}

/// Returns a page with the leaf twice.
fn interior() -> Page {
    let child = Entry {
        length: leaf().length(),
        kind: EntryKind::Page { address: LEAF, digest: page_digest(&leaf().encode()) },
    };
    Page { level: 1, entries: vec![child, child] }
}

fn stored() -> Root {
    Root::Stored { address: INTERIOR, digest: page_digest(&interior().encode()) }
}

fn inline() -> Root {
    Root::Inline(Page { level: 0, entries: vec![Entry { length: 77, kind: EntryKind::Zero }] }.encode())
}

fn attributes() -> Attributes {
    Attributes {
        kind: FileKind::Regular,
        mode: 0o640,
        uid: 1000,
        gid: 100,
        times: FileTimes {
            modified: FileTime { seconds: 10_413_792_000, nanoseconds: 123_456_789 },
            changed: FileTime::from_ns(-1),
        },
        inode: 4711,
        target: Vec::new(),
        extended: vec![(b"user.a".to_vec(), b"1".to_vec()), (b"user.b".to_vec(), vec![0, 0xff])],
    }
}

fn snapshot() -> SnapshotRecord {
    SnapshotRecord {
        host: "n7".into(),
        sources: vec![(b"/home/run1".to_vec(), store_path("run1"))],
        tags: vec!["nightly".into()],
        listing_bytes: 300,
        names: 3,
        content_bytes: 4000,
        missing: 1,
    }
}

fn dropped() -> Page {
    Page { level: 0, entries: vec![Entry { length: 4000, kind: EntryKind::Dropped { output: 1, recipe: [7; 32] } }] }
}

fn recipe() -> RecipeRecord {
    let program = |name: &[u8], bytes, is_kept| RecipeProgram {
        name: name.to_vec(),
        digest: page_digest(name),
        bytes,
        mode: 0o755,
        is_kept,
    };
    let output = |name: &str, bytes, tolerance| RecipeOutput {
        name: name.into(),
        path: store_path(name),
        bytes,
        digest: page_digest(name.as_bytes()),
        tolerance,
    };
    let statistics = RecipeStatistics {
        values: 500,
        non_finite: 1,
        minimum: -1.5,
        maximum: 2.0,
        mean: 0.25,
        deviation: 0.5,
        means: vec![0.0, 0.5],
    };
    let tolerance = RecipeTolerance { relative: 1e-6, element: FloatType::F64, statistics };
    let input = RecipeInput {
        name: b"raw".to_vec(),
        path: store_path("run1/raw"),
        file: FileId(3),
        number: 2,
        bytes: 8000,
        digest: [5; 32],
    };
    RecipeRecord {
        arguments: vec![b"./mean".to_vec(), b"raw".to_vec()],
        programs: vec![program(b"/bin/sh", 125_688, false), program(b"mean", 512, true)],
        environment: vec![(b"LANG".to_vec(), b"C.UTF-8".to_vec()), (b"PATH".to_vec(), b"/usr/bin:/bin".to_vec())],
        inputs: vec![input],
        inputs_not_kept: vec!["the detector".into()],
        outputs: vec![output("run1/log", 77, None), output("run1/mean", 4000, Some(tolerance))],
        directories: vec![b"run1".to_vec()],
        ignores_others: true,
        duration_ns: 1_500_000_000,
        recorded: FileTime { seconds: 1_700_000_000, nanoseconds: 5 },
        host: "n7".into(),
        uid: 1000,
    }
}

fn listing() -> Vec<SnapshotEntry> {
    let times = FileTimes { changed: FileTime::default(), ..attributes().times };
    let regular = || Attributes { times, inode: 0, ..attributes() };
    let directory = Attributes { kind: FileKind::Directory, mode: 0o755, ..Attributes::default() };
    let content = |link_kind| {
        let digest = (link_kind == LinkKind::First).then_some([5; 32]);
        Some(SnapshotContent { size: 4000, digest, file: FileId(3), number: 2, link_kind })
    };
    let listed = |name, attributes, content| SnapshotEntry { path: store_path(name), attributes, content };
    vec![
        listed("run1", directory, None),
        listed("run1/one", regular(), content(LinkKind::First)),
        listed("run1/same", regular(), content(LinkKind::Again)),
    ]
}

fn store_path(text: &str) -> StorePath {
    StorePath::new(text.as_bytes()).expect("a path")
}

fn encoded(listing: &[SnapshotEntry]) -> Vec<u8> {
    let mut to = Writer::new();
    listing.iter().for_each(|entry| entry.write(&mut to));
    to.finish()
}

fn link_attributes() -> Attributes {
    Attributes { kind: FileKind::Symlink, mode: 0o777, target: b"../out.dat".to_vec(), ..Attributes::default() }
}

/// Returns a record with every kind of change.
fn record() -> JournalRecord {
    let path = |text: &str| StorePath::new(text.as_bytes()).expect("a plain path");
    let large = VersionRecord { root: stored(), size: interior().length(), content: None };
    let small = VersionRecord { root: inline(), size: 77, content: Some(page_digest(&[0; 77])) };
    let written = |name, version, base| Change::Write { path: path(name), attributes: attributes(), version, base };
    JournalRecord {
        sequence: 42,
        committed_ns: 1_700_000_001_000_000_000,
        session: SessionId(9),
        numbers: vec![(FileId(5), 1), (FileId(6), 3), (FileId(7), 1)],
        changes: vec![
            written("run1/out.dat", large, None),
            written("run1/small", small.clone(), Some(Some(VersionId { file: FileId(6), number: 2 }))),
            written("run1/new", small, Some(None)),
            Change::Make { path: path("run1/link"), attributes: link_attributes() },
            Change::Link { path: path("run1/twin"), target: path("run1/out.dat") },
            Change::Remove { path: path("old"), recursive: true },
            Change::Rename { from: path("run1/a"), to: path("run2/b") },
            Change::Attributes { path: path("run1/small"), attributes: attributes() },
            Change::Forget { path: path("run1/small"), file: FileId(6), versions: vec![1, 2] },
        ],
    }
}

fn settings() -> Settings {
    Settings {
        id: "00112233445566778899aabbccddeeff".parse::<StoreId>().expect("32 digits"),
        chunker: ChunkerKind::Fixed,
        segment_bytes: 4096,
        fingerprint: FingerprintKind::Blake3,
        codec: CodecChoice::Zstd(7),
        state: Some("/local/state".into()),
        shared_gid: None,
        upstream: None,
    }
}

/// Returns a model of three features, two candidates with two outputs each, a tree of three leaves and one of one.
fn model() -> Model {
    let lz4 = CandidateEncoding { codec: CodecId::Lz4, level: 0, filters: [0; 4], element: ElementId::U8, flags: 0 };
    let filters = [FilterId::Columns as u8, FilterId::Delta as u8, FilterId::Shuffle as u8, 0];
    let zstd = CandidateEncoding { codec: CodecId::Zstd, level: 3, filters, element: ElementId::F64, flags: 1 };
    let split = |feature, threshold| ModelNode::Split { feature, threshold };
    let nodes = vec![split(2, 0.75), ModelNode::Leaf, split(0, -1e6), ModelNode::Leaf, ModelNode::Leaf];
    let values = vec![0, -256, 512, 640, -1, 1, i16::MIN, i16::MAX, 100, 200, 300, 400];
    let trees = vec![
        ModelTree { nodes, values },
        ModelTree { nodes: vec![ModelNode::Leaf], values: vec![0, -128, 256, i16::MIN] },
    ];
    Model { features_version: 1, features: 3, candidates: vec![lz4, zstd], outputs: 4, trees }
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/v0")
}

/// Returns the golden file; `written` is what this program writes, and the file must equal it.
fn golden(name: &str, written: &[u8]) -> Vec<u8> {
    let path = folder().join(name);
    if std::env::var_os("THALWEG_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, written).expect("golden files can be written");
    }
    let kept = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(kept == written, "{name} is not what is written now");
    kept
}

#[test]
fn golden_files_read_as_the_values_they_were_made_of() {
    golden("segments.bin", &segments());
    for (name, page) in [("page-leaf.bin", leaf()), ("page-interior.bin", interior()), ("page-dropped.bin", dropped())]
    {
        assert_eq!(Page::decode(&golden(name, &page.encode())), Ok(page), "{name}");
    }
    for (name, root) in [("root-inline.bin", inline()), ("root-stored.bin", stored())] {
        assert_eq!(Root::decode(&golden(name, &root.encode())), Ok(root), "{name}");
    }
    for (name, value) in [("attributes.bin", attributes()), ("attributes-link.bin", link_attributes())] {
        assert_eq!(Attributes::decode(&golden(name, &value.encode())), Ok(value), "{name}");
    }
    assert_eq!(SnapshotRecord::decode(&golden("snapshot.bin", &snapshot().encode())), Ok(snapshot()));
    let bytes = golden("recipe.bin", &recipe().encode());
    assert_eq!(RecipeRecord::decode(&bytes), Ok(recipe()));
    let attribute = RecipeAttribute::of(&recipe(), &bytes);
    assert_eq!(RecipeAttribute::decode(&golden("recipe-attribute.bin", &attribute.encode())), Ok(attribute));
    let bytes = golden("listing.bin", &encoded(&listing()));
    let mut from = Reader::new("listing", &bytes);
    listing().into_iter().for_each(|entry| assert_eq!(SnapshotEntry::read(&mut from), Ok(entry)));
    from.end().expect("no more entries");
    assert_eq!(JournalRecord::decode(&golden("journal.bin", &record().encode())), Ok(record()));
    assert_eq!(Model::decode(&golden("model.bin", &model().encode().expect("a small model"))), Ok(model()));
    let text = golden("store.toml", settings().to_text().as_bytes());
    assert_eq!(Settings::from_text(std::str::from_utf8(&text).expect("TOML is text")), Ok(settings()));
}

/// Lines that `testdata/check.py` must print, besides finding nothing wrong.
const FOUND: [&str; 20] = [
    "store.toml: format 0, store 00112233445566778899aabbccddeeff",
    "container.twc: container 1, 3 parts and a footer, 5 blocks, 10 segments",
    "torn.twc: container 1, 2 parts and no footer, 3 blocks, 7 segments, then 1713 bytes that are no whole part",
    "moved.twc: container 2, 3 parts and a footer, 3 blocks, 5 segments",
    "labels (1, 2..4) (1, 7..9) (1, 9..10)",
    "page-leaf.bin: level 0, 4294980646 bytes: data 1:0+2 zero data 1:2+5 skip 100 hole",
    "page-interior.bin: level 1, 8589961292 bytes: page 1:7 page 1:7",
    "journal.bin: sequence 42, session 9, 3 numbers: write write write make link remove rename attributes forget",
    "attributes.bin: regular, mode 640, 2 extended",
    "snapshot.bin: host n7, 1 source, 1 tag, 3 names",
    "page-dropped.bin: level 0, 4000 bytes: output 1 of recipe 0707070707070707",
    "recipe.bin: ./mean raw: 2 programs, 1 kept, 2 variables, 1 input, 1 not kept, 2 outputs, 1 with a tolerance",
    "recipe-attribute.bin: 1.5 s, not recomputable",
    "listing.bin: run1 run1/one: version 2 of 3, first run1/same: version 2 of 3, again",
    "model.bin: 3 features of version 1; lz4, zstd:3 6,3,1 of element 11; 4 outputs, 2 trees of 3, 1 leaves",
    "table.run: 10 entries, all found by fences and filter",
    "table-runs.bin: 1 run: 0000000000000001",
    "blocks: 13 decoded",
    "chunks: none zlib",
    "frames: ",
];

#[test]
fn a_decoder_written_from_the_description_alone_finds_the_same() {
    let script = folder().join("../check.py");
    let output = Command::new("python3").arg(&script).output().expect("python3 is installed (./install test)");
    let (found, complaint) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}: {found}{complaint}", script.display());
    for line in FOUND {
        assert!(found.contains(line), "{line:?} is not in what {} found:\n{found}", script.display());
    }
}

#[test]
fn mutated_pages_are_refused_or_read() {
    mutation::fuzz(&["page-leaf.bin", "page-interior.bin"], mutation::INPUTS, MAX_BYTES, layouts::page);
}

#[test]
fn mutated_roots_are_refused_or_read() {
    mutation::fuzz(&["root-inline.bin", "root-stored.bin"], mutation::INPUTS, MAX_BYTES, layouts::root);
}

#[test]
fn mutated_journal_records_are_refused_or_read() {
    mutation::fuzz(&["journal.bin"], mutation::INPUTS, MAX_BYTES, layouts::journal_record);
}

#[test]
fn mutated_attributes_are_refused_or_read() {
    let names = ["attributes.bin", "attributes-link.bin"];
    mutation::fuzz(&names, mutation::INPUTS, MAX_BYTES, layouts::attributes);
}

#[test]
fn mutated_snapshots_are_refused_or_read() {
    mutation::fuzz(&["snapshot.bin"], mutation::INPUTS, MAX_BYTES, layouts::snapshot);
    mutation::fuzz(&["listing.bin"], mutation::INPUTS, MAX_BYTES, layouts::listing);
}

#[test]
fn mutated_recipes_are_refused_or_read() {
    mutation::fuzz(&["recipe.bin", "recipe-attribute.bin"], mutation::INPUTS, MAX_BYTES, layouts::recipe);
    mutation::fuzz(&["page-dropped.bin"], mutation::INPUTS, MAX_BYTES, layouts::page);
}

#[test]
fn mutated_models_are_refused_or_read() {
    mutation::fuzz(&["model.bin"], mutation::INPUTS, MAX_BYTES, layouts::model);
}

#[test]
fn mutated_settings_are_refused_or_read() {
    mutation::fuzz(&["store.toml"], mutation::INPUTS, MAX_BYTES, layouts::store_toml);
}
