//! Rounded values against their originals, whatever bits they have: the bound holds exactly.

use format::{ErrorBound, FloatType, Rounding};
use proptest::prelude::*;
use thalweg_segment::{Rounded, Rounder, ValueRange};

fn rounder(float: FloatType, bound: ErrorBound, missing: Option<f64>) -> Rounder {
    Rounder::new(&Rounding { float, bound, missing }).expect("the bound is no range")
}

fn rounded(float: FloatType, bound: ErrorBound, values: &[u8]) -> (Vec<u8>, Rounded) {
    let mut after = values.to_vec();
    let met = rounder(float, bound, None).round(&mut after);
    (after, met)
}

fn doubles(float: FloatType, values: &[u8]) -> Vec<f64> {
    let short = |read: fn([u8; 4]) -> f32| values.as_chunks().0.iter().map(|bytes| read(*bytes).into()).collect();
    let long = |read: fn([u8; 8]) -> f64| values.as_chunks().0.iter().map(|bytes| read(*bytes)).collect();
    match float {
        FloatType::F32 => short(f32::from_le_bytes),
        FloatType::F32Be => short(f32::from_be_bytes),
        FloatType::F64 => long(f64::from_le_bytes),
        FloatType::F64Be => long(f64::from_be_bytes),
    }
}

/// Whether `error` ≤ `share` × `value`, without rounding: the product and what its rounding took away.
fn is_within_share(error: f64, share: f64, value: f64) -> bool {
    // Far from the least numbers, where what is taken away would have no bits.
    let scale = if value < 1.0 { 2f64.powi(600) } else { 1.0 };
    let (error, value) = (error * scale, value * scale);
    let product = share * value;
    error < product || error == product && share.mul_add(value, -product) >= 0.0
}

fn is_within(bound: ErrorBound, before: f64, after: f64) -> bool {
    let error = (after - before).abs();
    match bound {
        ErrorBound::Absolute(most) => error <= most,
        ErrorBound::Relative(share) => is_within_share(error, share, before.abs()),
        ErrorBound::Range(_) => unreachable!(),
    }
}

fn float() -> impl Strategy<Value = FloatType> {
    prop::sample::select(&FloatType::ALL[..])
}

/// Bounds of every magnitude; among them powers of two, where halves are exactly at the bound.
fn bound() -> impl Strategy<Value = ErrorBound> {
    let number = prop_oneof![any::<f64>(), 1e-12..1e3, (-60..20i32).prop_map(|power| 2f64.powi(power))];
    let positive = number.prop_map(f64::abs).prop_filter("a bound", |number| number.is_finite() && *number > 0.0);
    (positive, any::<bool>()).prop_map(|(number, is_share)| match is_share && number < 1.0 {
        true => ErrorBound::Relative(number),
        false => ErrorBound::Absolute(number),
    })
}

/// A type, a bound, and values: any bits at all, also of no whole values, or multiples of the bound up to where floats of
/// the type are as far apart.
fn case() -> impl Strategy<Value = (FloatType, ErrorBound, Vec<u8>)> {
    (float(), bound()).prop_flat_map(|(float, bound)| {
        let (ErrorBound::Absolute(unit) | ErrorBound::Relative(unit) | ErrorBound::Range(unit)) = bound;
        let multiple = (-1.0..1.0f64, -4..56i32).prop_map(move |(part, power)| part * 2f64.powi(power) * unit);
        let multiples = prop::collection::vec(multiple, 0..60).prop_map(move |values| written(float, &values));
        (Just(float), Just(bound), prop_oneof![prop::collection::vec(any::<u8>(), 0..500), multiples])
    })
}

fn written(float: FloatType, values: &[f64]) -> Vec<u8> {
    let write = |value: &f64| match float {
        FloatType::F32 => (*value as f32).to_le_bytes().to_vec(),
        FloatType::F32Be => (*value as f32).to_be_bytes().to_vec(),
        FloatType::F64 => value.to_le_bytes().to_vec(),
        FloatType::F64Be => value.to_be_bytes().to_vec(),
    };
    values.iter().flat_map(write).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn no_error_exceeds_the_bound_and_the_largest_is_reported((float, bound, values) in case()) {
        let (after, met) = rounded(float, bound, &values);
        let whole = values.len() / float.bytes() * float.bytes();
        prop_assert_eq!(&after[whole..], &values[whole..]);
        let pairs = doubles(float, &values).into_iter().zip(doubles(float, &after));
        let mut largest: f64 = 0.0;
        for ((before, rounded), bytes) in pairs.zip(values.chunks(float.bytes()).zip(after.chunks(float.bytes()))) {
            if bytes.0 != bytes.1 {
                prop_assert!(is_within(bound, before, rounded), "{} became {} by {}", before, rounded, bound);
                let error = (rounded - before).abs();
                largest = largest.max(if let ErrorBound::Relative(_) = bound { error / before.abs() } else { error });
            }
        }
        prop_assert_eq!(met.largest_error, largest);
        let altered = values[..whole].chunks(float.bytes()).zip(after.chunks(float.bytes())).filter(|(one, other)| one != other);
        prop_assert_eq!(met.altered, altered.count() as u64);
    }

    #[test]
    fn what_was_rounded_once_stays((float, bound, values) in case()) {
        let (once, _) = rounded(float, bound, &values);
        let (twice, met) = rounded(float, bound, &once);
        prop_assert_eq!(once, twice);
        prop_assert_eq!(met, Rounded::default());
    }

    #[test]
    fn equal_values_become_equal_wherever_they_stand((float, bound, values) in case(), by in 0usize..9) {
        let skipped = (by * float.bytes()).min(values.len());
        let (whole, _) = rounded(float, bound, &values);
        let (part, _) = rounded(float, bound, &values[skipped..]);
        prop_assert_eq!(&whole[skipped..], part);
    }

    #[test]
    fn a_share_of_the_range_bounds_every_error((float, _, values) in case(), share in 1e-6..0.5f64) {
        let request = Rounding { float, bound: ErrorBound::Range(share), missing: None };
        let mut range = ValueRange::new(&request);
        values.chunks(float.bytes() * 3).for_each(|some| range.add(some));
        let before = doubles(float, &values);
        let finite = before.iter().copied().filter(|value| value.is_finite());
        let (least, greatest) = finite.fold((f64::MAX, f64::MIN), |(least, greatest), value| (least.min(value), greatest.max(value)));
        let Some(bound) = range.bound(share) else { return Ok(()) };
        for (before, after) in before.iter().zip(doubles(float, &rounded(float, bound, &values).0)) {
            // Halved, since the range of doubles may be no double.
            let most = (greatest / 2.0 - least / 2.0) * share * (1.0 + f64::EPSILON);
            prop_assert!(!before.is_finite() || (after / 2.0 - before / 2.0).abs() <= most);
        }
    }
}

#[test]
fn nans_infinities_zeros_and_missing_values_keep_their_bits() {
    let special = [0x7f80_0000u32, 0xff80_0000, 0x7fc0_0001, 0x7f80_0001, 0xffff_ffff, 0, 0x8000_0000];
    let missing = 9.969_21e36f32;
    let values: Vec<u8> = special.into_iter().chain([missing.to_bits()]).flat_map(u32::to_le_bytes).collect();
    for bound in [ErrorBound::Absolute(1e37), ErrorBound::Relative(0.3)] {
        let mut after = values.clone();
        // As a user writes it: another double than the file's float.
        assert_eq!(rounder(FloatType::F32, bound, Some(9.969_21e36)).round(&mut after), Rounded::default());
        assert_eq!(after, values);
        assert_ne!(rounded(FloatType::F32, bound, &values).0, values, "{bound}");
    }
}

#[test]
fn no_value_becomes_a_missing_one() {
    let count = |values: &[u8], missing: f32| {
        values.as_chunks::<4>().0.iter().filter(|bytes| f32::from_le_bytes(**bytes) == missing).count()
    };
    for (bound, missing) in [(ErrorBound::Relative(1e-3), -32768.0f32), (ErrorBound::Absolute(0.5), 0.0)] {
        let near = (0..2000).map(|step| missing + (step - 1000) as f32 * 1e-3 * missing.abs().max(1.0));
        let mut values: Vec<u8> = near.flat_map(f32::to_le_bytes).collect();
        let before = count(&values, missing);
        let altered = rounder(FloatType::F32, bound, Some(missing.into())).round(&mut values).altered;
        assert!(altered > 1000 && count(&values, missing) == before, "{bound}: {altered}");
    }
}

#[test]
fn subnormal_numbers_stay_by_a_relative_bound_and_vanish_below_an_absolute_one() {
    let least = f32::from_bits(5).to_le_bytes();
    assert_eq!(rounded(FloatType::F32, ErrorBound::Relative(0.5), &least).0, least);
    assert_eq!(rounded(FloatType::F32, ErrorBound::Absolute(1e-3), &least).0, 0f32.to_le_bytes());
}

#[test]
fn the_largest_number_does_not_become_infinite() {
    for float in [FloatType::F32, FloatType::F64] {
        let values =
            if float == FloatType::F32 { f32::MAX.to_le_bytes().to_vec() } else { f64::MAX.to_le_bytes().to_vec() };
        for bound in [ErrorBound::Relative(0.4), ErrorBound::Absolute(1e308)] {
            let after = doubles(float, &rounded(float, bound, &values).0);
            assert!(after[0].is_finite(), "{float} {bound}: {after:?}");
        }
    }
}

#[test]
fn an_array_of_a_thousandth_keeps_ten_bits_of_each_mantissa() {
    let values: Vec<u8> = (1..=1000).flat_map(|number| (number as f32).sqrt().to_le_bytes()).collect();
    let (after, met) = rounded(FloatType::F32, ErrorBound::Relative(1e-3), &values);
    assert!(after.as_chunks::<4>().0.iter().all(|bytes| u32::from_le_bytes(*bytes).trailing_zeros() >= 14));
    assert!(met.largest_error > 0.0009 && met.largest_error <= 0.001 && met.altered > 900, "{met:?}");
}
