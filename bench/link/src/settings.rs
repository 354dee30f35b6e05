//! Parses the properties of a link: `delay-ms=90`, or `delay-ms=80,100` where the two directions differ (near to far
//! first). The same words begin a link and change it while it runs.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    pub delay: Duration,
    pub bytes_per_s: f64,
    /// Bytes that may wait for the link; what comes beyond them is dropped.
    pub queue_bytes: f64,
    /// Part of the packets that is lost.
    pub loss: f64,
}

const KEYS: &str = "delay-ms, rate-mbit, queue-kib and loss";

impl Settings {
    pub const INITIAL: Settings =
        Settings { delay: Duration::ZERO, bytes_per_s: 125e6, queue_bytes: 1048576.0, loss: 0.0 };

    fn set(&mut self, key: &str, value: f64) -> Result<()> {
        ensure!(value.is_finite() && value >= 0.0, "{key}={value} is no such number");
        match key {
            "delay-ms" => self.delay = Duration::try_from_secs_f64(value / 1e3)?,
            "rate-mbit" if value > 0.0 => self.bytes_per_s = value * 1e6 / 8.0,
            "queue-kib" => self.queue_bytes = value * 1024.0,
            "loss" if value <= 1.0 => self.loss = value,
            _ => bail!("{key}={value} is no setting of a link: {KEYS}"),
        }
        Ok(())
    }
}

/// Applies one word to both directions.
pub fn apply(word: &str, both: &mut [Settings; 2]) -> Result<()> {
    let (key, values) = word.split_once('=').with_context(|| format!("{word:?} is no KEY=VALUE"))?;
    let parsed: Result<Vec<f64>, _> = values.split(',').map(str::parse).collect();
    let parsed = parsed.with_context(|| format!("{word:?} holds no number"))?;
    let values = match parsed[..] {
        [value] => [value, value],
        [near, far] => [near, far],
        _ => bail!("{word:?} holds more than two numbers"),
    };
    both.iter_mut().zip(values).try_for_each(|(settings, value)| settings.set(key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_is_for_both_directions_and_two_are_one_each() {
        let mut both = [Settings::INITIAL; 2];
        apply("delay-ms=90", &mut both).unwrap();
        apply("rate-mbit=8,16", &mut both).unwrap();
        assert_eq!(both.map(|settings| settings.delay.as_millis()), [90, 90]);
        assert_eq!(both.map(|settings| settings.bytes_per_s), [1e6, 2e6]);
        for wrong in
            ["delay-ms", "delay=1", "loss=2", "rate-mbit=0", "rate-mbit=-1", "loss=NaN", "loss=0,0,0", "loss=x"]
        {
            assert!(apply(wrong, &mut both).is_err(), "{wrong}");
        }
    }
}
