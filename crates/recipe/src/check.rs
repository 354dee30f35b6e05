//! Whether a file that was made again is the one that was dropped.

use std::path::Path;

use format::{RecipeOutput, RecipeStatistics, RecipeTolerance};

use crate::statistics::{Counting, disagreement};
use crate::{Error, Result, files};

/// How a file agrees with the one that it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// Bit for bit.
    Exact,
    /// In its statistics, as the recipe allows.
    Statistical,
    /// Not at all, which the caller accepts.
    None,
}

/// Compares a file with a recipe's output.
pub fn compare(output: &RecipeOutput, recipe_id: &str, path: &Path) -> Result<Agreement> {
    let (digest, bytes) = files::digest(path)?;
    if (digest, bytes) == (output.digest, output.bytes) {
        return Ok(Agreement::Exact);
    }
    let name = String::from_utf8_lossy(&output.name).into_owned();
    let size = match bytes == output.bytes {
        true => String::new(),
        false => format!(" ({} bytes, not {})", bytes, output.bytes),
    };
    let tolerance = output.tolerance.as_ref().filter(|_| bytes == output.bytes);
    let Some(RecipeTolerance { relative, element, statistics }) = tolerance else {
        return Err(Error::Differs(format!(
            "recipe {recipe_id}: its command made another {name} than when it was recorded{size}: it is not the same bit for \
             bit, and the recipe states no tolerance for that"
        )));
    };
    match disagreement(statistics, &count(*element, path)?, *relative) {
        None => Ok(Agreement::Statistical),
        Some(why) => Err(Error::Differs(format!(
            "recipe {recipe_id}: its command made another {name} than when it was recorded{size}: it is neither the same bit \
             for bit nor within {relative:e} of the largest value: {why}"
        ))),
    }
}

/// Returns the statistics of a file of floats.
pub fn count(element: format::FloatType, path: &Path) -> Result<RecipeStatistics> {
    let bytes = std::fs::metadata(path).map_err(|error| Error::io(path, error))?.len();
    let mut counting = Counting::new(element, bytes);
    files::read_through(path, |part| {
        counting.add(part);
        Ok(())
    })?;
    Ok(counting.finish())
}
