//! The feasible weighted max-min allocation: the ideal of global shares.
//!
//! Applications with weights and demands may each use some of the servers. The allocation is max-min fair when no rate
//! by weight can grow without taking from one whose is not larger (Bertsekas and Gallager, Data Networks, 6.5.2).
//! Progressive filling: raise all by weight together; a set that takes all of the servers it can reach is frozen there;
//! go on with the rest. Feasibility is a bipartite flow, found by augmenting paths.

/// An application as the allocation sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    pub weight: f64,
    /// Most that it can use, in the unit of the servers' rates; infinite when only the servers limit it.
    pub demand: f64,
    /// Servers it can use; for each the most it can draw there (infinite: the server's rate).
    pub servers: Vec<(usize, f64)>,
}

/// Rates per application, in the unit of `rates`, which are the servers'.
pub fn allocate(rates: &[f64], claims: &[Claim]) -> Vec<f64> {
    let scale = rates.iter().sum::<f64>();
    let tolerance = 1e-9 * scale.max(f64::MIN_POSITIVE);
    let mut given = vec![0.0; claims.len()];
    let mut frozen: Vec<bool> = claims.iter().map(|claim| claim.servers.is_empty() || claim.weight <= 0.0).collect();
    while frozen.iter().any(|frozen| !frozen) {
        let level = highest_level(rates, claims, &given, &frozen, scale, tolerance);
        let at_level = wanted_at(level, claims, &given, &frozen);
        let before: Vec<bool> = frozen.clone();
        for index in (0..claims.len()).filter(|&index| !before[index]) {
            let mut more = at_level.clone();
            more[index] += 1e-5 * scale;
            let satisfied = at_level[index] >= claims[index].demand - tolerance;
            frozen[index] = satisfied || !is_feasible(rates, claims, &more, 1e-7 * scale);
        }
        // A want passes that exceeds what the servers carry by the tolerance; kept, it would leave none for the others.
        let kept = at_level.iter().zip(&frozen).zip(&before);
        given = kept.map(|((rate, now), was)| if *now && !was { (rate - tolerance).max(0.0) } else { *rate }).collect();
        if frozen == before {
            break;
        }
    }
    given
}

fn wanted_at(level: f64, claims: &[Claim], given: &[f64], frozen: &[bool]) -> Vec<f64> {
    let each = claims.iter().zip(given).zip(frozen);
    each.map(|((claim, given), frozen)| if *frozen { *given } else { (claim.weight * level).min(claim.demand) })
        .collect()
}

/// Returns the highest common level of rate by weight that the servers can carry, by bisection.
fn highest_level(rates: &[f64], claims: &[Claim], given: &[f64], frozen: &[bool], scale: f64, tolerance: f64) -> f64 {
    let lightest = claims.iter().zip(frozen).filter(|(_, frozen)| !**frozen).map(|(claim, _)| claim.weight);
    let (mut low, mut high) = (0.0, 2.0 * scale / lightest.fold(f64::INFINITY, f64::min));
    for _ in 0..100 {
        let level = (low + high) / 2.0;
        match is_feasible(rates, claims, &wanted_at(level, claims, given, frozen), tolerance) {
            true => low = level,
            false => high = level,
        }
    }
    low
}

/// Whether the servers can meet all wants: a maximum flow that saturates them all.
fn is_feasible(rates: &[f64], claims: &[Claim], wanted: &[f64], tolerance: f64) -> bool {
    let mut flow = Flow { claims, left: rates.to_vec(), carried: vec![vec![0.0; rates.len()]; claims.len()] };
    wanted.iter().enumerate().all(|(index, want)| flow.carry(index, *want, tolerance))
}

struct Flow<'a> {
    claims: &'a [Claim],
    left: Vec<f64>,
    carried: Vec<Vec<f64>>,
}

impl Flow<'_> {
    /// Routes `want` for an application, moving others to other servers where that makes room.
    fn carry(&mut self, index: usize, want: f64, tolerance: f64) -> bool {
        let mut missing = want;
        while missing > tolerance {
            let Some((path, server)) = self.path_to_room(index, tolerance) else { return false };
            let mut part = missing.min(self.left[server]);
            for &(claim, from, to) in &path {
                part = part.min(self.room(claim, to));
                if let Some(from) = from {
                    part = part.min(self.carried[claim][from]);
                }
            }
            for &(claim, from, to) in &path {
                self.carried[claim][to] += part;
                if let Some(from) = from {
                    self.carried[claim][from] -= part;
                }
            }
            self.left[server] -= part;
            missing -= part;
        }
        true
    }

    fn room(&self, claim: usize, server: usize) -> f64 {
        let most = self.claims[claim].servers.iter().find(|(at, _)| *at == server).map_or(0.0, |(_, most)| *most);
        most - self.carried[claim][server]
    }

    /// Breadth first: which moves (application, from, to) bring something of `index` to a server with room.
    #[allow(clippy::type_complexity)]
    fn path_to_room(&self, index: usize, tolerance: f64) -> Option<(Vec<(usize, Option<usize>, usize)>, usize)> {
        let mut reached: Vec<Option<(usize, Option<usize>)>> = vec![None; self.left.len()];
        let mut queue = std::collections::VecDeque::new();
        let step = 1e-3 * tolerance;
        let mut visit = |claim: usize, from: Option<usize>, queue: &mut std::collections::VecDeque<usize>| {
            for &(to, _) in &self.claims[claim].servers {
                if to < self.left.len() && reached[to].is_none() && self.room(claim, to) > step {
                    reached[to] = Some((claim, from));
                    queue.push_back(to);
                }
            }
        };
        visit(index, None, &mut queue);
        let mut found = None;
        while let Some(server) = queue.pop_front() {
            if self.left[server] > step {
                found = Some(server);
                break;
            }
            for other in (0..self.claims.len()).filter(|&other| self.carried[other][server] > step) {
                visit(other, Some(server), &mut queue);
            }
        }
        let mut path = Vec::new();
        let mut at = found?;
        while let Some((claim, from)) = reached[at] {
            path.push((claim, from, at));
            match from {
                Some(from) => at = from,
                None => break,
            }
        }
        Some((path, found?))
    }
}

#[cfg(test)]
mod tests {
    use random::Random;

    use super::*;

    fn claim(weight: f64, servers: &[usize]) -> Claim {
        Claim { weight, demand: f64::INFINITY, servers: servers.iter().map(|&at| (at, f64::INFINITY)).collect() }
    }

    /// The lexicographic optimum over subsets: a set of applications can have at most what its servers give, so the
    /// first bottleneck is the set with the least rate by weight; fix it and go on (no demands, no caps).
    fn by_subsets(rates: &[f64], claims: &[Claim]) -> Vec<f64> {
        let mut given = vec![0.0; claims.len()];
        let mut open: Vec<usize> = (0..claims.len()).collect();
        let mut left = rates.to_vec();
        while !open.is_empty() {
            let sets = 1u32..1 << open.len();
            let members = |set: u32| (0..open.len()).filter(move |bit| set >> bit & 1 == 1);
            let reach = |set: u32| -> Vec<usize> {
                let used = |server: &usize| {
                    members(set).any(|bit| claims[open[bit]].servers.iter().any(|(at, _)| at == server))
                };
                (0..left.len()).filter(used).collect()
            };
            let level = |set: u32| {
                let rate: f64 = reach(set).iter().map(|&at| left[at]).sum();
                rate / members(set).map(|bit| claims[open[bit]].weight).sum::<f64>()
            };
            let tightest = sets.min_by(|a, b| level(*a).total_cmp(&level(*b))).expect("a set");
            let (at_level, servers) = (level(tightest), reach(tightest));
            let fixed: Vec<usize> = members(tightest).map(|bit| open[bit]).collect();
            fixed.iter().for_each(|&index| given[index] = claims[index].weight * at_level);
            servers.iter().for_each(|&at| left[at] = 0.0);
            open.retain(|index| !fixed.contains(index));
        }
        given
    }

    #[test]
    fn it_is_what_the_tightest_subsets_say() {
        let mut draws = Random::new(11);
        let mut random = |n: u64| draws.below(n);
        for _ in 0..300 {
            let rates: Vec<f64> = (0..1 + random(4)).map(|_| 1.0 + random(9) as f64).collect();
            let claims: Vec<Claim> = (0..1 + random(5))
                .map(|_| {
                    let mut servers: Vec<usize> = (0..rates.len()).filter(|_| random(2) == 0).collect();
                    if servers.is_empty() {
                        servers.push(random(rates.len() as u64) as usize);
                    }
                    claim(1.0 + random(16) as f64, &servers)
                })
                .collect();
            let (ours, theirs) = (allocate(&rates, &claims), by_subsets(&rates, &claims));
            for (ours, theirs) in ours.iter().zip(&theirs) {
                assert!((ours - theirs).abs() < 1e-3, "{ours} {theirs} for {rates:?} {claims:?}");
            }
        }
    }

    #[test]
    fn demands_and_caps_bind_and_the_rest_goes_to_others() {
        let mut claims = [claim(1.0, &[0, 1]), claim(1.0, &[0, 1]), claim(2.0, &[0])];
        claims[1].demand = 1.0;
        claims[2].servers[0].1 = 3.0;
        let given = allocate(&[10.0, 10.0], &claims);
        assert!((given[0] - 16.0).abs() < 1e-3 && (given[1] - 1.0).abs() < 1e-3 && (given[2] - 3.0).abs() < 1e-3);
    }
}
