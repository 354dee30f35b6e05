//! The owner of files that root makes in another user's store: the store's owner, who has to go on using it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use random::Random;
use tempfile::TempDir;

use super::runner::{Run, run};

/// An ordinary user, whom the machine need not know by name.
const OWNER: (u32, u32) = (65_534, 65_533);

fn is_root() -> bool {
    // SAFETY: it only asks.
    unsafe { libc::geteuid() == 0 }
}

/// A store of `OWNER`, in a folder of theirs, with a copy of the command that they can run.
struct UsersStore {
    folder: TempDir,
}

impl UsersStore {
    fn new(options: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        chown(folder.path(), Some(OWNER.0), Some(OWNER.1)).unwrap();
        let store = UsersStore { folder };
        // By a process of its own: one that another thread starts meanwhile must not inherit the copy open for writing.
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_thalweg")).arg(store.path("thalweg")).status();
        assert!(copied.expect("cp starts").success());
        let mut init: Vec<OsString> = vec!["init".into(), store.path("store").into()];
        init.extend(options.iter().map(OsString::from));
        store.by_owner(&init).expect(0);
        store
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn address(&self, path: &str) -> OsString {
        self.path(&format!("store::{path}")).into()
    }

    fn by_owner(&self, arguments: &[impl AsRef<OsStr>]) -> Run {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &OWNER.0.to_string(), "--regid", &OWNER.1.to_string(), "--clear-groups"]);
        command.arg(self.path("thalweg")).args(arguments).env_remove("THALWEG_STORE").env("HOME", self.folder.path());
        command.output().expect("setpriv starts").into()
    }

    fn content(&self, name: &str, seed: u64) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, Random::new(seed).bytes(3 << 20)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        path
    }

    #[track_caller]
    fn put_by_owner(&self, seed: u64, to: &str) {
        let from = self.content("content", seed);
        self.by_owner(&["put".as_ref(), from.as_os_str(), &self.address(to)]).expect(0);
    }

    /// The owner goes on: everything is theirs, and they read and write.
    #[track_caller]
    fn expect_usable(&self) {
        for path in everything_below(&self.path("store")) {
            let found = fs::symlink_metadata(&path).unwrap();
            assert_eq!((found.uid(), found.gid()), OWNER, "{}", path.display());
        }
        let read = self.by_owner(&["get".as_ref(), self.address("kept").as_os_str(), "-".as_ref()]).expect(0);
        assert!(read.stdout == Random::new(1).bytes(3 << 20));
        self.put_by_owner(99, "later");
        self.by_owner(&["collect".as_ref(), self.path("store").as_os_str()]).expect(0);
    }
}

fn everything_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() && !path.is_symlink() {
            true => found.extend(everything_below(&path)),
            false => found.push(path),
        }
    }
    found
}

#[test]
fn what_root_makes_in_a_users_store_belongs_to_that_user() {
    if !is_root() {
        return;
    }
    let store = UsersStore::new(&[]);
    store.put_by_owner(1, "kept");
    store.put_by_owner(2, "gone");
    store.by_owner(&["rm".as_ref(), store.address("gone").as_os_str()]).expect(0);
    run(&["collect".as_ref(), store.path("store").as_os_str()]).expect(0);
    store.expect_usable();
    let from = store.content("other", 3);
    run(&["put".as_ref(), from.as_os_str(), &store.address("roots")]).expect(0);
    store.expect_usable();
    for lost in ["journal.mark", "catalog.lock", "reserve"] {
        fs::remove_file(store.path("store").join(lost)).unwrap();
    }
    fs::remove_dir_all(store.path("store/table")).unwrap();
    for rebuild in ["--rebuild-catalog", "--rebuild-table"] {
        run(&["verify".as_ref(), store.path("store").as_os_str(), rebuild.as_ref()]).expect(0);
        store.expect_usable();
    }
}

#[test]
fn what_root_makes_in_the_state_folder_of_a_users_store_belongs_to_that_user() {
    if !is_root() {
        return;
    }
    let state = TempDir::new().unwrap();
    chown(state.path(), Some(OWNER.0), Some(OWNER.1)).unwrap();
    let store = UsersStore::new(&["--state", state.path().to_str().unwrap()]);
    store.put_by_owner(1, "kept");
    fs::remove_dir_all(fs::read_dir(state.path()).unwrap().next().unwrap().unwrap().path()).unwrap();
    run(&["verify".as_ref(), store.path("store").as_os_str(), "--rebuild-catalog".as_ref()]).expect(0);
    for path in everything_below(state.path()) {
        let found = fs::metadata(&path).unwrap();
        assert_eq!((found.uid(), found.gid()), OWNER, "{}", path.display());
    }
    store.expect_usable();
}

#[test]
fn a_users_store_does_not_get_roots_own_files_by_links() {
    if !is_root() {
        return;
    }
    let store = UsersStore::new(&[]);
    store.put_by_owner(1, "kept");
    let roots = TempDir::new().unwrap();
    let secret = roots.path().join("secret");
    fs::write(&secret, "root's").unwrap();
    for name in ["reserve", "journal.mark", "catalog.lock"] {
        let link = store.path("store").join(name);
        for is_symbolic in [true, false] {
            fs::remove_file(&link).unwrap();
            if is_symbolic { symlink(&secret, &link) } else { fs::hard_link(&secret, &link) }.unwrap();
            for verb in ["collect", "verify"] {
                // Whether the verb goes well with such a file in its way is not asked here.
                run(&[verb.as_ref(), store.path("store").as_os_str()]);
                let found = fs::metadata(&secret).unwrap();
                assert_eq!((found.uid(), found.gid()), (0, 0), "{name} after {verb}");
            }
        }
        fs::remove_file(&link).unwrap();
    }
}

#[test]
fn a_state_folder_that_init_makes_is_its_owners_alone_whatever_the_umask() {
    let folder = TempDir::new().unwrap();
    let script = "umask 0; cd \"$1\" && \"$0\" init store --state state/deep && rm -r state/deep && \
        \"$0\" verify store --rebuild-catalog";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_thalweg")]).arg(folder.path());
    Run::from(shell.output().unwrap()).expect(0);
    let state = folder.path().join("state/deep");
    for path in [state.clone()].into_iter().chain(everything_below(&state)) {
        let found = fs::metadata(&path).unwrap();
        let mode = if found.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(found.mode() & 0o7777, mode, "{}", path.display());
    }
}
