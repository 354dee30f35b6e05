//! Recipes: the record of a command that made files of a store, and the few facts that listings show of it.
//!
//! A recipe's file has the record, then the program files that are kept, then the contents of its inputs, each as long as the
//! record says and in its order.

use std::collections::BTreeSet;

use crate::{
    FileId, FileTime, FloatType, MAX_FILE_BYTES, MAX_HOST_BYTES, Reader, Result, StorePath, Writer, check_version,
    corrupt,
};

/// The directory in the root of a store where its recipes lie. It is the store's own.
pub const RECIPE_DIRECTORY: &[u8] = b".thalweg-recipes";
/// The extended attribute of a recipe's file that holds its [`RecipeAttribute`].
pub const RECIPE_ATTRIBUTE: &[u8] = b"thalweg.recipe";
/// Of a recipe's name: so many bytes of its digest, in hexadecimal digits.
pub const RECIPE_ID_BYTES: usize = 8;

/// Of a record (bytes): a command line is at most some MiB.
pub const MAX_RECIPE_BYTES: u64 = 64 << 20;
/// Outputs of one recipe: their numbers stand in manifests.
pub const MAX_RECIPE_OUTPUTS: usize = 1 << 20;
/// Stretches of which the statistics of an output have the mean.
pub const STATISTICS_STRETCHES: usize = 64;

const VERSION: u16 = 0;

/// A file that the command is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecipeProgram {
    /// From the working directory on, or absolute.
    pub name: Vec<u8>,
    pub digest: [u8; 32],
    pub bytes: u64,
    /// Permission bits.
    pub mode: u32,
    /// Its content is in the recipe's file.
    pub is_kept: bool,
}

/// A file that the command reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecipeInput {
    /// Where the command finds it, from the working directory on.
    pub name: Vec<u8>,
    pub path: StorePath,
    /// The version that it was.
    pub file: FileId,
    pub number: u64,
    pub bytes: u64,
    pub digest: [u8; 32],
}

/// How far an output that is made again may differ.
#[derive(Clone, Debug, PartialEq)]
pub struct RecipeTolerance {
    /// Of the largest value; above 0 and below 1.
    pub relative: f64,
    pub element: FloatType,
    pub statistics: RecipeStatistics,
}

/// Statistics of a file of floats. All are finite; 0 where no value is.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct RecipeStatistics {
    pub values: u64,
    /// Values that are no numbers, or infinite; they are left out below.
    pub non_finite: u64,
    pub minimum: f64,
    pub maximum: f64,
    pub mean: f64,
    pub deviation: f64,
    /// Of equal stretches of the file, [`STATISTICS_STRETCHES`] of them at most.
    pub means: Vec<f64>,
}

/// A file that the command makes.
#[derive(Clone, Debug, PartialEq)]
pub struct RecipeOutput {
    /// Where the command leaves it, from the working directory on.
    pub name: Vec<u8>,
    /// Where it went.
    pub path: StorePath,
    pub bytes: u64,
    pub digest: [u8; 32],
    pub tolerance: Option<RecipeTolerance>,
}

/// A command that made files of the store.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct RecipeRecord {
    pub arguments: Vec<Vec<u8>>,
    pub programs: Vec<RecipeProgram>,
    /// Sorted by name, none twice.
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
    pub inputs: Vec<RecipeInput>,
    /// What it also reads and is not kept, in words.
    pub inputs_not_kept: Vec<String>,
    pub outputs: Vec<RecipeOutput>,
    /// Directories that are made before it runs, besides those of its inputs and programs.
    pub directories: Vec<Vec<u8>>,
    /// It may leave other files in its working directory.
    pub ignores_others: bool,
    /// How long it took (nanoseconds).
    pub duration_ns: u64,
    pub recorded: FileTime,
    pub host: String,
    pub uid: u32,
}

/// The facts of a recipe that are known without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecipeAttribute {
    /// BLAKE3 of the record, which is so long.
    pub digest: [u8; 32],
    pub record_bytes: u64,
    pub duration_ns: u64,
    /// All that it needs is kept.
    pub is_recomputable: bool,
}

impl RecipeProgram {
    fn write(&self, to: &mut Writer) {
        to.blob(&self.name).put(&self.digest).u64(self.bytes).u32(self.mode).bool(self.is_kept);
    }

    fn read(from: &mut Reader) -> Result<Self> {
        Ok(RecipeProgram {
            name: from.blob()?.to_vec(),
            digest: from.array()?,
            bytes: from.u64()?,
            mode: from.u32()?,
            is_kept: from.bool()?,
        })
    }
}

impl RecipeInput {
    fn write(&self, to: &mut Writer) {
        to.blob(&self.name).blob(self.path.as_bytes()).u64(self.file.0).u64(self.number).u64(self.bytes);
        to.put(&self.digest);
    }

    fn read(from: &mut Reader) -> Result<Self> {
        Ok(RecipeInput {
            name: from.blob()?.to_vec(),
            path: StorePath::new(from.blob()?)?,
            file: FileId(from.u64()?),
            number: from.u64()?,
            bytes: from.u64()?,
            digest: from.array()?,
        })
    }
}

impl RecipeOutput {
    fn write(&self, to: &mut Writer) {
        to.blob(&self.name).blob(self.path.as_bytes()).u64(self.bytes).put(&self.digest);
        to.option(self.tolerance.as_ref(), |to, tolerance| tolerance.write(to));
    }

    fn read(from: &mut Reader) -> Result<Self> {
        Ok(RecipeOutput {
            name: from.blob()?.to_vec(),
            path: StorePath::new(from.blob()?)?,
            bytes: from.u64()?,
            digest: from.array()?,
            tolerance: from.option(RecipeTolerance::read)?,
        })
    }
}

impl RecipeTolerance {
    fn write(&self, to: &mut Writer) {
        let RecipeStatistics { values, non_finite, minimum, maximum, mean, deviation, means } = &self.statistics;
        float(to.text(&self.element.to_string()), self.relative);
        to.u64(*values).u64(*non_finite);
        [minimum, maximum, mean, deviation].into_iter().for_each(|value| float(to, *value));
        to.list(means, |to, mean| float(to, *mean));
    }

    fn read(from: &mut Reader) -> Result<Self> {
        let element = from.text()?.parse()?;
        let relative = finite(from)?;
        if relative <= 0.0 || relative >= 1.0 {
            return corrupt("recipe", "a tolerance that is not between 0 and 1");
        }
        let statistics = RecipeStatistics {
            values: from.u64()?,
            non_finite: from.u64()?,
            minimum: finite(from)?,
            maximum: finite(from)?,
            mean: finite(from)?,
            deviation: finite(from)?,
            means: from.list(8, finite)?,
        };
        if statistics.means.len() > STATISTICS_STRETCHES || statistics.non_finite > statistics.values {
            return corrupt("recipe", "statistics that no file has");
        }
        Ok(RecipeTolerance { relative, element, statistics })
    }
}

fn float(to: &mut Writer, value: f64) {
    to.u64(value.to_bits());
}

fn finite(from: &mut Reader) -> Result<f64> {
    let value = f64::from_bits(from.u64()?);
    if value.is_finite() { Ok(value) } else { corrupt("recipe", "a number that is not finite") }
}

impl RecipeRecord {
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Writer::new();
        to.u16(VERSION).list(&self.arguments, |to, argument| {
            to.blob(argument);
        });
        to.list(&self.programs, |to, program| program.write(to));
        to.list(&self.environment, |to, (name, value)| {
            to.blob(name).blob(value);
        });
        to.list(&self.inputs, |to, input| input.write(to));
        to.list(&self.inputs_not_kept, |to, description| {
            to.text(description);
        });
        to.list(&self.outputs, |to, output| output.write(to));
        to.list(&self.directories, |to, directory| {
            to.blob(directory);
        });
        to.bool(self.ignores_others).u64(self.duration_ns);
        to.i64(self.recorded.seconds).u32(self.recorded.nanoseconds).text(&self.host).u32(self.uid);
        to.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let what = "recipe";
        let mut from = Reader::new(what, bytes);
        check_version(what, from.u16()?)?;
        let record = RecipeRecord {
            arguments: from.list(4, |from| Ok(from.blob()?.to_vec()))?,
            programs: from.list(49, RecipeProgram::read)?,
            environment: from.list(8, |from| Ok((from.blob()?.to_vec(), from.blob()?.to_vec())))?,
            inputs: from.list(64, RecipeInput::read)?,
            inputs_not_kept: from.list(4, Reader::text)?,
            outputs: from.list(49, RecipeOutput::read)?,
            directories: from.list(4, |from| Ok(from.blob()?.to_vec()))?,
            ignores_others: from.bool()?,
            duration_ns: from.u64()?,
            recorded: FileTime { seconds: from.i64()?, nanoseconds: from.u32()? },
            host: from.text()?,
            uid: from.u32()?,
        };
        from.end()?;
        match record.refusal() {
            Some(why) => corrupt(what, why),
            None => Ok(record),
        }
    }

    /// Returns why this cannot be a recipe.
    pub fn refusal(&self) -> Option<&'static str> {
        let strings = self.arguments.iter().chain(self.environment.iter().flat_map(|(name, value)| [name, value]));
        let names = self.inputs.iter().map(|input| &input.name).chain(self.outputs.iter().map(|output| &output.name));
        let mut seen = BTreeSet::new();
        let has_twice = names.clone().any(|name| !seen.insert(name));
        let mut names = names.chain(&self.directories);
        let is_sorted = self.environment.is_sorted_by(|(one, _), (next, _)| one < next);
        let is_variable = |name: &[u8]| !name.is_empty() && !name.contains(&b'=');
        if self.arguments.is_empty() || strings.into_iter().any(|text| text.contains(&0)) {
            Some("its command is none")
        } else if !is_sorted || !self.environment.iter().all(|(name, _)| is_variable(name)) {
            Some("its environment is not in order")
        } else if !names.all(|name| is_relative(name)) {
            Some("a file of it is outside of the working directory")
        } else if has_twice {
            Some("two files of it have one name in the working directory")
        } else if !self.programs.iter().all(|program| is_relative(&program.name) || is_absolute(program)) {
            Some("a program of it is nowhere")
        } else if self.outputs.is_empty() || self.outputs.len() > MAX_RECIPE_OUTPUTS {
            Some("it has no outputs, or too many")
        } else if self.kept_bytes().is_none_or(|kept| kept > MAX_FILE_BYTES - MAX_RECIPE_BYTES) {
            Some("it would be longer than any file")
        } else if self.host.len() > MAX_HOST_BYTES || self.host.contains(char::is_control) {
            Some("its host has no possible name")
        } else if self.inputs_not_kept.iter().any(|text| text.contains(char::is_control)) {
            Some("it describes an input with control characters")
        } else if self.recorded.nanoseconds >= 1_000_000_000 {
            Some("its time is none")
        } else {
            None
        }
    }

    /// Returns the length of what follows the record in the recipe's file (bytes).
    pub fn kept_bytes(&self) -> Option<u64> {
        let programs = self.programs.iter().filter(|program| program.is_kept).map(|program| program.bytes);
        let mut lengths = programs.chain(self.inputs.iter().map(|input| input.bytes));
        lengths.try_fold(0_u64, |sum, bytes| sum.checked_add(bytes))
    }

    /// Returns the digest that names a recipe, of its encoded record.
    pub fn digest(encoded: &[u8]) -> [u8; 32] {
        *blake3::hash(encoded).as_bytes()
    }
}

/// Returns the name of the recipe with this digest.
pub fn recipe_id(digest: &[u8; 32]) -> String {
    digest[..RECIPE_ID_BYTES].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns whether the name stays in the directory that it begins at.
fn is_relative(name: &[u8]) -> bool {
    StorePath::new(name).is_ok_and(|path| !path.is_root() && path.as_bytes() == name)
}

/// Its content is not put there again: a file outside of the working directory is nobody's to write.
fn is_absolute(program: &RecipeProgram) -> bool {
    program.name.starts_with(b"/") && !program.name.contains(&0) && !program.is_kept
}

impl RecipeAttribute {
    pub fn of(record: &RecipeRecord, encoded: &[u8]) -> Self {
        RecipeAttribute {
            digest: RecipeRecord::digest(encoded),
            record_bytes: encoded.len() as u64,
            duration_ns: record.duration_ns,
            is_recomputable: record.inputs_not_kept.is_empty(),
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut to = Writer::new();
        to.u16(VERSION).put(&self.digest).u64(self.record_bytes).u64(self.duration_ns).bool(self.is_recomputable);
        to.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let what = "recipe's attribute";
        let mut from = Reader::new(what, bytes);
        check_version(what, from.u16()?)?;
        let attribute = RecipeAttribute {
            digest: from.array()?,
            record_bytes: from.u64()?,
            duration_ns: from.u64()?,
            is_recomputable: from.bool()?,
        };
        from.end()?;
        if attribute.record_bytes > MAX_RECIPE_BYTES {
            return corrupt(what, "its record is longer than any");
        }
        Ok(attribute)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> StorePath {
        StorePath::new(text.as_bytes()).unwrap()
    }

    fn record() -> RecipeRecord {
        let statistics =
            RecipeStatistics { values: 3, non_finite: 1, mean: 0.5, means: vec![0.5], ..Default::default() };
        let tolerance = RecipeTolerance { relative: 1e-6, element: FloatType::F64, statistics };
        RecipeRecord {
            arguments: vec![b"./sim".to_vec(), b"\xff".to_vec()],
            programs: vec![
                RecipeProgram { name: b"sim".to_vec(), digest: [1; 32], bytes: 9, mode: 0o755, is_kept: true },
                RecipeProgram { name: b"/bin/sh".to_vec(), digest: [2; 32], bytes: 7, mode: 0o755, is_kept: false },
            ],
            environment: vec![(b"LANG".to_vec(), b"C".to_vec()), (b"PATH".to_vec(), b"/bin".to_vec())],
            inputs: vec![RecipeInput {
                name: b"in/a".to_vec(),
                path: path("in/a"),
                file: FileId(3),
                number: 2,
                bytes: 100,
                digest: [3; 32],
            }],
            inputs_not_kept: vec!["the detector".into()],
            outputs: vec![RecipeOutput {
                name: b"out".to_vec(),
                path: path("run/out"),
                bytes: 24,
                digest: [4; 32],
                tolerance: Some(tolerance),
            }],
            directories: vec![b"run".to_vec()],
            ignores_others: true,
            duration_ns: 5,
            recorded: FileTime { seconds: 6, nanoseconds: 7 },
            host: "n7".into(),
            uid: 1000,
        }
    }

    #[test]
    fn recipes_come_back() {
        let bytes = record().encode();
        assert_eq!(RecipeRecord::decode(&bytes).unwrap(), record());
        assert!((0..bytes.len()).all(|cut| RecipeRecord::decode(&bytes[..cut]).is_err()));
        let attribute = RecipeAttribute::of(&record(), &bytes);
        assert!(!attribute.is_recomputable);
        assert_eq!(RecipeAttribute::decode(&attribute.encode()).unwrap(), attribute);
        let forged = RecipeAttribute { record_bytes: MAX_RECIPE_BYTES + 1, ..attribute };
        assert!(RecipeAttribute::decode(&forged.encode()).is_err());
    }

    #[test]
    fn names_that_leave_the_working_directory_are_refused() {
        for name in ["../out", "/out", "", "a/../b", "a//b", "a\0"] {
            let mut forged = record();
            forged.outputs[0].name = name.into();
            assert!(RecipeRecord::decode(&forged.encode()).is_err(), "output {name:?}");
            let mut forged = record();
            forged.inputs[0].name = name.into();
            assert!(RecipeRecord::decode(&forged.encode()).is_err(), "input {name:?}");
            let mut forged = record();
            forged.programs[0].name = name.into();
            assert!(RecipeRecord::decode(&forged.encode()).is_err(), "program {name:?}");
            let mut forged = record();
            forged.directories[0] = name.into();
            assert!(RecipeRecord::decode(&forged.encode()).is_err(), "directory {name:?}");
        }
    }

    #[test]
    fn impossible_recipes_are_refused() {
        let forgeries: [fn(&mut RecipeRecord); 9] = [
            |recipe| recipe.arguments.clear(),
            |recipe| recipe.arguments[1] = vec![0],
            |recipe| recipe.environment.swap(0, 1),
            |recipe| recipe.environment[0].0 = b"A=B".to_vec(),
            |recipe| recipe.outputs.clear(),
            |recipe| recipe.inputs[0].bytes = u64::MAX,
            |recipe| recipe.host = "a\nb".into(),
            |recipe| recipe.recorded.nanoseconds = 1_000_000_000,
            |recipe| recipe.outputs[0].tolerance.as_mut().unwrap().relative = f64::NAN,
        ];
        for (number, forge) in forgeries.iter().enumerate() {
            let mut forged = record();
            forge(&mut forged);
            assert!(RecipeRecord::decode(&forged.encode()).is_err(), "forgery {number}");
        }
    }
}
