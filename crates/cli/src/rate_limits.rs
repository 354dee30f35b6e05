//! `--limit-upload` and `--limit-download`: how fast a command may use the network.

use std::str::FromStr;

use anyhow::bail;
use transfer::{MIN_RATE, limit_rates};

use crate::failure::misuse;
use crate::location::StoreAddress;
use crate::pacing::rate;

#[derive(clap::Args)]
pub struct RateLimits {
    /// Send no more to the node in a second: 512K, 10M or 1.5G (KiB, MiB, GiB; at least 64K)
    #[arg(long, value_name = "RATE")]
    limit_upload: Option<Rate>,
    /// Receive no more from the node in a second: 512K, 10M or 1.5G
    #[arg(long, value_name = "RATE")]
    limit_download: Option<Rate>,
}

impl RateLimits {
    /// For the rest of the process. Refused for a store that no network lies before.
    pub fn apply(&self, store: &StoreAddress) -> anyhow::Result<()> {
        if self.limit_upload.is_none() && self.limit_download.is_none() {
            return Ok(());
        }
        if let StoreAddress::Directory(_) = store {
            misuse!("{store}: --limit-upload and --limit-download are for stores at thalweg://HOST:PORT");
        }
        let bytes_per_s = |rate: Option<Rate>| rate.map(|Rate(bytes_per_s)| bytes_per_s);
        limit_rates(bytes_per_s(self.limit_upload), bytes_per_s(self.limit_download));
        Ok(())
    }
}

/// Bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rate(u64);

impl FromStr for Rate {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let bytes_per_s = rate(text)?;
        if bytes_per_s < MIN_RATE {
            bail!("{text} is less than {}K: the node's signs of life would come too late", MIN_RATE >> 10);
        }
        Ok(Rate(bytes_per_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_units() {
        let rate = |text: &str| text.parse::<Rate>().unwrap().0;
        assert_eq!((rate("64K"), rate("10M"), rate("1.5g"), rate("100KiB")), (64 << 10, 10 << 20, 3 << 29, 100 << 10));
        assert_eq!(rate("200000B"), 200_000);
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        for text in ["", "100", "M", "10X", "1e9K", "-1M", "1 0M", "10K", "0M", "10M/s", "..M"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }
}
