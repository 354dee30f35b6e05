//! Files whose numbers are big-endian, known by how they begin.

use format::{CodecChoice, Mode};
use segment::{BLOCK_BYTES, Numbers};

/// NetCDF's classic format, with 64-bit offsets, and with 64-bit data: every number in them is big-endian.
const NETCDF_CLASSIC: [&[u8]; 3] = [b"CDF\x01", b"CDF\x02", b"CDF\x05"];

/// Returns what is known of the numbers of a file that begins so. Only an archive is told: its choice tries encodings, and what
/// `balanced` expects of big-endian numbers makes it store up to a third more. Files shorter than a block are not worth a batch of their own.
pub fn numbers_of(beginning: &[u8], codec: CodecChoice) -> Numbers {
    let is_netcdf = || NETCDF_CLASSIC.iter().any(|magic| beginning.starts_with(magic));
    let is_worth_it = codec == CodecChoice::Auto(Mode::Archival) && beginning.len() >= BLOCK_BYTES;
    if is_worth_it && is_netcdf() { Numbers::BigEndian } else { Numbers::Unknown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn netcdf_classic_is_big_endian_in_an_archive() {
        const ARCHIVE: CodecChoice = CodecChoice::Auto(Mode::Archival);
        let beginning = |magic: &[u8], length: usize| [magic, &vec![0; length]].concat();
        for magic in NETCDF_CLASSIC {
            let long = beginning(magic, BLOCK_BYTES);
            assert_eq!(numbers_of(&long, ARCHIVE), Numbers::BigEndian);
            assert_eq!(numbers_of(&long, CodecChoice::AUTO), Numbers::Unknown);
            assert_eq!(numbers_of(&long, CodecChoice::Zstd(3)), Numbers::Unknown);
            assert_eq!(numbers_of(&long[..BLOCK_BYTES - 1], ARCHIVE), Numbers::Unknown);
        }
        for other in [b"CDF\x03", b"CDF ", b"\x89HDF", b"\0CDF"] {
            assert_eq!(numbers_of(&beginning(other, BLOCK_BYTES), ARCHIVE), Numbers::Unknown);
        }
        assert_eq!(numbers_of(b"", ARCHIVE), Numbers::Unknown);
    }
}
