//! Bytes of a path as one line of text: backslashes, control characters and bytes that are not UTF-8 become `\xNN`.

use std::fmt::Write;

/// Reversible.
pub fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                character if transfer::misleads(character) => escape_bytes(&mut text, character.to_string().as_bytes()),
                character => text.push(character),
            }
        }
        escape_bytes(&mut text, chunk.invalid());
    }
    text
}

/// Each byte as `\xNN`.
pub fn escape_bytes(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(text, "\\x{byte:02x}");
    }
}
