//! Which versions of a file stay: `--keep last=N,within=30d`. A version stays if any rule keeps it; the newest
//! always does.

use std::str::FromStr;

use anyhow::{Context, bail};
use catalog::Version;
use format::VersionRecord;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    last: Option<usize>,
    within_ns: Option<i64>,
}

impl Retention {
    /// Returns the numbers of the versions (oldest first) that no rule keeps at the time `now_ns`.
    pub fn dropped(&self, versions: &[Version], now_ns: i64) -> Vec<u64> {
        let newest = versions.len().saturating_sub(1);
        let from_last = self.last.map_or(newest, |last| first_of_last(versions, last));
        let oldest_ns = self.within_ns.map_or(i64::MAX, |within| now_ns.saturating_sub(within));
        let is_kept = |at: usize, version: &Version| at >= from_last.min(newest) || version.committed_ns >= oldest_ns;
        let dropped = versions.iter().enumerate().filter(|(at, version)| !is_kept(*at, version));
        dropped.map(|(_, version)| version.number).collect()
    }
}

/// The same content may lie in other segments: where damage was healed, or two puts stored it at once.
fn have_one_content(one: &VersionRecord, other: &VersionRecord) -> bool {
    one.root == other.root || (one.size == other.size && one.content.is_some() && one.content == other.content)
}

/// Returns where the last so many contents begin. Versions that differ in attributes alone are one content: a `chmod`
/// takes no older content's place.
fn first_of_last(versions: &[Version], contents: usize) -> usize {
    let is_new = |at: usize| at == 0 || !have_one_content(&versions[at].record, &versions[at - 1].record);
    let mut beginnings = (0..versions.len()).rev().filter(|at| is_new(*at));
    beginnings.nth(contents.saturating_sub(1)).unwrap_or(0)
}

impl FromStr for Retention {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let mut retention = Retention::default();
        for rule in text.split(',') {
            match rule.split_once('=') {
                Some(("last", number)) => {
                    let last = number.parse().ok().filter(|last| *last > 0);
                    retention.last =
                        Some(last.with_context(|| format!("last={number}: a number from 1 on is needed"))?);
                }
                Some(("within", span)) => {
                    retention.within_ns = Some(span_ns(span).map_err(|error| anyhow::anyhow!("within={error}"))?)
                }
                _ => bail!("{rule:?} is neither last=N nor within=SPAN"),
            }
        }
        Ok(retention)
    }
}

/// `30d`, as nanoseconds.
pub fn span_ns(span: &str) -> anyhow::Result<i64> {
    let refuse = || format!("{span}: a number and one of s, m, h, d, w, y is needed, as in 30d");
    let unit = span.chars().last().with_context(refuse)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        'y' => 31_557_600,
        _ => bail!(refuse()),
    };
    let number: u32 = span[..span.len() - unit.len_utf8()].parse().with_context(refuse)?;
    Ok((number as i64).saturating_mul(seconds).saturating_mul(1_000_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use format::{Root, VersionRecord};

    const DAY_NS: i64 = 86_400_000_000_000;

    /// Versions 1, 2, …, committed on these days, each of another content.
    fn versions(days: &[i64]) -> Vec<Version> {
        let version = |(at, day): (usize, &i64)| Version {
            number: at as u64 + 1,
            committed_ns: day * DAY_NS,
            record: VersionRecord { root: Root::Inline(vec![at as u8]), size: 0, content: None },
            attributes: None,
        };
        days.iter().enumerate().map(version).collect()
    }

    fn dropped(rules: &str, days: &[i64], today: i64) -> Vec<u64> {
        rules.parse::<Retention>().unwrap().dropped(&versions(days), today * DAY_NS)
    }

    #[test]
    fn a_version_stays_if_any_rule_keeps_it() {
        assert_eq!(dropped("last=2", &[1, 2, 3, 4], 10), [1, 2]);
        assert_eq!(dropped("within=7d", &[1, 2, 3, 4], 10), [1, 2]);
        assert_eq!(dropped("last=1,within=8d", &[1, 2, 3, 4], 10), [1]);
    }

    #[test]
    fn versions_of_one_content_count_once() {
        let mut versions = versions(&[1, 2, 3, 4, 5]);
        for at in [3, 4] {
            versions[at].record.root = versions[2].record.root.clone();
        }
        // Stored anew.
        versions[4].record.root = Root::Inline(vec![99]);
        (2..5).for_each(|at| versions[at].record.content = Some([7; 32]));
        let dropped = |rules: &str| rules.parse::<Retention>().unwrap().dropped(&versions, 10 * DAY_NS);
        assert_eq!(dropped("last=1"), [1, 2]);
        assert_eq!(dropped("last=2"), [1]);
        assert_eq!(dropped("within=6d"), [1, 2, 3], "this rule checks the age alone");
        assert_eq!(dropped("within=1s"), [1, 2, 3, 4]);
    }

    #[test]
    fn the_newest_version_always_stays() {
        assert_eq!(dropped("within=1s", &[1, 2], 10), [1]);
        assert!(dropped("within=1s", &[1], 10).is_empty());
        assert!(dropped("last=5", &[1, 2], 10).is_empty());
        assert!(dropped("last=5", &[], 10).is_empty());
    }

    #[test]
    fn rules_that_say_nothing_are_refused() {
        for rules in ["", "last", "last=0", "last=x", "within=5", "within=d", "within=3é", "first=2", "last=1,"] {
            assert!(rules.parse::<Retention>().is_err(), "{rules:?}");
        }
    }
}
