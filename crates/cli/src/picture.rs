//! Files that figures are written to: SVG or PNG, by their name.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser, TypedValueParser};

use crate::{output_file, shown};

#[derive(Clone, Debug)]
pub struct Picture {
    path: PathBuf,
    is_png: bool,
}

/// Refuses names that say neither.
pub fn parser() -> impl TypedValueParser<Value = Picture> {
    OsStringValueParser::new().try_map(Picture::new)
}

impl Picture {
    fn new(name: OsString) -> Result<Self, String> {
        let path = PathBuf::from(name);
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("svg") => Ok(Picture { path, is_png: false }),
            Some("png") => Ok(Picture { path, is_png: true }),
            _ => Err("its name ends in neither .svg nor .png".to_owned()),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn name(&self) -> String {
        shown::local(&self.path)
    }

    pub fn write(&self, page: &plot::Page) -> anyhow::Result<()> {
        let bytes = if self.is_png { page.png() } else { page.svg().into_bytes() };
        output_file::write(&self.path, &bytes)
    }
}
