//! Recipes: commands that are recorded, dropped and run again, and all that may go wrong with them.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use format::{HandleKey, StorePath};
use random::Random;
use transfer::message::{FailureKind, Reply, Request};

use super::bounds::Client;
use super::node::Node;
use super::runner::{Run, Store, command, files_below};

/// A store, a directory that commands are recorded in, and one for scratch directories.
pub struct Place {
    pub store: Store,
    pub here: PathBuf,
    pub scratch: PathBuf,
}

impl Place {
    pub fn new() -> Self {
        let store = Store::new();
        let (here, scratch) = (store.path("here"), store.path("scratch"));
        [&here, &scratch].into_iter().for_each(|directory| fs::create_dir(directory).unwrap());
        Place { store, here, scratch }
    }

    pub fn put(&self, name: &str, bytes: &[u8]) {
        let file = self.store.path("to-put");
        fs::write(&file, bytes).unwrap();
        self.store.put(&file, name);
    }

    pub fn script(&self, name: &str, lines: &str) {
        let path = self.here.join(name);
        fs::write(&path, format!("#!/bin/sh\n{lines}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// `@` before a word stands for the store.
    fn arguments(&self, words: &[&str]) -> Vec<OsString> {
        let placed = |word: &&str| match word.split_once('@') {
            Some((name, path)) => {
                let mut argument = OsString::from(name);
                argument.push(self.store.address(path));
                argument
            }
            None => OsString::from(word),
        };
        words.iter().map(placed).collect()
    }

    pub fn command(&self, words: &[&str]) -> std::process::Command {
        let mut command = command(&self.arguments(words));
        command.current_dir(&self.here).env("TMPDIR", &self.scratch);
        command
    }

    pub fn run(&self, words: &[&str]) -> Run {
        let run: Run = self.command(words).output().unwrap().into();
        assert_eq!(self.scratch.read_dir().unwrap().count(), 0, "a scratch directory is left");
        run
    }

    #[track_caller]
    pub fn done(&self, words: &[&str]) -> Run {
        self.run(words).expect(0)
    }

    /// A run that fails for this reason, and leaves the store as it was.
    #[track_caller]
    pub fn fails(&self, words: &[&str], why: &str) {
        let before = self.state();
        let run = self.run(words).expect(1);
        assert!(run.stderr.contains(why), "{why:?} is not in {}", run.stderr);
        assert_eq!(self.state(), before, "{words:?}");
    }

    /// Names, contents and recipes of the store.
    fn state(&self) -> String {
        let listed = self.store.at("ls", "", &["-R", "--json"]).text();
        listed + &self.store.verb("recipes", &["--json"]).text()
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        self.store.read(name)
    }

    pub fn is_sound(&self) {
        self.store.verb("verify", &["--data"]);
    }
}

/// Words of a record whose one input is `in` and whose one output is `out`.
pub fn record<'a>(command: &[&'a str]) -> Vec<&'a str> {
    [&["record", "@out", "--inputs", "@in", "--"], command].concat()
}

pub fn shell(line: &str) -> [&str; 3] {
    ["sh", "-c", line]
}

#[test]
fn a_dropped_result_comes_back_bit_for_bit() {
    let place = Place::new();
    let bytes = Random::fresh().bytes(400_000);
    place.put("in", &bytes);
    place.script("twice", "cat in in > out");
    let recorded = place.done(&[&["--json"], &record(&["./twice"])[..]].concat()).json();
    assert_eq!(recorded["outputs"][0]["bytes"], 800_000);
    let twice = [&bytes[..], &bytes].concat();
    assert!(place.read("out") == twice);
    let dropped = place.done(&["--json", "drop", "--recomputable", "@out"]).json();
    assert_eq!(dropped["dropped"][0]["recipe"], recorded["recipe"]);
    let refused = place.run(&["cat", "@out"]).expect(1);
    let id = recorded["recipe"].as_str().unwrap();
    assert!(refused.stderr.contains(id) && refused.stderr.contains("thalweg recompute"), "{}", refused.stderr);
    assert!(refused.stdout.is_empty(), "what is dropped reads as nothing, not as zeros");
    place.run(&["get", "@out", "copy"]).expect(3);
    assert!(!place.here.join("copy").exists());
    // Reading runs the command where that is asked for, and leaves the store as it is.
    assert!(place.done(&["cat", "--recompute", "@out"]).stdout == twice);
    place.done(&["get", "--recompute", "@", "all"]);
    assert!(fs::read(place.here.join("all/out")).unwrap() == twice);
    assert_eq!(place.done(&["get", "--recompute", "@out", "-", "--range", "7:9"]).stdout, &twice[7..16]);
    place.run(&["cat", "@out"]).expect(1);
    assert_eq!(place.store.at("stat", "out", &["--json"]).json()["size"], 800_000);
    // The program is in the recipe, and the input outlives its name.
    fs::remove_file(place.here.join("twice")).unwrap();
    place.store.at("rm", "in", &[]);
    place.store.verb("collect", &[]);
    let verified = place.store.verb("verify", &["--data", "--json"]).json();
    assert_eq!(
        (verified["damages"].as_array().unwrap().len(), &verified["dropped"][0]["recipe"]),
        (0, &recorded["recipe"])
    );
    place.done(&["recompute", "@out"]);
    assert!(place.read("out") == twice);
    place.is_sound();
}

#[test]
fn a_put_of_a_dropped_file_stores_it_again() {
    let place = Place::new();
    place.put("in", b"input");
    place.done(&record(&shell("cp in out; echo more >> out")));
    let copy = place.here.join("out");
    place.store.get("out", &copy);
    place.store.put(&copy, "out");
    place.done(&["drop", "--recomputable", "@out"]);
    place.store.put(&copy, "out");
    assert_eq!(place.read("out"), b"inputmore\n");
}

#[test]
fn a_chain_of_three_runs_in_order_and_a_snapshot_keeps_what_it_has() {
    let place = Place::new();
    let tree = place.store.path("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("a"), Random::fresh().bytes(300_000)).unwrap();
    place.store.put(&tree, "t");
    place.done(&["record", "@t/b", "--inputs", "@t/a", "--", "sh", "-c", "rev < t/a > t/b || od t/a > t/b"]);
    place.done(&["record", "c=@t/c", "--inputs", "b=@t/b", "--", "sh", "-c", "od -x b > c"]);
    place.done(&[
        "record",
        "@sums/",
        "--inputs",
        "t=@t",
        "--",
        "sh",
        "-c",
        "mkdir sums; cksum t/c > sums/c; cksum t/b > sums/b",
    ]);
    let (b, c, sum) = (place.read("t/b"), place.read("t/c"), place.read("sums/c"));
    place.done(&["drop", "--recomputable", "@t/b", "@t/c", "@sums"]);
    place.store.verb("collect", &[]);
    place.is_sound();
    let planned = place.done(&["--json", "recompute", "-n", "@sums/c"]).json();
    assert_eq!(planned["commands"].as_array().unwrap().len(), 3);
    place.done(&["recompute", "--jobs", "2", "@sums/c"]);
    assert_eq!(place.read("sums/c"), sum);
    place.run(&["cat", "@t/b"]).expect(1);
    place.done(&["recompute", "@t"]);
    assert!(place.read("t/b") == b && place.read("t/c") == c);
    place.is_sound();
    // Snapshots that have the data keep it.
    let copy = place.store.path("copy");
    place.store.get("t", &copy);
    place.store.put(&copy, "s");
    let dropped = place.done(&["--json", "drop", "--recomputable", "@s/c"]).json();
    assert_eq!(dropped["dropped"][0]["snapshots"].as_array().unwrap().len(), 1, "{dropped}");
    let kept = place.done(&["cat", "--snapshot", "latest", "@s/c"]).stdout;
    assert!(kept == c);
}

#[test]
fn commands_that_do_not_do_what_they_should_leave_no_recipe_and_no_file() {
    let place = Place::new();
    place.put("in", b"input");
    place.put("out", b"before");
    for (line, why) in [
        ("exit 3", "exited with 3"),
        ("kill -KILL $$", "was ended by signal 9"),
        ("true", "did not make out"),
        ("mkdir out", "left no files in out"),
        ("ln -s in out", "as a link or special file"),
        ("cp in out; date > log", "the command left log, which is no output"),
        ("cp in out; echo x >> in", "the command changed in"),
        ("mv in out", "the command changed in"),
    ] {
        place.fails(&record(&shell(line)), why);
    }
    assert_eq!(place.read("out"), b"before");
    place.fails(&["record", "@x", "--inputs", "@missing", "--", "true"], "missing");
    place.fails(&["record", "@x", "--", "no-such-program"], "no such program in $PATH");
    place.fails(&["record", "@in/x", "--", "sh", "-c", "echo > in/x"], "in");
    place.run(&["record", "@x", "--inputs", "@x", "--", "true"]).expect(1);
    place.run(&["record", "@x", "--tolerance", "x=1e-6", "--", "true"]).expect(2);
    // Some other file is allowed when that is asked for.
    place.done(&[&["record", "--ignore-others", "@out", "--"], &shell("date > log; echo > out")[..]].concat());
}

#[test]
fn a_looping_command_ends_with_all_it_started_when_its_time_is_over() {
    let place = Place::new();
    let mark = format!("{:x}", Random::fresh().below(u64::MAX));
    place.script("loop", "sh -c 'while true; do sleep 0.02; done' mark-$1 & while true; do sleep 0.05; done");
    let begun = Instant::now();
    place.fails(&["record", "--timeout", "0.5", "@out", "--", "./loop", &mark], "did not end within 0.5 s");
    assert!(begun.elapsed() < Duration::from_secs(20));
    std::thread::sleep(Duration::from_millis(200));
    let is_alive = |process: std::io::Result<fs::DirEntry>| {
        let line = fs::read(process.unwrap().path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&format!("mark-{mark}"))
    };
    assert!(!Path::new("/proc").read_dir().unwrap().any(is_alive), "what the command started is alive");
}

#[test]
fn a_command_is_given_what_the_recipe_keeps_and_no_more() {
    let place = Place::new();
    let mut recording =
        place.command(&["record", "--env", "SEED", "--env", "MODE=fast", "@out", "--", "sh", "-c", "env > out"]);
    recording.env("SECRET_KEY", "hunter2").env("SEED", "7").env("LC_TIME", "C");
    Run::from(recording.output().unwrap()).expect(0);
    let text = String::from_utf8(place.read("out")).unwrap();
    for line in ["SEED=7", "MODE=fast", "LC_TIME=C"] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
    assert!(!text.contains("hunter2"), "{text}");
}

#[test]
fn a_command_that_writes_elsewhere_is_refused_where_the_kernel_can() {
    let place = Place::new();
    let outside = place.store.path("outside");
    let line = format!("echo > out; echo x > {}", outside.display());
    let run = place.run(&["record", "@out", "--", "sh", "-c", &line]);
    // Kernels without Landlock cannot.
    if run.code == Some(1) {
        assert!(!outside.exists());
        place.done(&["record", "--may-write-elsewhere", "@out", "--", "sh", "-c", &line]);
    }
    assert!(outside.exists());
}

#[test]
fn results_that_differ_are_errors_and_within_a_tolerance_are_noted() {
    let place = Place::new();
    let numbers = "python3 -c \"import os,struct;s=int(open('/proc/uptime').read().split()[0].replace('.',''));\
                   open('out','wb').write(b''.join(struct.pack('<d',i+(s%97)*1e-9) for i in range(1000)))\"";
    place.done(&["record", "@out", "--", "sh", "-c", numbers]);
    place.done(&["drop", "--recomputable", "@out"]);
    std::thread::sleep(Duration::from_millis(30));
    place.fails(&["recompute", "@out"], "not the same bit for bit, and the recipe states no tolerance");
    place.done(&["record", "--tolerance", "out=relative:1e-6:f64", "@out", "--", "sh", "-c", numbers]);
    place.done(&["drop", "--recomputable", "@out"]);
    std::thread::sleep(Duration::from_millis(30));
    let restored = place.done(&["--json", "recompute", "@out"]);
    assert_eq!(restored.json()["restored"][0]["exact"], false);
    assert!(restored.stderr.contains("agrees in its statistics"), "{}", restored.stderr);
    assert_eq!(place.read("out").len(), 8000);
    place.done(&[
        "record",
        "--statistically-equal",
        "relative:1e-15",
        "--type",
        "f64",
        "@out",
        "--",
        "sh",
        "-c",
        numbers,
    ]);
    place.done(&["drop", "--recomputable", "@out"]);
    std::thread::sleep(Duration::from_millis(30));
    place.fails(&["recompute", "@out"], "neither the same bit for bit nor within");
    place.is_sound();
}

#[test]
fn what_is_made_within_a_tolerance_is_no_input_of_what_was_made_of_the_first() {
    let place = Place::new();
    let noise = "python3 -c \"import os,struct;open('b','wb').write(struct.pack('<d',1+int.from_bytes(os.urandom(2),'big')*1e-12)*500)\"";
    place.done(&["record", "--tolerance", "b=relative:1e-6:f64", "@b", "--", "sh", "-c", noise]);
    place.done(&["record", "@c", "--inputs", "@b", "--", "sh", "-c", "cat b b > c"]);
    let bytes = place.read("c");
    // The tolerance is for b alone, whatever has the same content.
    let file = place.store.path("copy-of-b");
    fs::write(&file, place.read("b")).unwrap();
    place.store.put(&file, "other");
    place.run(&["drop", "--recomputable", "@other"]).expect(1);
    place.done(&["drop", "--recomputable", "@c"]);
    place.done(&["drop", "--recomputable", "@b"]);
    place.store.verb("collect", &[]);
    place.done(&["recompute", "@c"]);
    assert!(place.read("c") == bytes);
    place.done(&["recompute", "@b"]);
    assert_eq!(place.read("b").len(), 4000);
}

#[test]
fn programs_that_could_not_be_run_again_are_refused_or_named() {
    let place = Place::new();
    place.put("sim", b"data");
    place.script("sim", "echo > out");
    let both = place.run(&["record", "@out", "--inputs", "@sim", "--", "./sim"]).expect(1);
    assert!(both.stderr.contains("sim: is a program, and an input or output too"), "{}", both.stderr);
    place.done(&["record", "@out", "--inputs", "data=@sim", "--", "./sim"]);
    // A script that is named with its whole path is known by its digest.
    let script = place.here.join("sim").into_os_string().into_string().unwrap();
    place.done(&["record", "@other", "--", "sh", "-c", "sh $0; mv out other; echo x >> other", &script]);
    place.script("sim", "echo otherwise > out");
    let changed = place.run(&["drop", "--recomputable", "@other"]).expect(1);
    assert!(changed.stderr.contains("is another one than when it was recorded"), "{}", changed.stderr);
    place.done(&["drop", "--recomputable", "@out"]);
    place.done(&["recompute", "@out"]);
    assert_eq!(place.read("out"), b"\n");
}

#[test]
fn tolerances_are_for_numbers_and_names_of_recipes_are_names() {
    let place = Place::new();
    let line = ["--statistically-equal", "relative:1e-6", "--type", "f64", "@out", "--", "sh", "-c"];
    for made in ["echo ok > out", ": > out"] {
        let refused = place.run(&[&["record"], &line[..], &[made]].concat()).expect(1);
        assert!(refused.stderr.contains("no values of f64"), "{}", refused.stderr);
    }
    let store = place.store.directory().into_os_string().into_string().unwrap();
    for name in ["..", ".", "", "a/b", &"x".repeat(5000)] {
        place.run(&["recipes", &store, "--remove", name]).expect(2);
    }
}

#[test]
fn what_is_not_kept_makes_nothing_again() {
    let place = Place::new();
    place.put("in", b"input");
    place.done(&[&["record", "--input-not-kept", "the detector", "@out", "--"], &shell("echo > out")[..]].concat());
    place.fails(&["drop", "--recomputable", "@out"], "the detector");
    let listed = place.store.json("recipes");
    assert_eq!(
        (&listed[0]["recomputable"], &listed[0]["why_not"]),
        (&false.into(), &"the detector is not kept".into())
    );
    place.fails(&["drop", "--recomputable", "@in"], "no recipe made just this version");
    // A program of this directory that is too long to keep.
    place.script("long", &format!("echo > out # {}", "x".repeat(5000)));
    place.done(&["record", "--keep-programs", "1K", "@out", "--", "./long"]);
    place.done(&["drop", "--recomputable", "@out"]);
    place.script("long", "echo > out");
    fs::remove_file(place.here.join("long")).unwrap();
    place.fails(&["recompute", "@out"], "is not kept, and is not there");
}

#[test]
fn recipes_that_dropped_files_need_stay_and_a_lost_one_is_named() {
    let place = Place::new();
    place.put("in", b"input");
    place.done(&record(&shell("cat in in > out")));
    let id = place.store.json("recipes")[0]["id"].as_str().unwrap().to_owned();
    place.done(&["drop", "--recomputable", "@out"]);
    let store = place.store.directory();
    let store = store.to_str().unwrap();
    place.fails(&["recipes", store, "--remove", &id], "out cannot be made again without it");
    place.run(&["rm", &format!("@.thalweg-recipes/{id}")]).expect(2);
    place.done(&["recompute", "@out"]);
    place.done(&["recipes", store, "--remove", &id]);
    assert_eq!(place.store.json("recipes").as_array().unwrap().len(), 0);
    assert_eq!(place.read("out"), b"inputinput");
    place.fails(&["recipes", store, "--remove", &id], "no such recipe");
}

#[test]
fn budgets_name_what_is_computed_soonest() {
    let place = Place::new();
    place.done(&["record", "@quick", "--", "sh", "-c", "head -c 100000 /dev/zero | tr '\\0' q > quick"]);
    place.done(&["record", "@slow", "--", "sh", "-c", "sleep 0.4; head -c 100000 /dev/zero | tr '\\0' s > slow"]);
    let store = place.store.directory();
    let store = store.to_str().unwrap();
    let chosen = place.done(&["--json", "recipes", store, "--budget", "90000"]).json();
    assert_eq!(
        (&chosen["drop"][0]["path"], chosen["drop"].as_array().unwrap().len()),
        (&"quick".into(), 1),
        "{chosen}"
    );
    let chosen = place.done(&["--json", "recipes", store, "--budget", "150000"]).json();
    assert_eq!(chosen["drop"].as_array().unwrap().len(), 2, "{chosen}");
    place.fails(&["recipes", store, "--budget", "1G"], "make only");
}

#[test]
fn a_thousand_files_of_one_pipeline_run_each_command_once() {
    let place = Place::new();
    let log = place.store.path("log");
    let first = format!("echo first >> {}; mkdir d; seq 1 500 | while read i; do echo $i > d/$i; done", log.display());
    let second = format!("echo second >> {}; mkdir e; for i in d/*; do cat $i $i > e/${{i#d/}}; done", log.display());
    place.done(&["record", "--may-write-elsewhere", "@d/", "--", "sh", "-c", &first]);
    place.done(&["record", "--may-write-elsewhere", "@e/", "--inputs", "@d", "--", "sh", "-c", &second]);
    place.done(&["drop", "--recomputable", "@d", "@e"]);
    place.store.verb("collect", &[]);
    fs::remove_file(&log).unwrap();
    let restored = place.done(&["--json", "recompute", "--may-write-elsewhere", "@"]).json();
    assert_eq!((&restored["commands"], restored["restored"].as_array().unwrap().len()), (&2.into(), 1000));
    assert_eq!(fs::read_to_string(&log).unwrap(), "first\nsecond\n");
    assert_eq!(place.read("e/77"), b"77\n77\n");
    place.is_sound();
}

#[test]
fn killed_records_drops_and_recomputations_leave_the_store_as_before() {
    let place = Place::new();
    let mut random = Random::fresh();
    place.put("in", &random.bytes(200_000));
    let make = "sleep 0.02; cat in in in > out";
    place.done(&record(&shell(make)));
    let whole = place.read("out");
    let recorded = record(&shell(make));
    for round in 0..24 {
        let words: &[&str] = match round % 3 {
            0 => &recorded,
            1 => &["drop", "--recomputable", "@out"],
            _ => &["recompute", "@out"],
        };
        let mut child = place.command(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(random.below(80)));
        let _ = child.kill();
        child.wait().unwrap();
        place.is_sound();
        let reads = place.command(&["cat", "@out"]).output().unwrap();
        assert!(reads.stdout == whole || (!reads.status.success() && reads.stdout.is_empty()), "round {round}");
    }
    fs::read_dir(&place.scratch).unwrap().for_each(|left| fs::remove_dir_all(left.unwrap().path()).unwrap());
    let is_dropped = !place.command(&["cat", "@out"]).output().unwrap().status.success();
    if is_dropped {
        place.done(&["recompute", "@out"]);
    }
    assert!(place.read("out") == whole);
    place.store.verb("collect", &[]);
    place.is_sound();
}

#[test]
fn an_interrupted_record_says_so_and_leaves_nothing() {
    let place = Place::new();
    place.put("in", b"input");
    let before = place.state();
    let child = place.command(&record(&shell("sleep 60; cp in out"))).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(400));
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let ended: Run = child.wait_with_output().unwrap().into();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    assert!(ended.stderr.contains("the store is as before"), "{}", ended.stderr);
    assert_eq!((place.state(), files_below(&place.scratch).len()), (before, 0));
}

#[test]
fn a_rebuilt_catalog_has_recipes_and_dropped_files() {
    let place = Place::new();
    place.put("in", &Random::fresh().bytes(100_000));
    place.done(&record(&shell("cat in in > out")));
    let whole = place.read("out");
    place.done(&["drop", "--recomputable", "@out"]);
    place.store.verb("collect", &[]);
    let before = place.state();
    place.store.verb("verify", &["--rebuild-catalog"]);
    assert_eq!(place.state(), before);
    place.done(&["recompute", "@out"]);
    assert!(place.read("out") == whole);
}

#[test]
fn through_a_node_recipes_work_and_jobs_do_not_open_what_is_dropped() {
    let place = Place::new();
    let node = Node::of(&place.store);
    let out = format!("thalweg://{}::out", node.address);
    place.done(&["record", &out, "--", "sh", "-c", "seq 1 9 > out"]);
    place.done(&["drop", "--recomputable", &out]);
    let ask = |number| {
        let (path, nodes) = (StorePath::new(b"out").unwrap(), vec![node.address.clone()]);
        let key = HandleKey([number; 16]);
        let open = Request::OpenPath { path, flags: 1 | 2, job: String::new(), nodes, stripe_bytes: 4 << 20, key };
        Client::greet(&node.address, number.into()).ask(open)
    };
    let refused = ask(1);
    assert!(
        matches!(&refused, Reply::Failed { failure } if failure.kind == FailureKind::DataDropped
            && failure.text.contains(" s: `thalweg recompute STORE::out`")),
        "{refused:?}"
    );
    let recipes = place.store.verb("recipes", &["--json"]).json();
    let own = format!(".thalweg-recipes/{}", recipes[0]["id"].as_str().unwrap());
    let delete = Request::Delete { path: StorePath::new(own.as_bytes()).unwrap() };
    let refused = Client::greet(&node.address, 3).ask(delete);
    assert!(matches!(refused, Reply::Failed { .. }), "a job removed a recipe: {refused:?}");
    place.done(&["recompute", &out]);
    assert_eq!(place.done(&["cat", &out]).text().lines().count(), 9);
    assert!(matches!(ask(2), Reply::Opened { .. }));
}

/// The example of docs/recipes.md, with its output.
#[test]
fn the_example_of_the_page_does_what_it_says() {
    let place = Place::new();
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/recipes.md")).unwrap();
    let (_, example) = page.split_once("```console\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let (mut script, mut want) = (String::new(), String::new());
    for line in example.lines() {
        match line.strip_prefix("$ ") {
            Some(command) => script += &format!("{command}\n"),
            None => want += &format!("{line}\n"),
        }
    }
    let folder = place.store.path("example");
    let script = script.replace("/tmp/thalweg-recipes-try", folder.to_str().unwrap());
    let program = Path::new(env!("CARGO_BIN_EXE_thalweg")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut shell = std::process::Command::new("sh");
    shell.args(["-e", "-c", &script]).env("PATH", path).env("THALWEG_CONFIG", "").env_remove("THALWEG_STORE");
    let done: Run = shell.output().unwrap().into();
    assert_eq!((done.text(), done.stderr.as_str()), (want, ""), "{:?}", done.code);
}
