//! Prometheus' text format 0.0.4, <https://prometheus.io/docs/instrumenting/exposition_formats/>.

use std::fmt::{Display, Write};

use crate::{Page, Process};

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A page under way. Every name gets the same prefix; a family's samples follow it at once.
pub struct Exposition {
    prefix: &'static str,
    text: String,
}

impl Exposition {
    pub fn new(prefix: &'static str) -> Self {
        Exposition { prefix, text: String::new() }
    }

    /// Begins a family of samples: `kind` is `counter`, `gauge` or `histogram`.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        let prefix = self.prefix;
        // Writing to a string does not fail, here and below.
        let _ = writeln!(self.text, "# HELP {prefix}{name} {help}\n# TYPE {prefix}{name} {kind}");
    }

    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.text, "{}{name}", self.prefix);
        for (number, (label, text)) in labels.iter().enumerate() {
            let before = if number == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{label}=\"{}\"", escaped(text));
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{after} {value}");
    }

    /// A family of one sample without labels.
    pub fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// The metrics of every server about its process.
    pub fn process(&mut self, up_s: f64, process: Process) {
        self.single("up_seconds", "gauge", "Time since the server began.", up_s);
        self.single("cpu_seconds_total", "counter", "Processor time of the process.", process.cpu.as_secs_f64());
        self.single("resident_bytes", "gauge", "Memory of the process.", process.resident_bytes);
    }

    pub fn into_text(self) -> String {
        self.text
    }

    pub fn into_page(self) -> Page {
        Page::new(CONTENT_TYPE, self.text)
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_page_is_written_as_prometheus_reads_it() {
        let mut page = Exposition::new("thalweg_node_");
        page.family("stored_bytes_total", "counter", "Bytes.");
        page.sample("stored_bytes_total", &[("application", "a \"b\" \\ c\nd"), ("mode", "x")], u64::MAX);
        page.process(1.5, Process { cpu: Duration::from_millis(20), resident_bytes: 7 });
        let expected = "# HELP thalweg_node_stored_bytes_total Bytes.\n\
                        # TYPE thalweg_node_stored_bytes_total counter\n\
                        thalweg_node_stored_bytes_total{application=\"a \\\"b\\\" \\\\ c\\nd\",mode=\"x\"} 18446744073709551615\n\
                        # HELP thalweg_node_up_seconds Time since the server began.\n\
                        # TYPE thalweg_node_up_seconds gauge\n\
                        thalweg_node_up_seconds 1.5\n";
        let text = page.into_text();
        assert!(text.starts_with(expected), "{text}");
        assert!(
            text.contains("\nthalweg_node_cpu_seconds_total 0.02\n") && text.ends_with("resident_bytes 7\n"),
            "{text}"
        );
    }
}
