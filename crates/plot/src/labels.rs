//! Finds places for the labels of points, so that none covers another, a point, or the edge.

use crate::axes::Frame;
use crate::font;
use crate::page::Point;

/// From a point to its label, when there is room beside it.
const GAP: f64 = 7.0;
/// Further distances that are tried one after the other.
const FURTHER: [f64; 9] = [0.0, 8.0, 16.0, 26.0, 38.0, 52.0, 70.0, 90.0, 115.0];
/// Directions: right first, then left, above, below and between.
const DIRECTIONS: [Point; 12] = [
    (1.0, 0.0),
    (-1.0, 0.0),
    (0.0, -1.0),
    (0.0, 1.0),
    (0.8, -0.6),
    (0.8, 0.6),
    (-0.8, -0.6),
    (-0.8, 0.6),
    (0.4, -0.9),
    (0.4, 0.9),
    (-0.4, -0.9),
    (-0.4, 0.9),
];

/// A text that belongs to a point.
#[derive(Clone, Debug)]
pub struct Label {
    pub point: Point,
    pub text: String,
    pub size: f64,
}

/// Where a label begins, on its line; and the nearest end of it, where it is so far away that a rule should lead there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placed {
    pub at: Point,
    pub leader: Option<Point>,
}

#[derive(Clone, Copy)]
struct Rectangle {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

impl Rectangle {
    fn around((x, y): Point, half_width: f64, half_height: f64) -> Self {
        Rectangle { left: x - half_width, top: y - half_height, right: x + half_width, bottom: y + half_height }
    }

    fn meets(&self, other: &Rectangle) -> bool {
        self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
    }

    fn is_within(&self, frame: &Frame) -> bool {
        let is_beside = self.left >= frame.left && self.right <= frame.left + frame.width;
        is_beside && self.top >= frame.top && self.bottom <= frame.top + frame.height
    }
}

/// Places labels in order, the first ones best. `points` are to stay visible, whether they have labels or not; `None` for
/// what found no room.
pub fn place_labels(frame: Frame, points: &[Point], labels: &[Label]) -> Vec<Option<Placed>> {
    let mut taken: Vec<Rectangle> = points.iter().map(|point| Rectangle::around(*point, 4.0, 4.0)).collect();
    let place = |label: &Label| {
        let (placed, rectangle) = free_place(frame, &taken, label)?;
        taken.push(rectangle);
        Some(placed)
    };
    labels.iter().map(place).collect()
}

fn free_place(frame: Frame, taken: &[Rectangle], label: &Label) -> Option<(Placed, Rectangle)> {
    let (width, height) = (font::width(&label.text, label.size), label.size);
    let all = FURTHER.iter().flat_map(|further| DIRECTIONS.iter().map(move |direction| (*further, *direction)));
    let mut candidates = all.map(|(further, (dx, dy))| {
        let (across, down) = (GAP + further + width / 2.0, GAP + further + height / 2.0);
        let centre = (label.point.0 + dx * across, label.point.1 + dy * down);
        (further, centre, Rectangle::around(centre, width / 2.0 + 1.0, height / 2.0))
    });
    let is_free = |place: &Rectangle| place.is_within(&frame) && !taken.iter().any(|other| other.meets(place));
    let (further, (x, y), rectangle) = candidates.find(|(_, _, rectangle)| is_free(rectangle))?;
    let nearest =
        (label.point.0.clamp(rectangle.left, rectangle.right), label.point.1.clamp(rectangle.top, rectangle.bottom));
    let at = (x - width / 2.0, y + height * 0.35);
    Some((Placed { at, leader: (further > 8.0).then_some(nearest) }, rectangle))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Frame = Frame { left: 0.0, top: 0.0, width: 400.0, height: 300.0 };

    fn labels(points: &[Point]) -> Vec<Label> {
        points.iter().map(|point| Label { point: *point, text: "shuffle+zstd:1".into(), size: 11.0 }).collect()
    }

    #[test]
    fn a_lonely_label_stands_at_the_right_and_at_the_edge_at_the_left() {
        let points = [(100.0, 100.0), (395.0, 200.0)];
        let placed = place_labels(FRAME, &points, &labels(&points));
        let at = |number: usize| placed[number].unwrap().at.0;
        assert!(at(0) > 100.0 && at(1) < 350.0);
        assert!(placed.iter().all(|placed| placed.unwrap().leader.is_none()));
    }

    #[test]
    fn labels_of_a_crowd_cover_neither_each_other_nor_points() {
        let points: Vec<Point> =
            (0..14).map(|n| (200.0 + f64::from(n % 4) * 9.0, 140.0 + f64::from(n / 4) * 8.0)).collect();
        let labels = labels(&points);
        let placed = place_labels(FRAME, &points, &labels);
        let rectangle = |placed: &Placed| {
            let (width, (x, y)) = (font::width("shuffle+zstd:1", 11.0), placed.at);
            Rectangle { left: x, top: y - 8.0, right: x + width, bottom: y + 2.0 }
        };
        let found: Vec<Rectangle> = placed.iter().flatten().map(rectangle).collect();
        assert!(found.len() >= 12, "{} of 14 found room", found.len());
        for (number, one) in found.iter().enumerate() {
            assert!(found[..number].iter().all(|other| !one.meets(other)));
            assert!(points.iter().all(|point| !one.meets(&Rectangle::around(*point, 4.0, 4.0))));
        }
    }
}
