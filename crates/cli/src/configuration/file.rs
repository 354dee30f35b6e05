//! Finding and reading the configuration file.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use toml::Table;
use transfer::client::{CONFIGURATION_VARIABLE, configuration_file};
use transfer::read_regular;

/// Returns the file's path and content; none where no file was asked for by name and none is there for this user: after
/// `sudo -u`, HOME may be another's.
pub fn read() -> Result<Option<(PathBuf, Table)>, String> {
    let Some(path) = configuration_file() else { return Ok(None) };
    let is_named = std::env::var_os(CONFIGURATION_VARIABLE).is_some();
    let text = match read_regular(&path) {
        Ok(text) => text,
        Err(error) if is_out_of_reach(&error) && !is_named => return Ok(None),
        Err(error) => {
            let why = format!("{}: {error}", path.display());
            return Err(if is_named { format!("{why} (the file that {CONFIGURATION_VARIABLE} names)") } else { why });
        }
    };
    let table = parsed(&path, &text)?;
    Ok(Some((path, table)))
}

/// Returns the content of a file that must be there.
pub fn read_named(path: &Path) -> Result<Table, String> {
    let text = read_regular(path).map_err(|error| format!("{}: {error}", path.display()))?;
    parsed(path, &text)
}

fn parsed(path: &Path, text: &str) -> Result<Table, String> {
    text.parse::<Table>().map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
        format!("{}, line {line}: {}", path.display(), error.message())
    })
}

fn is_out_of_reach(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied)
}
