//! The repository against simple oracles: a map of bytes, a plain copy.

extern crate thalweg_repository as repository;

#[path = "repository/commits.rs"]
mod commits;
#[path = "repository/damage.rs"]
mod damage;
#[path = "repository/drafts.rs"]
mod drafts;
#[path = "repository/far_stores.rs"]
mod far_stores;
#[path = "repository/files.rs"]
mod files;
#[path = "repository/fixture.rs"]
mod fixture;
#[path = "repository/histories.rs"]
mod histories;
#[path = "repository/killed_writers.rs"]
mod killed_writers;
#[path = "repository/lying_stores.rs"]
mod lying_stores;
#[path = "repository/models.rs"]
mod models;
#[path = "repository/packing.rs"]
mod packing;
#[path = "repository/rebuilding.rs"]
mod rebuilding;
#[path = "repository/recipes.rs"]
mod recipes;
#[path = "repository/repacking.rs"]
mod repacking;
#[path = "repository/sessions.rs"]
mod sessions;
#[path = "repository/snapshots.rs"]
mod snapshots;
#[path = "repository/stripe_owner_histories.rs"]
mod stripe_owner_histories;
#[path = "repository/stripe_sets.rs"]
mod stripe_sets;
#[path = "repository/upstream.rs"]
mod upstream;
