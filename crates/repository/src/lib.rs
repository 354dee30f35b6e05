//! The operations of a store: write, read, list, commit, collect, verify, rebuild, and the sessions of paths.
//!
//! Reading order: [`Repository`] (the pair of engines), `dedup` (segments in), `tree` (manifests), `read` (segments
//! out), `commit` (the order of rule 4), then `session` (a node's part while a program writes), then the
//! administrator's verbs: `collect`, `verify`, `rebuild`.
//!
//! `Repository`'s methods stand in the file of their subject, beside the types they work on; `repository` has what all
//! share. [`StripeOwner`] has a second file, `checkpoint`: its only method that waits for the disk in steps.

mod admission;
mod agreement;
mod batches;
mod block_map;
mod blocks;
mod byte_order;
mod catalog_lock;
mod checked_runs;
mod collect;
mod commit;
mod comparison;
mod dedup;
mod deduplicate;
mod divergence;
mod draft;
mod encoded_blocks;
mod engines;
mod equal_content;
mod error;
mod known_runs;
mod lease;
mod list;
mod marks;
mod mismatch;
mod model;
mod offline;
mod pack;
mod read;
mod read_ahead;
mod rebuild;
mod recipe;
mod repack;
mod repair;
mod replacing;
mod repository;
mod reserve;
mod reserved;
mod scan;
mod session;
mod snapshot;
mod statistics;
mod tree;
mod unneeded;
mod upstream;
mod verify;

pub use batches::BatchThreads;
pub use collect::{CollectReport, collect};
pub use dedup::DedupMode;
pub use deduplicate::{DedupReport, DedupScope, deduplicate};
pub use draft::{CommitEntry, Draft, FileWriter, WriteMode};
pub use engines::{Access, create, open, read_settings};
pub use error::{Error, LostManifests, Result};
pub use lease::{EpochPin, LEASE_MS, Lease};
pub use list::list;
pub use model::{MODEL_FILE, ModelChange, write_model};
pub use pack::{BATCH_BYTES, Packed, Packer};
pub use read::{FileReader, Piece};
pub use rebuild::{RebuildReport, rebuild_catalog};
pub use recipe::{
    ComputeInput, ComputePlan, ComputeStep, ComputeTarget, DropPlan, DropRequest, Dropped, DroppedContent, DroppedFile,
    InputState, OutputState, Recipe, RecipeDirectory, RecipeDraft, RecipeNeeds, RecipeOrder, RecordedRecipe,
    RestoredFile, UnreadableRecipe, recipe_needs,
};
pub use repack::{Repack, RepackReport};
pub use repair::{KnownDamage, LostRange, RepairReport, repair};
pub use repository::{LocalEngines, Repository};
pub use reserved::{is_reserved, refuse_reserved};
pub use session::{
    Budget, Clock, DurableUpTo, PublishedVersion, Source, StripeOwner, StripeOwnerOptions, WriteOrigin,
    checkpointed_data, checkpointed_size, data_bytes, publish, recover, unfinished,
};
pub use snapshot::{
    DraftEntry, SnapshotDirectory, SnapshotDraft, SnapshotEntries, SnapshotOrigin, SnapshotReport, TreeSnapshot,
    UnfinishedList, UnreadableSnapshot, is_kept_file, is_snapshot, linked_name,
};
pub use statistics::{FileStatistics, StoreFigures, file_statistics, store_statistics};
pub use tree::{Builder, BuiltManifest};
pub use upstream::{Upstream, UpstreamFigures, open_near};
pub use verify::{Damage, DroppedVersion, VerifyReport, verify};
