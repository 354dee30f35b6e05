//! What is chosen about recipes: which makes a file again, what is left, checked, accepted or refused.

use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use random::Random;

use super::node::Node;
use super::recipes::{Place, record, shell};
use super::runner::{Run, files_below, run};

/// Another content with each run.
const CHANGING: &str = "cat /proc/sys/kernel/random/uuid > out";

#[test]
fn a_file_is_made_again_by_its_own_recipe_whatever_has_the_same_content() {
    let place = Place::new();
    place.done(&["record", "--tolerance", "a=relative:1e-6:f64", "@a", "--", "sh", "-c", "printf 01234567 > a"]);
    let own = place.store.json("recipes")[0]["id"].clone();
    place.done(&["record", "@b", "--", "sh", "-c", "printf 0123 > b; printf 4567 >> b"]);
    let other = place.store.json("recipes")[1]["id"].clone();
    let dropped = place.done(&["--json", "drop", "--recomputable", "@"]).json();
    assert_eq!((&dropped["dropped"][0]["recipe"], &dropped["dropped"][1]["recipe"]), (&own, &other), "{dropped}");
    place.done(&["recompute", "@"]);
    assert_eq!((place.read("a"), place.read("b")), (b"01234567".to_vec(), b"01234567".to_vec()));
}

#[test]
fn of_a_directory_what_no_recipe_makes_is_left_and_nothing_to_do_is_no_error() {
    let place = Place::new();
    place.put("d/in", b"input");
    place.done(&["record", "@d/out", "--inputs", "@d/in", "--", "sh", "-c", "cat d/in d/in > d/out"]);
    place.put("d/other", b"other");
    let dropped = place.done(&["--json", "drop", "--recomputable", "@d"]).json();
    let counts = ["dropped", "left"].map(|list| dropped[list].as_array().unwrap().len());
    assert_eq!(counts, [1, 2], "{dropped}");
    for words in [["drop", "--recomputable", "@d"], ["drop", "--recomputable", "@d/out"]] {
        assert_eq!(place.done(&[&["--json"], &words[..]].concat()).json()["dropped"].as_array().unwrap().len(), 0);
    }
    place.fails(&["drop", "--recomputable", "@d/other"], "no recipe made just this version");
    assert_eq!(place.done(&["find", "--dropped", "@"]).text().trim(), place.store.address("d/out").to_str().unwrap());
    let listed = place.done(&["--json", "ls", "@d"]).json();
    let marked = listed.as_array().unwrap().iter().filter(|entry| entry["dropped"].is_string());
    assert_eq!(marked.count(), 1, "{listed}");
    place.done(&["recompute", "@d/out"]);
    let again = place.done(&["--json", "recompute", "@d/out", "@d"]).json();
    assert_eq!((&again["commands"], again["restored"].as_array().unwrap().len()), (&0.into(), 0));
    assert_eq!(place.read("d/out"), b"inputinput");
}

#[test]
fn what_does_not_come_out_the_same_is_found_before_a_drop_or_accepted_behind_it() {
    let place = Place::new();
    place.done(&["record", "@out", "--", "sh", "-c", CHANGING]);
    let first = place.read("out");
    place.fails(&["drop", "--recomputable", "--check", "@out"], "not the same bit for bit");
    assert_eq!(place.read("out"), first);
    place.run(&["drop", "--recomputable", "--timeout", "5", "@out"]).expect(2);
    place.done(&["drop", "--recomputable", "@out"]);
    place.fails(&["recompute", "@out"], "not the same bit for bit");
    let restored = place.done(&["--json", "recompute", "--accept-different", "@out"]);
    assert_eq!(
        (&restored.json()["restored"][0]["exact"], &restored.json()["restored"][0]["accepted"]),
        (&false.into(), &true.into())
    );
    assert!(restored.stderr.contains("was accepted as it is now"), "{}", restored.stderr);
    assert!(place.read("out").len() == first.len() && place.read("out") != first);
    place.done(&["record", "@same", "--", "sh", "-c", "seq 1 99 > same"]);
    place.done(&["drop", "--recomputable", "--check", "@same"]);
    place.run(&["cat", "@same"]).expect(1);
    place.is_sound();
}

#[test]
fn nothing_is_dropped_that_needs_an_input_known_to_be_damaged() {
    let (place, input) = (Place::new(), Random::new(5).bytes(100_000));
    place.put("in", &input);
    let container = place.store.containers().remove(0);
    place.done(&["record", "@out", "--inputs", "@in", "--", "sh", "-c", "cat in in in > out"]);
    let mut bytes = fs::read(&container).unwrap();
    bytes[50_000] ^= 1;
    fs::write(&container, bytes).unwrap();
    place.store.try_verb("verify", &["--data"]).expect(3);
    let why = "an input or program that it keeps is damaged";
    place.fails(&["drop", "--recomputable", "@out"], why);
    let node = Node::of(&place.store);
    let out = format!("thalweg://{}::out", node.address);
    let refused = run(&["drop", "--recomputable", &out]).expect(1);
    assert!(refused.stderr.contains(why), "{}", refused.stderr);
    place.put("in", &input);
    // So long a node goes by what it knows of damage.
    std::thread::sleep(Duration::from_millis(1100));
    run(&["drop", "--recomputable", &out]).expect(0);
    drop(node);
    place.done(&["recompute", "@out"]);
    assert!(place.read("out") == [&input[..]; 3].concat());
}

#[test]
fn tolerances_are_for_outputs_and_for_values_alone() {
    let place = Place::new();
    place.fails(
        &["record", "--tolerance", "out=relative:1e-6:f64", "@d/out", "--", "sh", "-c", "exit 7"],
        "out: a tolerance is stated for it, and it is no output",
    );
    place.fails(
        &[
            "record",
            "--tolerance",
            "out=relative:1e-6:f64",
            "@out",
            "--",
            "sh",
            "-c",
            r"printf '\223NUMPY90123456' > out; printf '01' >> out",
        ],
        "a file of numpy",
    );
}

#[test]
fn outputs_never_take_the_places_of_the_stores_own_files() {
    let place = Place::new();
    place.done(&["record", "@out", "--", "sh", "-c", "echo > out"]);
    let id = place.store.json("recipes")[0]["id"].as_str().unwrap().to_owned();
    let line = format!("mkdir -p x/.thalweg-recipes; echo garbage > x/.thalweg-recipes/{id}");
    place.fails(&["record", "x=@", "--", "sh", "-c", &line], "the store");
    place.fails(&["record", "@out", "--", "sh", "-c", "mkfifo out"], "as a link or special file");
    place.fails(&["record", "@r", "@r/mean", "--", "true"], "as r stands for all below it");
    place.put("d/a", b"a");
    place.fails(&["record", "@out", "--inputs", "@d", "@d/a", "--", "true"], "two inputs would stand there");
    place.run(&["record", "--env", "=x", "@out", "--", "true"]).expect(2);
}

#[test]
fn an_output_that_something_still_writes_is_refused() {
    let place = Place::new();
    let late = "head -c 50M /dev/zero > out; setsid sh -c 'for i in $(seq 400); do echo x >> out; sleep 0.01; done' \
                >/dev/null 2>&1 & sleep 0.1";
    let run = place.command(&["record", "@out", "--", "sh", "-c", &format!("({late})")]).output().unwrap();
    let run: Run = run.into();
    assert!(run.code == Some(1) && run.stderr.contains("still writes there"), "{:?} {}", run.code, run.stderr);
}

#[test]
fn a_recipe_can_be_looked_into() {
    let place = Place::new();
    place.put("in", b"input");
    place.script("make", "cat in in > out");
    place.done(&[&["record", "--env", "MODE=a b"], &record(&["./make", "two words", "it's"])[1..]].concat());
    let listed = place.store.json("recipes");
    assert_eq!(listed[0]["command"], r"./make 'two words' 'it'\''s'");
    let (id, store) = (listed[0]["id"].as_str().unwrap(), place.store.directory());
    let store = store.to_str().unwrap();
    let described = place.done(&["--json", "recipes", store, "--show", id]).json();
    assert_eq!((&described["environment"]["MODE"], &described["inputs"][0]["kept"]), (&"a b".into(), &true.into()));
    let text = place.done(&["recipes", store, "--show", id]).text();
    assert!(text.contains("environment  MODE=a b") && text.contains("program      make"), "{text}");
    let program = place.done(&["recipes", store, "--show", id, "--program", "make"]).text();
    assert_eq!(program, "#!/bin/sh\ncat in in > out\n");
    place.run(&["recipes", store, "--show", id, "--program", "none"]).expect(1);
    place.run(&["recipes", store, "--show", "none"]).expect(1);
    // What has changed since is said before it is run.
    let script = place.here.join("make").into_os_string().into_string().unwrap();
    place.done(&["record", "@other", "--", "sh", "-c", "echo > other", &script]);
    place.done(&["drop", "--recomputable", "@other"]);
    place.script("make", "exit 1");
    let planned = place.done(&["recompute", "-n", "@other"]);
    assert!(planned.stderr.contains("is another one than when it was recorded"), "{}", planned.stderr);
}

#[test]
fn reading_runs_only_what_it_reads() {
    let place = Place::new();
    place.done(&["record", "@d/a", "--", "sh", "-c", "echo a > d/a"]);
    place.done(&["record", "@d/b", "--", "sh", "-c", "cat /proc/sys/kernel/random/uuid > d/b"]);
    place.done(&["drop", "--recomputable", "@d"]);
    place.done(&["get", "--recompute", "--include", "a", "@d", "copy"]);
    assert_eq!(files_below(&place.here.join("copy")).len(), 1);
    assert_eq!(place.done(&["cat", "--recompute", "--timeout", "9", "@d/a", "@d/a"]).stdout, b"a\na\n");
    place.run(&["cat", "--timeout", "9", "@d/a"]).expect(2);
    place.run(&["get", "--recompute", "@d", "all"]).expect(1);
}

#[test]
fn an_interrupted_reading_and_a_killed_one_leave_no_scratch_directory() {
    let place = Place::new();
    place.done(&["record", "@out", "--", "sh", "-c", "head -c 1000000 /dev/zero > out"]);
    place.done(&["drop", "--recomputable", "@out"]);
    for signal in [libc::SIGINT, libc::SIGKILL] {
        let mut reading = place.command(&["cat", "--recompute", "@out"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut first = [0; 10];
        reading.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        unsafe { libc::kill(reading.id() as i32, signal) };
        let status = reading.wait().unwrap();
        assert!(status.code() == Some(130) || status.signal() == Some(libc::SIGKILL), "{status}");
        assert_eq!(place.scratch.read_dir().unwrap().count(), usize::from(signal == libc::SIGKILL));
    }
    // What the killed one left is removed by the next that makes one, when it is some time old.
    let left = place.scratch.read_dir().unwrap().next().unwrap().unwrap().path();
    let hour_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
    let others = ["thalweg-recipe-inputs", "thalweg-recipe-00000000000000000000000000000000"]
        .map(|name| place.scratch.join(name));
    others.iter().for_each(|other| fs::create_dir(other).unwrap());
    for path in [&left, &others[0], &others[1]] {
        fs::File::open(path).unwrap().set_modified(hour_ago).unwrap();
    }
    place.command(&["cat", "--recompute", "@out"]).output().unwrap();
    assert!(!left.exists() && others.iter().all(|other| other.exists()));
    others.iter().for_each(|other| fs::remove_dir(other).unwrap());
}

#[test]
fn a_failed_record_leaves_its_directory_where_that_is_asked_for() {
    let place = Place::new();
    let words = ["record", "--keep-failed", "@out", "--", "sh", "-c", "echo result > out; echo log > log"];
    let run: Run = place.command(&words).output().unwrap().into();
    let (_, directory) = run.stderr.split_once("its directory stays: ").expect(&run.stderr);
    let directory = std::path::Path::new(directory.split(' ').next().unwrap().trim());
    assert_eq!(fs::read(directory.join("out")).unwrap(), b"result\n");
}

#[test]
fn a_command_that_is_to_end_may_end_in_its_own_way() {
    let place = Place::new();
    let mark = place.store.path("ended-in-order");
    // Not the command itself, but what it started.
    let line = format!(
        "sh -c \"trap 'sleep 0.2; echo > {}; exit 1' TERM; while true; do sleep 0.05; done\"; true",
        mark.display()
    );
    let begun = Instant::now();
    place.fails(
        &["record", "--may-write-elsewhere", "--timeout", "0.3", "@out", "--", "sh", "-c", &line],
        "did not end within 0.3 s",
    );
    assert!(mark.exists() && begun.elapsed() < Duration::from_secs(20));
    assert_eq!(place.run(&record(&shell("read line < /dev/tty"))).code, Some(1));
}
