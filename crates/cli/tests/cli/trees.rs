//! Trees in and out again, compared byte for byte and attribute for attribute.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use random::Random;

use super::runner::{Store, run};
use super::snapshot::{Content, assert_same, snapshot};

/// One of everything.
fn odd_tree(root: &Path, random: &mut Random) {
    fs::create_dir_all(root.join("deep/er/and/deeper")).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    fs::write(root.join("nothing"), b"").unwrap();
    for bytes in [1, 511, 4096, 8191, 8192, 8193, 65536, 1 << 20, (3 << 20) + 17] {
        fs::write(root.join(format!("of-{bytes}")), random.bytes(bytes)).unwrap();
    }
    fs::write(root.join("deep/er/and/deeper/text"), "all work and no play\n".repeat(40_000)).unwrap();
    fs::write(root.join("written zeros"), vec![0; 300_000]).unwrap();
    for name in
        [&b"new\nline"[..], b"\xff\xfe not UTF-8", b"back\\slash", b"-", b"a::b", "ümläut".as_bytes(), &[b'n'; 255]]
    {
        fs::write(root.join(OsStr::from_bytes(name)), name).unwrap();
    }
    sparse_files(root, random);
    links(root);
    attributes(root, random);
}

fn sparse_files(root: &Path, random: &mut Random) {
    let sparse = fs::File::create(root.join("sparse")).unwrap();
    sparse.write_all_at(&random.bytes(10_000), 5 << 20).unwrap();
    sparse.write_all_at(&random.bytes(10_000), 40 << 20).unwrap();
    sparse.set_len(64 << 20).unwrap();
    fs::File::create(root.join("all hole")).unwrap().set_len(1 << 20).unwrap();
}

fn links(root: &Path) {
    symlink("of-1", root.join("link")).unwrap();
    symlink("/no/such/target\n", root.join("dangling")).unwrap();
    symlink("..", root.join("deep/up")).unwrap();
    fs::hard_link(root.join("of-8192"), root.join("deep/same")).unwrap();
    fs::hard_link(root.join("of-8192"), root.join("zz-same")).unwrap();
    fs::hard_link(root.join("link"), root.join("same link")).unwrap();
}

fn attributes(root: &Path, random: &mut Random) {
    fs::set_permissions(root.join("of-511"), fs::Permissions::from_mode(0o4751)).unwrap();
    fs::set_permissions(root.join("of-4096"), fs::Permissions::from_mode(0o444)).unwrap();
    fs::set_permissions(root.join("empty"), fs::Permissions::from_mode(0o1777)).unwrap();
    for name in ["of-1", "of-4096", "deep"] {
        xattr::set(root.join(name), "user.kind", name.as_bytes()).unwrap();
        xattr::set(root.join(name), "user.long", &random.bytes(900)).unwrap();
        xattr::set(root.join(name), "user.empty", b"").unwrap();
    }
    let long_ago = SystemTime::UNIX_EPOCH - Duration::new(86_400 * 400, 123_456_789);
    fs::File::open(root.join("of-8193")).unwrap().set_modified(long_ago).unwrap();
    fs::File::open(root.join("deep/er")).unwrap().set_modified(long_ago).unwrap();
    if is_root() {
        std::os::unix::fs::lchown(root.join("of-65536"), Some(1234), Some(4321)).unwrap();
        std::os::unix::fs::lchown(root.join("dangling"), Some(99), Some(98)).unwrap();
    }
    // Where there is no setfacl the test is of all the rest.
    for (name, options) in [("of-8191", "u:1234:r"), ("deep/er", "d:u:1234:rwx")] {
        let _ = Command::new("setfacl").args(["-m", options]).arg(root.join(name)).status();
    }
}

fn is_root() -> bool {
    // SAFETY: it only returns a number.
    unsafe { libc::geteuid() == 0 }
}

#[test]
fn every_kind_of_file_comes_back_as_it_was() {
    for options in
        [&[][..], &["--chunker", "fixed", "--fingerprint", "sha1"], &["--chunker", "file", "--codec", "zstd:1"]]
    {
        let store = Store::with(options);
        let source = store.path("source");
        odd_tree(&source, &mut Random::new(1));
        store.put(&source, "tree");
        store.get_privileged("tree", &store.path("copy"));
        assert_same(&snapshot(&source), &snapshot(&store.path("copy")));
        store.verb("verify", &["--data"]);
    }
}

#[test]
fn a_tree_comes_back_over_another_one() {
    let store = Store::new();
    let (source, copy) = (store.path("source"), store.path("copy"));
    odd_tree(&source, &mut Random::new(2));
    store.put(&source, "a/b/");
    fs::create_dir_all(copy.join("source/deep")).unwrap();
    fs::write(copy.join("source/of-1"), "in the way").unwrap();
    symlink("/dev/null", copy.join("source/nothing")).unwrap();
    store.get_privileged("a/b/source", &copy);
    store.get_privileged("a/b/source", &copy);
    assert_same(&snapshot(&source), &snapshot(&copy.join("source")));
}

#[test]
fn thousands_of_small_files_come_back_and_are_stored_once() {
    let store = Store::new();
    let source = store.path("source");
    let mut random = Random::new(3);
    for directory in 0..40 {
        let directory = source.join(format!("d{directory}"));
        fs::create_dir_all(&directory).unwrap();
        for file in 0..100 {
            let bytes = random.below(6000) as usize;
            fs::write(directory.join(format!("f{file}")), random.bytes(bytes)).unwrap();
        }
    }
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(store.put_json(&source, "t/")["files"], 4000);
    let stored = store.container_bytes();
    let again = store.put_json(&source, "t/");
    assert_eq!((&again["files"], &again["commits"]), (&0.into(), &0.into()), "{again}");
    assert_eq!(again["unchanged"], 4041);
    let taken = store.container_bytes() - stored;
    assert!(taken < 8 << 10, "a snapshot of an unchanged tree took {taken} bytes");
    // The same content under other names costs its names: digests and attributes, about 100 bytes each, and once more in a
    // snapshot.
    store.put(&source, "u/");
    assert!(store.container_bytes() < stored + 4041 * 300, "{stored} grew to {}", store.container_bytes());
    store.get("u/source", &store.path("copy"));
    assert_same(&snapshot(&source), &snapshot(&store.path("copy")));
}

#[test]
fn holes_cost_nothing_and_sparse_makes_more() {
    let store = Store::new();
    let source = store.path("source");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("zeros"), vec![0; 4 << 20]).unwrap();
    store.put(&source, "t");
    assert!(store.container_bytes() < 100_000);
    run(&["get".as_ref(), "--sparse".as_ref(), store.address("t").as_os_str(), store.path("copy").as_os_str()])
        .expect(0);
    let copy = snapshot(&store.path("copy"));
    assert_eq!(copy[Path::new("zeros")].content, Content::File(vec![0; 4 << 20], Vec::new()));
}

#[test]
fn sockets_and_pipes_are_named_and_skipped() {
    let store = Store::new();
    let source = store.path("source");
    fs::create_dir(&source).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(source.join("socket")).unwrap();
    assert!(Command::new("mkfifo").arg(source.join("pipe")).status().unwrap().success());
    fs::write(source.join("file"), "kept").unwrap();
    let done = run(&["put".as_ref(), "--json".as_ref(), source.as_os_str(), &store.address("t")]).expect(0);
    assert!(done.stderr.contains("pipe: skipped, it is a named pipe"), "{}", done.stderr);
    assert!(done.stderr.contains("socket: skipped, it is a socket"), "{}", done.stderr);
    assert_eq!(done.json()["skipped"].as_array().unwrap().len(), 2);
    let only = run(&["put".as_ref(), source.join("pipe").as_os_str(), &store.address("p")]).expect(1);
    assert!(only.stderr.contains("nothing was put"), "{}", only.stderr);
}

#[test]
fn a_store_does_not_swallow_itself() {
    let store = Store::new();
    fs::create_dir(store.path("beside")).unwrap();
    let here = store.path("");
    let done = run(&["put".as_ref(), "--json".as_ref(), here.as_os_str(), &store.address("t")]).expect(0).json();
    assert_eq!(done["directories"], 2, "{done}");
    assert_eq!(done["skipped"][0]["why"], "the store itself");
}
