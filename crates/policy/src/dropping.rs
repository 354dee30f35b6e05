//! What to drop of results that can be computed again, to free so many bytes: what is computed soonest for each byte first.

/// Results that one command makes, and that are dropped together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Droppable {
    /// Freed when they are dropped.
    pub bytes: u64,
    /// To compute them again, with all that must be computed for that.
    pub seconds: f64,
}

/// Returns which to drop, in rising order, so that at least `budget_bytes` are free; none where all together are too few.
///
/// Takes the cheapest for each byte, one after the other. The one that reaches the budget may be larger than needed, so each
/// that would reach it stands as the last once, and the cheapest of these choices is taken: at most twice the best there is.
pub fn choose(droppable: &[Droppable], budget_bytes: u64) -> Option<Vec<usize>> {
    let mut order: Vec<usize> = (0..droppable.len()).filter(|at| droppable[*at].bytes > 0).collect();
    let by_cost = |one: &usize, next: &usize| cost(droppable[*one]).total_cmp(&cost(droppable[*next]));
    order.sort_by(by_cost);
    let (mut taken, mut bytes, mut best) = (Vec::new(), 0_u64, None::<(f64, Vec<usize>)>);
    for at in order {
        if bytes.saturating_add(droppable[at].bytes) < budget_bytes {
            taken.push(at);
            bytes = bytes.saturating_add(droppable[at].bytes);
            continue;
        }
        let mut choice = taken.clone();
        choice.push(at);
        leave_out(droppable, &mut choice, budget_bytes);
        let seconds = choice.iter().map(|at| droppable[*at].seconds).sum();
        if best.as_ref().is_none_or(|(fewest, _)| seconds < *fewest) {
            best = Some((seconds, choice));
        }
    }
    let (_, mut choice) = best.filter(|_| budget_bytes > 0)?;
    choice.sort();
    Some(choice)
}

fn cost(droppable: Droppable) -> f64 {
    droppable.seconds / droppable.bytes as f64
}

/// Leaves out what the others make up for, the longest to compute first.
fn leave_out(droppable: &[Droppable], choice: &mut Vec<usize>, budget_bytes: u64) {
    let mut bytes = choice.iter().fold(0_u64, |sum, at| sum.saturating_add(droppable[*at].bytes));
    choice.sort_by(|one, next| droppable[*next].seconds.total_cmp(&droppable[*one].seconds));
    choice.retain(|at| {
        let without = bytes - droppable[*at].bytes;
        let is_needed = without < budget_bytes;
        if !is_needed {
            bytes = without;
        }
        is_needed
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least seconds of any subset that frees enough.
    fn least_seconds(droppable: &[Droppable], budget_bytes: u64) -> Option<f64> {
        let subsets = 1_u32..1 << droppable.len();
        let chosen = |subset: u32| (0..droppable.len()).filter(move |at| subset >> at & 1 == 1).map(|at| droppable[at]);
        let enough = subsets.filter(|subset| chosen(*subset).map(|one| one.bytes).sum::<u64>() >= budget_bytes);
        enough.map(|subset| chosen(subset).map(|one| one.seconds).sum()).min_by(f64::total_cmp)
    }

    #[test]
    fn choices_free_enough_and_cost_at_most_twice_the_least() {
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for round in 0..2000 {
            let count = 1 + random(8) as usize;
            let droppable: Vec<Droppable> =
                (0..count).map(|_| Droppable { bytes: random(100), seconds: random(50) as f64 }).collect();
            let budget_bytes = 1 + random(300);
            let (found, least) = (choose(&droppable, budget_bytes), least_seconds(&droppable, budget_bytes));
            assert_eq!(found.is_some(), least.is_some(), "{round}: {droppable:?} {budget_bytes}");
            let (Some(found), Some(least)) = (found, least) else { continue };
            assert!(found.iter().map(|at| droppable[*at].bytes).sum::<u64>() >= budget_bytes, "{round}");
            let seconds: f64 = found.iter().map(|at| droppable[*at].seconds).sum();
            assert!(seconds <= 2.0 * least, "{round}: {droppable:?} {budget_bytes}: {seconds} and not {least}");
        }
    }

    #[test]
    fn the_quickest_for_each_byte_goes_first() {
        let droppable = [(100, 10.0), (100, 1.0), (1000, 5.0)].map(|(bytes, seconds)| Droppable { bytes, seconds });
        assert_eq!(choose(&droppable, 900), Some(vec![2]));
        assert_eq!(choose(&droppable, 1050), Some(vec![1, 2]));
        assert_eq!(choose(&droppable, 2000), None);
    }
}
