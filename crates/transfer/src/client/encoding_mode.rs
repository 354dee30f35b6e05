//! The mode that a program asks for when it uses a file, as by an MPI hint; it may change while the file is open.

use std::borrow::Cow;
use std::sync::Mutex;

use format::{CodecChoice, Mode, Settings};

/// Of a session in this process; none at first: the store's settings say how blocks are encoded.
#[derive(Default)]
pub(super) struct EncodingMode(Mutex<Option<Mode>>);

impl EncodingMode {
    pub fn set(&self, mode: Option<Mode>) {
        *self.0.lock().expect("noting the mode does not panic") = mode;
    }

    pub fn get(&self) -> Option<Mode> {
        *self.0.lock().expect("noting the mode does not panic")
    }

    /// Returns the store's settings with the mode in the place of theirs.
    pub fn over<'a>(&self, settings: &'a Settings) -> Cow<'a, Settings> {
        match self.get() {
            None => Cow::Borrowed(settings),
            Some(mode) => Cow::Owned(Settings { codec: CodecChoice::Auto(mode), ..settings.clone() }),
        }
    }
}
