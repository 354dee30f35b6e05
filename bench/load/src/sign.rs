//! AWS Signature Version 4 with an unsigned payload: what an S3 client sends when it does not hash its bodies.
//! Source: AWS, "Authenticating Requests: Using the Authorization Header". HMAC: RFC 2104.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

const REGION: &str = "us-east-1";
const BLOCK: usize = 64;

pub struct Signer {
    access_key: String,
    secret_key: String,
    /// The key derived for a day, and that day.
    day: (String, [u8; 32]),
}

impl Signer {
    pub fn new(access_key: &str, secret_key: &str) -> Signer {
        Signer { access_key: access_key.into(), secret_key: secret_key.into(), day: (String::new(), [0; 32]) }
    }

    /// The head of the request, to its empty line.
    pub fn head(&mut self, method: &str, host: &str, path: &str, body_bytes: usize) -> String {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.head_at(method, host, path, body_bytes, since_1970)
    }

    fn head_at(&mut self, method: &str, host: &str, path: &str, body_bytes: usize, since_1970_s: u64) -> String {
        let stamp = stamp(since_1970_s);
        let day = &stamp[..8];
        if self.day.0 != day {
            self.day = (day.into(), self.key(day));
        }
        const HEADERS: &str = "host;x-amz-content-sha256;x-amz-date";
        let canonical = format!(
            "{method}\n{path}\n\nhost:{host}\nx-amz-content-sha256:UNSIGNED-PAYLOAD\nx-amz-date:{stamp}\n\n{HEADERS}\nUNSIGNED-PAYLOAD"
        );
        let scope = format!("{day}/{REGION}/s3/aws4_request");
        let to_sign = format!("AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{}", hex(&Sha256::digest(canonical)));
        let signature = hex(&hmac(&self.day.1, to_sign.as_bytes()));
        let credential = format!("{}/{scope}", self.access_key);
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nx-amz-date: {stamp}\r\nx-amz-content-sha256: UNSIGNED-PAYLOAD\r\n\
             Authorization: AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={HEADERS}, Signature={signature}\r\n\
             Content-Length: {body_bytes}\r\n\r\n"
        )
    }

    fn key(&self, day: &str) -> [u8; 32] {
        let first = hmac(format!("AWS4{}", self.secret_key).as_bytes(), day.as_bytes());
        [REGION, "s3", "aws4_request"].iter().fold(first, |key, word| hmac(&key, word.as_bytes()))
    }
}

fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut padded = [0; BLOCK];
    match key.len() {
        0..=BLOCK => padded[..key.len()].copy_from_slice(key),
        _ => padded[..32].copy_from_slice(&Sha256::digest(key)),
    }
    let inner = Sha256::new().chain_update(padded.map(|byte| byte ^ 0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(padded.map(|byte| byte ^ 0x5c)).chain_update(inner).finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// `YYYYMMDDThhmmssZ`. The date by Howard Hinnant's civil_from_days, for days after 1970.
fn stamp(since_1970_s: u64) -> String {
    let (days, second) = (since_1970_s / 86_400 + 719_468, since_1970_s % 86_400);
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_right() {
        assert_eq!(stamp(0), "19700101T000000Z");
        assert_eq!(stamp(1_440_938_160), "20150830T123600Z");
        assert_eq!(stamp(1_709_208_000), "20240229T120000Z");
    }

    /// RFC 4231, test cases 2 and 6.
    #[test]
    fn hmac_gives_the_published_values() {
        let short = hmac(b"Jefe", b"what do ya want for nothing?");
        assert_eq!(hex(&short), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        let long = hmac(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First");
        assert_eq!(hex(&long), "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    }

    /// The example of AWS's documentation of the signing key (secret, day 20150830; service iam there, so by hand here).
    #[test]
    fn the_key_is_derived_in_the_documented_order() {
        let signer = Signer::new("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
        let first = hmac(b"AWS4wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", b"20150830");
        let iam = [REGION, "iam", "aws4_request"].iter().fold(first, |key, word| hmac(&key, word.as_bytes()));
        assert_eq!(hex(&iam), "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9");
        assert_ne!(signer.key("20150830"), iam);
    }
}
