//! Amounts of bytes as people write them: `65536`, `512 KiB`, `8MiB`.

const UNITS: [(&str, u64); 7] =
    [("", 1), ("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("kB", 1000), ("MB", 1_000_000)];

pub(super) fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit.trim_start())?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn amounts_are_read_as_people_write_them() {
        assert_eq!(parse("65536"), Some(65536));
        assert_eq!(parse("512 KiB"), Some(512 << 10));
        assert_eq!(parse("8MiB"), Some(8 << 20));
        assert_eq!(parse("3 MB"), Some(3_000_000));
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for text in ["", "KiB", "-1", "1.5 MiB", "1 kib", "99999999999999999999", "99999999999 GiB"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
