//! Contents on their way between a store and a command's directory.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use format::VersionRecord;
use repository::{Draft, FileWriter, Piece, Repository};
use store::ClaimOwner;

use crate::working_directory::make_above;
use crate::{Error, Result};

/// Read and digested at a time (bytes).
const READ_BYTES: usize = 1 << 20;

/// How files begin that hold arrays among other things.
const ARRAY_FORMATS: [(&[u8], &str); 8] = [
    (b"\x93NUMPY", "a file of numpy"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"CDF\x01", "a netCDF file"),
    (b"CDF\x02", "a netCDF file"),
    (b"CDF\x05", "a netCDF file"),
    (b"PK\x03\x04", "an archive"),
    (b"\x1f\x8b\x08", "a compressed file"),
    (b"SIMPLE  =", "a FITS file"),
];

/// Part of a version.
pub struct Stretch<'a> {
    pub version: &'a VersionRecord,
    pub start: u64,
    pub bytes: u64,
}

/// Returns what a file is, where it begins as one that holds more than values.
pub fn array_format(path: &Path) -> Result<Option<&'static str>> {
    let failed = |error| Error::io(path, error);
    let mut first = Vec::new();
    File::open(path).map_err(failed)?.take(16).read_to_end(&mut first).map_err(failed)?;
    Ok(ARRAY_FORMATS.iter().find(|(begin, _)| first.starts_with(begin)).map(|(_, name)| *name))
}

/// Writes a stretch to a new file; returns its digest.
pub fn write_out(repository: &Repository, stretch: &Stretch, path: &Path) -> Result<[u8; 32]> {
    make_above(path)?;
    let mut file = File::create_new(path).map_err(|error| Error::io(path, error))?;
    let (mut hasher, mut failure) = (blake3::Hasher::new(), None);
    let range = stretch.start..stretch.start + stretch.bytes;
    let read = repository.version_reader(stretch.version).pieces(range, |piece| {
        write_piece(&mut file, &mut hasher, piece).map_err(|error| {
            let reason = error.to_string();
            failure = Some(error);
            repository::Error::Failed(reason)
        })
    });
    if let Some(error) = failure {
        return Err(Error::io(path, error));
    }
    read?;
    file.set_len(stretch.bytes).map_err(|error| Error::io(path, error))?;
    Ok(*hasher.finalize().as_bytes())
}

fn write_piece(file: &mut File, hasher: &mut blake3::Hasher, piece: Piece) -> std::io::Result<()> {
    match piece {
        Piece::Data(bytes) => {
            hasher.update(bytes);
            file.write_all(bytes)
        }
        Piece::Zeros(count) | Piece::Hole(count) => {
            file.seek(SeekFrom::Current(count as i64))?;
            hash_zeros(hasher, count);
            Ok(())
        }
    }
}

/// Returns the digest of a version's content, which is read for it.
pub fn digest_of_version(repository: &Repository, version: &VersionRecord) -> Result<[u8; 32]> {
    let mut hasher = blake3::Hasher::new();
    repository.version_reader(version).pieces(0..version.size, |piece| {
        match piece {
            Piece::Data(bytes) => drop(hasher.update(bytes)),
            Piece::Zeros(count) | Piece::Hole(count) => hash_zeros(&mut hasher, count),
        }
        Ok(())
    })?;
    Ok(*hasher.finalize().as_bytes())
}

fn hash_zeros(hasher: &mut blake3::Hasher, mut left: u64) {
    let zeros = [0; 64 << 10];
    while left > 0 {
        let count = left.min(zeros.len() as u64);
        hasher.update(&zeros[..count as usize]);
        left -= count;
    }
}

/// Returns digest and length of a file.
pub fn digest(path: &Path) -> Result<([u8; 32], u64)> {
    let mut hasher = blake3::Hasher::new();
    let mut bytes = 0;
    read_through(path, |part| {
        bytes += part.len() as u64;
        hasher.update(part);
        Ok(())
    })?;
    Ok((*hasher.finalize().as_bytes(), bytes))
}

/// Stores a file's content, without a name.
pub fn store(repository: &Arc<Repository>, claim_owner: ClaimOwner, path: &Path) -> Result<Draft> {
    let mut writer = FileWriter::new(repository.clone(), claim_owner);
    read_through(path, |part| Ok(writer.write(part)?))?;
    Ok(writer.finish()?)
}

/// Hands over a file's content from its beginning on.
pub fn read_through(path: &Path, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let failed = |error| Error::io(path, error);
    let mut file = File::open(path).map_err(failed)?;
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match file.read(&mut buffer).map_err(failed)? {
            0 => return Ok(()),
            count => take(&buffer[..count])?,
        }
    }
}
