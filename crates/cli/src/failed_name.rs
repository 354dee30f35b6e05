//! A file or directory that a command could not do its work on, while the others went on.

use std::path::PathBuf;

use format::ErrorCode;
use serde_json::Value;

use crate::shown;

pub struct FailedName {
    pub path: PathBuf,
    pub why: String,
    pub code: ErrorCode,
}

impl FailedName {
    /// Returns the line that names it.
    pub fn line(&self) -> String {
        self.code.after(format_args!("{}: {}", shown::local(&self.path), self.why))
    }

    /// Returns it for JSON.
    pub fn fields(&self) -> Value {
        let mut fields = shown::path_fields(self.path.as_os_str().as_encoded_bytes());
        fields.insert("why".into(), self.why.as_str().into());
        fields.insert("code".into(), self.code.as_str().into());
        Value::Object(fields)
    }
}
