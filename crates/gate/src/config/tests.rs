//! Which files are accepted, and how the others are refused.

use std::path::Path;
use std::time::Duration;

use policy::fairness::{Depth, Kind};

use super::{Config, Facts, Protocol};

const LISTEN: &str = "[[listen]]\nprotocol = \"s3\"\naddress = \"127.0.0.1:9001\"\nupstream = \"server:9000\"\n";

fn parsed(text: &str) -> Result<Config, String> {
    Config::parse(Path::new("gate.toml"), text).map_err(|error| error.to_string())
}

#[test]
fn a_whole_file_is_read() {
    let config = parsed(&format!(
        "depth = \"512 KiB\"\nscheduler = \"deadline\"\nwaiting_share = 0.01\n{LISTEN}\
         [[group]]\nname = \"physics\"\nweight = 3\n\
         [[application]]\nname = \"climate\"\nweight = 16\ngroup = \"physics\"\ndeadline_ms = 20\n\
         match = {{ access_key = [\"AK1\", \"AK2\"], client = \"10.0.0.0/8\" }}\n\
         [[application]]\nname = \"rest\"\n"
    ));
    let config = config.expect("it is right");
    assert_eq!((config.settings.kind, config.settings.depth), (Kind::Deadline, Depth::Bytes(512 << 10)));
    assert_eq!(config.settings.waiting_share, 0.01);
    assert_eq!(config.listens[0].protocol, Protocol::S3);
    let climate = &config.applications[0];
    assert_eq!((climate.weight, climate.deadline), (16, Some(Duration::from_millis(20))));
    assert_eq!(climate.group.as_deref(), Some("physics"));
    let facts = Facts { client: "10.1.1.1".parse().ok(), access_key: Some("AK2"), ..Facts::default() };
    assert!(climate.matches.holds(&facts) && config.applications[1].matches.holds_for_all());
    assert!(!climate.matches.holds(&Facts { client: "192.0.2.1".parse().ok(), ..facts }));
}

#[test]
fn of_a_list_of_rules_one_must_hold() {
    let match_list = "match = [{ access_key = \"AK1\", bucket = \"data\" }, { uid = 2007 }]";
    let config = parsed(&format!("{LISTEN}[[application]]\nname = \"climate\"\n{match_list}\n")).expect("it is right");
    let matches = &config.applications[0].matches;
    let facts = Facts::default();
    assert!(matches.holds(&Facts { uid: Some(2007), ..facts }));
    assert!(matches.holds(&Facts { access_key: Some("AK1"), bucket: Some("data"), ..facts }));
    assert!(!matches.holds(&Facts { access_key: Some("AK1"), bucket: Some("other"), ..facts }));
    assert!(!matches.holds_for_all());
}

#[test]
fn the_file_that_the_gates_page_shows_is_right() {
    let text = include_str!("../../../../docs/gate.md");
    let file = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a file is shown");
    let config = parsed(file).expect("it is right");
    assert_eq!((config.listens.len(), &*config.applications[0].name), (1, "climate"));
}

#[test]
fn mistakes_have_their_line_their_key_and_their_cure() {
    for (text, wanted) in [
        ("dpeth = 1\n", "gate.toml:1: dpeth: unknown key; did you mean `depth`?"),
        ("depth = \"much\"\n", "gate.toml:1: depth: "),
        ("depth = 1\n", "64 KiB to 4 GiB"),
        ("scheduler = \"best\"\n", "`best` is none of fifo, sfq, sfq-depth, deadline, anticipating"),
        ("\n\nweight 3\n", "gate.toml:3: TOML: "),
        ("zzzzzzzz = 1\n", "unknown key; known here are "),
        (
            "[[application]]\nname = \"a\"\nwieght = 2\n",
            "gate.toml:3: application.wieght: unknown key; did you mean `weight`?",
        ),
        ("[[application]]\nname = \"a\"\nweight = 0\n", "gate.toml:3: application.weight: a number from 1 to"),
        ("[[application]]\nname = \"a\"\nweight = -4\n", "a number from 1 to"),
        ("[[application]]\nname = \"a\"\nweight = \"4\"\n", "a whole number is needed here, not string"),
        ("[[application]]\nweight = 2\n", "application.name: is missing"),
        ("[[application]]\nname = \"a\"\ngroup = \"g\"\n", "there is no [[group]] named `g`"),
        (
            "[[application]]\nname = \"a\"\n[[application]]\nname = \"b\"\n",
            "gate.toml:4: application.name: is never reached",
        ),
        (
            "[[application]]\nname = \"a\"\nmatch = { client = \"10.0.0.0/40\" }\n",
            "application.match.client: `10.0.0.0/40`",
        ),
        ("[[application]]\nname = \"a\"\nmatch = { acess_key = \"k\" }\n", "did you mean `access_key`?"),
        ("[[application]]\nname = \"a\"\nmatch = { bucket = \"\" }\n", "an empty string matches nothing"),
        ("[[application]]\nname = \"a\"\nmatch = []\n", "application.match: an empty list matches nothing"),
        ("[[application]]\nname = \"a\"\nmatch = [\"k\"]\n", "application.match: a table is needed here, not string"),
        ("[application]\nname = \"a\"\n", "written with two brackets: [[application]]"),
        ("[exchange]\npeers = []\n", "exchange.address: is missing"),
        ("[exchange]\naddress = \"127.0.0.1:1\"\ninterval_ms = 500\n", "a number from 1 to 50"),
        (
            "[exchange]\naddress = \"127.0.0.1:1\"\npeers = [\"10.0.0.2\"]\n",
            "exchange.peers: `10.0.0.2` is no HOST:PORT",
        ),
        ("[exchange]\naddress = \"127.0.0.1:1\"\nkey = \"\"\n", "exchange.key: an empty secret is none"),
        (
            "[[application]]\nname = \"a\"\nmatch = { header = \": x\" }\n",
            "gate.toml:3: application.match.header: a header's name is needed",
        ),
        ("connections_per_client = 0\n", "gate.toml:1: connections_per_client: a number from 1 to 1048576 is needed"),
        ("waiting_share = 0.6\n", "gate.toml:1: waiting_share: a number from 0 to 0.5 is needed"),
        ("waiting_share = \"some\"\n", "a number from 0 to 0.5 is needed"),
        (LISTEN, "listen.address: another [[listen]] has this address"),
        ("[[listen]]\nprotocol = \"ftp\"\n", "`ftp` is none of s3, nfs, gluster"),
        ("[[listen]]\nprotocol = \"s3\"\naddress = \"9000\"\n", "`9000` is no HOST:PORT"),
    ] {
        // Keys of the whole file come before the first section.
        let text = if text.starts_with('[') { format!("{LISTEN}{text}") } else { format!("{text}{LISTEN}") };
        let shifted = wanted.replace("gate.toml:", "");
        let said = parsed(&text).expect_err(wanted);
        let line = shifted.split(':').next().and_then(|line| line.parse::<usize>().ok());
        let wanted = match line {
            Some(line) if text.starts_with("[[listen]]") => {
                wanted.replacen(&line.to_string(), &(line + 4).to_string(), 1)
            }
            _ => wanted.to_owned(),
        };
        assert!(said.contains(&wanted), "{text}\nsaid: {said}\nnot: {wanted}");
    }
}

#[test]
fn keys_of_another_protocol_are_refused_and_so_is_a_gate_before_itself() {
    for (protocol, line, wanted) in [
        ("nfs", "tls = { certificate = \"c\", key = \"k\" }", "gate.toml:5: listen.tls: is only for protocol = \"s3\""),
        ("gluster", "upstream_tls = { ca = \"c\", name = \"n\" }", "listen.upstream_tls: is only for"),
        ("nfs", "host_suffix = \"s3.example\"", "listen.host_suffix: is only for"),
        ("s3", "export = \"/climate\"", "listen.export: is only for protocol = \"nfs\""),
        ("gluster", "max_transfer = \"256 KiB\"", "listen.max_transfer: is only for protocol = \"nfs\""),
    ] {
        let said = parsed(&format!("{}{line}\n", LISTEN.replace("s3", protocol))).expect_err(line);
        assert!(said.contains(wanted), "{said}");
    }
    let said = parsed(&LISTEN.replace("server:9000", "127.0.0.1:9001")).expect_err("it would serve itself");
    assert!(said.contains("gate.toml:4: listen.upstream: is this [[listen]] itself"), "{said}");
}

#[test]
fn a_gate_without_listeners_is_refused() {
    assert!(parsed("").expect_err("no listener").contains("add a [[listen]]"));
}
