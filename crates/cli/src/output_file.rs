//! Files that commands write beside a store: they appear whole, and what had their name stays until then.

use std::fs::{File, Metadata, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::fs::{Access, access};

use crate::failure::misuse;
use crate::shown;

/// Finds out before the work whether a file can be written there, and that it is none of those that are read.
pub fn check<'a>(path: &Path, inputs: impl IntoIterator<Item = &'a Path>) -> anyhow::Result<()> {
    let found = std::fs::metadata(path).ok();
    if found.as_ref().is_some_and(Metadata::is_dir) {
        misuse!(OutputFile: "{}: is a directory; name a file to write", shown::local(path));
    }
    let target = std::fs::canonicalize(path).ok();
    for input in inputs {
        if is_same(found.as_ref(), std::fs::metadata(input).ok().as_ref()) {
            misuse!(OutputFile: "{}: is one of the files that are read; write another one", shown::local(path));
        }
        if target.as_deref().is_some_and(|target| lies_below(target, input)) {
            let input = shown::local(input);
            misuse!(OutputFile: "{}: is there, in {input}, which is read; remove it, or write another one", shown::local(path));
        }
    }
    let folder = folder(path);
    access(&folder, Access::WRITE_OK | Access::EXEC_OK)
        .with_context(|| format!("{}: cannot be written in {}", shown::local(path), shown::local(&folder)))
}

/// Refuses two outputs that are one file: the second would take the first one's place.
pub fn check_apart(paths: &[&Path]) -> anyhow::Result<()> {
    for (number, path) in paths.iter().enumerate() {
        if paths[..number].iter().any(|other| place(other) == place(path)) {
            misuse!(OutputFile: "{}: is to be written twice; name another file for one of both", shown::local(path));
        }
    }
    Ok(())
}

/// Returns where a file is or will be, whatever links lead there.
fn place(path: &Path) -> PathBuf {
    let to_be = || folder(path).canonicalize().ok().map(|folder| folder.join(path.file_name().unwrap_or_default()));
    path.canonicalize().ok().or_else(to_be).unwrap_or_else(|| path.to_owned())
}

/// A file that only lies beside those that are read is none of them.
fn lies_below(target: &Path, input: &Path) -> bool {
    std::fs::canonicalize(input).is_ok_and(|input| input.is_dir() && target.starts_with(input))
}

fn is_same(one: Option<&Metadata>, other: Option<&Metadata>) -> bool {
    let identity = |of: &Metadata| (of.dev(), of.ino());
    one.is_some() && one.map(identity) == other.map(identity)
}

fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Writes a file, or one in place of that name's; pipes and devices get the bytes.
pub fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    // Of a symbolic link what it leads to is written.
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let is_special = std::fs::metadata(&target).is_ok_and(|found| !found.is_file());
    let written = if is_special { std::fs::write(&target, bytes) } else { replace(&target, bytes) };
    written.with_context(|| shown::local(path).to_string())
}

fn replace(target: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut name = std::ffi::OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(format!(".{}.new", std::process::id()));
    let draft = folder(target).join(name);
    let replaced = write_draft(&draft, bytes).and_then(|()| std::fs::rename(&draft, target));
    if replaced.is_err() {
        // What went wrong is said; that the draft stays too would not help.
        let _ = std::fs::remove_file(&draft);
    }
    replaced
}

fn write_draft(draft: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file: File = OpenOptions::new().write(true).create_new(true).open(draft)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_whole_and_nothing_is_left_beside_it() {
        let folder = std::env::temp_dir().join(format!("thalweg-output-file-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("made");
        for bytes in [&b"first"[..], b"second"] {
            check(&path, []).unwrap();
            write(&path, bytes).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), bytes);
        }
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        assert!(check(&path, [path.as_path()]).unwrap_err().to_string().contains("one of the files that are read"));
        assert!(check(&folder, []).unwrap_err().to_string().contains("is a directory"));
        assert!(check(&folder.join("missing/made"), []).is_err());
        assert!(write(&folder.join("missing/made"), b"").is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn files_below_a_folder_that_is_read_and_files_written_twice_are_refused() {
        let folder = std::env::temp_dir().join(format!("thalweg-output-below-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("data/below")).unwrap();
        let (data, there) = (folder.join("data"), folder.join("data/below/run.svg"));
        std::fs::write(&there, "data").unwrap();
        let refusal = |path: &Path| check(path, [data.as_path()]).unwrap_err().to_string();
        assert!(refusal(&there).contains("which is read"));
        let link = folder.join("link");
        std::os::unix::fs::symlink(&there, &link).unwrap();
        assert!(refusal(&link).contains("which is read"));
        check(&folder.join("data/new.svg"), [data.as_path()]).unwrap();
        check(&folder.join("beside.svg"), [data.as_path()]).unwrap();
        let new = [folder.join("a.html"), folder.join("data/../a.html"), folder.join("b.html")];
        check_apart(&[&new[0], &new[2]]).unwrap();
        assert!(check_apart(&[&new[0], &new[1]]).unwrap_err().to_string().contains("written twice"));
        assert!(check_apart(&[&there, &link]).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
