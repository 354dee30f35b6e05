//! Files that no other user may read: the secret of a node and its clients, and the key of a node's certificate.
//!
//! Only its owner may read such a file; one that belongs to root may also be read by its group, so that an
//! administrator can give it to a project. Anything else is refused, at the node as at its clients.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use format::{ErrorCode, SECRET_BYTES, Secret};

use crate::random::random_bytes;
use crate::regular_file::open_regular;
use crate::{Error, Result};

/// Names the secret file of the nodes that have none of their own.
pub const SECRET_FILE_VARIABLE: &str = "THALWEG_SECRET_FILE";
/// Names the secret of the nodes in `THALWEG_NODES` where `thalweg run` started them for this job alone.
pub const JOB_SECRET_FILE_VARIABLE: &str = "THALWEG_JOB_SECRET_FILE";
/// A longer file is no secret of ours, and is not read (bytes).
const MAX_FILE_BYTES: u64 = 4096;
const READABLE_BY_GROUP: u32 = 0o040;
const OPEN_TO_OTHERS: u32 = 0o077;

/// Reads the secret from a file, which others must not be able to read.
pub fn read_secret(path: &Path) -> Result<Secret> {
    let text = read_private(path, "secret file", "make one with `thalweg secret FILE`", MAX_FILE_BYTES)?;
    Secret::from_text(&text).map_err(|error| refusal(path, "secret file", &error.to_string()))
}

fn refusal(path: &Path, what: &str, why: &str) -> Error {
    Error::Refused(ErrorCode::SecretRefused, format!("{what} {}: {why}", path.display()))
}

/// Reads a file (`what` it is) that others must not be able to read; at most `max_bytes` of it.
pub(crate) fn read_private(path: &Path, what: &str, if_missing: &str, max_bytes: u64) -> Result<String> {
    let refuse = |why: String| refusal(path, what, &why);
    let file = open_regular(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => refuse(format!("{error}; {if_missing}")),
        std::io::ErrorKind::PermissionDenied => {
            refuse(format!("{error}; it is another user's, or lies where you may not look: ask for a copy of your own"))
        }
        _ => refuse(error.to_string()),
    })?;
    let found = file.metadata().map_err(|error| refuse(error.to_string()))?;
    // SAFETY: it only asks for this process's user.
    let user = unsafe { libc::geteuid() };
    if found.uid() != 0 && found.uid() != user {
        return Err(refuse(format!("it belongs to user {}, neither to you nor to root", found.uid())));
    }
    let allowed = if found.uid() == 0 { READABLE_BY_GROUP } else { 0 };
    if found.mode() & OPEN_TO_OTHERS & !allowed != 0 {
        let why = format!("others may read or change it (mode {:o}); run `chmod 600` on it", found.mode() & 0o7777);
        return Err(refuse(why));
    }
    let mut text = String::new();
    file.take(max_bytes).read_to_string(&mut text).map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidData => {
            refuse(format!("it holds other bytes than text, so it is none; {if_missing}"))
        }
        _ => refuse(error.to_string()),
    })?;
    Ok(text)
}

/// Returns the secret that the environment names; none when it names none.
pub fn secret_of_environment() -> Result<Option<Secret>> {
    secret_named_by(SECRET_FILE_VARIABLE)
}

/// Returns the secret of the job's own nodes; none when it has no nodes of its own.
pub(crate) fn secret_of_job() -> Result<Option<Secret>> {
    secret_named_by(JOB_SECRET_FILE_VARIABLE)
}

fn secret_named_by(variable: &str) -> Result<Option<Secret>> {
    let named = std::env::var_os(variable).filter(|path| !path.is_empty());
    named.map(|path| read_secret(&PathBuf::from(path))).transpose()
}

/// Creates a file with a new random secret, which only this user may read. An existing file is not touched.
pub fn create_secret(path: &Path) -> Result<()> {
    let refuse = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            let why = "it exists, and is not replaced; remove it, or name another";
            Error::Refused(ErrorCode::OutputFile, format!("secret file {}: {why}", path.display()))
        }
        _ => refusal(path, "secret file", &error.to_string()),
    };
    let text = Secret::text_of(&random_bytes::<SECRET_BYTES>()?);
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(refuse)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(refuse)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("thalweg-secret-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_new_secret_is_random_is_its_owners_alone_and_replaces_no_file() {
        let folder = folder("new");
        let (first, second) = (folder.join("first"), folder.join("second"));
        create_secret(&first).unwrap();
        create_secret(&second).unwrap();
        assert_eq!(std::fs::metadata(&first).unwrap().mode() & 0o7777, 0o600);
        assert!(read_secret(&first).unwrap() != read_secret(&second).unwrap());
        let before = std::fs::read(&first).unwrap();
        assert!(create_secret(&first).unwrap_err().to_string().contains("exists, and is not replaced"));
        assert_eq!(std::fs::read(&first).unwrap(), before);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_secret_file_that_others_may_read_is_refused() {
        let folder = folder("open");
        let path = folder.join("secret");
        create_secret(&path).unwrap();
        for mode in [0o604, 0o644, 0o620, 0o602, 0o666] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let error = read_secret(&path).unwrap_err().to_string();
            assert!(error.contains("chmod 600") && error.contains("secret"), "{mode:o}: {error}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o400)).unwrap();
        assert!(read_secret(&path).is_ok());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_no_secret_file_is_refused_and_named() {
        let folder = folder("none");
        for (name, content) in [("empty", ""), ("password", "hunter2\n")] {
            let path = folder.join(name);
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            let error = read_secret(&path).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("thalweg secret") && !error.contains("hunter2"), "{error}");
        }
        assert!(read_secret(&folder).is_err());
        assert!(read_secret(&folder.join("missing")).unwrap_err().to_string().contains("thalweg secret"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
