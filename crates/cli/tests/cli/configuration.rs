//! The configuration file, as commands read it, and `thalweg config`.

use std::fs;
use std::path::PathBuf;

use super::runner::{Run, Store, command};

struct Configured {
    store: Store,
    file: PathBuf,
}

impl Configured {
    fn new(text: &str) -> Self {
        let store = Store::new();
        let file = store.path("config.toml");
        fs::write(&file, text.replace("STORE", store.directory().to_str().unwrap())).unwrap();
        Configured { store, file }
    }

    fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Run {
        let mut command = command(arguments);
        command.env("THALWEG_CONFIG", &self.file).env_remove("THALWEG_STORE");
        command.envs(variables.iter().copied()).output().unwrap().into()
    }
}

#[test]
fn the_store_and_a_verbs_options_come_from_the_file() {
    let configured = Configured::new("store = 'STORE'\n[put]\nexclude = ['*.o', '*.tmp']\nverbose = true\n");
    let source = configured.store.path("source");
    fs::create_dir_all(&source).unwrap();
    for name in ["a.c", "a.o", "b.tmp", "b.log"] {
        fs::write(source.join(name), name).unwrap();
    }
    let put = configured.run(&["put", "--exclude", "*.log", source.to_str().unwrap(), "::t"], &[]).expect(0);
    assert!(put.text().contains("excluded  t/a.o"), "{}", put.text());
    assert_eq!(configured.run(&["ls", "::t"], &[]).expect(0).text(), "a.c\n", "lists of file and command line add up");
    let other = Store::new();
    let address = other.directory();
    let elsewhere = configured.run(&["ls", "::"], &[("THALWEG_STORE", address.to_str().unwrap())]);
    assert_eq!(elsewhere.expect(0).text(), "", "the environment goes before the file");
}

#[test]
fn the_command_line_goes_before_the_file() {
    let configured = Configured::new("store = 'STORE'\n[find]\nname = '*.x'\n");
    let source = configured.store.path("source");
    fs::create_dir_all(&source).unwrap();
    for name in ["a.x", "a.y"] {
        fs::write(source.join(name), name).unwrap();
    }
    configured.run(&["put", source.to_str().unwrap(), "::t"], &[]).expect(0);
    assert!(configured.run(&["find", "::t"], &[]).expect(0).text().contains("a.x"));
    let found = configured.run(&["find", "::t", "--name", "*.y"], &[]).expect(0).text();
    assert!(found.contains("a.y") && !found.contains("a.x"), "{found}");
}

#[test]
fn config_says_where_each_value_comes_from() {
    let configured = Configured::new(
        "store = 'STORE'\ntimeout_s = 90\n[put]\nexclude_caches = true\n[alias.lab]\nnodes = ['h:1']\n",
    );
    let shown = configured.run(&["config", "--json"], &[("THALWEG_TIMEOUT_S", "30")]).expect(0).json();
    let setting = |key: &str| (shown["settings"][key]["value"].clone(), shown["settings"][key]["from"].clone());
    assert_eq!(setting("timeout_s"), ("30".into(), "environment".into()));
    assert_eq!(setting("store"), (configured.store.directory().to_str().unwrap().into(), "file".into()));
    assert_eq!(setting("streams"), ("auto".into(), "default".into()));
    assert_eq!(shown["options"]["put"][0], "--exclude-caches");
    assert_eq!(shown["aliases"][0], "lab");
    assert_eq!(shown["file"], configured.file.to_str().unwrap());
    let text = configured.run(&["config"], &[]).expect(0).text();
    assert!(text.contains("timeout_s    90") && text.contains("[put] --exclude-caches"), "{text}");
}

#[test]
fn mistakes_in_the_file_are_named_and_nothing_is_done() {
    for (text, named) in [
        ("stor = 'x'\n", "stor: no such setting"),
        ("timeout_s = 1.5\n", "timeout_s: a text or a whole number"),
        ("[put]\nexlude = ['*.o']\n", "no option --exlude"),
        ("[putt]\n", "no such verb"),
        ("\n\n[put\n", "line 3"),
        ("[put]\nlimit_upload = 'fast'\n", "options are also taken from"),
    ] {
        let configured = Configured::new(text);
        let failed = configured.run(&["put", "/etc/hostname", "x::y"], &[]).expect(2);
        assert!(failed.stderr.contains(named) && failed.stderr.contains("config.toml"), "{text}: {}", failed.stderr);
        assert_eq!(failed.stderr.lines().count(), 1, "{}", failed.stderr);
        configured.run(&["get", "--help"], &[]).expect(0);
    }
    let configured = Configured::new("");
    let variable = [("THALWEG_CONFIG", "/nonexistent/config.toml")];
    assert!(configured.run(&["config"], &variable).expect(2).stderr.contains("THALWEG_CONFIG"));
    assert!(configured.run(&["config"], &[("THALWEG_CONFIG", "")]).expect(0).text().contains("no configuration file"));
}

#[test]
fn options_of_every_verb_may_stand_in_the_file() {
    let configured = Configured::new("store = 'STORE'\n[put]\nquiet = true\n[ls]\njson = true\n");
    for arguments in [&["put", "/etc/hostname", "::a"][..], &["put", "--quiet", "/etc/hostname", "::b"]] {
        assert_eq!(configured.run(arguments, &[]).expect(0).text(), "", "quiet");
    }
    assert_eq!(configured.run(&["ls", "::"], &[]).expect(0).json().as_array().unwrap().len(), 2);
    assert!(configured.run(&["config"], &[]).expect(0).text().contains("[put] --quiet"));
}
