//! `thalweg verify`: looks at everything, and makes table or catalog again from the containers.

use std::ffi::OsString;

use repository::{Access, Damage, RebuildReport, Repository, VerifyReport, rebuild_catalog, verify};
use serde_json::{Map, Value, json};

use crate::failure::Incomplete;
use crate::location::{StoreAddress, store_of_argument};
use crate::opening::directory;
use crate::output::Output;
use crate::shown;

/// Check containers and versions; rebuild table or catalog
#[derive(clap::Args)]
#[command(
    after_help = "Exits with 3 when something is damaged, and names it. A rebuilt catalog needs a store nobody else \
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
    lost.chain(&verified.damages).for_each(|damage| output.note(damage_line(damage)));
    output.document(&Value::Object(fields(&verified, rebuilt.as_ref())))?;
    lines(&verified, rebuilt.as_ref()).into_iter().try_for_each(|line| output.summary(line))?;
    judge(&store, &verified, rebuilt.as_ref())
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

fn judge(store: &StoreAddress, verified: &VerifyReport, rebuilt: Option<&RebuildReport>) -> anyhow::Result<()> {
    let lost = rebuilt.iter().flat_map(|rebuilt| &rebuilt.damages).filter(|damage| !verified.damages.contains(damage));
    let damages = verified.damages.len() + lost.count();
    if damages == 0 {
        return Ok(());
    }
    let found = shown::count(damages as u64, "damage");
    let is_container = |damage: &Damage| matches!(damage, Damage::Container { .. } | Damage::Missing { .. });
    let is_of_whole_catalog = |damage: &Damage| matches!(damage, Damage::Catalog { path: None, .. });
    let rest = match rebuilt.is_none() && verified.damages.iter().all(is_container) {
        true => {
            "all versions can be read: what is lost there is stored again elsewhere, or not needed; `thalweg collect` \
             puts whole containers in place of the damaged ones"
        }
        false if rebuilt.is_none() && verified.damages.iter().any(is_of_whole_catalog) => {
            "what such a catalog does not tell of was not looked at: make it again, and verify then"
        }
        false => {
            "everything not named above can be read; `thalweg repair` mends what copies and the catalog still have, and says \
             what stays lost"
        }
    };
    Err(Incomplete(format!("{store}: {found} found; {rest}")).into())
}

fn damage_line(damage: &Damage) -> String {
    match damage {
        Damage::Container { container, offset, why, lost_segments, healed_segments } => {
            let lost = shown::count(*lost_segments, "segment");
            let healed = healed(*healed_segments);
            format!("container {container} is damaged at byte {offset}: {why}; {lost} lost{healed}")
        }
        Damage::Missing { container, healed_segments } => {
            format!("container {container} is missing{}", healed(*healed_segments))
        }
        Damage::Version { path, version, why } => {
            format!("{} version {version} cannot be read whole: {why}", shown::path(path))
        }
        Damage::Journal { why } => why.clone(),
        Damage::Catalog { path: Some(path), why } => format!("{}: {why}", shown::path(path)),
        Damage::Catalog { path: None, why } => {
            format!("the catalog is damaged: {why}; `--rebuild-catalog` makes it again from the containers")
        }
    }
}

fn healed(segments: u64) -> String {
    match segments {
        0 => String::new(),
        _ => format!("; {} healed: copies elsewhere stand in", shown::count(segments, "segment")),
    }
}

fn damage_fields(damage: &Damage) -> Value {
    match damage {
        Damage::Container { container, offset, why, lost_segments, healed_segments } => json!({
            "container": container.to_string(), "offset": offset, "why": why, "lost_segments": lost_segments,
            "healed_segments": healed_segments,
        }),
        Damage::Missing { container, healed_segments } => json!({
            "container": container.to_string(), "why": "it is missing", "healed_segments": healed_segments,
        }),
        Damage::Version { path, version, why } => {
            let mut fields = shown::path_fields(path.as_bytes());
            fields.insert("version".into(), (*version).into());
            fields.insert("why".into(), why.clone().into());
            Value::Object(fields)
        }
        Damage::Journal { why } => json!({ "why": why }),
        Damage::Catalog { path, why } => {
            let mut fields = path.as_ref().map(|path| shown::path_fields(path.as_bytes())).unwrap_or_default();
            fields.insert("why".into(), why.clone().into());
            Value::Object(fields)
        }
    }
}

fn fields(verified: &VerifyReport, rebuilt: Option<&RebuildReport>) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("containers".into(), verified.containers.into());
    fields.insert("segments".into(), verified.segments.into());
    fields.insert("stored_bytes".into(), verified.stored_bytes.into());
    fields.insert("versions".into(), verified.versions.into());
    fields.insert("data_bytes".into(), verified.data_bytes.into());
    fields.insert("damages".into(), verified.damages.iter().map(damage_fields).collect());
    if let Some(RebuildReport { containers, transactions, damages }) = rebuilt {
        let damages: Vec<_> = damages.iter().map(damage_fields).collect();
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
