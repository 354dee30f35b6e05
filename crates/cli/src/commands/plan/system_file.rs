//! `system.toml`: the machine that a plan is for. One list of keys reads, checks and writes it, and docs/commands.md has the same.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::Context;
use format::ErrorCode;
use laboratory::RATED;
use policy::cost::machine::Machine;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::failure::{UsageError, misuse};
use crate::shown;

/// What a file says, over what holds without one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SystemFile {
    pub machine: Machine,
    /// What a core of the machine encodes of the sample data, by codec (MB/s); 0 where that is not said.
    pub codec_mb_per_s: [f64; RATED.len()],
}

pub struct Key {
    pub section: &'static str,
    pub name: &'static str,
    /// What it is, with its unit.
    pub what: &'static str,
    least: f64,
    most: f64,
    value: fn(&mut SystemFile) -> &mut f64,
}

const fn key(
    [section, name, what]: [&'static str; 3],
    [least, most]: [f64; 2],
    value: fn(&mut SystemFile) -> &mut f64,
) -> Key {
    Key { section, name, what, least, most, value }
}

const RATE: [f64; 2] = [0.001, 1e9];

/// All keys, in the order in which they are written.
pub const KEYS: [Key; 21] = [
    key(["nodes", "count", "nodes that compute and write"], [1.0, 1e6], |file| &mut file.machine.nodes),
    key(["nodes", "cores", "cores of a node"], [1.0, 1e5], |file| &mut file.machine.cores),
    key(["nodes", "idle_cores", "cores of a node that the program leaves alone"], [0.0, 1e5], |file| {
        &mut file.machine.idle_cores
    }),
    key(["nodes", "fingerprint_mb_per_s", "what a core cuts and fingerprints"], RATE, |file| {
        &mut file.machine.fingerprint_mb_per_s
    }),
    key(["nodes", "watts", "a node with all that belongs to it"], [0.1, 1e6], |file| &mut file.machine.node_watts),
    key(["nodes", "core_watts", "a busy core, above an idle one"], [0.01, 1e4], |file| &mut file.machine.core_watts),
    key(["network", "send_mb_per_s", "what a node sends"], RATE, |file| &mut file.machine.link_mb_per_s),
    key(["network", "receive_mb_per_s", "what a node receives"], RATE, |file| &mut file.machine.receive_mb_per_s),
    key(["storage", "mb_per_s", "what the storage takes of all nodes together"], RATE, |file| {
        &mut file.machine.storage_mb_per_s
    }),
    key(["storage", "node_mb_per_s", "what it takes of one node alone"], RATE, |file| {
        &mut file.machine.node_storage_mb_per_s
    }),
    key(["storage", "nanojoules_per_byte", "network and storage, for a stored byte"], [0.001, 1e6], |file| {
        &mut file.machine.stored_nanojoules
    }),
    key(["storage", "kept_tb", "data to keep, before any reduction"], [1e-6, 1e9], |file| &mut file.machine.kept_tb),
    key(["storage", "eur_per_tb_year", "today's price of a TB for a year"], [1e-3, 1e6], |file| {
        &mut file.machine.eur_per_tb_year
    }),
    key(["program", "compute_s", "what a phase computes before it writes"], [1e-3, 1e9], |file| {
        &mut file.machine.program.compute_s
    }),
    key(["program", "written_gb", "what all nodes write in a phase"], [1e-6, 1e12], |file| {
        &mut file.machine.program.written_gb
    }),
    key(["program", "phases", "phases of a run"], [1.0, 1e9], |file| &mut file.machine.program.phases),
    key(["codecs", "lz4_mb_per_s", SAMPLE], CODEC_RATE, |file| &mut file.codec_mb_per_s[0]),
    key(["codecs", "zstd_3_mb_per_s", SAMPLE], CODEC_RATE, |file| &mut file.codec_mb_per_s[1]),
    key(["codecs", "performance_mb_per_s", SAMPLE], CODEC_RATE, |file| &mut file.codec_mb_per_s[2]),
    key(["codecs", "balanced_mb_per_s", SAMPLE], CODEC_RATE, |file| &mut file.codec_mb_per_s[3]),
    key(["codecs", "archival_mb_per_s", SAMPLE], CODEC_RATE, |file| &mut file.codec_mb_per_s[4]),
];

const SAMPLE: &str = "what a core encodes of the sample data; 0: as where the plan is made";
const CODEC_RATE: [f64; 2] = [0.0, 1e9];

impl SystemFile {
    /// Reads a file; what it says nothing of stays as it is by default.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = match transfer::read_regular(path) {
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                misuse!(SystemFile: "{}: {error}", shown::local(path))
            }
            read => read.with_context(|| shown::local(path))?,
        };
        SystemFile::parse(&text).map_err(|why| {
            UsageError { code: ErrorCode::SystemFile, text: format!("{}, {why}", shown::local(path)) }.into()
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mistake = |at: usize, why: &str| format!("line {}: {why}", 1 + text[..at].matches('\n').count());
        let document = DeTable::parse(text)
            .map_err(|error| mistake(error.span().map_or(0, |span| span.start), error.message()))?;
        let mut file = SystemFile::default();
        for (section, keys) in document.get_ref() {
            let refused = |at: usize, why: String| mistake(at, &format!("{}: {why}", section.get_ref()));
            let Some(table) = keys.get_ref().as_table().filter(|_| of_section(section.get_ref()).next().is_some())
            else {
                let why = "no such table; there are [nodes], [network], [storage], [program] and [codecs]";
                return Err(refused(section.span().start, why.to_owned()));
            };
            for (name, value) in table {
                file.set(section.get_ref(), name.get_ref(), value)
                    .map_err(|why| refused(name.span().start, format!("{}: {why}", name.get_ref())))?;
            }
        }
        file.check()?;
        Ok(file)
    }

    fn set(&mut self, section: &str, name: &str, value: &Spanned<DeValue>) -> Result<(), String> {
        let Some(key) = of_section(section).find(|key| key.name == name) else {
            let known: Vec<&str> = of_section(section).map(|key| key.name).collect();
            return Err(format!("no such key; here are {}", known.join(", ")));
        };
        *(key.value)(self) = key.checked(value.get_ref())?;
        Ok(())
    }

    /// Refuses what cannot be, though each number by itself could.
    fn check(&self) -> Result<(), String> {
        let Machine { cores, idle_cores, .. } = self.machine;
        if idle_cores > cores {
            return Err(format!("[nodes] idle_cores: {idle_cores} are more than all {cores}"));
        }
        Ok(())
    }

    /// Writes all keys; of those that `origin` knows something of, it stands behind.
    pub fn text(&self, header: &str, origin: impl Fn(&Key) -> &'static str) -> String {
        let mut text = header.lines().map(|line| format!("# {line}\n")).collect::<String>();
        let mut section = "";
        for key in &KEYS {
            if key.section != section {
                section = key.section;
                text.push_str(&format!("\n[{section}]\n"));
            }
            let value = rounded(self.value(key));
            text.push_str(&format!("{} = {value}  # {}{}\n", key.name, key.what, origin(key)));
        }
        text
    }

    pub fn value(&self, key: &Key) -> f64 {
        *(key.value)(&mut self.clone())
    }

    /// Returns a core's speed relative to one of which the rates are given, by the codecs that both have; 1 without any.
    pub fn core_speed(&self, here_mb_per_s: &[f64; RATED.len()]) -> f64 {
        let pairs = self.codec_mb_per_s.iter().zip(here_mb_per_s).filter(|(there, here)| **there > 0.0 && **here > 0.0);
        let logarithms: Vec<f64> = pairs.map(|(there, here)| (there / here).ln()).collect();
        if logarithms.is_empty() { 1.0 } else { (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp() }
    }

    pub fn has_codecs(&self) -> bool {
        self.codec_mb_per_s.iter().any(|rate| *rate > 0.0)
    }
}

impl Key {
    fn checked(&self, value: &DeValue) -> Result<f64, String> {
        let text = value.as_float().map(|number| number.as_str()).or(value.as_integer().map(|number| number.as_str()));
        let Some(text) = text else { return Err(format!("a number is needed, not {}", value.type_str())) };
        let number = text.replace('_', "").parse::<f64>();
        let number = number.ok().filter(|number| (self.least..=self.most).contains(number));
        let number = number.ok_or_else(|| format!("{text} is not a number from {} to {}", self.least, self.most))?;
        if self.name == "count" && number.fract() != 0.0 {
            return Err(format!("{text} is no whole number"));
        }
        if number > 0.0 && number < RATE[0] && self.section == "codecs" {
            return Err(format!("{text} is neither 0 nor at least {}", RATE[0]));
        }
        Ok(number)
    }
}

fn of_section(section: &str) -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(move |key| key.section == section)
}

/// Four digits are more than any measurement has.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

/// Refuses a name for a file that a measurement would replace without being asked.
pub fn check_new(path: &Path) -> anyhow::Result<()> {
    if path.exists() {
        misuse!(OutputFile: "{}: is there already; name a file with --output, or remove it", shown::local(path));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let mut file = SystemFile::default();
        file.machine.nodes = 12.0;
        file.machine.program.compute_s = 0.25;
        file.codec_mb_per_s[1] = 321.4;
        let text = file.text("first line\nsecond", |_| ", assumed");
        assert!(text.starts_with("# first line\n# second\n\n[nodes]\ncount = 12  # nodes that compute"), "{text}");
        let read = SystemFile::parse(&text).unwrap();
        for key in &KEYS {
            assert!((read.value(key) / file.value(key)).max(1.0) < 1.001 || file.value(key) == 0.0, "{}", key.name);
        }
        assert_eq!(read.machine.nodes, 12.0);
        assert_eq!(SystemFile::parse("").unwrap(), SystemFile::default());
    }

    #[test]
    fn nonsense_is_refused_with_line_and_key() {
        for (text, words) in [
            ("[nodes]\ncount = -5", "line 2: nodes: count: -5 is not a number from 1 to 1000000"),
            ("[nodes]\ncount = nan", "nan is not a number"),
            ("[nodes]\ncount = 2.5", "line 2: nodes: count: 2.5 is no whole number"),
            ("[nodes]\nidle_cores = 30", "more than all 24"),
            ("[network]\n\nsend_mb_per_s = inf", "line 3: network: send_mb_per_s: inf is not"),
            ("[network]\nsend_mb_per_s = 0", "0 is not a number from 0.001"),
            ("[network]\nsend_mb_per_s = '5'", "a number is needed, not string"),
            ("[network]\nsendmb = 5", "no such key; here are send_mb_per_s, receive_mb_per_s"),
            ("[storage]\nmb_per_s = [1]", "not array"),
            ("[disk]\nmb_per_s = 1", "line 1: disk: no such table"),
            ("nodes = 5", "line 1: nodes: no such table"),
            ("[nodes]\ncount = 1\ncount = 2", "line 3"),
            ("[nodes", "line 1"),
            ("[program]\nwritten_gb = 1e300", "1e300 is not"),
        ] {
            let why = SystemFile::parse(text).unwrap_err();
            assert!(why.contains(words), "{text:?}: {why}");
        }
        assert_eq!(SystemFile::parse("[nodes]\ncount = 1_000").unwrap().machine.nodes, 1000.0);
    }

    #[test]
    fn speeds_are_compared_by_the_codecs_that_both_have() {
        let file = SystemFile { codec_mb_per_s: [200.0, 0.0, 0.0, 50.0, 0.0], ..SystemFile::default() };
        assert!((file.core_speed(&[100.0, 100.0, 100.0, 100.0, 100.0]) - 1.0).abs() < 1e-12);
        assert_eq!(SystemFile::default().core_speed(&[1.0; 5]), 1.0);
    }
}
