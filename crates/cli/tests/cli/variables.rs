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

#[test]
fn run_starts_no_program_with_variables_that_the_mpi_library_would_refuse() {
    let store = Store::new();
    let (directory, witness) = (store.directory(), store.path("witness"));
    for (variable, value) in [
        ("THALWEG_TIMEOUT_S", "abc"),
        ("THALWEG_STREAMS", "99"),
        ("THALWEG_WINDOW_MIB", "0"),
        ("THALWEG_STRIPE_BYTES", "3"),
        ("THALWEG_STRIPE_BYTES", "65537"),
        ("THALWEG_LOG", "foo"),
    ] {
        let run = ["run", "--store", directory.to_str().unwrap(), "--", "touch", witness.to_str().unwrap()];
        let refused = with(variable, value.as_bytes(), &run).expect(2);
        assert!(refused.stderr.contains(variable), "{}", refused.stderr);
        assert!(!witness.exists(), "{variable}={value}");
    }
}
