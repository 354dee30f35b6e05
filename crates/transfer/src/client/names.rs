//! Resolves names: which nodes serve a name, and its path in the store.
//!
//! `/path` belongs to the nodes of `THALWEG_NODES`; `ALIAS:/path` to those of `THALWEG_ALIAS_<ALIAS>` or of
//! `[alias.ALIAS]` in the configuration file. What `SD:` stands before again is the same name: PnetCDF 1.12 takes
//! all up to the first colon for a file system's type, and asks POSIX for the rest.

use std::path::PathBuf;

use format::{ErrorCode, StorePath};

use super::OpenError;
use super::settings::{addresses, text};
use crate::Error;

/// Of names, which this module is given without it.
const PREFIX: &[u8] = b"SD:";

#[derive(Debug, PartialEq)]
pub(super) struct Resolved {
    pub path: StorePath,
    /// By stripe set; stripe set 0 is home.
    pub nodes: Vec<String>,
}

/// An alias's nodes and credentials.
#[derive(Debug, Default, PartialEq)]
struct Alias {
    nodes: Vec<String>,
    secret_file: Option<PathBuf>,
    tls_ca: Option<PathBuf>,
}

/// Resolves a name; `default_nodes` serve names without an alias.
pub(super) fn resolve(name: &[u8], default_nodes: &[String]) -> Result<Resolved, OpenError> {
    let (alias, path) = split(name)?;
    let path = StorePath::new(path).map_err(|error| refuse(error.to_string()))?;
    if path.is_root() {
        return Err(refuse("the name of a file is missing after `SD:`".into()));
    }
    if path.as_bytes().last() == Some(&b'/') || name.ends_with(b"/") {
        return Err(refuse("a name that ends with `/` is no file's".into()));
    }
    let mut nodes = match alias {
        None if default_nodes.is_empty() => return Err(nothing_configured(name)),
        None => default_nodes.to_vec(),
        Some(alias) => find_alias(alias)?.nodes,
    };
    let first = first_node(path.as_bytes(), nodes.len());
    nodes.rotate_left(first);
    Ok(Resolved { path, nodes })
}

/// Returns the files with secret and authorities that the name's alias has for its nodes, where it has them.
pub(super) fn credential_files(name: &[u8]) -> (Option<PathBuf>, Option<PathBuf>) {
    let Ok((Some(alias), _)) = split(name) else { return (None, None) };
    find_alias(alias).map_or((None, None), |alias| (alias.secret_file, alias.tls_ca))
}

/// Returns the index of the home node. Homes differ between paths, so that no node keeps the sizes and commits of all;
/// but the steps of a series, whose names differ in numbers, are laid out alike: what one repeats of another meets it
/// at the same node.
fn first_node(path: &[u8], nodes: usize) -> usize {
    let series: Vec<u8> = path.iter().copied().filter(|byte| !byte.is_ascii_digit()).collect();
    format::checksum(&series) as usize % nodes
}

fn split(name: &[u8]) -> Result<(Option<&str>, &[u8]), OpenError> {
    if let Some(rest) = name.strip_prefix(PREFIX) {
        return split(rest);
    }
    let Some(colon) = name.iter().position(|byte| *byte == b':') else { return Ok((None, name)) };
    if name[..colon].contains(&b'/') {
        return Ok((None, name));
    }
    let valid = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    match std::str::from_utf8(&name[..colon]) {
        Ok(alias) if !alias.is_empty() && alias.bytes().all(|byte| valid(&byte)) => {
            Ok((Some(alias), &name[colon + 1..]))
        }
        _ => Err(refuse(format!(
            "{:?} is no alias: it may hold letters, digits, `_` and `-`",
            String::from_utf8_lossy(&name[..colon])
        ))),
    }
}

fn refuse(why: String) -> OpenError {
    Error::Refused(ErrorCode::InvalidName, why).into()
}

fn nothing_configured(name: &[u8]) -> OpenError {
    OpenError::Configuration(format!(
        "SD:{}: no store is configured for this process; start the program with `thalweg run -- COMMAND`, or set \
         THALWEG_NODES to the addresses of its nodes",
        String::from_utf8_lossy(name)
    ))
}

fn find_alias(alias: &str) -> Result<Alias, OpenError> {
    let variable = format!("THALWEG_ALIAS_{}", alias.to_ascii_uppercase().replace('-', "_"));
    let from_variable = addresses(&text(&variable)?);
    if !from_variable.is_empty() {
        return Ok(Alias { nodes: from_variable, ..Alias::default() });
    }
    let unknown = |file: &str| {
        OpenError::Configuration(format!(
            "{alias}: unknown alias; add `[alias.{alias}]` with `nodes = [\"HOST:PORT\"]` to {file}, or set {variable}"
        ))
    };
    let Some(file) = configuration_file() else { return Err(unknown("~/.config/thalweg/config.toml")) };
    let shown = file.display().to_string();
    let text = match crate::regular_file::read_regular(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(unknown(&shown)),
        Err(error) => return Err(OpenError::Configuration(format!("{shown}: {error}"))),
    };
    match alias_in(&text, alias) {
        Ok(found) if found.nodes.is_empty() => Err(unknown(&shown)),
        Ok(found) => Ok(found),
        Err(why) => Err(OpenError::Configuration(format!("{shown}: {why}"))),
    }
}

/// Names the configuration file; empty: there is none.
pub const CONFIGURATION_VARIABLE: &str = "THALWEG_CONFIG";

/// Returns where the configuration file lies, if it is there.
pub fn configuration_file() -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".config/thalweg/config.toml"));
    let named = std::env::var_os(CONFIGURATION_VARIABLE);
    named.map_or_else(home, |named| (!named.is_empty()).then(|| named.into()))
}

fn alias_in(text: &str, alias: &str) -> Result<Alias, String> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    let Some(entry) = table.get("alias").and_then(|aliases| aliases.get(alias)) else { return Ok(Alias::default()) };
    let nodes = entry.get("nodes").and_then(toml::Value::as_array);
    let text = |value: &toml::Value| value.as_str().map(str::to_owned);
    let nodes = nodes
        .and_then(|nodes| nodes.iter().map(text).collect())
        .ok_or_else(|| format!("[alias.{alias}] needs `nodes`, a list of \"HOST:PORT\""))?;
    let file = |key: &str| {
        let refuse = || format!("[alias.{alias}]: `{key}` is the path of a file");
        entry.get(key).map(|value| text(value).map(PathBuf::from).ok_or_else(refuse)).transpose()
    };
    Ok(Alias { nodes, secret_file: file("secret_file")?, tls_ca: file("tls_ca")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_of_a_series_are_laid_out_alike() {
        let first = |name: &str| first_node(name.as_bytes(), 5);
        assert_eq!(first("run/ions.0001"), first("run/ions.0020"));
        assert!((0..20u8).any(|i| first(&format!("run/{}", i as char)) != first("run/x")));
    }

    #[test]
    fn names_split_at_an_alias_only_before_the_first_slash() {
        assert_eq!(split(b"/run/a:b").unwrap(), (None, &b"/run/a:b"[..]));
        assert_eq!(split(b"fast-1:/run/a:b").unwrap(), (Some("fast-1"), &b"/run/a:b"[..]));
        assert_eq!(split(b"SD:/run/a:b").unwrap(), split(b"/run/a:b").unwrap());
        assert_eq!(split(b"SD:fast-1:/run").unwrap(), split(b"fast-1:/run").unwrap());
        assert!(split(b":/a").is_err());
        assert!(split(b"a b:/a").is_err());
    }

    #[test]
    fn homes_differ_between_paths_and_all_nodes_stay() {
        let nodes: Vec<String> = (0..4).map(|node| format!("n{node}:1")).collect();
        let homes: std::collections::HashSet<String> = (b'A'..=b'z')
            .map(|file| {
                let mut found = resolve(format!("/f{}", file as char).as_bytes(), &nodes).unwrap().nodes;
                let home = found[0].clone();
                found.sort();
                assert_eq!(found, nodes);
                home
            })
            .collect();
        assert_eq!(homes.len(), 4);
    }

    #[test]
    fn without_nodes_the_user_is_sent_to_thalweg_run() {
        let error = resolve(b"/a", &[]).unwrap_err();
        assert!(matches!(&error, OpenError::Configuration(text) if text.contains("thalweg run")), "{error}");
    }

    #[test]
    fn aliases_are_read_from_the_configuration() {
        let text = "[alias.fast]\nnodes = [\"a:1\", \"b:2\"]\n[alias.bad]\nnodes = 3\n";
        assert_eq!(alias_in(text, "fast").unwrap().nodes, ["a:1", "b:2"]);
        assert_eq!(alias_in(text, "other").unwrap(), Alias::default());
        assert!(alias_in(text, "bad").is_err());
        let secret = |value: &str| alias_in(&format!("[alias.x]\nnodes = [\"a:1\"]\nsecret_file = {value}"), "x");
        assert_eq!(secret("\"/etc/x.secret\"").unwrap().secret_file, Some("/etc/x.secret".into()));
        assert!(secret("7").is_err());
        assert!(alias_in("[alias", "fast").is_err());
    }
}
