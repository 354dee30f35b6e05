//! Text from a peer or a file system, made fit to be shown to people.

use std::fmt::Write;

/// Returns whether a character controls a terminal, cannot be seen, or changes the order in which others are shown.
pub fn misleads(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Returns the text without anything that would break the line or control a terminal: each byte of a control character
/// is `\xNN`.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        if !misleads(character) {
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
        assert_eq!(one_line("a\u{202e}b\u{200b}"), "a\\xe2\\x80\\xaeb\\xe2\\x80\\x8b", "nor what is read");
    }
}
