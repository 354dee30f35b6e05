//! Obstacles outside the store: limits of a process, pipes where files belong, a lost settings file.

use std::fs;
use std::process::Command;

use super::runner::{Run, Store, run};

/// Runs a line of shell with `$T` as the command and `$ST` as the store, for ten seconds at most.
fn shell(store: &Store, line: &str) -> Run {
    let mut command = Command::new("timeout");
    command.args(["20", "bash", "-c", line]).env("T", env!("CARGO_BIN_EXE_thalweg"));
    command.env("ST", store.directory()).env("W", store.path("")).env_remove("THALWEG_STORE");
    command.output().unwrap().into()
}

#[test]
fn a_pipe_named_as_a_certificate_or_configuration_is_refused_at_once() {
    let store = Store::new();
    shell(&store, "cd $W && mkfifo pipe && (umask 077 && head -c 100 /dev/urandom > key)").expect(0);
    for line in [
        "$T node $ST --listen 127.0.0.1:0 --tls-cert $W/pipe --tls-key $W/key",
        "$T node $ST --listen 127.0.0.1:0 --secret-file $W/pipe",
        "THALWEG_TLS_CA=$W/pipe $T ls thalweg://127.0.0.1:1::",
        "THALWEG_SECRET_FILE=$W/pipe $T ls thalweg://127.0.0.1:1::",
        "$T gate --config $W/pipe",
    ] {
        let refused = shell(&store, line).expect(1);
        assert!(refused.stderr.contains("no regular file"), "{line}: {}", refused.stderr);
    }
}

#[test]
fn the_limit_of_file_sizes_is_an_error_and_leaves_nothing_half_written() {
    let store = Store::new();
    shell(&store, "head -c 3000000 /dev/urandom > $W/large && $T -q put $W/large $ST::large").expect(0);
    let refused = shell(&store, "ulimit -f 1000; $T get $ST::large $W/copy").expect(1);
    assert!(refused.stderr.contains("File too large"), "{}", refused.stderr);
    assert!(!store.path("copy").exists());
    let left: Vec<_> = fs::read_dir(store.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("thalweg-get")), "{left:?}");
    shell(&store, "head -c 3000000 /dev/urandom > $W/other").expect(0);
    let refused = shell(&store, "ulimit -f 1000; $T put $W/other $ST::other").expect(1);
    assert!(refused.stderr.contains("File too large"), "{}", refused.stderr);
    store.verb("verify", &["--data"]);
    run(&["get".as_ref(), store.address("other").as_os_str(), "-".as_ref()]).expect(1);
    assert_eq!(store.read("large"), fs::read(store.path("large")).unwrap());
    shell(&store, "$T -q put $W/other $ST::other").expect(0);
    assert_eq!(store.read("other"), fs::read(store.path("other")).unwrap());
}

#[test]
fn a_line_of_the_settings_that_no_store_can_have_is_named_with_its_file() {
    let store = Store::new();
    fs::write(store.path("file"), "content").unwrap();
    let settings = store.directory().join("store.toml");
    let whole = fs::read_to_string(&settings).unwrap();
    // Of an empty store, and of one with containers.
    for _ in 0..2 {
        for (line, wrong, code) in [
            ("codec = \"auto\"", "codec = \"zstdd:3\"", "TW-807"),
            ("chunker = \"cdc\"", "chunker = \"cdd\"", "TW-313"),
            ("segment_bytes = 8192", "segment_bytes = 77", "TW-313"),
        ] {
            fs::write(&settings, whole.replace(line, wrong)).unwrap();
            let refused = shell(&store, "$T ls $ST::").expect(1).stderr;
            let value = wrong.split(" = ").last().unwrap();
            for part in [settings.to_str().unwrap(), value, "correct that line", code] {
                assert!(refused.contains(part), "{part}: {refused}");
            }
        }
        fs::write(&settings, whole.replace("format = 0", "format = 9")).unwrap();
        let refused = shell(&store, "$T ls $ST::").expect(1).stderr;
        assert!(refused.contains(settings.to_str().unwrap()) && refused.contains("use a newer thalweg"), "{refused}");
        fs::write(&settings, &whole).unwrap();
        store.put(&store.path("file"), "file");
    }
}

#[test]
fn a_store_whose_settings_are_lost_says_so_and_how_to_get_them_back() {
    let store = Store::with(&["--fingerprint", "sha256"]);
    fs::write(store.path("file"), "content").unwrap();
    store.put(&store.path("file"), "file");
    let settings = store.directory().join("store.toml");
    let text = fs::read_to_string(&settings).unwrap();
    let id = text.lines().find(|line| line.starts_with("id = ")).unwrap();
    for cut in ["", &text[..60]] {
        fs::write(&settings, cut).unwrap();
        let refused = shell(&store, "$T ls $ST::").expect(1);
        assert!(refused.stderr.contains("cut or damaged") && refused.stderr.contains(id), "{}", refused.stderr);
    }
    fs::remove_file(&settings).unwrap();
    for line in ["$T ls $ST::", "$T put $W/file $ST::x", "$T verify $ST", "$T init $ST"] {
        let refused = shell(&store, line).expect(1);
        assert!(refused.stderr.contains("store.toml is missing") && refused.stderr.contains(id), "{}", refused.stderr);
        assert!(
            !refused.stderr.contains("`thalweg init") || refused.stderr.contains("elsewhere"),
            "{}",
            refused.stderr
        );
        assert!(refused.stderr.contains("sha256"), "{}", refused.stderr);
    }
    // As the message says.
    let edit = format!("sed -i 's/^id = .*/{id}/' $W/new/store.toml && cp $W/new/store.toml $ST/");
    shell(&store, &format!("$T -q init $W/new --fingerprint sha256 && {edit}")).expect(0);
    assert_eq!(store.read("file"), b"content");
    store.verb("verify", &["--data"]);
}
