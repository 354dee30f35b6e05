//! In which order commands run: each once, behind those that make its inputs.

use std::collections::HashMap;
use std::hash::Hash;

/// Why there is no order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum OrderRefusal<K, E> {
    /// Each needs the next one, and the last the first.
    Cycle(Vec<K>),
    Failed(E),
}

enum Visit {
    UnderWay,
    Done,
}

/// Returns all that the wanted need, themselves included, each behind what it needs itself. Chains may be long: there is no
/// recursion.
pub(crate) fn in_order<K: Copy + Eq + Hash, E>(
    wanted: &[K],
    mut needs: impl FnMut(K) -> Result<Vec<K>, E>,
) -> Result<Vec<K>, OrderRefusal<K, E>> {
    let mut visits = HashMap::<K, Visit>::new();
    let mut order = Vec::new();
    for first in wanted {
        if visits.contains_key(first) {
            continue;
        }
        visits.insert(*first, Visit::UnderWay);
        let mut path = vec![(*first, needs(*first).map_err(OrderRefusal::Failed)?.into_iter())];
        while let Some((key, rest)) = path.last_mut() {
            let key = *key;
            match rest.next() {
                None => {
                    visits.insert(key, Visit::Done);
                    order.push(key);
                    path.pop();
                }
                Some(next) => match visits.get(&next) {
                    Some(Visit::Done) => {}
                    Some(Visit::UnderWay) => return Err(OrderRefusal::Cycle(cycle(&path, next))),
                    None => {
                        visits.insert(next, Visit::UnderWay);
                        path.push((next, needs(next).map_err(OrderRefusal::Failed)?.into_iter()));
                    }
                },
            }
        }
    }
    Ok(order)
}

/// Returns the part of the path that begins with `first`, which its last one needs.
fn cycle<K: Copy + Eq, R>(path: &[(K, R)], first: K) -> Vec<K> {
    path.iter().map(|(key, _)| *key).skip_while(|key| *key != first).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(wanted: &[u32], edges: &[(u32, u32)]) -> Result<Vec<u32>, OrderRefusal<u32, ()>> {
        let needs = |key| Ok(edges.iter().filter(|(from, _)| *from == key).map(|(_, to)| *to).collect());
        in_order(wanted, needs)
    }

    #[test]
    fn each_comes_once_and_behind_what_it_needs() {
        let edges = [(1, 2), (1, 3), (2, 4), (3, 4), (5, 1)];
        let found = order(&[1, 5, 1, 4], &edges).unwrap();
        assert_eq!(found.len(), 5);
        let at = |key| found.iter().position(|found| *found == key).unwrap();
        assert!(edges.iter().all(|(from, to)| at(*to) < at(*from)), "{found:?}");
    }

    #[test]
    fn a_cycle_is_named() {
        assert_eq!(order(&[1], &[(1, 2), (2, 3), (3, 2)]), Err(OrderRefusal::Cycle(vec![2, 3])));
        assert_eq!(order(&[1], &[(1, 1)]), Err(OrderRefusal::Cycle(vec![1])));
    }

    #[test]
    fn a_chain_of_a_hundred_thousand_has_an_order() {
        let needs = |key: u32| Ok::<_, ()>(if key == 0 { Vec::new() } else { vec![key - 1] });
        let found = in_order(&[100_000], needs).unwrap();
        assert!(found.iter().copied().eq(0..=100_000));
    }

    /// Compares with a search that takes, again and again, whatever needs nothing more.
    #[test]
    fn orders_of_small_graphs_are_those_of_a_slow_search() {
        for graph in 0_u32..1 << 12 {
            // The twelve possible arrows between four.
            let pairs = (0..4).flat_map(|from| (0..4).filter(move |to| *to != from).map(move |to| (from, to)));
            let edges: Vec<(u32, u32)> =
                pairs.enumerate().filter(|(bit, _)| graph >> bit & 1 == 1).map(|(_, edge)| edge).collect();
            let mut left: Vec<u32> = (0..4).collect();
            while let Some(at) =
                left.iter().position(|key| !edges.iter().any(|(from, to)| from == key && left.contains(to)))
            {
                left.remove(at);
            }
            let found = order(&[0, 1, 2, 3], &edges);
            assert_eq!(found.is_ok(), left.is_empty(), "{edges:?}");
            if let Ok(found) = found {
                let at = |key| found.iter().position(|found| *found == key).unwrap();
                assert!(edges.iter().all(|(from, to)| at(*to) < at(*from)), "{edges:?} {found:?}");
            }
        }
    }
}
