//! Man pages say how a verb is used as its `--help` does.

use super::runner::run;

/// The first line behind a heading, as it is read.
fn first_line(page: &str, heading: &str) -> String {
    let line = page.lines().skip_while(|line| *line != format!(".SH {heading}")).nth(1).unwrap_or_default();
    line.replace("\\-", "-").replace("\\*(Aq", "'")
}

#[test]
fn man_pages_have_the_usage_of_help() {
    let folder = tempfile::tempdir().unwrap();
    run(&["manual".as_ref(), folder.path().as_os_str()]).expect(0);
    let mut pages = 0;
    for entry in folder.path().read_dir().unwrap() {
        let path = entry.unwrap().path();
        let page = std::fs::read_to_string(&path).unwrap();
        let verbs = path.file_stem().unwrap().to_str().unwrap().split('-').skip(1);
        let help = run(&verbs.chain(["--help"]).collect::<Vec<_>>()).expect(0).text();
        let usage = help.lines().find_map(|line| line.strip_prefix("Usage: ")).unwrap();
        assert_eq!(first_line(&page, "SYNOPSIS"), usage, "{}", path.display());
        pages += 1;
    }
    assert!(pages > 20, "{pages}");
    let page = std::fs::read_to_string(folder.path().join("thalweg-run.1")).unwrap();
    assert!(first_line(&page, "SYNOPSIS").ends_with("[OPTIONS] -- <CMD>..."), "{page}");
    let example = "thalweg run --store /scratch/st -- mpirun -n 64 ./app      (files named SD:/path)";
    assert!(page.replace("\\-", "-").contains(&format!(".SH EXAMPLES\n.nf\n{example}\nthalweg run --node ")), "{page}");
    let page = std::fs::read_to_string(folder.path().join("thalweg-put.1")).unwrap().replace("\\-", "-");
    assert_eq!(first_line(&page, "SYNOPSIS"), "thalweg put [OPTIONS] <SRC>... <STORE::DIR/>");
    assert!(page.contains(".SH ARGUMENTS\n.TP\n\\fI<SRC>...\\fR\n") && page.contains(".TH THALWEG-PUT 1"), "{page}");
    assert!(page.contains("\n.fi\n") && !page.contains("Example:"), "{page}");
}
