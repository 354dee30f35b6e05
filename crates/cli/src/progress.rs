//! How far a long command has come: bytes, rate, and time left once the total is known.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// Cheap to clone; all clones move the same bar.
#[derive(Clone)]
pub struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    pub fn hidden() -> Self {
        Progress { bar: None }
    }

    pub fn shown(bars: &MultiProgress, verb: &'static str) -> Self {
        let bar = bars.add(ProgressBar::no_length());
        let style = ProgressStyle::with_template("{msg} {binary_bytes}, {binary_bytes_per_sec}");
        bar.set_style(style.expect("the template is well formed"));
        bar.set_message(verb);
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress { bar: Some(bar) }
    }

    /// Whether it is worth finding out the total.
    pub fn is_shown(&self) -> bool {
        self.bar.is_some()
    }

    /// Shows the share done and the time left too, from now on.
    pub fn set_total(&self, bytes: u64) {
        let Some(bar) = &self.bar else { return };
        let style = "{msg} {wide_bar} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left";
        bar.set_style(ProgressStyle::with_template(style).expect("the template is well formed"));
        bar.set_length(bytes);
    }

    pub fn add(&self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(bytes);
        }
    }

    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
