//! How long operations take; run by hand: `cargo test --release -p thalweg-catalog -- --ignored --nocapture measures`.
//! `MEASURE_DIR` chooses the disk.

use std::time::{Duration, Instant};

use crate::catalog::{LocalCatalog, Names};
use crate::{Commit, commit, opened, path, writer, written};
use format::{Change, ContainerId, StorePath};

/// Prints the fastest and the median of some runs: on a busy machine the former is nearer to the truth.
fn measure(what: &str, runs: usize, mut run: impl FnMut(usize)) {
    let timed = |n| {
        let begun = Instant::now();
        run(n);
        begun.elapsed()
    };
    let mut times: Vec<Duration> = (0..runs).map(timed).collect();
    times.sort();
    println!("{what}: fastest {:?}, median {:?} of {runs}", times[0], times[runs / 2]);
}

#[test]
#[ignore = "a measurement"]
fn measures() {
    let base = std::env::var_os("MEASURE_DIR").map_or_else(std::env::temp_dir, Into::into);
    let directory = tempfile::tempdir_in(base).unwrap();
    let catalog = opened(&directory.path().join("catalog"));
    let session = writer(&catalog);
    let references: Vec<ContainerId> = (0..100).map(|_| catalog.open_container(session).unwrap()).collect();
    let large = |n: usize| {
        let name = |file| format!("run{n}/part{}/file{file:05}", file / 500);
        let changes = (0..5000).map(|file| written(&name(file), 1000, None)).collect();
        Commit { session, references: references.clone(), epoch: u64::MAX, changes, checkpoints: vec![] }
    };
    let commits: Vec<_> = (0..21).map(large).collect();
    let committed = |n: usize| assert_eq!(catalog.commit(&commits[n]).unwrap().numbers.len(), 5000);
    measure("commit of 5000 new files, 100 references", 20, committed);
    measure("commit of 5000 rewritten files", 5, committed);
    measure("commit of 1 file", 200, |n| {
        commit(&catalog, session, vec![written(&format!("one{n}"), 1, None)]).unwrap();
    });

    let name = |n: usize| path(&format!("run{}/part{}/file{:05}", n / 5000, n % 5000 / 500, n % 5000));
    let scattered: Vec<_> = (0..100_000).map(|n| name((n * 7919) % 100_000)).collect();
    measure("1000 entries among 100 000 files", 100, |n| {
        scattered[n * 1000..][..1000].iter().for_each(|path| assert!(catalog.entry(path).unwrap().is_some()));
    });
    let few = &scattered[..100];
    measure("1000 entries among the same 100", 100, |_| {
        few.iter().cycle().take(1000).for_each(|path| assert!(catalog.entry(path).unwrap().is_some()));
    });

    commit(&catalog, session, (0..1000).map(|n| written(&format!("wide/file{n:04}"), 1, None)).collect()).unwrap();
    for (directory, children) in [("wide", 1000), ("run3", 10), ("", 221)] {
        let listed = path(directory);
        measure(&format!("list of the {children} children of {directory:?}"), 50, |_| {
            assert_eq!(catalog.list(&listed, false, None, usize::MAX).unwrap().len(), children);
        });
    }
    measure("list of all 101 000 files", 3, |_| {
        assert!(catalog.list(&StorePath::root(), true, None, usize::MAX).unwrap().len() > 101_000);
    });
    measure("statistics", 5, |_| assert!(catalog.statistics().unwrap().files > 101_000));
    measure("rename of a directory of 5000", 5, |n| {
        let change = Change::Rename { from: path(&format!("run{n}")), to: path(&format!("moved{n}")) };
        commit(&catalog, session, vec![change]).unwrap();
    });
}
