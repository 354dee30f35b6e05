//! `thalweg verify`: checks everything, and makes table or catalog again from the containers.

use std::ffi::OsString;

use repository::{Access, Damage, DroppedVersion, RebuildReport, Repository, VerifyReport, rebuild_catalog, verify};
use serde_json::{Map, Value, json};

use crate::damages;
use crate::failure::Incomplete;
use crate::location::{StoreAddress, store_of_argument};
use crate::opening::directory;
use crate::output::Output;
use crate::shown;

/// Check containers and versions; rebuild table or catalog
#[derive(clap::Args)]
#[command(
    after_help = "Exits with 3 when something is damaged, and names it. A rebuilt catalog needs a store that no other process \
                        uses meanwhile; the old one is kept as catalog.sqlite.old.\n\n\
                        Example: thalweg verify /scratch/st --data"
)]
pub struct Arguments {
    /// The store's directory (default: $THALWEG_STORE)
    store: Option<OsString>,
    /// Also decode all content of all versions and compare it with its fingerprints
    #[arg(long)]
    data: bool,
    /// First make the fingerprint table again from the containers
    #[arg(long)]
    rebuild_table: bool,
    /// First make the catalog again from the journal the containers keep
    #[arg(long)]
    rebuild_catalog: bool,
    /// With --rebuild-catalog: also where the present catalog has names that a damaged journal has lost
    #[arg(long, requires = "rebuild_catalog")]
    force: bool,
}

pub fn execute(arguments: Arguments, output: &Output) -> anyhow::Result<()> {
    let store = store_of_argument(arguments.store.as_deref())?;
    let path = directory(&store, "verify")?;
    let rebuilt = if arguments.rebuild_catalog { Some(rebuild_catalog(path, arguments.force)?) } else { None };
    let access = if arguments.rebuild_table { Access::Write } else { Access::Inspect };
    let verified = match repository::open(path, access) {
        Err(repository::Error::Catalog(catalog::Error::Corrupt { why, .. })) => without_catalog(why),
        opened => verify_opened(&opened?, &arguments, output)?,
    };
    let lost = rebuilt.iter().flat_map(|rebuilt| &rebuilt.damages).filter(|damage| !verified.damages.contains(damage));
    let found: Vec<&Damage> = lost.chain(&verified.damages).collect();
    let dropped = |version: &DroppedVersion| {
        let (path, number) = (shown::path(&version.path), version.version);
        format!("{path} version {number}: dropped; recipe {} makes it again", version.recipe_id)
    };
    output.notes(&verified.dropped, dropped, |count| shown::count(count as u64, "dropped version"));
    damages::note(&found, output);
    output.document(&Value::Object(fields(&verified, rebuilt.as_ref())))?;
    lines(&verified, rebuilt.as_ref()).into_iter().try_for_each(|line| output.summary(line))?;
    judge(&store, &found, rebuilt.is_some())
}

/// The result for a catalog that is too damaged to be opened.
fn without_catalog(why: String) -> VerifyReport {
    VerifyReport { damages: vec![Damage::Catalog { path: None, why }], ..VerifyReport::default() }
}

fn verify_opened(repository: &Repository, arguments: &Arguments, output: &Output) -> anyhow::Result<VerifyReport> {
    if arguments.rebuild_table {
        repository.rebuild_table()?;
    }
    let progress = output.progress("verify");
    let verified = verify(repository, arguments.data, &mut |bytes| progress.add(bytes))?;
    progress.finish();
    match repository.close() {
        // A lease cannot be ended in a damaged catalog, whose damage is named.
        Err(_) if !verified.damages.is_empty() => {}
        closed => closed?,
    }
    Ok(verified)
}

fn judge(store: &StoreAddress, found: &[&Damage], is_rebuilt: bool) -> anyhow::Result<()> {
    if found.is_empty() {
        return Ok(());
    }
    let needs_nothing =
        |damage: &&Damage| matches!(damage, Damage::Container { .. } | Damage::Missing { .. } | Damage::Stray { .. });
    let is_of_whole_catalog = |damage: &&Damage| matches!(damage, Damage::Catalog { path: None, .. });
    let rest = match is_rebuilt {
        false if found.iter().all(needs_nothing) => {
            "all versions can be read: what is lost there is stored again elsewhere, or not needed; `thalweg collect` \
             puts whole containers in place of the damaged ones"
        }
        false if found.iter().any(is_of_whole_catalog) => {
            "data that such a catalog does not list was not checked: rebuild it with --rebuild-catalog, then verify again"
        }
        _ => {
            "everything not named above can be read; `thalweg repair` mends what copies and the catalog still have, and says \
             what stays lost"
        }
    };
    let damages = shown::count(found.len() as u64, "damage");
    Err(Incomplete(format!("{store}: {damages} found ({}); {rest}", damages::by_kind(found))).into())
}

fn fields(verified: &VerifyReport, rebuilt: Option<&RebuildReport>) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("containers".into(), verified.containers.into());
    fields.insert("segments".into(), verified.segments.into());
    fields.insert("stored_bytes".into(), verified.stored_bytes.into());
    fields.insert("versions".into(), verified.versions.into());
    fields.insert("data_bytes".into(), verified.data_bytes.into());
    let dropped = |version: &DroppedVersion| {
        let mut fields = shown::path_fields(version.path.as_bytes());
        fields.insert("version".into(), version.version.into());
        fields.insert("recipe".into(), version.recipe_id.clone().into());
        Value::Object(fields)
    };
    fields.insert("dropped".into(), verified.dropped.iter().map(dropped).collect());
    fields.insert("damages".into(), verified.damages.iter().map(damages::fields).collect());
    if let Some(RebuildReport { containers, transactions, damages }) = rebuilt {
        let damages: Vec<_> = damages.iter().map(damages::fields).collect();
        let rebuilt = json!({ "containers": containers, "transactions": transactions, "damages": damages });
        fields.insert("rebuilt_catalog".into(), rebuilt);
    }
    fields
}

fn lines(verified: &VerifyReport, rebuilt: Option<&RebuildReport>) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(rebuilt) = rebuilt {
        let transactions = shown::count(rebuilt.transactions, "transaction");
        let containers = shown::count(rebuilt.containers, "container");
        lines.push(format!("rebuilt the catalog from {transactions} in {containers}"));
    }
    let stored = shown::size(verified.stored_bytes);
    lines.push(format!(
        "checked {} ({stored}), {}, {}",
        shown::count(verified.containers, "container"),
        shown::count(verified.segments, "segment"),
        shown::count(verified.versions, "version")
    ));
    lines
}
