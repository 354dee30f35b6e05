//! Text from a peer or a file system, made fit to be shown to people.

use std::fmt::Write;

/// Returns the text without anything that would break the line or control a terminal: each byte of a control character
/// is `\xNN`.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        if !character.is_control() {
            line.push(character);
            continue;
        }
        for byte in character.encode_utf8(&mut [0; 4]).bytes() {
            let _ = write!(line, "\\x{byte:02x}");
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_a_terminal() {
        assert_eq!(one_line("a\u{1b}[2Jé\n\u{9b}"), "a\\x1b[2Jé\\x0a\\xc2\\x9b");
    }
}
