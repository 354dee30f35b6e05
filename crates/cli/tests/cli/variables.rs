//! Variables of the environment that make no sense: each is named, at once.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::runner::{Run, Store, command};

const NOT_TEXT: &[u8] = b"x\xff";

fn with(variable: &str, value: &[u8], arguments: &[&str]) -> Run {
    command(arguments).env(variable, OsStr::from_bytes(value)).output().unwrap().into()
}

#[test]
fn applications_that_no_node_takes_are_wrong_usage() {
    let store = Store::new();
    let directory = store.directory();
    let long = "n".repeat(1025);
    // Nothing listens there: what is asked of a node fails with 1.
    let cat = ["cat", "thalweg://127.0.0.1:1::x"];
    let run = ["run", "--store", directory.to_str().unwrap(), "--", "true"];
    for (value, arguments) in [(long.as_bytes(), &cat[..]), (NOT_TEXT, &cat), (long.as_bytes(), &run), (NOT_TEXT, &run)]
    {
        let refused = with("THALWEG_APPLICATION", value, arguments).expect(2);
        assert!(refused.stderr.contains("THALWEG_APPLICATION"), "{}", refused.stderr);
    }
    let option = ["run", "--node", "127.0.0.1:1", "--application", &long, "--", "true"];
    let refused = with("THALWEG_APPLICATION", b"", &option).expect(2);
    assert!(refused.stderr.contains("--application has 1025 bytes"), "{}", refused.stderr);
}

#[test]
fn run_refuses_values_of_its_programs_variables() {
    for variable in ["THALWEG_REDUCE", "THALWEG_ACK"] {
        for value in [b"sometimes", NOT_TEXT] {
            let refused = with(variable, value, &["run", "--node", "127.0.0.1:1", "--", "true"]).expect(2);
            assert!(refused.stderr.contains(variable), "{}", refused.stderr);
        }
    }
}
