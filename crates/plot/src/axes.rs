//! A panel's axes: from values to places on the page, with ticks at round values.

use crate::page::{Anchor, Colour, Page, Point};

const INK: Colour = Colour(0x333333);
const GRID: Colour = Colour(0xdddddd);

/// A panel's place on the page.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    pub left: f64,
    pub top: f64,
    pub width: f64,
    pub height: f64,
}

/// Values at both ends.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    least: f64,
    most: f64,
    is_logarithmic: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub x: Axis,
    pub y: Axis,
}

impl Axis {
    pub fn from_zero(most: f64) -> Self {
        Axis { least: 0.0, most, is_logarithmic: false }
    }

    pub fn linear(least: f64, most: f64) -> Self {
        Axis { least, most, is_logarithmic: false }
    }

    /// Both must be above 0.
    pub fn logarithmic(least: f64, most: f64) -> Self {
        assert!(least > 0.0 && least < most, "{least} to {most} on a logarithmic axis");
        Axis { least, most, is_logarithmic: true }
    }

    /// Returns where a value lies, 0 to 1.
    fn share(&self, value: f64) -> f64 {
        if self.is_logarithmic {
            return (value.max(f64::MIN_POSITIVE) / self.least).ln() / (self.most / self.least).ln();
        }
        (value - self.least) / (self.most - self.least)
    }

    fn ticks(&self) -> Vec<f64> {
        if self.is_logarithmic { logarithmic_ticks(self.least, self.most) } else { round_ticks(self.least, self.most) }
    }
}

impl Scale {
    /// From 0 on both axes.
    pub fn from_zero(x_max: f64, y_max: f64) -> Self {
        Scale { x: Axis::from_zero(x_max), y: Axis::from_zero(y_max) }
    }

    pub fn place(&self, frame: Frame, (x, y): Point) -> Point {
        (frame.left + self.x.share(x) * frame.width, frame.top + (1.0 - self.y.share(y)) * frame.height)
    }

    pub fn places(&self, frame: Frame, points: impl IntoIterator<Item = Point>) -> Vec<Point> {
        points.into_iter().map(|point| self.place(frame, point)).collect()
    }
}

impl Page {
    /// Draws the panel's frame, with ticks and their values on the left and below.
    pub fn axes(&mut self, frame: Frame, scale: Scale, title: &str, x_title: &str) {
        let Frame { left, top, width, height } = frame;
        let (right, bottom) = (left + width, top + height);
        for value in scale.y.ticks() {
            let y = bottom - scale.y.share(value) * height;
            self.line(GRID, 1.0, vec![(left, y), (right, y)]);
            self.text((left - 6.0, y + 4.0), Anchor::End, INK, &shown(value));
        }
        for value in scale.x.ticks() {
            let x = left + scale.x.share(value) * width;
            self.line(INK, 1.0, vec![(x, bottom), (x, bottom + 4.0)]);
            self.text((x, bottom + 17.0), Anchor::Middle, INK, &shown(value));
        }
        self.line(INK, 1.0, vec![(left, top), (left, bottom), (right, bottom)]);
        self.text((left, top - 8.0), Anchor::Start, Colour(0x111111), title);
        self.text((right, bottom + 32.0), Anchor::End, INK, x_title);
    }
}

/// Returns four to eight round values, none beyond the ends.
fn round_ticks(least: f64, most: f64) -> Vec<f64> {
    let rough = (most - least) / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= rough * 0.999);
    let step = step.expect("ten times a power of ten is above");
    let first = (least / step).ceil() as i64;
    (first..=(most / step * 1.0001).floor() as i64).map(|count| count as f64 * step).collect()
}

/// Returns powers of ten, and within few of them also their double and fivefold.
fn logarithmic_ticks(least: f64, most: f64) -> Vec<f64> {
    let factors: &[f64] = if most / least > 3000.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let powers = least.log10().floor() as i32..=most.log10().ceil() as i32;
    let all = powers.flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)));
    all.filter(|tick| (least * 0.999..=most * 1.001).contains(tick)).collect()
}

fn shown(value: f64) -> String {
    if value >= 10_000.0 { format!("{}k", value / 1000.0) } else { format!("{}", (value * 1000.0).round() / 1000.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(round_ticks(0.0, 100.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(round_ticks(0.0, 1415.0), [0.0, 500.0, 1000.0]);
        assert!((4..=8).contains(&round_ticks(0.0, 81.0).len()));
        assert_eq!(round_ticks(0.9, 2.1), [1.0, 1.5, 2.0]);
        assert_eq!(logarithmic_ticks(0.9, 12.0), [1.0, 2.0, 5.0, 10.0]);
        assert_eq!(logarithmic_ticks(1.0, 20_000.0), [1.0, 10.0, 100.0, 1000.0, 10_000.0]);
    }

    #[test]
    fn a_factor_is_a_distance_on_a_logarithmic_axis() {
        let frame = Frame { left: 10.0, top: 20.0, width: 100.0, height: 50.0 };
        let scale = Scale { x: Axis::logarithmic(1.0, 100.0), y: Axis::from_zero(4.0) };
        let (x, y) = scale.place(frame, (10.0, 1.0));
        assert!((x - 60.0).abs() < 1e-9 && (y - 57.5).abs() < 1e-9);
    }
}
