use random::Random;

use super::*;

const OPTIONS: FitOptions =
    FitOptions { trees: 16, max_leaves: 64, min_leaf_examples: 3, features_per_split: 2, seed: 1 };

/// Features and outputs of each example.
type Cases = Vec<(Vec<f32>, Vec<f32>)>;

fn cases(count: usize, random: &mut Random, outputs: impl Fn(&[f32], &mut Random) -> Vec<f32>) -> Cases {
    let mut case = || {
        let features: Vec<f32> = (0..3).map(|_| random.unit() as f32).collect();
        let outputs = outputs(&features, random);
        (features, outputs)
    };
    (0..count).map(|_| case()).collect()
}

fn fit(cases: &Cases, options: &FitOptions) -> Forest {
    let examples: Vec<_> = cases.iter().map(|(features, outputs)| Example { features, outputs }).collect();
    Forest::fit(&examples, options)
}

fn predict(forest: &Forest, features: &[f32]) -> Vec<Estimate> {
    let mut estimates = vec![Estimate::UNKNOWN; forest.outputs()];
    forest.predict(features, &mut estimates);
    estimates
}

#[test]
fn a_forest_learns_a_step_and_a_line_at_once() {
    let truth = |features: &[f32]| [if features[0] > 0.3 { 5.0 } else { -3.0 }, 4.0 * features[1] - 2.0];
    let mut random = Random::new(1);
    let forest = fit(&cases(3000, &mut random, |features, _| truth(features).to_vec()), &OPTIONS);
    let mut errors = [0.0; 2];
    for (features, _) in cases(500, &mut random, |_, _| vec![]) {
        let (estimates, truth) = (predict(&forest, &features), truth(&features));
        (0..2).for_each(|output| errors[output] += (estimates[output].mean - truth[output]).abs() / 500.0);
    }
    assert!(errors[0] < 0.1 && errors[1] < 0.2, "{errors:?}");
}

#[test]
fn the_same_seed_makes_the_same_forest_and_another_one_another() {
    let cases = cases(500, &mut Random::new(2), |of, random| vec![of[0] + random.unit() as f32]);
    let forest = fit(&cases, &OPTIONS);
    assert_eq!(forest, fit(&cases, &OPTIONS));
    assert_ne!(forest, fit(&cases, &FitOptions { seed: 2, ..OPTIONS }));
    let estimate = predict(&forest, &[0.25, 0.5, 0.75])[0];
    assert_eq!((estimate.mean.to_bits(), estimate.spread.to_bits()), FROZEN, "{estimate:?}");
}

/// What this estimate is on every machine.
const FROZEN: (u32, u32) = (0x3f2b_e000, 0x3e6a_f7b1);

#[test]
fn outputs_that_are_not_known_are_left_out() {
    let outputs = |features: &[f32], random: &mut Random| {
        let is_known = features[0] > 0.5 && random.below(2) == 0;
        vec![if is_known { 3.0 } else { f32::NAN }, features[1], f32::NAN]
    };
    let forest = fit(&cases(500, &mut Random::new(3), outputs), &OPTIONS);
    for features in [[0.1, 0.5, 0.5], [0.9, 0.5, 0.5]] {
        let estimates = predict(&forest, &features);
        assert_eq!(estimates[0], Estimate { mean: 3.0, spread: 0.0 });
        assert!((estimates[1].mean - 0.5).abs() < 0.1);
        assert_eq!(estimates[2], Estimate::UNKNOWN);
    }
}

#[test]
fn the_spread_is_larger_where_examples_contradict_each_other() {
    let outputs = |features: &[f32], random: &mut Random| match features[0] > 0.5 {
        true => vec![random.below(2) as f32 * 4.0],
        false => vec![2.0],
    };
    let forest = fit(&cases(1000, &mut Random::new(4), outputs), &OPTIONS);
    let spread = |at| predict(&forest, &[at, 0.5, 0.5])[0].spread;
    assert!(spread(0.25) < 0.1 && spread(0.75) > 0.3, "{} {}", spread(0.25), spread(0.75));
}

#[test]
fn constant_outputs_make_trees_of_one_leaf() {
    let forest = fit(&cases(300, &mut Random::new(5), |_, _| vec![-19.3, 0.7]), &OPTIONS);
    assert!(forest.parts().all(|tree| tree.nodes == [Node::Leaf]));
}

#[test]
fn trees_keep_to_their_options() {
    let cases = cases(400, &mut Random::new(6), |of, _| vec![of[0] * of[1]]);
    let forest = fit(&cases, &FitOptions { max_leaves: 5, trees: 3, ..OPTIONS });
    let leaves = forest.parts().map(|tree| tree.values.len());
    assert_eq!(leaves.collect::<Vec<_>>(), [5; 3]);
    let forest = fit(&cases, &FitOptions { min_leaf_examples: 150, ..OPTIONS });
    assert!(forest.parts().all(|tree| tree.values.len() <= 2));
}

#[test]
fn features_that_are_no_numbers_are_fitted_and_predicted_alike() {
    let mut cases = cases(300, &mut Random::new(7), |_, _| vec![0.0]);
    for (features, outputs) in cases.iter_mut().step_by(3) {
        (features[1], outputs[0]) = (f32::NAN, 6.0);
    }
    cases[1].0[0] = f32::INFINITY;
    cases[2].0[0] = f32::NEG_INFINITY;
    let forest = fit(&cases, &OPTIONS);
    assert_eq!(predict(&forest, &[0.5, f32::NAN, 0.5])[0].mean, 6.0);
    assert!(predict(&forest, &[0.5, 0.5, 0.5])[0].mean < 0.5);
}

#[test]
fn estimates_stay_within_what_the_examples_have() {
    let mut random = Random::fresh();
    for _ in 0..30 {
        let scale = 1.0 + 100.0 * random.unit() as f32;
        let one = |random: &mut Random| if random.below(5) == 0 { f32::NAN } else { scale * random.unit() as f32 };
        let cases = cases(1 + random.index(200), &mut random, |_, random| vec![one(random), one(random)]);
        let options = FitOptions { min_leaf_examples: random.index(5), seed: random.next(), trees: 4, ..OPTIONS };
        let forest = fit(&cases, &options);
        for output in 0..2 {
            let known = || cases.iter().map(|(_, outputs)| outputs[output]).filter(|value| !value.is_nan());
            let (least, most) = (known().fold(f32::INFINITY, f32::min), known().fold(f32::NEG_INFINITY, f32::max));
            for (features, _) in &cases {
                let estimate = predict(&forest, features)[output];
                let is_within = (least - 0.01..=most + 0.01).contains(&estimate.mean) && estimate.spread <= scale;
                assert!(is_within || least > most && estimate == Estimate::UNKNOWN, "{estimate:?} {least} {most}");
            }
        }
    }
}

#[test]
fn a_forest_comes_back_from_its_parts() {
    let forest = fit(&cases(400, &mut Random::new(8), |of, _| vec![of[0] * of[1], of[2]]), &OPTIONS);
    assert_eq!(Forest::from_parts(3, 2, forest.parts().collect()), Ok(forest));
}

/// A tree over one feature: a split, a leaf, a split, two leaves.
fn parts() -> TreeParts {
    let split = |threshold| Node::Split { feature: 0, threshold };
    TreeParts { nodes: vec![split(1.0), Node::Leaf, split(2.0), Node::Leaf, Node::Leaf], values: vec![256, 512, 768] }
}

#[test]
fn parts_lead_where_their_order_says() {
    let forest = Forest::from_parts(1, 1, vec![parts()]).unwrap();
    let means = [1.0, 1.5, 2.0, 2.5, f32::NAN].map(|at| predict(&forest, &[at])[0].mean);
    assert_eq!(means, [1.0, 2.0, 2.0, 3.0, 3.0]);
}

#[test]
fn parts_that_are_no_forest_are_refused() {
    let refused = |features, outputs, change: &dyn Fn(&mut TreeParts)| {
        let mut tree = parts();
        change(&mut tree);
        Forest::from_parts(features, outputs, vec![tree]).expect_err("no tree")
    };
    assert!(Forest::from_parts(1, 1, vec![parts()]).is_ok());
    assert!(Forest::from_parts(1, 1, vec![]).is_err() && Forest::from_parts(1, 1, vec![parts(); 65]).is_err());
    for (features, outputs) in [(0, 1), (65, 1), (1, 0), (1, 257), (1, 2)] {
        refused(features, outputs, &|_| {});
    }
    let split = |feature, threshold| Node::Split { feature, threshold };
    assert!(refused(1, 1, &|tree| tree.nodes[2] = split(1, 0.0)).contains("feature"));
    assert!(refused(1, 1, &|tree| tree.nodes[2] = split(0, f32::NAN)).contains("no number"));
    assert!(refused(1, 1, &|tree| tree.nodes.push(Node::Leaf)).contains("no split leads to"));
    assert!(refused(1, 1, &|tree| tree.nodes[0] = Node::Leaf).contains("no split leads to"));
    assert!(refused(1, 1, &|tree| tree.nodes.truncate(4)).contains("ends before"));
    assert!(refused(1, 1, &|tree| tree.nodes.clear()).contains("ends before"));
    assert!(refused(1, 1, &|tree| tree.values.push(0)).contains("values"));
}

#[test]
fn whatever_parts_are_they_are_refused_or_can_be_walked() {
    let mut random = Random::fresh();
    let mut accepted = 0;
    for _ in 0..20_000 {
        let node = |random: &mut Random| match random.below(2) {
            0 => Node::Leaf,
            _ => Node::Split { feature: random.below(3) as u8, threshold: random.unit() as f32 },
        };
        let nodes: Vec<Node> = (0..random.below(10)).map(|_| node(&mut random)).collect();
        let values = (0..nodes.len() / 2 + random.index(2)).map(|_| random.next() as i16).collect();
        let Ok(forest) = Forest::from_parts(2, 1, vec![TreeParts { nodes, values }]) else { continue };
        predict(&forest, &[random.unit() as f32, f32::NAN]);
        accepted += 1;
    }
    assert!(accepted > 100, "{accepted}");
}

#[test]
fn depth_and_leaves_of_parts_are_limited() {
    let split = Node::Split { feature: 0, threshold: 0.0 };
    let with_values = |nodes: Vec<Node>| TreeParts { values: vec![0; nodes.len() / 2 + 1], nodes };
    let chain = |depth| with_values([split, Node::Leaf].repeat(depth).into_iter().chain([Node::Leaf]).collect());
    let full = |splits| with_values([vec![split; splits], vec![Node::Leaf; splits + 1]].concat());
    let made = |tree| Forest::from_parts(1, 1, vec![tree]).map(|_| ());
    assert_eq!((made(chain(MAX_DEPTH)), made(full(MAX_LEAVES - 1))), (Ok(()), Ok(())));
    assert!(made(chain(MAX_DEPTH + 1)).unwrap_err().contains("deeper"));
    assert!(made(full(MAX_LEAVES)).unwrap_err().contains("leaves"));
}
