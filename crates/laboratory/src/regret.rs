//! How much worse something is than the best there was: a share for each block, and what to know of many.

/// Shares: 0.01 is a hundredth more than the least.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Regret {
    pub mean: f64,
    /// 99 of 100 blocks have no more.
    pub p99: f64,
    pub worst: f64,
}

impl Regret {
    /// Of nothing, none.
    pub fn over(mut shares: Vec<f64>) -> Self {
        shares.sort_unstable_by(f64::total_cmp);
        let Some(worst) = shares.last().copied() else { return Regret::default() };
        let at = (shares.len() * 99).div_ceil(100) - 1;
        Regret { mean: shares.iter().sum::<f64>() / shares.len() as f64, p99: shares[at], worst }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regrets_are_ordered() {
        let regret = Regret::over((0..200).rev().map(f64::from).collect());
        assert_eq!((regret.mean, regret.p99, regret.worst), (99.5, 197.0, 199.0));
        assert_eq!(Regret::over(vec![0.5]).p99, 0.5);
        assert_eq!(Regret::over(Vec::new()), Regret::default());
    }
}
