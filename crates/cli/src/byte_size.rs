//! Sizes as users write them: `4096`, `512K`, `10M`, `1.5G`.

/// Returns bytes: K, M, G and T are KiB, MiB, GiB and TiB, in either case, with or without `iB`; B and no unit are bytes.
/// None where the text is no such size.
pub fn parse(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let at = lower.find(|character: char| character.is_ascii_alphabetic()).unwrap_or(lower.len());
    let (number, unit) = lower.split_at(at);
    let shift = match unit {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => return None,
    };
    if shift == 0 {
        return number.parse().ok().filter(|_| number.bytes().all(|byte| byte.is_ascii_digit()));
    }
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: f64 = number.parse().ok().filter(|_| is_number)?;
    Some((number * (1u64 << shift) as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_or_are_bytes() {
        assert_eq!([parse("0"), parse("4096"), parse("12b")], [Some(0), Some(4096), Some(12)]);
        assert_eq!([parse("64K"), parse("10M"), parse("1.5g")], [Some(64 << 10), Some(10 << 20), Some(3 << 29)]);
        assert_eq!([parse("100KiB"), parse("1T")], [Some(100 << 10), Some(1 << 40)]);
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "M", "10X", "1e9K", "-1", "-1M", "1 0M", "10M/s", "..M", "1.5", "+1", "99999999999999999999"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
