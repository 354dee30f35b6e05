//! The share of one server that each application should have: weighted max-min over those that want something, groups first.
//!
//! An application with requests outstanding wants all it can get; another wants its achieved share, and the rest goes
//! to the others by their weights (water-filling: Bertsekas and Gallager, Data Networks, section 6.5.2).

use std::collections::BTreeMap;
use std::rc::Rc;

/// An application's entitlement, and how much it would use.
#[derive(Clone, Debug)]
pub struct Claim {
    pub weight: u32,
    /// With the group's own weight.
    pub group: Option<(Rc<str>, u32)>,
    /// As a part of the whole; `None`: all that it can get.
    pub demand: Option<f64>,
}

/// Returns each claim's part of a whole of 1. They add up to less only when all demand is met.
pub fn target_shares(claims: &[Claim]) -> Vec<f64> {
    let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (number, claim) in claims.iter().enumerate() {
        if let Some((name, _)) = &claim.group {
            groups.entry(name).or_default().push(number);
        }
    }
    // A member of the top level: an application without a group, or a group.
    let alone = (0..claims.len()).filter(|&number| claims[number].group.is_none()).map(|number| vec![number]);
    let members: Vec<Vec<usize>> = alone.chain(groups.into_values()).collect();
    let sides: Vec<Side> = members.iter().map(|numbers| Side::of(claims, numbers)).collect();

    let mut parts = vec![0.0; claims.len()];
    for (numbers, part) in members.iter().zip(fill(1.0, &sides)) {
        let inner: Vec<Side> = numbers.iter().map(|&number| Side::inner(&claims[number])).collect();
        for (&number, part) in numbers.iter().zip(fill(part, &inner)) {
            parts[number] = part;
        }
    }
    parts
}

/// A member at some level of the tree.
struct Side {
    weight: f64,
    demand: f64,
}

impl Side {
    fn inner(claim: &Claim) -> Side {
        Side { weight: f64::from(claim.weight), demand: claim.demand.unwrap_or(f64::INFINITY) }
    }

    /// Makes a member of one application, or of a whole group. A group without demand has no weight.
    fn of(claims: &[Claim], numbers: &[usize]) -> Side {
        let demand = numbers.iter().map(|&number| Side::inner(&claims[number]).demand).sum();
        let first = &claims[numbers[0]];
        let weight = first.group.as_ref().map_or(first.weight, |(_, weight)| *weight);
        Side { weight: f64::from(weight), demand }
    }
}

/// Raises all by weight until each has its demand or nothing is left.
fn fill(whole: f64, sides: &[Side]) -> Vec<f64> {
    let mut parts: Vec<Option<f64>> = vec![None; sides.len()];
    let mut left = whole;
    loop {
        let open: Vec<usize> = (0..sides.len()).filter(|&number| parts[number].is_none()).collect();
        let weights: f64 = open.iter().map(|&number| sides[number].weight).sum();
        let due = |number: usize| left * sides[number].weight / weights;
        let content: Vec<usize> = open.iter().copied().filter(|&number| sides[number].demand <= due(number)).collect();
        if content.is_empty() {
            open.into_iter().for_each(|number| parts[number] = Some(due(number)));
            return parts.into_iter().map(|part| part.expect("all have their part")).collect();
        }
        for number in content {
            parts[number] = Some(sides[number].demand);
            left = (left - sides[number].demand).max(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use random::Random;

    use super::super::max_min;
    use super::*;

    fn claim(weight: u32, demand: Option<f64>) -> Claim {
        Claim { weight, group: None, demand }
    }

    fn member(group: &str, group_weight: u32, weight: u32, demand: Option<f64>) -> Claim {
        Claim { weight, group: Some((group.into(), group_weight)), demand }
    }

    #[track_caller]
    fn assert_parts(claims: &[Claim], expected: &[f64]) {
        let parts = target_shares(claims);
        let is_near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-9;
        assert!(parts.len() == expected.len() && parts.iter().zip(expected).all(is_near), "{parts:?}");
    }

    #[test]
    fn shares_of_one_server_are_the_max_min_allocation_by_flows() {
        let mut random = Random::new(5);
        for _ in 0..200 {
            let some = |random: &mut Random| (random.below(3) > 0).then(|| random.unit());
            let claims: Vec<Claim> =
                (0..1 + random.below(6)).map(|_| claim(1 + random.below(16) as u32, some(&mut random))).collect();
            let flows = claims.iter().map(|claim| max_min::Claim {
                weight: f64::from(claim.weight),
                demand: claim.demand.unwrap_or(f64::INFINITY),
                servers: vec![(0, f64::INFINITY)],
            });
            let allocated = max_min::allocate(&[1.0], &flows.collect::<Vec<_>>());
            for (share, allocated) in target_shares(&claims).into_iter().zip(allocated) {
                assert!((share - allocated).abs() < 1e-3, "{share} {allocated} for {claims:?}");
            }
        }
    }

    #[test]
    fn who_wants_all_shares_by_weight() {
        assert_parts(&[claim(16, None), claim(1, None)], &[16.0 / 17.0, 1.0 / 17.0]);
        assert_parts(&[claim(3, None)], &[1.0]);
        assert_parts(&[], &[]);
    }

    #[test]
    fn what_one_leaves_goes_to_the_others_by_weight() {
        assert_parts(&[claim(4, Some(0.1)), claim(2, None), claim(1, None)], &[0.1, 0.6, 0.3]);
        assert_parts(&[claim(1, Some(0.9)), claim(1, None)], &[0.5, 0.5]);
        assert_parts(&[claim(9, Some(0.0)), claim(1, None)], &[0.0, 1.0]);
    }

    #[test]
    fn groups_share_first_and_then_their_members() {
        let claims = [member("physics", 3, 1, None), member("physics", 3, 2, None), claim(1, None)];
        assert_parts(&claims, &[0.25, 0.5, 0.25]);
        let claims = [member("physics", 3, 1, Some(0.05)), member("physics", 3, 2, Some(0.05)), claim(1, None)];
        assert_parts(&claims, &[0.05, 0.05, 0.9]);
    }

    #[test]
    fn no_application_gets_more_than_the_whole_and_less_only_when_all_are_content() {
        let mut state = 7u64;
        let mut roll = |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % limit
        };
        for round in 0..2000 {
            let claims: Vec<Claim> = (0..1 + roll(6))
                .map(|_| {
                    let demand = (roll(2) == 0).then(|| roll(100) as f64 / 100.0);
                    let weight = 1 + roll(32) as u32;
                    match roll(3) {
                        0 => claim(weight, demand),
                        group => member(["a", "b"][group as usize - 1], 1 + group as u32, weight, demand),
                    }
                })
                .collect();
            let parts = target_shares(&claims);
            let total: f64 = parts.iter().sum();
            let content = |(claim, part): (&Claim, &f64)| claim.demand.is_some_and(|demand| *part >= demand - 1e-9);
            let all_content = claims.iter().zip(&parts).all(content);
            assert!(total < 1.0 + 1e-9, "round {round}: {claims:?} {parts:?}");
            assert!(total > 1.0 - 1e-9 || all_content, "round {round}: {claims:?} {parts:?}");
        }
    }
}
