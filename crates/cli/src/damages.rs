//! Damage as `verify` prints it: some lines of each kind, a count of each kind, and all of it as JSON.

use format::ErrorCode;
use repository::Damage;
use serde_json::{Map, Value};

use crate::output::Output;
use crate::shown;

/// Kinds in the order in which they are printed: causes first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Catalog,
    Journal,
    Stray,
    Missing,
    Container,
    Version,
}

const KINDS: [Kind; 6] = [Kind::Catalog, Kind::Journal, Kind::Stray, Kind::Missing, Kind::Container, Kind::Version];

impl Kind {
    fn of(damage: &Damage) -> Self {
        match damage {
            Damage::Catalog { .. } => Kind::Catalog,
            Damage::Journal { .. } => Kind::Journal,
            Damage::Stray { .. } => Kind::Stray,
            Damage::Missing { .. } => Kind::Missing,
            Damage::Container { .. } => Kind::Container,
            Damage::Version { .. } => Kind::Version,
        }
    }

    fn code(self) -> ErrorCode {
        match self {
            Kind::Catalog => ErrorCode::CatalogDamaged,
            Kind::Journal | Kind::Stray => ErrorCode::CatalogMismatch,
            Kind::Missing => ErrorCode::DataMissing,
            Kind::Container | Kind::Version => ErrorCode::DataDamaged,
        }
    }

    /// The word in JSON.
    fn name(self) -> &'static str {
        match self {
            Kind::Catalog => "catalog",
            Kind::Journal => "journal",
            Kind::Stray => "stray",
            Kind::Missing => "missing",
            Kind::Container => "container",
            Kind::Version => "version",
        }
    }

    fn counted(self, count: usize) -> String {
        let count = count as u64;
        match self {
            Kind::Catalog => format!("{count} in the catalog"),
            Kind::Journal => format!("{count} in the journal"),
            Kind::Stray => shown::count(count, "stray file"),
            Kind::Missing => shown::count(count, "missing container"),
            Kind::Container => format!("{count} in containers"),
            Kind::Version => format!("{} not whole", shown::count(count, "version")),
        }
    }
}

/// Names the first of each kind on standard error, and how many more there are.
pub fn note(damages: &[&Damage], output: &Output) {
    for kind in KINDS {
        let of_kind: Vec<_> = damages.iter().filter(|damage| Kind::of(damage) == kind).collect();
        output.notes(&of_kind, |damage| kind.code().after(line(damage)), |more| kind.counted(more));
    }
}

/// Returns how many there are of each kind.
pub fn by_kind(damages: &[&Damage]) -> String {
    let count = |kind: &Kind| damages.iter().filter(|damage| Kind::of(damage) == *kind).count();
    let counts = KINDS.iter().map(|kind| (kind, count(kind))).filter(|(_, count)| *count > 0);
    counts.map(|(kind, count)| kind.counted(count)).collect::<Vec<_>>().join(", ")
}

fn line(damage: &Damage) -> String {
    match damage {
        Damage::Container { container, offset, why, lost_segments, healed_segments } => {
            let lost = shown::count(*lost_segments, "segment");
            let healed = healed(*healed_segments);
            format!("container {container} is damaged at byte {offset}: {why}; {lost} lost{healed}")
        }
        Damage::Missing { container, healed_segments } => {
            format!("container {container} is missing{}", healed(*healed_segments))
        }
        Damage::Stray { container, why } => format!("{}: {why}", store::container_file_name(*container)),
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

/// Returns a damage for JSON.
pub fn fields(damage: &Damage) -> Value {
    let mut fields = match damage {
        Damage::Version { path, .. } | Damage::Catalog { path: Some(path), .. } => shown::path_fields(path.as_bytes()),
        _ => Map::new(),
    };
    let mut add = |key: &str, value: Value| drop(fields.insert(key.to_owned(), value));
    add("kind", Kind::of(damage).name().into());
    add("code", Kind::of(damage).code().as_str().into());
    let why = match damage {
        Damage::Missing { .. } => "it is missing",
        Damage::Container { why, .. } | Damage::Stray { why, .. } | Damage::Version { why, .. } => why,
        Damage::Journal { why } | Damage::Catalog { why, .. } => why,
    };
    add("why", why.into());
    match damage {
        Damage::Container { container, offset, lost_segments, healed_segments, .. } => {
            add("container", container.to_string().into());
            add("offset", (*offset).into());
            add("lost_segments", (*lost_segments).into());
            add("healed_segments", (*healed_segments).into());
        }
        Damage::Missing { container, healed_segments } => {
            add("container", container.to_string().into());
            add("healed_segments", (*healed_segments).into());
        }
        Damage::Stray { container, .. } => add("container", container.to_string().into()),
        Damage::Version { version, .. } => add("version", (*version).into()),
        Damage::Journal { .. } | Damage::Catalog { .. } => {}
    }
    Value::Object(fields)
}
