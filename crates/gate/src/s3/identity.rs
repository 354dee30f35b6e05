//! The facts of a request, from its head, by which its application is found. Signatures are not checked, the server
//! does that: it refuses a client that signs with another's name.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

use crate::config::{DAY_MS, Facts};
use crate::s3::head::Request;

const DEADLINE_MS: &str = "x-thalweg-deadline-ms";

/// Calls `use_facts` with all facts of a request.
pub(crate) fn with_facts<T>(
    request: &Request<'_>,
    client: IpAddr,
    host_suffix: Option<&str>,
    use_facts: impl FnOnce(&Facts<'_>) -> T,
) -> T {
    let (path, query) = split_target(request.target);
    let host_bucket = host_suffix.and_then(|suffix| bucket_of_host(request.header("host")?, suffix));
    let path = unescaped(path.trim_start_matches('/'));
    let (bucket, object) = match (host_bucket, path.split_once('/')) {
        (Some(bucket), _) => (bucket, &*path),
        (None, Some((bucket, object))) => (bucket, object),
        (None, None) => (&*path, ""),
    };
    let signed = request.header("authorization").and_then(key_of_authorization).map(Cow::Borrowed);
    let access_key = signed.or_else(|| key_of_query(query));
    let header = |name: &str| request.header(name);
    use_facts(&Facts {
        client: Some(client),
        access_key: access_key.as_deref(),
        bucket: Some(bucket).filter(|bucket| !bucket.is_empty()),
        object: Some(object).filter(|object| !object.is_empty()),
        header: Some(&header),
        ..Facts::default()
    })
}

/// Returns how long the request may take, if it says so: the server ignores the header, and signatures leave it out.
pub(crate) fn deadline_of(request: &Request<'_>) -> Option<Duration> {
    let milliseconds: u64 = request.header(DEADLINE_MS)?.trim().parse().ok()?;
    (1..=DAY_MS).contains(&milliseconds).then(|| Duration::from_millis(milliseconds))
}

/// Returns how many bytes `bytes=FIRST-LAST` asks for; other ranges do not say.
pub(crate) fn range_of(value: &str) -> Option<u64> {
    let (first, last) = value.trim().strip_prefix("bytes=")?.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    last.checked_sub(first)?.checked_add(1)
}

/// Returns the path and query, of `/path?query` and of `http://host/path?query`.
fn split_target(target: &str) -> (&str, &str) {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = match path.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("", |slash| &rest[slash..]),
        None => path,
    };
    (path, query)
}

fn bucket_of_host<'a>(host: &'a str, suffix: &str) -> Option<&'a str> {
    let name = host.split_once(':').map_or(host, |(name, _)| name);
    let before = name.len().checked_sub(suffix.len())?;
    let (bucket, end) = (name.get(..before)?, name.get(before..)?);
    end.eq_ignore_ascii_case(suffix).then(|| bucket.strip_suffix('.')).flatten()
}

/// Signature version 4, `AWS4-HMAC-SHA256 Credential=KEY/20260101/…`, and 2, `AWS KEY:signature`.
fn key_of_authorization(value: &str) -> Option<&str> {
    let (scheme, rest) = value.trim_start().split_once(' ')?;
    if scheme == "AWS" {
        return rest.trim_start().split_once(':').map(|(key, _)| key);
    }
    if !scheme.starts_with("AWS4-") {
        return None;
    }
    let credential = rest.split(',').find_map(|part| part.trim_start().strip_prefix("Credential="))?;
    credential.split_once('/').map(|(key, _)| key)
}

/// Presigned: `X-Amz-Credential=KEY%2F…` (version 4), `AWSAccessKeyId=KEY` (version 2).
fn key_of_query(query: &str) -> Option<Cow<'_, str>> {
    query.split('&').find_map(|part| match part.split_once('=')? {
        ("X-Amz-Credential", value) => {
            let value = unescaped(value);
            value.split_once('/').map(|(key, _)| Cow::Owned(key.to_owned()))
        }
        ("AWSAccessKeyId", value) => Some(unescaped(value)),
        _ => None,
    })
}

/// Without percent signs; as it is when it then would be no text.
fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| byte_of_digits(after)).flatten();
        plain.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    String::from_utf8(plain).map_or(Cow::Borrowed(text), Cow::Owned)
}

fn byte_of_digits(text: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*text.get(at)?).to_digit(16);
    u8::try_from(digit(0)? * 16 + digit(1)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s3::head::{Found, request};

    /// Access key, bucket and object.
    fn found_in(head: &str, suffix: Option<&str>) -> (Option<String>, Option<String>, Option<String>) {
        let client = "192.0.2.7".parse().expect("an address");
        let found = request(format!("{head}\r\n\r\n").as_bytes(), |request| {
            with_facts(request, client, suffix, |facts| {
                assert_eq!(facts.client, Some(client));
                let owned = |text: Option<&str>| text.map(str::to_owned);
                (owned(facts.access_key), owned(facts.bucket), owned(facts.object))
            })
        });
        match found {
            Found::Head(_, found) => found,
            Found::Part | Found::Strange => panic!("{head}: no head"),
        }
    }

    fn some(key: &str, bucket: &str, object: &str) -> (Option<String>, Option<String>, Option<String>) {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        (some(key), some(bucket), some(object))
    }

    #[test]
    fn the_access_key_is_found_wherever_it_is_signed() {
        let v4 = "Authorization: AWS4-HMAC-SHA256 Credential=AK1/20260101/us-east-1/s3/aws4_request, Signature=0";
        let presigned = "GET /b/k?X-Amz-Algorithm=A&X-Amz-Credential=AK3%2F20260101%2Fx HTTP/1.1";
        for (head, key) in [
            (format!("PUT /b/k HTTP/1.1\r\n{v4}"), "AK1"),
            ("PUT /b/k HTTP/1.1\r\nauthorization: AWS AK2:c2ln".to_owned(), "AK2"),
            (presigned.to_owned(), "AK3"),
            ("GET /b/k?AWSAccessKeyId=AK4&Signature=x HTTP/1.1".to_owned(), "AK4"),
            ("GET /b/k HTTP/1.1".to_owned(), ""),
            ("GET /b/k HTTP/1.1\r\nAuthorization: Bearer AK1/x".to_owned(), ""),
            ("GET /b/k HTTP/1.1\r\nAuthorization: AWS4-HMAC-SHA256 Credential".to_owned(), ""),
        ] {
            assert_eq!(found_in(&head, None), some(key, "b", "k"), "{head}");
        }
    }

    #[test]
    fn buckets_stand_in_the_path_or_in_the_host() {
        let suffix = Some("s3.example");
        for (head, bucket, object) in [
            ("GET / HTTP/1.1", "", ""),
            ("GET /b HTTP/1.1", "b", ""),
            ("GET /b/a%20b/c?x=/y HTTP/1.1", "b", "a b/c"),
            ("GET /b/%zz%f HTTP/1.1", "b", "%zz%f"),
            ("GET /b/%ff HTTP/1.1", "b", "%ff"),
            ("GET http://h:1/b/k HTTP/1.1", "b", "k"),
            ("GET /k/l HTTP/1.1\r\nHost: data.S3.example:9000", "data", "k/l"),
            ("GET /b/k HTTP/1.1\r\nHost: s3.example", "b", "k"),
            ("GET /b/k HTTP/1.1\r\nHost: éx", "b", "k"),
        ] {
            assert_eq!(found_in(head, suffix), some("", bucket, object), "{head}");
        }
    }

    #[test]
    fn a_range_says_how_many_bytes_it_asks_for() {
        for (value, bytes) in [
            ("bytes=0-99", Some(100)),
            (" bytes=5-5", Some(1)),
            ("bytes=0-18446744073709551615", None),
            ("bytes=9-5", None),
            ("bytes=5-", None),
            ("bytes=-5", None),
            ("bytes=0-1,4-5", None),
        ] {
            assert_eq!(range_of(value), bytes, "{value}");
        }
    }

    #[test]
    fn a_request_may_say_how_long_it_may_take() {
        for (value, milliseconds) in [("20", Some(20)), (" 7 ", Some(7)), ("0", None), ("-1", None), ("soon", None)] {
            let head = format!("GET /b/k HTTP/1.1\r\nX-Thalweg-Deadline-Ms: {value}\r\n\r\n");
            let Found::Head(_, deadline) = request(head.as_bytes(), deadline_of) else { panic!("{head}: no head") };
            assert_eq!(deadline, milliseconds.map(Duration::from_millis), "{value}");
        }
    }
}
