//! `thalweg codecs`: what it prints and draws adds up.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use super::runner::{Run, Store, run};

/// A file of numbers, one of text and one of random bytes: three blocks.
fn data() -> TempDir {
    let folder = TempDir::new().unwrap();
    let numbers: Vec<u8> = (0..20_000).flat_map(|at| ((at as f64 * 0.001).sin() + 2.0).to_le_bytes()).collect();
    fs::write(folder.path().join("numbers"), numbers).unwrap();
    fs::write(folder.path().join("text"), "the same words again, and others: ".repeat(2000)).unwrap();
    fs::write(folder.path().join("noise"), random::Random::new(7).bytes(100_000)).unwrap();
    folder
}

fn codecs(folder: &Path, options: &[&str]) -> Run {
    let words = ["codecs", folder.to_str().unwrap(), "--blocks", "3"];
    run(&[&words, options].concat()).expect(0)
}

#[test]
fn the_document_has_what_was_promised_and_its_sums_agree() {
    let folder = data();
    let found = codecs(folder.path(), &["--json", "--link", "10M", "--link", "1G"]).json();
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value} is no number: {found}"));
    let lengths = folder.path().read_dir().unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
    assert_eq!(found["original_bytes"].as_u64(), Some(lengths.sum()));
    assert_eq!((found["blocks"].as_u64(), found["files"].as_u64()), (Some(3), Some(3)));
    let candidates = found["candidates"].as_array().unwrap();
    assert!(
        candidates.iter().any(|row| row["name"] == "zstd:1") && !found["references"].as_array().unwrap().is_empty()
    );
    let core_watts = number(&found["core_watts"]);
    for row in candidates {
        let core_seconds = number(&row["compress_seconds"]) + number(&row["decompress_seconds"]);
        let joules = core_watts * core_seconds + 200e-9 * number(&row["stored_bytes"]);
        let joules_per_gb = joules / (number(&found["original_bytes"]) / 1e9);
        assert!((number(&row["energy_j_per_gb"]) / joules_per_gb - 1.0).abs() < 1e-3, "{joules_per_gb}: {row}");
        let ratio = number(&found["original_bytes"]) / number(&row["stored_bytes"]);
        assert!((ratio - number(&row["ratio"])).abs() < 1e-9);
        assert!(number(&row["stored_bytes"]) >= number(&found["oracle_bytes"]), "the oracle is beaten: {row}");
        assert_eq!(row["pareto"], found["pareto"].as_array().unwrap().contains(&row["name"]));
    }
    for mode in ["performance", "balanced", "archival", "energy"] {
        let mode = &found["modes"][mode];
        let blocks: f64 = mode["chosen_blocks"].as_object().unwrap().values().map(number).sum();
        assert!(blocks <= 3.0 && number(&mode["chosen_bytes"]) > 0.0);
        assert!(number(&mode["compress_seconds"]) >= number(&mode["choosing_seconds"]));
        for regret in ["cost_regret", "size_regret"] {
            assert!(number(&mode[regret]["worst"]) >= number(&mode[regret]["mean"]) - 1e-9, "{mode}");
        }
    }
    let archival = &found["modes"]["archival"];
    assert_eq!(archival["oracle"]["stored_bytes"], found["oracle_bytes"]);
    let links = found["links"].as_array().unwrap();
    let rates: Vec<_> = links.iter().map(|link| link["link_bytes_per_s"].as_u64().unwrap()).collect();
    assert_eq!(rates, [10 << 20, 1 << 30]);
}

#[test]
fn the_table_fits_a_terminal_and_has_all_modes() {
    let text = codecs(data().path(), &["--link", "100M"]).text();
    assert!(text.starts_with("3 blocks of 3 files"), "{text}");
    for word in ["shuffle+zstd:1", "lz4:fast", "performance 100.0 MiB/s", "balanced", "archival", "energy", "regret"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let longest = text.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(100), "{longest:?}: {text}");
}

#[test]
fn energy_says_where_its_watts_are_from() {
    let folder = data();
    let (text, found) = (codecs(folder.path(), &[]).text(), codecs(folder.path(), &["--json"]).json());
    let (watts, said) = match found["core_watts_source"].as_str() {
        Some("rapl") => (1.0..=100.0, "W a busy core (measured here by RAPL)"),
        // As on machines that count no energy.
        Some("model") => (10.0..=10.0, "energy is 10.0 W a busy core (assumed, not measured)"),
        other => panic!("{other:?} is no source: {found}"),
    };
    assert!(watts.contains(&found["core_watts"].as_f64().unwrap()), "{found}");
    // Another process may measure what this one could not, and the other way round.
    assert!(text.contains(said) || Path::new("/sys/class/powercap").exists(), "{text}");
    assert!(text.contains("200 nJ a stored byte"), "{text}");
}

#[test]
fn modes_choose_by_the_model_that_is_named() {
    let (folder, elsewhere) = (data(), TempDir::new().unwrap());
    let path = |name: &str| elsewhere.path().join(name).to_str().unwrap().to_owned();
    let (noise, model, garbage) = (path("noise"), path("model"), path("garbage"));
    fs::write(&noise, random::Random::new(9).bytes(4 << 20)).unwrap();
    fs::write(&garbage, "no model").unwrap();
    run(&["train", &noise, "--model", &model, "--blocks", "16"]).expect(0);
    let chosen_bytes =
        |options: &[&str]| codecs(folder.path(), options).json()["modes"]["energy"]["chosen_bytes"].as_u64();
    assert!(chosen_bytes(&["--json", "--model", &model]) > chosen_bytes(&["--json"]));
    for of_no_use in [garbage, path("missing"), path("")] {
        let refused = run(&["codecs", folder.path().to_str().unwrap(), "--model", &of_no_use]).expect(2);
        assert!(refused.stderr.contains("[TW-108]"), "{}", refused.stderr);
    }
}

#[test]
fn pictures_are_well_formed() {
    let (folder, drawn) = (data(), TempDir::new().unwrap());
    let [svg, png] = ["all.svg", "all.png"].map(|name| drawn.path().join(name));
    codecs(folder.path(), &["--plot", svg.to_str().unwrap(), "--plot", png.to_str().unwrap()]);
    let text = fs::read_to_string(svg).unwrap();
    assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n") && text.contains(">archival</text>"), "{text}");
    assert_eq!(text.matches("<text").count(), text.matches("</text>").count());
    let chunks = chunks(&fs::read(png).unwrap());
    assert_eq!(chunks.iter().map(|(kind, _)| kind.as_str()).collect::<Vec<_>>(), ["IHDR", "IDAT", "IEND"]);
    let side = |at: usize| u32::from_be_bytes(chunks[0].1[at..at + 4].try_into().unwrap());
    assert!(side(0) > 1000 && side(4) > 1000, "{} x {}", side(0), side(4));
}

/// Returns the kinds and contents of a PNG file's chunks.
fn chunks(png: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut rest = png.strip_prefix(b"\x89PNG\r\n\x1a\n").expect("a PNG file begins so");
    let mut found = Vec::new();
    while !rest.is_empty() {
        let length = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
        found.push((String::from_utf8(rest[4..8].to_vec()).unwrap(), rest[8..8 + length].to_vec()));
        rest = &rest[12 + length..];
    }
    found
}

#[test]
fn what_is_read_is_not_written_over_and_pictures_go_only_where_they_can() {
    let folder = data();
    let text = folder.path().join("text");
    let over_data = ["train", folder.path().to_str().unwrap(), "--model", text.to_str().unwrap()];
    let refused = run(&over_data).expect(2);
    assert!(refused.stderr.contains("one of the files that are read"), "{}", refused.stderr);
    assert!(fs::read(&text).unwrap().starts_with(b"the same words"));
    let store = Store::new();
    fs::create_dir(store.path("store/compression.model")).unwrap();
    let in_the_way = store.path("store");
    let refused = run(&["train", text.to_str().unwrap(), "--into", in_the_way.to_str().unwrap()]).expect(2);
    assert!(
        refused.stderr.contains("compression.model: is a directory") && refused.stderr.contains("remove it"),
        "{}",
        refused.stderr
    );
    let nowhere = folder.path().join("missing/all.svg");
    let words = ["codecs", folder.path().to_str().unwrap(), "--plot", nowhere.to_str().unwrap()];
    assert!(run(&words).expect(1).stderr.contains("cannot be written"));
}

#[test]
fn what_cannot_be_read_is_named_and_left_out() {
    let folder = data();
    // Its length is a page's, and there is less to read.
    let words = ["codecs", folder.path().to_str().unwrap(), "/sys/kernel/mm/transparent_hugepage/enabled", "--json"];
    let found = run(&words).expect(3);
    assert!(found.stderr.contains("transparent_hugepage/enabled: became shorter"), "{}", found.stderr);
    assert_eq!(found.json()["blocks"], 3);
}
