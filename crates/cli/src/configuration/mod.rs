//! The user's configuration file, as commands read it: settings that environment variables give otherwise, and options
//! that a verb has unless the command line says more.

mod file;
mod options;
mod settings;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use toml::Table;

pub use settings::{SETTINGS, Setting};

/// The table of nodes' names for MPI programs.
const ALIASES: &str = "alias";

/// The content of the file; empty where there is none.
#[derive(Default)]
pub struct Configuration {
    path: Option<PathBuf>,
    table: Table,
}

impl Configuration {
    /// Reads and checks the file that THALWEG_CONFIG names, or `~/.config/thalweg/config.toml`, which may be absent.
    /// Errors say which file and key.
    pub fn load(command: &clap::Command) -> Result<Self, String> {
        let Some((path, table)) = file::read()? else { return Ok(Configuration::default()) };
        check(&table, command).map_err(|why| format!("{}: {why}", path.display()))?;
        Ok(Configuration { path: Some(path), table })
    }

    /// Reads and checks a file that the command line names for a verb.
    pub fn of_file(path: &Path, verb: &str, command: &clap::Command) -> Result<Self, String> {
        let table = file::read_named(path)?;
        if !table.contains_key(verb) {
            return Err(format!("{}: has no [{verb}]", path.display()));
        }
        check(&table, command).map_err(|why| format!("{}: {why}", path.display()))?;
        Ok(Configuration { path: Some(path.to_owned()), table })
    }

    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Sets the variables that the file has settings for and the environment does not.
    ///
    /// # Safety
    ///
    /// Only while the process has one thread.
    pub unsafe fn apply_settings(&self) {
        for setting in &SETTINGS {
            if let Some(value) = self.setting(setting)
                && setting.in_environment().is_none()
            {
                // SAFETY: as the caller vouches.
                unsafe { std::env::set_var(setting.variable, value) };
            }
        }
    }

    /// Returns what the file says of a setting.
    pub fn setting(&self, setting: &Setting) -> Option<String> {
        self.table.get(setting.key).map(settings::text)
    }

    /// Returns the verbs that the file has options for.
    pub fn verbs(&self) -> impl Iterator<Item = &str> {
        self.table.iter().filter(|(key, value)| value.is_table() && *key != ALIASES).map(|(key, _)| key.as_str())
    }

    /// Returns the aliases that the file has, which [`transfer::client`] reads.
    pub fn aliases(&self) -> impl Iterator<Item = &str> {
        self.table.get(ALIASES).and_then(toml::Value::as_table).into_iter().flatten().map(|(alias, _)| alias.as_str())
    }

    /// Returns the options that the file has for a verb, as one writes them.
    pub fn options(&self, verb: &str) -> Vec<String> {
        let table = self.table.get(verb).and_then(toml::Value::as_table);
        table.map(options::written).unwrap_or_default()
    }

    /// Puts the file's options behind the verb, before what was written there: what is written last counts, and what excludes an
    /// option of the file stands in for it.
    pub fn extend(&self, arguments: &mut Vec<OsString>, command: &clap::Command) -> bool {
        let Some(at) = arguments.iter().skip(1).position(|argument| !argument.as_encoded_bytes().starts_with(b"-"))
        else {
            return false;
        };
        let verb = arguments[at + 1].to_str().unwrap_or_default();
        let table = self.table.get(verb).and_then(toml::Value::as_table).cloned().unwrap_or_default();
        let options =
            options::written(&options::without_excluded(table, &arguments[at + 2..], command.find_subcommand(verb)));
        let has_some = !options.is_empty();
        arguments.splice(at + 2..at + 2, options.into_iter().map(OsString::from));
        has_some
    }
}

fn check(table: &Table, command: &clap::Command) -> Result<(), String> {
    for (key, value) in table {
        match value {
            toml::Value::Table(_) if key == ALIASES => {}
            toml::Value::Table(entries) => options::check(key, entries, command)?,
            value => settings::check(key, value)?,
        }
    }
    Ok(())
}
