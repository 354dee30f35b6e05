//! Options of verbs: a table with the verb's name, whose keys are its long options, with `_` or `-`.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};
use toml::{Table, Value};

/// Refuses tables of no verb, keys that are no option of it, and values of another kind than the option's.
pub fn check(verb: &str, entries: &Table, command: &Command) -> Result<(), String> {
    let Some(of_verb) = command.find_subcommand(verb) else {
        return Err(format!("[{verb}]: no such verb; tables are [alias.NAME] and verbs with their options, as [put]"));
    };
    let of_every_verb = command.get_arguments().filter(|argument| argument.is_global_set());
    let options: Vec<&Arg> = of_verb.get_arguments().chain(of_every_verb).collect();
    entries.iter().try_for_each(|(key, value)| check_option(verb, key, value, &options))
}

fn check_option(verb: &str, key: &str, value: &Value, options: &[&Arg]) -> Result<(), String> {
    let long = long(key);
    let option = options.iter().find(|argument| argument.get_long() == Some(&long));
    let Some(option) = option else {
        return Err(format!("[{verb}] {key}: `thalweg {verb}` has no option --{long}"));
    };
    let is_one = |value: &Value| value.is_str() || value.is_integer() || value.is_float();
    let (is_right, wanted) = match option.get_action() {
        ArgAction::SetTrue => (value.is_bool(), "true or false"),
        ArgAction::Append => match value {
            Value::Array(values) => (values.iter().all(is_one), "a value or a list of values"),
            value => (is_one(value), "a value or a list of values"),
        },
        ArgAction::Set => (is_one(value), "one value"),
        _ => return Err(format!("[{verb}] {key}: --{long} stands on the command line alone")),
    };
    is_right.then_some(()).ok_or_else(|| format!("[{verb}] {key}: --{long} takes {wanted}"))
}

/// Returns the entries without those of options that an option which is written excludes.
pub fn without_excluded(mut entries: Table, written: &[OsString], verb: Option<&Command>) -> Table {
    let Some(verb) = verb else { return entries };
    let find = |key: &str| verb.get_arguments().find(|argument| argument.get_long() == Some(&long(key)));
    let given: Vec<&Arg> = verb.get_arguments().filter(|argument| is_written(argument, written)).collect();
    let excludes = |one: &Arg, other: &Arg| {
        verb.get_arg_conflicts_with(one).into_iter().any(|excluded| excluded.get_id() == other.get_id())
    };
    let is_excluded = |option: &Arg| given.iter().any(|given| excludes(given, option) || excludes(option, given));
    entries.retain(|key, _| !find(key).is_some_and(is_excluded));
    entries
}

fn is_written(option: &Arg, written: &[OsString]) -> bool {
    let Some(long) = option.get_long() else { return false };
    let options = written.iter().filter_map(|argument| argument.to_str()?.strip_prefix("--"));
    options.map(|option| option.split_once('=').map_or(option, |(name, _)| name)).any(|name| name == long)
}

/// The options as one writes them on a command line.
pub fn written(entries: &Table) -> Vec<String> {
    entries.iter().flat_map(|(key, value)| written_option(&long(key), value)).collect()
}

fn written_option(long: &str, value: &Value) -> Vec<String> {
    match value {
        Value::Boolean(is_set) => is_set.then(|| format!("--{long}")).into_iter().collect(),
        Value::Array(values) => values.iter().flat_map(|value| written_option(long, value)).collect(),
        Value::String(text) => vec![format!("--{long}={text}")],
        value => vec![format!("--{long}={value}")],
    }
}

fn long(key: &str) -> String {
    key.replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> Command {
        let flag = clap::Arg::new("deep").long("deep-look").action(ArgAction::SetTrue);
        let list = clap::Arg::new("exclude").long("exclude").action(ArgAction::Append);
        let one = clap::Arg::new("rate").long("rate");
        let quiet = clap::Arg::new("quiet").long("quiet").global(true).action(ArgAction::SetTrue);
        Command::new("t").arg(quiet).subcommand(Command::new("put").args([flag, list, one]))
    }

    #[test]
    fn entries_become_options() {
        let entries: Table = "deep_look = true\nexclude = ['*.o', 'a b']\nrate = 3".parse().unwrap();
        check("put", &entries, &command()).unwrap();
        assert_eq!(written(&entries), ["--deep-look", "--exclude=*.o", "--exclude=a b", "--rate=3"]);
        check("put", &"quiet = true".parse().unwrap(), &command()).unwrap();
        assert!(written(&"deep_look = false".parse().unwrap()).is_empty());
    }

    #[test]
    fn a_written_option_stands_in_for_those_that_it_excludes() {
        let [mode, codec] = ["mode", "codec"].map(|name| clap::Arg::new(name).long(name));
        let init =
            Command::new("init").args([mode.conflicts_with("codec"), codec, clap::Arg::new("rate").long("rate")]);
        let left = |written: &[&str]| {
            let entries = "codec = 'lz4'\nrate = 3".parse().unwrap();
            let written: Vec<OsString> = written.iter().map(OsString::from).collect();
            super::written(&without_excluded(entries, &written, Some(&init)))
        };
        assert_eq!(left(&["store", "--mode", "archival"]), ["--rate=3"]);
        assert_eq!(left(&["--mode=archival"]), ["--rate=3"]);
        assert_eq!(left(&["mode", "--codec=none"]), ["--codec=lz4", "--rate=3"]);
    }

    #[test]
    fn what_no_command_line_could_say_is_refused() {
        let refused = |entries: &str| check("put", &entries.parse().unwrap(), &command()).unwrap_err();
        assert!(refused("depe_look = true").contains("no option --depe-look"));
        assert!(refused("deep_look = 1").contains("true or false"));
        assert!(refused("rate = ['1', '2']").contains("one value"));
        assert!(refused("exclude = [true]").contains("list of values"));
        assert!(check("pu", &Table::new(), &command()).unwrap_err().contains("no such verb"));
    }
}
