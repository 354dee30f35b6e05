//! Which of our crates may use which: the table of ARCHITECTURE.md. An arrow it does not have is refused.

use std::process::Command;

use serde_json::Value;

const MAY_USE: [(&str, &[&str]); 20] = [
    ("random", &[]),
    ("format", &[]),
    ("policy", &[]),
    ("segment", &["format", "policy"]),
    ("hdf5-filter", &["format", "segment"]),
    ("store", &["format", "random"]),
    ("catalog", &["format"]),
    ("repository", &["format", "policy", "segment", "store", "catalog"]),
    ("recipe", &["format", "store", "catalog", "repository"]),
    ("transfer", &["format", "policy", "store", "catalog"]),
    ("address", &["format", "catalog", "repository", "transfer"]),
    ("monitoring", &[]),
    ("gate", &["format", "monitoring", "policy"]),
    ("plot", &[]),
    ("laboratory", &["format", "plot", "policy", "segment"]),
    ("simulator", &["plot", "policy", "random"]),
    ("diffusion", &["policy"]),
    (
        "cli",
        &[
            "format",
            "policy",
            "segment",
            "store",
            "catalog",
            "repository",
            "recipe",
            "transfer",
            "address",
            "gate",
            "monitoring",
            "laboratory",
            "plot",
            "simulator",
        ],
    ),
    (
        "python",
        &[
            "format",
            "policy",
            "segment",
            "store",
            "catalog",
            "repository",
            "recipe",
            "transfer",
            "address",
            "diffusion",
        ],
    ),
    ("abi", &["format", "policy", "segment", "transfer"]),
];

#[test]
fn no_crate_uses_another_that_the_table_does_not_grant() {
    for package in packages() {
        let name = ours(&package["name"]).expect("a member of the workspace is ours");
        let granted = MAY_USE.iter().find(|(crate_name, _)| *crate_name == name);
        let (_, granted) = granted.unwrap_or_else(|| panic!("{name} is not in the table"));
        for used in used_by(&package) {
            assert!(granted.contains(&used.as_str()), "{name} uses {used}, which the table does not grant");
        }
    }
}

/// `make fuzz` builds from a lock file of its own, which nothing else reads.
#[test]
fn the_lock_file_of_the_fuzz_targets_knows_all_dependencies_of_our_crates() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/Cargo.lock");
    let lock = std::fs::read_to_string(path).expect("fuzz/Cargo.lock can be read");
    for package in packages() {
        let entry = format!("name = {}\n", package["name"]);
        let Some(locked) = lock.split("[[package]]").find(|locked| locked.contains(&entry)) else { continue };
        for dependency in built(&package).filter(|dependency| dependency["optional"] == false) {
            // Followed by a version where there are several.
            let name = format!("\"{}", dependency["name"].as_str().expect("a name is a string"));
            let is_known = locked.contains(&format!(" {name}\"")) || locked.contains(&format!(" {name} "));
            assert!(
                is_known,
                "{} of {} is missing: cargo metadata --manifest-path fuzz/Cargo.toml",
                name, package["name"]
            );
        }
    }
}

fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    metadata["packages"].as_array().expect("packages are a list").clone()
}

/// Our crates among the dependencies, except those only tests use.
fn used_by(package: &Value) -> Vec<String> {
    built(package).filter_map(|dependency| ours(&dependency["name"])).collect()
}

fn built(package: &Value) -> impl Iterator<Item = &Value> {
    let dependencies = package["dependencies"].as_array().expect("dependencies are a list");
    dependencies.iter().filter(|dependency| dependency["kind"] != "dev")
}

fn ours(name: &Value) -> Option<String> {
    name.as_str()?.strip_prefix("thalweg-").map(str::to_owned)
}
