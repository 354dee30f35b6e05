//! Which snapshots of a tree stay: `--keep-snapshots last=3,daily=7,monthly=12,tag=release`. One stays if any rule keeps it;
//! the newest, and the newest that is complete, always do.

use std::str::FromStr;

use anyhow::{Context, bail};
use format::FileTime;

use crate::calendar;
use crate::retention::span_ns;

const HOUR_S: i64 = 3600;
const DAY_S: i64 = 86_400;

/// The properties of a snapshot that the rules read.
#[derive(Clone, Copy)]
pub struct Candidate<'a> {
    pub taken: FileTime,
    pub is_complete: bool,
    pub tags: &'a [String],
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotRetention {
    /// The newest of each of the last so many periods that have any.
    newest_of: Vec<(Period, usize)>,
    within_ns: Option<i64>,
    tags: Vec<String>,
}

/// In UTC; weeks begin on Mondays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Period {
    /// Each snapshot is one of its own.
    Any,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

impl Period {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "last" => Period::Any,
            "hourly" => Period::Hour,
            "daily" => Period::Day,
            "weekly" => Period::Week,
            "monthly" => Period::Month,
            "yearly" => Period::Year,
            _ => return None,
        })
    }

    /// The period that has this second since 1970.
    fn of(self, seconds: i64) -> Option<i64> {
        let day = seconds.div_euclid(DAY_S);
        let (year, month, _) = calendar::date(day);
        match self {
            Period::Any => None,
            Period::Hour => Some(seconds.div_euclid(HOUR_S)),
            Period::Day => Some(day),
            // 1970 began on a Thursday.
            Period::Week => Some((day + 3).div_euclid(7)),
            Period::Month => Some(year * 12 + month),
            Period::Year => Some(year),
        }
    }
}

impl SnapshotRetention {
    /// Returns for each snapshot of one tree (oldest first) whether it stays at the time `now_ns`.
    pub fn kept(&self, snapshots: &[Candidate], now_ns: i64) -> Vec<bool> {
        let oldest_ns = self.within_ns.map(|within| i128::from(now_ns) - i128::from(within));
        let by_itself = |snapshot: &Candidate| {
            oldest_ns.is_some_and(|oldest| snapshot.taken.as_ns() >= oldest)
                || self.tags.iter().any(|tag| snapshot.tags.contains(tag))
        };
        let mut kept: Vec<bool> = snapshots.iter().map(by_itself).collect();
        for (period, count) in &self.newest_of {
            newest_of_each(snapshots, *period).take(*count).for_each(|at| kept[at] = true);
        }
        let newest_complete = snapshots.iter().rposition(|snapshot| snapshot.is_complete);
        newest_complete.into_iter().chain(snapshots.len().checked_sub(1)).for_each(|at| kept[at] = true);
        kept
    }
}

/// Returns where the newest snapshot of each period is, the newest first.
fn newest_of_each(snapshots: &[Candidate], period: Period) -> impl Iterator<Item = usize> {
    let mut last = None;
    snapshots.iter().enumerate().rev().filter_map(move |(at, snapshot)| {
        let this = period.of(snapshot.taken.seconds);
        let is_new = this.is_none() || last != this;
        last = this;
        is_new.then_some(at)
    })
}

impl FromStr for SnapshotRetention {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let mut retention = SnapshotRetention::default();
        for rule in text.split(',') {
            let (name, value) = rule.split_once('=').unwrap_or((rule, ""));
            match name {
                "within" => {
                    retention.within_ns = Some(span_ns(value).map_err(|error| anyhow::anyhow!("within={error}"))?);
                }
                "tag" if !value.is_empty() => retention.tags.push(value.to_owned()),
                _ => {
                    let Some(period) = Period::named(name) else {
                        bail!(
                            "{rule:?} is none of last=N, hourly=N, daily=N, weekly=N, monthly=N, yearly=N, within=SPAN and \
                             tag=NAME"
                        );
                    };
                    let count = value.parse().ok().filter(|count| *count > 0);
                    let count = count.with_context(|| format!("{name}={value}: a number from 1 on is needed"))?;
                    retention.newest_of.push((period, count));
                }
            }
        }
        Ok(retention)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::CutoffTime;

    /// Returns which of the snapshots of these moments stay, by their place.
    fn kept(rules: &str, moments: &[&str]) -> Vec<usize> {
        let tags = ["release".to_owned()];
        let candidate = |moment: &&str| {
            let (moment, is_tagged) = moment.strip_suffix(" release").map_or((*moment, false), |moment| (moment, true));
            let (moment, is_partial) = moment.strip_suffix(" partial").map_or((moment, false), |moment| (moment, true));
            let taken = FileTime::from_ns(moment.parse::<CutoffTime>().unwrap().as_ns());
            Candidate { taken, is_complete: !is_partial, tags: if is_tagged { &tags } else { &[] } }
        };
        let candidates: Vec<Candidate> = moments.iter().map(candidate).collect();
        let now_ns = "2026-11-23 12:00".parse::<CutoffTime>().unwrap().as_ns();
        let kept = rules.parse::<SnapshotRetention>().unwrap().kept(&candidates, now_ns);
        kept.iter().enumerate().filter(|(_, kept)| **kept).map(|(at, _)| at).collect()
    }

    #[test]
    fn the_newest_of_each_period_stays() {
        let moments =
            ["2026-11-20 01:00", "2026-11-20 23:00", "2026-11-22 00:10", "2026-11-22 00:50", "2026-11-23 00:00"];
        assert_eq!(kept("daily=2", &moments), [3, 4]);
        assert_eq!(kept("daily=9", &moments), [1, 3, 4]);
        assert_eq!(kept("hourly=2", &moments), [3, 4]);
        assert_eq!(kept("last=3", &moments), [2, 3, 4]);
        assert_eq!(kept("within=2d", &moments), [2, 3, 4]);
        assert_eq!(kept("last=1,daily=3", &moments), [1, 3, 4]);
    }

    #[test]
    fn weeks_begin_on_mondays_and_months_and_years_on_their_first() {
        let moments = ["2025-12-31", "2026-01-01", "2026-11-15 23:59", "2026-11-16", "2026-11-22 23:59", "2026-11-23"];
        assert_eq!(kept("weekly=3", &moments), [2, 4, 5]);
        assert_eq!(kept("monthly=2", &moments), [1, 5]);
        assert_eq!(kept("yearly=2", &moments), [0, 5]);
    }

    #[test]
    fn the_newest_the_newest_complete_and_those_with_the_tag_stay() {
        let moments = ["2020-01-01 release", "2020-01-02", "2026-11-20", "2026-11-21 partial", "2026-11-22 partial"];
        assert_eq!(kept("last=1", &moments), [2, 4]);
        assert_eq!(kept("last=1,tag=release", &moments), [0, 2, 4]);
        assert!(kept("last=1", &[]).is_empty());
    }

    #[test]
    fn rules_that_say_nothing_are_refused() {
        for rules in ["", "last", "last=0", "daily=x", "within=5", "tag=", "tag", "fortnightly=2", "last=1,"] {
            assert!(rules.parse::<SnapshotRetention>().is_err(), "{rules:?}");
        }
    }
}
