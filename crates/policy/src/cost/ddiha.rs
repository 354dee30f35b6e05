//! **DDiHA** (Chen, Bastnagel, Chen 2013): whether part of a machine's nodes should deduplicate what the others write.
//!
//! Equations (1) to (6) as the paper prints them, and the series of its figures 8 and 9. Where the paper's sentences
//! say something else, the equations count.

/// The model's inputs, in the paper's symbols and units; all above 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Application {
    /// *n*: nodes of both kinds.
    pub nodes: f64,
    /// *W*: what is written between two computations, in MB.
    pub workload_mb: f64,
    /// *C*: what a compute node computes, in MB/s.
    pub compute_mb_per_s: f64,
    /// *b*: what a node writes to storage, in MB/s.
    pub storage_mb_per_s: f64,
    /// *k*: phases of computation and I/O.
    pub phases: f64,
}

/// What is added to it: nodes that deduplicate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deduplication {
    /// *r*: share of the nodes that deduplicate, above 0 and below 1.
    pub node_share: f64,
    /// *C'*: what a deduplication node reduces, in MB/s.
    pub reduce_mb_per_s: f64,
    /// *b_h*: what a compute node sends to deduplication nodes, in MB/s.
    pub network_mb_per_s: f64,
    /// *φ* = W/W': written bytes for each that is left.
    pub reduction: f64,
}

/// GTC on Jaguar XT5, the paper's baseline: C = 1.08 MB/s and b = 4.67 MB/s. *W* is its production run's output, of
/// 16 384 cores of 12 a node; *k* is ours. All but C and b cancel in (5) and (6).
pub const JAGUAR_GTC: Application =
    Application { nodes: 1366.0, workload_mb: 260_000.0, compute_mb_per_s: 1.08, storage_mb_per_s: 4.67, phases: 10.0 };

/// The paper names no b_h; this is the O(100 MB/s) that it says applications want.
pub const NETWORK_MB_PER_S: f64 = 100.0;

/// The share of deduplication nodes that the paper recommends.
pub const RECOMMENDED_NODE_SHARE: f64 = 0.1;

/// DDiHA (1): performance *P* = 1/T in runs a second.
pub fn equation_1(application: &Application) -> f64 {
    1.0 / equation_2(application)
}

/// DDiHA (2): time *T* in s of computing, then writing to storage, k times.
pub fn equation_2(application: &Application) -> f64 {
    let Application { nodes, workload_mb, compute_mb_per_s, storage_mb_per_s, phases } = *application;
    (workload_mb / (nodes * compute_mb_per_s) + workload_mb / (nodes * storage_mb_per_s)) * phases
}

/// DDiHA (3): performance *P'* = 1/T' in runs a second.
pub fn equation_3(application: &Application, deduplication: &Deduplication) -> f64 {
    1.0 / equation_4(application, deduplication)
}

/// DDiHA (4): time *T'* in s. Nothing hides the last phase's deduplication; that of the others is hidden where (5) holds.
pub fn equation_4(application: &Application, deduplication: &Deduplication) -> f64 {
    let (behind, ahead) = equation_5_sides(application, deduplication);
    ahead * application.phases + behind
}

/// DDiHA (5): whether deduplication and its writing take no longer than the computation and sending that hide them.
pub fn equation_5(application: &Application, deduplication: &Deduplication) -> bool {
    let (behind, ahead) = equation_5_sides(application, deduplication);
    behind <= ahead
}

/// Both sides of (5), in s of a phase: deduplication nodes, compute nodes.
fn equation_5_sides(application: &Application, deduplication: &Deduplication) -> (f64, f64) {
    let Application { nodes, workload_mb, compute_mb_per_s, storage_mb_per_s, .. } = *application;
    let Deduplication { node_share, reduce_mb_per_s, network_mb_per_s, reduction } = *deduplication;
    let (reducing, computing) = (nodes * node_share, nodes * (1.0 - node_share));
    let behind = workload_mb / (reducing * reduce_mb_per_s) + workload_mb / reduction / (reducing * storage_mb_per_s);
    let ahead = workload_mb / (computing * compute_mb_per_s) + workload_mb / (computing * network_mb_per_s);
    (behind, ahead)
}

/// DDiHA (6): gain *Δ* = P'/P = λ (C + b)(1 − r) / (λ b + C), with λ = b_h/b. Unlike (4) it leaves out the last phase's
/// deduplication: it is the limit for many phases.
pub fn equation_6(application: &Application, node_share: f64, network_mb_per_s: f64) -> f64 {
    let Application { compute_mb_per_s, storage_mb_per_s, .. } = *application;
    let lambda = network_mb_per_s / storage_mb_per_s;
    lambda * (compute_mb_per_s + storage_mb_per_s) * (1.0 - node_share) / (lambda * storage_mb_per_s + compute_mb_per_s)
}

/// DDiHA (5), solved for C': the least MB/s that a deduplication node must reduce, or `None` where no speed is enough
/// because what is left takes too long to write.
pub fn equation_5_required_mb_per_s(
    application: &Application,
    node_share: f64,
    network_mb_per_s: f64,
    reduction: f64,
) -> Option<f64> {
    let writing_s = 1.0 / (reduction * application.storage_mb_per_s);
    let left_s = hidden_s_per_mb(application, node_share, network_mb_per_s) - writing_s;
    (left_s > 0.0).then(|| 1.0 / left_s)
}

/// DDiHA (5), solved for φ with deduplication that takes no time: at or below it (5) cannot hold.
pub fn equation_5_min_reduction(application: &Application, node_share: f64, network_mb_per_s: f64) -> f64 {
    1.0 / (application.storage_mb_per_s * hidden_s_per_mb(application, node_share, network_mb_per_s))
}

/// DDiHA (5), solved for r: the least share of deduplication nodes that keep up, and so by (6) the best one.
pub fn equation_5_min_node_share(application: &Application, deduplication: &Deduplication) -> f64 {
    let Deduplication { reduce_mb_per_s, network_mb_per_s, reduction, .. } = *deduplication;
    let behind_s = 1.0 / reduce_mb_per_s + 1.0 / (reduction * application.storage_mb_per_s);
    let ahead_s = 1.0 / application.compute_mb_per_s + 1.0 / network_mb_per_s;
    behind_s / (behind_s + ahead_s)
}

/// DDiHA (6), solved for r: the share of deduplication nodes from which on the whole is slower than without; below 0 where
/// no share pays.
pub fn equation_6_max_node_share(application: &Application, network_mb_per_s: f64) -> f64 {
    1.0 - 1.0 / equation_6(application, 0.0, network_mb_per_s)
}

/// Seconds that a deduplication node has for each MB while compute nodes compute and send.
fn hidden_s_per_mb(application: &Application, node_share: f64, network_mb_per_s: f64) -> f64 {
    node_share / (1.0 - node_share) * (1.0 / application.compute_mb_per_s + 1.0 / network_mb_per_s)
}

/// Figure 8: *Δ* by (6) over *r* from 0 to 1.
pub fn figure_8(application: &Application, network_mb_per_s: f64) -> Vec<(f64, f64)> {
    let shares = (0..=100).map(|percent| f64::from(percent) / 100.0);
    shares.map(|share| (share, equation_6(application, share, network_mb_per_s))).collect()
}

/// Figure 9: the least *C'* in MB/s by (5) over φ up to 20, only where there is one.
pub fn figure_9(application: &Application, node_share: f64, network_mb_per_s: f64) -> Vec<(f64, f64)> {
    const MAX_REDUCTION: f64 = 20.0;
    let begin = (equation_5_min_reduction(application, node_share, network_mb_per_s) * 1.0001).max(1.0);
    let reductions = (0..=500).map(|step| begin * (MAX_REDUCTION / begin).powf(f64::from(step) / 500.0));
    let required = |reduction| equation_5_required_mb_per_s(application, node_share, network_mb_per_s, reduction);
    reductions.filter_map(|reduction| Some((reduction, required(reduction)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::printed::assert_printed;

    fn deduplication(reduction: f64, reduce_mb_per_s: f64) -> Deduplication {
        Deduplication { node_share: 0.1, reduce_mb_per_s, network_mb_per_s: NETWORK_MB_PER_S, reduction }
    }

    #[test]
    fn the_gain_is_the_ratio_of_the_times_of_many_phases() {
        let long = Application { phases: 1e7, ..JAGUAR_GTC };
        let reduced = deduplication(8.0, 65.0);
        let ratio = equation_3(&long, &reduced) / equation_1(&long);
        assert!((ratio - equation_6(&long, 0.1, NETWORK_MB_PER_S)).abs() < 1e-5, "{ratio}");
        let times = equation_2(&JAGUAR_GTC) / equation_4(&JAGUAR_GTC, &reduced);
        assert!(times < ratio, "the last phase's deduplication costs: {times}");
    }

    #[test]
    fn times_are_those_of_the_equations_by_hand() {
        let application =
            Application { nodes: 10.0, workload_mb: 100.0, compute_mb_per_s: 2.0, storage_mb_per_s: 5.0, phases: 3.0 };
        assert!((equation_2(&application) - (5.0 + 2.0) * 3.0).abs() < 1e-12);
        let reduced = Deduplication { node_share: 0.2, reduce_mb_per_s: 50.0, network_mb_per_s: 12.5, reduction: 4.0 };
        // 100/(8·2) + 100/(8·12.5) computing and sending; 100/(2·50) + 25/(2·5) reducing and writing.
        assert!((equation_4(&application, &reduced) - (7.25 * 3.0 + 3.5)).abs() < 1e-12);
        assert!(equation_5(&application, &reduced));
        assert!(!equation_5(&application, &Deduplication { reduction: 1.0, ..reduced }), "100/(2·5) alone is longer");
    }

    #[test]
    fn equation_5_cannot_hold_below_a_reduction_of_2_06_whatever_the_speed() {
        let least = equation_5_min_reduction(&JAGUAR_GTC, 0.1, NETWORK_MB_PER_S);
        assert_printed(least, 2.06, 0.01, "least φ");
        assert_eq!(equation_5_required_mb_per_s(&JAGUAR_GTC, 0.1, NETWORK_MB_PER_S, 2.05), None);
        assert!(!equation_5(&JAGUAR_GTC, &deduplication(2.05, 1e12)));
        assert!(equation_5(&JAGUAR_GTC, &deduplication(2.07, 1e12)));
    }

    #[test]
    fn twenty_mb_per_s_suffice_from_a_reduction_of_about_4_and_not_from_10_percent() {
        let required = |reduction| equation_5_required_mb_per_s(&JAGUAR_GTC, 0.1, NETWORK_MB_PER_S, reduction);
        assert!(required(4.0).unwrap() <= 20.0 && required(3.9).unwrap() > 20.0);
        assert_eq!(required(1.0 / 0.9), None, "the slide's sentence says 20 MB/s here");
        let least = required(5.0).unwrap();
        assert!(equation_5(&JAGUAR_GTC, &deduplication(5.0, least * 1.0001)));
        assert!(!equation_5(&JAGUAR_GTC, &deduplication(5.0, least * 0.9999)));
    }

    #[test]
    fn the_least_share_keeps_up_and_a_smaller_one_does_not() {
        let reduced = deduplication(10.0, 65.0);
        let least = equation_5_min_node_share(&JAGUAR_GTC, &reduced);
        assert_printed(least, 0.038, 0.001, "least r");
        let holds = |node_share| equation_5(&JAGUAR_GTC, &Deduplication { node_share, ..reduced });
        assert!(holds(least * 1.001) && !holds(least * 0.999));
    }

    #[test]
    fn deduplication_nodes_pay_below_18_percent() {
        let most = equation_6_max_node_share(&JAGUAR_GTC, NETWORK_MB_PER_S);
        assert_printed(most, 0.18, 0.01, "largest r");
        assert!((equation_6(&JAGUAR_GTC, most, NETWORK_MB_PER_S) - 1.0).abs() < 1e-12);
        let same_link = JAGUAR_GTC.storage_mb_per_s;
        assert!(equation_6_max_node_share(&JAGUAR_GTC, same_link) <= 1e-12, "a network like the storage gains nothing");
    }

    #[test]
    fn figures_have_the_series_of_the_paper() {
        let gains = figure_8(&JAGUAR_GTC, NETWORK_MB_PER_S);
        assert!(gains.windows(2).all(|pair| pair[1].1 < pair[0].1), "more nodes taken away, less gain");
        // 0.9 · 5.75/4.67, but for what sending takes.
        assert!((gains[10].1 - 1.096).abs() < 0.0005, "{:?}", gains[10]);
        let required = figure_9(&JAGUAR_GTC, 0.1, NETWORK_MB_PER_S);
        let least = equation_5_min_reduction(&JAGUAR_GTC, 0.1, NETWORK_MB_PER_S);
        assert!(required[0].0 > least && required.windows(2).all(|pair| pair[1].1 < pair[0].1));
        assert!((required.last().unwrap().0 - 20.0).abs() < 1e-9 && required[0].1 > 1e4, "up to any speed");
        assert_eq!(figure_9(&JAGUAR_GTC, 0.2, NETWORK_MB_PER_S)[0].0, 1.0);
    }
}
