//! Rules that find a request's application, and the facts of a request.

use std::net::IpAddr;

use super::document::Section;
use super::network::Network;
use crate::error::Result;

/// A header's value, by its name.
pub type FindHeader<'a> = dyn Fn(&str) -> Option<&'a str> + 'a;

/// The facts that a protocol knows of a request. A fact it cannot know is `None`, and a rule that asks for it does not
/// hold.
#[derive(Clone, Copy, Default)]
pub struct Facts<'a> {
    pub client: Option<IpAddr>,
    pub access_key: Option<&'a str>,
    pub bucket: Option<&'a str>,
    /// The object's key in its bucket.
    pub object: Option<&'a str>,
    /// A header's value, by its name in any case.
    pub header: Option<&'a FindHeader<'a>>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub export: Option<&'a str>,
    pub volume: Option<&'a str>,
}

/// `match = { … }`, or a list of such rules, of which one must hold: an application may be known by its key to S3 and by
/// its uid to NFS. Without `match` all that comes is the application's.
#[derive(Clone, Debug, PartialEq)]
pub struct Match(Vec<Rule>);

impl Match {
    pub(super) fn read(application: &mut Section<'_>) -> Result<Match> {
        let rules = application.tables("match")?.into_iter().map(Rule::read).collect::<Result<Vec<_>>>()?;
        match (rules.is_empty(), application.has("match")) {
            (false, _) => Ok(Match(rules)),
            (true, false) => Ok(Match(vec![Rule::default()])),
            (true, true) => Err(application.mistake("match", "an empty list matches nothing")),
        }
    }

    pub fn holds_for_all(&self) -> bool {
        self.0.iter().any(Rule::holds_for_all)
    }

    pub fn holds(&self, facts: &Facts<'_>) -> bool {
        self.0.iter().any(|rule| rule.holds(facts))
    }
}

/// Every key that is written must hold; of a list, one. A rule without keys holds for all.
#[derive(Clone, Debug, Default, PartialEq)]
struct Rule {
    access_keys: Vec<String>,
    buckets: Vec<String>,
    prefixes: Vec<String>,
    clients: Vec<Network>,
    headers: Vec<HeaderRule>,
    uids: Vec<u32>,
    gids: Vec<u32>,
    exports: Vec<String>,
    volumes: Vec<String>,
}

/// `X-Job: climate`, or `X-Job` for any value.
#[derive(Clone, Debug, PartialEq)]
struct HeaderRule {
    name: String,
    value: Option<String>,
}

impl Rule {
    fn read(mut section: Section<'_>) -> Result<Rule> {
        let rule = Rule {
            access_keys: owned(section.strings("access_key")?),
            buckets: owned(section.strings("bucket")?),
            prefixes: owned(section.strings("prefix")?),
            clients: read_networks(&mut section)?,
            headers: read_headers(&mut section)?,
            uids: read_ids(&mut section, "uid")?,
            gids: read_ids(&mut section, "gid")?,
            exports: owned(section.strings("export")?),
            volumes: owned(section.strings("volume")?),
        };
        section.finish()?;
        Ok(rule)
    }

    fn holds_for_all(&self) -> bool {
        *self == Rule::default()
    }

    fn holds(&self, facts: &Facts<'_>) -> bool {
        is_among(&self.access_keys, facts.access_key)
            && is_among(&self.buckets, facts.bucket)
            && is_among(&self.exports, facts.export)
            && is_among(&self.volumes, facts.volume)
            && any(&self.prefixes, facts.object, |prefix, object| object.starts_with(prefix.as_str()))
            && any(&self.clients, facts.client, |network, client| network.holds(client))
            && any(&self.uids, facts.uid, |wanted, uid| *wanted == uid)
            && any(&self.gids, facts.gid, |wanted, gid| *wanted == gid)
            && any(&self.headers, facts.header, |wanted, header| wanted.holds(header))
    }
}

impl HeaderRule {
    fn new(text: &str) -> Self {
        let (name, value) = match text.split_once(':') {
            Some((name, value)) => (name, Some(value.trim().to_owned())),
            None => (text, None),
        };
        HeaderRule { name: name.trim().to_owned(), value }
    }

    fn holds<'a>(&self, header: &dyn Fn(&str) -> Option<&'a str>) -> bool {
        let found = header(&self.name);
        found.is_some_and(|found| self.value.as_ref().is_none_or(|wanted| wanted == found.trim()))
    }
}

fn is_among(wanted: &[String], found: Option<&str>) -> bool {
    any(wanted, found, |wanted, found| wanted == found)
}

/// A key that is not written holds; one that is written does not when the request has nothing of the kind.
fn any<W, F: Copy>(wanted: &[W], found: Option<F>, is_met: impl Fn(&W, F) -> bool) -> bool {
    wanted.is_empty() || found.is_some_and(|found| wanted.iter().any(|wanted| is_met(wanted, found)))
}

fn owned(texts: Vec<&str>) -> Vec<String> {
    texts.into_iter().map(str::to_owned).collect()
}

fn read_headers(section: &mut Section<'_>) -> Result<Vec<HeaderRule>> {
    let headers: Vec<_> = section.strings("header")?.into_iter().map(HeaderRule::new).collect();
    if headers.iter().any(|header| header.name.is_empty()) {
        return Err(section.mistake("header", "a header's name is needed, as in \"X-Job: climate\""));
    }
    Ok(headers)
}

fn read_networks(section: &mut Section<'_>) -> Result<Vec<Network>> {
    let texts = section.strings("client")?;
    let read = |text: &str| {
        let wrong = || section.mistake("client", format_args!("`{text}` is neither an address nor ADDRESS/BITS"));
        Network::parse(text).ok_or_else(wrong)
    };
    texts.into_iter().map(read).collect()
}

fn read_ids(section: &mut Section<'_>, key: &'static str) -> Result<Vec<u32>> {
    let ids = section.integers(key, 0..=u64::from(u32::MAX))?;
    Ok(ids.into_iter().map(|id| u32::try_from(id).expect("checked just now")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(build: impl FnOnce(&mut Rule)) -> Rule {
        let mut rule = Rule::default();
        build(&mut rule);
        rule
    }

    #[test]
    fn every_key_must_hold_and_of_a_list_one() {
        let rule = rule(|rule| {
            rule.access_keys = vec!["AK1".into(), "AK2".into()];
            rule.buckets = vec!["data".into()];
        });
        let facts = Facts { access_key: Some("AK2"), bucket: Some("data"), ..Facts::default() };
        assert!(rule.holds(&facts));
        assert!(!rule.holds(&Facts { bucket: Some("other"), ..facts }));
        assert!(!rule.holds(&Facts { access_key: Some("AK3"), ..facts }));
        assert!(!rule.holds(&Facts { access_key: None, ..facts }));
    }

    #[test]
    fn a_rule_without_keys_holds_for_all() {
        assert!(Rule::default().holds_for_all() && Rule::default().holds(&Facts::default()));
    }

    #[test]
    fn headers_hold_by_name_and_value() {
        let value = |name: &str| name.eq_ignore_ascii_case("x-job").then_some(" climate");
        let facts = Facts { header: Some(&value), ..Facts::default() };
        for (text, holds) in [("X-Job: climate", true), ("x-job", true), ("X-Job: other", false), ("X-Not", false)] {
            assert_eq!(rule(|rule| rule.headers = vec![HeaderRule::new(text)]).holds(&facts), holds, "{text}");
        }
    }

    #[test]
    fn rpc_calls_are_classified() {
        let facts =
            Facts { uid: Some(1), gid: Some(2), export: Some("/climate"), volume: Some("v"), ..Facts::default() };
        type Change = fn(&mut Rule);
        let rules: [(Change, bool); 8] = [
            (|rule| rule.uids = vec![7, 1], true),
            (|rule| rule.uids = vec![2], false),
            (|rule| rule.gids = vec![2], true),
            (|rule| rule.gids = vec![1], false),
            (|rule| rule.exports = vec!["/climate".into()], true),
            (|rule| rule.exports = vec!["/clim".into()], false),
            (|rule| rule.volumes = vec!["v".into()], true),
            (|rule| rule.volumes = vec!["/climate".into()], false),
        ];
        for (number, (build, holds)) in rules.into_iter().enumerate() {
            assert_eq!(rule(build).holds(&facts), holds, "rule {number}");
            assert!(!rule(build).holds(&Facts::default()), "rule {number} holds for a request that says nothing");
        }
    }

    #[test]
    fn prefixes_are_of_the_objects_key() {
        let rule = rule(|rule| rule.prefixes = vec!["run1/".into()]);
        assert!(rule.holds(&Facts { object: Some("run1/a"), ..Facts::default() }));
        assert!(!rule.holds(&Facts { object: Some("run2/a"), ..Facts::default() }));
    }
}
