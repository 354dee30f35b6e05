//! The files that a command is made of: its program, and files of the caller's directory that its arguments name.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use format::{ErrorCode, RecipeProgram, RecipeRecord, StorePath};

use crate::{Error, Result, files};

/// The first line of a script names its interpreter within so many bytes.
const SCRIPT_BYTES: usize = 256;

/// A command as it runs in its own directory.
pub struct Programs {
    pub arguments: Vec<Vec<u8>>,
    pub files: Vec<ProgramFile>,
}

pub struct ProgramFile {
    pub record: RecipeProgram,
    pub source: PathBuf,
}

/// Where programs are looked for, and what of them is kept.
pub struct ProgramSearch<'a> {
    /// The caller's.
    pub directory: &'a Path,
    /// `$PATH` of the command.
    pub path: &'a [u8],
    /// Named besides those that the arguments name.
    pub more: &'a [PathBuf],
    /// Names that are inputs and outputs.
    pub others: BTreeSet<Vec<u8>>,
    /// Longer ones are not kept.
    pub kept_bytes: u64,
}

impl ProgramSearch<'_> {
    pub fn find(&self, arguments: &[Vec<u8>]) -> Result<Programs> {
        let mut arguments = arguments.to_vec();
        let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
        let program = self.program(&arguments[0])?;
        if let Place::Absolute(path) = &program
            && arguments[0].contains(&b'/')
        {
            arguments[0] = path.as_os_str().as_bytes().to_vec();
        }
        let named = arguments[1..].iter().filter_map(|argument| self.named_file(argument));
        let more = self.more.iter().map(|path| self.place(path.as_os_str().as_bytes()));
        let mut places: Vec<Place> = vec![program];
        places.extend(named);
        more.into_iter().try_for_each(|place| place.map(|place| places.push(place)))?;
        while let Some(place) = places.pop() {
            self.check_apart(&place)?;
            let file = self.file(&place)?;
            if seen.insert(file.record.name.clone()) {
                places.extend(interpreter(&file.source));
                found.push(file);
            }
        }
        found.sort_unstable_by(|one, next| one.record.name.cmp(&next.record.name));
        Ok(Programs { arguments, files: found })
    }

    /// Refuses a program in the place of an input or output.
    fn check_apart(&self, place: &Place) -> Result<()> {
        match place {
            Place::Relative(name) if self.others.contains(name) => {
                let name = String::from_utf8_lossy(name);
                let why = format!(
                    "{name}: is a program, and an input or output too; give that another name, as in NAME=STORE::PATH"
                );
                Err(Error::refused(ErrorCode::SameTarget, why))
            }
            _ => Ok(()),
        }
    }

    fn program(&self, name: &[u8]) -> Result<Place> {
        if name.contains(&b'/') {
            return self.place(name);
        }
        let directories =
            self.path.split(|byte| *byte == b':').map(|directory| Path::new(OsStr::from_bytes(directory)));
        let candidates = directories.map(|directory| self.directory.join(directory).join(OsStr::from_bytes(name)));
        let found = candidates.into_iter().find(|candidate| is_executable(candidate));
        let shown = String::from_utf8_lossy(name);
        found
            .map(Place::Absolute)
            .ok_or_else(|| Error::refused(ErrorCode::NoLocalFile, format!("{shown}: no such program in $PATH")))
    }

    /// A file that an argument names, from the caller's directory on, or with its whole path.
    fn named_file(&self, argument: &[u8]) -> Option<Place> {
        let path = Path::new(OsStr::from_bytes(argument));
        if path.is_absolute() {
            return path.is_file().then(|| Place::Absolute(path.to_path_buf()));
        }
        let name = relative(argument)?;
        let is_file = fs::metadata(self.directory.join(OsStr::from_bytes(&name))).is_ok_and(|found| found.is_file());
        (is_file && !self.others.contains(&name)).then_some(Place::Relative(name))
    }

    fn place(&self, name: &[u8]) -> Result<Place> {
        if let Some(name) = relative(name) {
            return Ok(Place::Relative(name));
        }
        let path = self.directory.join(OsStr::from_bytes(name));
        let canonical = fs::canonicalize(&path).map_err(|error| Error::io(&path, error))?;
        Ok(Place::Absolute(if name.starts_with(b"/") { path } else { canonical }))
    }

    fn file(&self, place: &Place) -> Result<ProgramFile> {
        let (name, source) = match place {
            Place::Relative(name) => (name.clone(), self.directory.join(OsStr::from_bytes(name))),
            Place::Absolute(path) => (path.clone().into_os_string().into_vec(), path.clone()),
        };
        let mode = fs::metadata(&source).map_err(|error| Error::io(&source, error))?.permissions().mode() & 0o7777;
        let (digest, bytes) = files::digest(&source)?;
        let is_kept = matches!(place, Place::Relative(_)) && bytes <= self.kept_bytes;
        Ok(ProgramFile { record: RecipeProgram { name, digest, bytes, mode, is_kept }, source })
    }
}

enum Place {
    /// From the caller's directory on.
    Relative(Vec<u8>),
    Absolute(PathBuf),
}

/// Returns a name without `./`, if it stays in the directory that it begins at.
fn relative(written: &[u8]) -> Option<Vec<u8>> {
    let mut name = written;
    while let Some(rest) = name.strip_prefix(b"./") {
        name = rest;
    }
    let path = StorePath::new(name).ok()?;
    (!name.starts_with(b"/") && !path.is_root() && path.as_bytes() == name).then(|| name.to_vec())
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Returns the interpreter that a script's first line names.
fn interpreter(source: &Path) -> Option<Place> {
    let mut first = Vec::new();
    fs::File::open(source).ok()?.take(SCRIPT_BYTES as u64).read_to_end(&mut first).ok()?;
    let line = first.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let word = line.split(u8::is_ascii_whitespace).find(|word| !word.is_empty())?;
    let path = PathBuf::from(OsStr::from_bytes(word));
    (path.is_absolute() && path.is_file()).then_some(Place::Absolute(path))
}

/// Digests of program files, each computed once.
#[derive(Default)]
pub struct ProgramDigests(HashMap<PathBuf, Option<[u8; 32]>>);

impl ProgramDigests {
    pub fn of(&mut self, path: &Path) -> Option<[u8; 32]> {
        let digest = || files::digest(path).ok().map(|(digest, _)| digest);
        *self.0.entry(path.to_path_buf()).or_insert_with(digest)
    }
}

/// Says why the programs of recipes cannot be run as they were recorded. Those that are not kept are looked for in the
/// caller's directory, or where they were.
pub fn obstacle(directory: &Path) -> impl FnMut(&RecipeRecord) -> Option<String> + use<> {
    let (directory, mut digests) = (directory.to_path_buf(), ProgramDigests::default());
    move |record| {
        record.programs.iter().filter(|program| !program.is_kept).find_map(|program| {
            let path = source_of(program, &directory);
            let shown = path.display();
            match digests.of(&path) {
                Some(digest) if digest == program.digest => None,
                Some(_) => Some(format!("its program {shown} is another one than when it was recorded")),
                None => Some(format!("its program {shown} is not kept, and is not there")),
            }
        })
    }
}

/// Returns where a program that is not kept is to be found.
pub fn source_of(program: &RecipeProgram, directory: &Path) -> PathBuf {
    directory.join(OsStr::from_bytes(&program.name))
}
