//! Packs the pages of `docs/errors.md`, which few runs read: the command carries them in a quarter of their bytes.

use std::io::Write;
use std::path::Path;
use std::{env, fs, io};

use lzma_rust2::{Lzma2Options, Lzma2Writer};

const PAGES: &str = "../../docs/errors.md";
/// More than the pages are long; `thalweg explain` unpacks with the same.
const DICTIONARY_BYTES: u32 = 1 << 20;

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed={PAGES}");
    let mut options = Lzma2Options::with_preset(9);
    options.lzma_options.dict_size = DICTIONARY_BYTES;
    let mut writer = Lzma2Writer::new(Vec::new(), options);
    writer.write_all(&fs::read(PAGES)?)?;
    let folder = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo names no OUT_DIR"))?;
    fs::write(Path::new(&folder).join("errors.md.lzma2"), writer.finish()?)
}
