//! The filter's client data: a few numbers in the dataset's header, laid out as in docs/format.md.
//!
//! Users give the first one or two; the rest is made when a dataset is, and replaced when it is copied to another.

use format::{CodecChoice, ElementId};

/// Values that a dataset has.
pub const COUNT: usize = 5;

/// Names of what a number means, as [`CodecChoice`] reads them: ways to choose from 0 on, codecs from 16 on.
const MODES: [&str; 4] = ["auto", "auto:performance", "auto:archival", "auto:energy"];
const CODECS: [&str; 7] = ["none", "lz4", "lz4:fast", "lz4hc", "zstd", "zlib", "xz"];
const FIRST_CODEC: u32 = 16;

/// The level that is none: a codec takes its own.
const NO_LEVEL: u32 = i32::MAX as u32;

/// The data of a dataset, as far as they are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientData {
    choice: u32,
    level: u32,
    pub element: ElementId,
    pub record_length: u32,
    /// 0 where it is unknown.
    pub chunk_bytes: u32,
}

impl ClientData {
    /// Reads what is there; more values than are known are a newer filter's, and decoding needs none of them.
    pub fn read(values: &[u32]) -> Self {
        let value = |at: usize, missing| values.get(at).copied().unwrap_or(missing);
        ClientData {
            choice: value(0, 0),
            level: value(1, NO_LEVEL),
            element: ElementId::from_byte(value(2, 0) as u8).unwrap_or(ElementId::U8),
            record_length: value(3, 0),
            chunk_bytes: value(4, 0),
        }
    }

    /// Returns the same choice, of a dataset of which this is known.
    pub fn of_dataset(self, element: ElementId, record_length: u32, chunk_bytes: u32) -> Self {
        ClientData { element, record_length, chunk_bytes, ..self }
    }

    pub fn values(&self) -> [u32; COUNT] {
        [self.choice, self.level, self.element as u32, self.record_length, self.chunk_bytes]
    }

    /// Returns the codec that was asked for; an error where this program has no such one.
    pub fn codec(&self) -> Result<CodecChoice, String> {
        let refused = |why: String| format!("client data [{}, {}]: {why}", self.choice, self.level as i32);
        let codec = self.choice.checked_sub(FIRST_CODEC).and_then(|codec| CODECS.get(codec as usize));
        let Some(name) = codec.or_else(|| MODES.get(self.choice as usize)) else {
            return Err(refused(
                "the first value is none of 0 (chosen for each chunk), 1, 2, 3 (the same by performance, archival, energy), \
                16 none, 17 lz4, 18 lz4:fast, 19 lz4hc, 20 zstd, 21 zlib, 22 xz"
                    .to_owned(),
            ));
        };
        let text = match self.level {
            NO_LEVEL => (*name).to_owned(),
            level => format!("{name}:{}", level as i32),
        };
        text.parse().map_err(|error: format::Error| refused(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codec(values: &[u32]) -> Result<String, String> {
        ClientData::read(values).codec().map(|codec| codec.to_string())
    }

    #[test]
    fn numbers_mean_the_codecs_of_the_table() {
        let numbered = [
            (&[][..], "auto"),
            (&[0], "auto"),
            (&[1], "auto:performance"),
            (&[2], "auto:archival"),
            (&[3], "auto:energy"),
            (&[16], "none"),
            (&[17], "lz4"),
            (&[18], "lz4:fast"),
            (&[19], "lz4hc:9"),
            (&[20, 19], "zstd:19"),
            (&[20, -7i32 as u32], "zstd:-7"),
            (&[21], "zlib:6"),
            (&[22, 0], "xz:0"),
        ];
        numbered.into_iter().for_each(|(values, name)| assert_eq!(codec(values).as_deref(), Ok(name)));
    }

    #[test]
    fn numbers_without_meaning_are_refused() {
        for values in [&[4][..], &[15], &[23], &[u32::MAX], &[16, 1], &[20, 23], &[0, 3]] {
            let refused = codec(values);
            assert!(refused.is_err_and(|why| why.starts_with("client data [")), "{values:?}");
        }
    }

    #[test]
    fn what_is_made_of_a_dataset_is_read_back() {
        let data =
            ClientData { element: ElementId::F32, record_length: 12, chunk_bytes: 4096, ..ClientData::read(&[20, 5]) };
        assert_eq!(ClientData::read(&data.values()), data);
        assert_eq!(codec(&data.values()).as_deref(), Ok("zstd:5"));
        assert_eq!(codec(&ClientData::read(&[]).values()).as_deref(), Ok("auto"));
    }
}
