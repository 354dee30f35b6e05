//! What the figures have in common: a title, axes, and lines that bear their names.

use plot::{Anchor, Colour, Frame, Page, Point, Scale};

pub const INK: Colour = Colour(0x111111);
pub const FAINT: Colour = Colour(0x666666);
pub const SHADE: Colour = Colour(0xf1f3f5);
pub const RULE: Colour = Colour(0x9aa3ab);

/// Colours that also those tell apart who see no red or no green (Okabe, Ito 2008), less their yellow.
pub const COLOURS: [Colour; 5] =
    [Colour(0x0072b2), Colour(0xd55e00), Colour(0x009e73), Colour(0xcc79a7), Colour(0x56b4e9)];

pub struct Panel {
    pub frame: Frame,
    pub scale: Scale,
}

/// A curve, and its name at its right end.
pub struct Curve {
    pub name: String,
    pub colour: Colour,
    pub points: Vec<Point>,
}

/// Begins a page with a title and what it is about.
pub fn page(width: f64, height: f64, title: &str, subtitle: &str) -> Page {
    let mut page = Page::new(width, height);
    page.sized_text((24.0, 30.0), Anchor::Start, 17.0, INK, title);
    page.sized_text((24.0, 50.0), Anchor::Start, 12.0, FAINT, subtitle);
    page
}

impl Panel {
    pub fn place(&self, point: Point) -> Point {
        self.scale.place(self.frame, point)
    }

    /// Draws what lies within the frame of a line that enters it once.
    pub fn line(&self, page: &mut Page, colour: Colour, width: f64, points: &[Point]) {
        let places: Vec<Point> = points.iter().map(|point| self.place(*point)).collect();
        let inner = places.iter().copied().filter(|place| self.holds(*place));
        let entries = places.windows(2).filter_map(|ends| self.entry_from_above(ends[0], ends[1]));
        let within: Vec<Point> = entries.chain(inner).collect();
        if within.len() > 1 {
            page.line(colour, width, within);
        }
    }

    /// Draws curves and their names at the right, moved apart where they would meet.
    pub fn curves(&self, page: &mut Page, curves: &[Curve]) {
        curves.iter().for_each(|curve| self.line(page, curve.colour, 2.2, &curve.points));
        let ends = curves.iter().filter_map(|curve| {
            let mut places = curve.points.iter().map(|point| self.place(*point)).filter(|place| self.holds(*place));
            Some((places.next_back()?.1, curve))
        });
        let mut ends: Vec<(f64, &Curve)> = ends.collect();
        ends.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut free_from = f64::MIN;
        for (y, curve) in ends {
            let y = y.max(free_from);
            page.text((self.frame.left + self.frame.width + 8.0, y + 4.0), Anchor::Start, curve.colour, &curve.name);
            free_from = y + 15.0;
        }
    }

    /// Draws a level across the panel, and says above it what it is.
    pub fn level(&self, page: &mut Page, value: f64, text: &str) {
        let Frame { left, width, .. } = self.frame;
        let (_, y) = self.scale.place(self.frame, (1.0, value));
        page.line(RULE, 1.4, vec![(left, y), (left + width, y)]);
        page.sized_text((left + width - 6.0, y - 5.0), Anchor::End, 11.0, FAINT, text);
    }

    /// Shades what lies between two values of x.
    pub fn shade(&self, page: &mut Page, from: f64, to: f64) {
        let Frame { top, height, .. } = self.frame;
        let [(left, _), (right, _)] = [from, to].map(|x| self.place((x, 1.0)));
        page.rectangle(SHADE, (left, top), right - left, height);
    }

    /// Returns where the upper edge is crossed on the way into the frame.
    fn entry_from_above(&self, outer: Point, inner: Point) -> Option<Point> {
        let top = self.frame.top;
        let share = (top - outer.1) / (inner.1 - outer.1);
        let at = (outer.0 + (inner.0 - outer.0) * share, top);
        (outer.1 < top && !self.holds(outer) && self.holds(inner)).then_some(at)
    }

    fn holds(&self, (x, y): Point) -> bool {
        let Frame { left, top, width, height } = self.frame;
        let is_beside = x >= left - 0.01 && x <= left + width + 0.01;
        is_beside && y >= top - 0.01 && y <= top + height + 0.01
    }
}
