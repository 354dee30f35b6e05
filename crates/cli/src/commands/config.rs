//! `thalweg config`: what holds for this user's commands, and who said so.

use serde_json::{Map, Value, json};

use crate::configuration::{Configuration, SETTINGS, Setting};
use crate::output::Output;
use crate::shown;

/// Show settings, and where each value comes from
#[derive(clap::Args)]
#[command(
    after_help = "The configuration file is the one that THALWEG_CONFIG names (empty: none), or ~/.config/thalweg/config.toml. \
                        At its top it has settings, and below [VERB] that verb's options, which hold unless the command line \
                        says more. Before a setting of the file goes the environment's.\n\n\
                        Example: thalweg config\n\
                        Example: thalweg config --json | jq .settings.store"
)]
pub struct Arguments {}

pub fn execute(_: &Arguments, configuration: &Configuration, output: &Output) -> anyhow::Result<()> {
    let path = configuration.path().map(shown::local);
    match &path {
        Some(path) => output.line(format_args!("# {path}"))?,
        None => output.line("# no configuration file")?,
    }
    for setting in &SETTINGS {
        let (value, from) = effective(setting, configuration);
        output.line(format_args!(
            "{:<13}{:<30} {}",
            setting.key,
            value.as_deref().unwrap_or("-"),
            shown_origin(setting, from)
        ))?;
    }
    for verb in configuration.verbs() {
        output.line(format_args!("[{verb}] {}", shown::one_line(&configuration.options(verb).join(" "))))?;
    }
    for alias in configuration.aliases() {
        output.line(format_args!("[alias.{}]", shown::one_line(alias)))?;
    }
    output.document(&document(configuration, path))
}

/// Returns a setting's value and who said it.
fn effective(setting: &Setting, configuration: &Configuration) -> (Option<String>, &'static str) {
    let of_environment = setting.in_environment().map(|value| (Some(value), "environment"));
    let of_file = || configuration.setting(setting).map(|value| (Some(value), "file"));
    of_environment.or_else(of_file).unwrap_or_else(|| (setting.default(), "default"))
}

fn shown_origin(setting: &Setting, from: &str) -> String {
    match from {
        "environment" => format!("${}", setting.variable),
        "default" if setting.default().is_none() => "not set".to_owned(),
        from => from.to_owned(),
    }
}

fn document(configuration: &Configuration, path: Option<String>) -> Value {
    let setting = |setting: &Setting| {
        let (value, from) = effective(setting, configuration);
        (setting.key.to_owned(), json!({"value": value, "from": from, "variable": setting.variable}))
    };
    let settings: Map<String, Value> = SETTINGS.iter().map(setting).collect();
    let options = configuration.verbs().map(|verb| (verb.to_owned(), json!(configuration.options(verb))));
    let options: Map<String, Value> = options.collect();
    let aliases: Vec<&str> = configuration.aliases().collect();
    json!({"file": path, "settings": settings, "options": options, "aliases": aliases})
}
