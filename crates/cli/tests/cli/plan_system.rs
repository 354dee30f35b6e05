//! `thalweg plan` for a described machine, and what measures this one.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use super::node::Node;
use super::runner::{Run, Store, run};

/// A folder with data, some of them twice, and a place for files beside it.
fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    let noise = random::Random::new(8).bytes(600_000);
    fs::create_dir(folder.path().join("data")).unwrap();
    fs::write(folder.path().join("data/once"), [&noise[..], &vec![7; 900_000]].concat()).unwrap();
    fs::write(folder.path().join("data/again"), &noise).unwrap();
    folder
}

fn planned(folder: &Path, system: &str) -> Run {
    fs::write(folder.join("system.toml"), system).unwrap();
    let (data, system) = (folder.join("data"), folder.join("system.toml"));
    run(&["plan".as_ref(), "--json".as_ref(), "--system".as_ref(), system.as_os_str(), data.as_os_str()])
}

fn row<'a>(rows: &'a Value, codec: &str) -> &'a Value {
    let found = rows.as_array().unwrap().iter().find(|row| row["codec"] == codec);
    found.unwrap_or_else(|| panic!("no {codec} in {rows}"))
}

const SMALL: &str = "[nodes]\ncount = 10\ncores = 4\n[network]\nsend_mb_per_s = 1000\nreceive_mb_per_s = 1000\n\
                     [storage]\nmb_per_s = 100\nnode_mb_per_s = 100\nkept_tb = 10\n\
                     [program]\ncompute_s = 1000\nwritten_gb = 100\n";

#[test]
fn a_described_machine_is_planned_for() {
    let folder = folder();
    let data = planned(folder.path(), SMALL).expect(0).json()["data"].clone();
    assert_eq!(data["system"]["nodes"]["count"], 10.0);
    let writing = &data["of_system"]["writing"];
    let unreduced = row(writing, "unreduced");
    assert_eq!((&unreduced["write_s"], &unreduced["phase_s"]), (&1000.into(), &2000.into()), "100 GB at 100 MB/s");
    let lz4 = row(writing, "lz4");
    assert!(lz4["phase_s"].as_f64().unwrap() < 1500.0 && lz4["waits_for"] == "storage", "{lz4}");
    let nodes = row(&data["of_system"]["dedup_nodes"], "lz4");
    assert!(nodes["gain"].as_f64().unwrap() > 1.5 && nodes["nodes"] == 1, "{nodes}");
    let kept = |codec| row(&data["of_system"]["costs"], codec)["stored_tb"].as_f64().unwrap();
    assert!(kept("unreduced") == 10.0 && kept("lz4") < 4.0, "{data}");
    assert!(data["recommended"]["reasons"][3].as_str().unwrap().contains("they pay"), "{data}");
}

#[test]
fn a_nonsensical_description_is_refused_before_the_work() {
    let folder = folder();
    for (text, words) in [
        ("[nodes]\ncount = -1", "line 2: nodes: count: -1 is not a number from 1"),
        ("[nodes]\ncount = nan", "nan is not"),
        ("[storage]\nmb_per_s = 'fast'", "a number is needed"),
        ("[storage]\nmbps = 5", "no such key; here are mb_per_s, node_mb_per_s"),
        ("[disk]\nmb_per_s = 5", "no such table"),
        ("nonsense", "line 1"),
    ] {
        let found = planned(folder.path(), text).expect(2);
        assert!(found.stderr.contains("system.toml, ") && found.stderr.contains(words), "{text}: {}", found.stderr);
        assert!(found.stdout.is_empty());
    }
    let data = folder.path().join("data");
    let missing = run(&["plan".as_ref(), data.as_os_str(), "--system".as_ref(), "/nowhere".as_ref()]).expect(1);
    assert!(missing.stderr.contains("/nowhere: No such file"), "{}", missing.stderr);
}

#[test]
fn this_machine_is_measured_and_planned_for() {
    let (folder, store) = (folder(), Store::new());
    let node = Node::of(&store);
    let (system, data) = (folder.path().join("measured.toml"), folder.path().join("data"));
    let address = format!("thalweg://{}", node.address);
    let words = ["plan", "--measure", "--node", &address, "--directory", folder.path().to_str().unwrap(), "--output"];
    let words: Vec<&str> = words.into_iter().chain([system.to_str().unwrap(), data.to_str().unwrap()]).collect();
    let text = run(&words).expect(0).text();
    assert!(text.contains("nodes.fingerprint_mb_per_s") && text.contains("For this machine, as measured"), "{text}");
    let written = fs::read_to_string(&system).unwrap();
    for line in ["send_mb_per_s", "mb_per_s", "lz4_mb_per_s", "cores"] {
        let found = written.lines().find(|found| found.starts_with(line)).unwrap();
        assert!(found.ends_with("(measured)"), "{found}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "what was written to measure is gone");
    planned(folder.path(), &written).expect(0);
}

#[test]
fn what_cannot_be_measured_is_said() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("out.toml");
    let file = file.to_str().unwrap();
    let near = run(&["plan", "--measure", "-o", file, "--node", "/a/directory"]).expect(2);
    assert!(near.stderr.contains("is no node"), "{}", near.stderr);
    let away = run(&["plan", "--measure", "-o", file, "--node", "thalweg://127.0.0.1:1"]).expect(1);
    assert!(away.stderr.contains("127.0.0.1:1"), "{}", away.stderr);
    let nowhere = run(&["plan", "--measure", "-o", file, "--directory", "/nowhere"]).expect(1);
    assert!(nowhere.stderr.contains("/nowhere: cannot be written to measure it"), "{}", nowhere.stderr);
    for options in [&["--node", "thalweg://a:1"][..], &["--system", file], &["--measure", "--system", file, "."]] {
        run(&[&["plan", "--tables"], options].concat()).expect(2);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn the_page_is_one_file_that_needs_no_other() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("<img src=x>&\".html");
    fs::write(&data, random::Random::new(8).bytes(300_000).repeat(2)).unwrap();
    let page = folder.path().join("plan.html");
    run(&["plan".as_ref(), "--html".as_ref(), page.as_os_str(), data.as_os_str()]).expect(0);
    let text = fs::read_to_string(&page).unwrap();
    assert!(
        text.starts_with("<!DOCTYPE html>")
            && text.contains("&lt;img src=x&gt;&amp;&quot;.html")
            && !text.contains("<img")
    );
    assert_eq!(text.matches("<svg ").count(), 4);
    for outside in ["http://", "https://", "<script", "<link rel=\"stylesheet", "@import", "url("] {
        let found = text.replace("http://www.w3.org/2000/svg", "");
        assert!(!found.contains(outside), "{outside}");
    }
    assert!(!text.contains("NaN") && !text.contains("inf"), "a number that is none");
    let over_data = run(&["plan".as_ref(), "--html".as_ref(), data.as_os_str(), data.as_os_str()]).expect(2);
    assert!(over_data.stderr.contains("is one of the files that are read"), "{}", over_data.stderr);
    let no_page = run(&["plan".as_ref(), data.as_os_str(), "--html".as_ref(), "plan.txt".as_ref()]).expect(2);
    assert!(no_page.stderr.contains("must end in .html"), "{}", no_page.stderr);
}

#[test]
fn what_is_there_already_is_not_lost_to_a_plan() {
    let folder = folder();
    let (data, empty, old) = (folder.path().join("data"), folder.path().join("empty"), folder.path().join("old.toml"));
    fs::create_dir(&empty).unwrap();
    fs::write(&old, "of an earlier plan").unwrap();
    let plan = |of: &Path, options: &[&Path]| {
        let words = ["--recommended", "--html"].into_iter().zip(options);
        let options = words.flat_map(|(word, path)| [word.as_ref(), path.as_os_str()]);
        run(&["plan".as_ref(), of.as_os_str()].into_iter().chain(options).collect::<Vec<_>>())
    };
    let nothing = plan(&empty, &[&old]).expect(1);
    assert!(nothing.stderr.contains("nothing is recommended"), "{}", nothing.stderr);
    let over_data = plan(&data, &[&data.join("once")]).expect(2);
    assert!(over_data.stderr.contains("which is read"), "{}", over_data.stderr);
    let twice = plan(&data, &[&folder.path().join("a.html"), &folder.path().join("data/../a.html")]).expect(2);
    assert!(twice.stderr.contains("written twice"), "{}", twice.stderr);
    assert_eq!(fs::read(&old).unwrap(), b"of an earlier plan");
    assert_eq!(fs::metadata(data.join("once")).unwrap().len(), 1_500_000);
}
