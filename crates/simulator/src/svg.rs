//! As much of SVG as our figures need: a page, panels with axes, lines and areas.

use std::fmt::Write;

/// A panel's place on the page, in points.
#[derive(Clone, Copy)]
pub struct Frame {
    pub left: f64,
    pub top: f64,
    pub width: f64,
    pub height: f64,
}

/// Values at the panel's edges.
#[derive(Clone, Copy)]
pub struct Scale {
    pub x_max: f64,
    pub y_max: f64,
}

pub struct Page(String);

impl Page {
    pub fn new(width: f64, height: f64) -> Self {
        let mut text = String::new();
        let _ = write!(
            text,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        Page(text)
    }

    pub fn finish(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }

    pub fn text(&mut self, x: f64, y: f64, anchor: &str, colour: &str, text: &str) {
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        self.put(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{text}</text>"
        ));
    }

    /// Draws the panel's frame, with ticks and their values on the left and below.
    pub fn axes(&mut self, frame: Frame, scale: Scale, title: &str, x_title: &str) {
        let Frame { left, top, width, height } = frame;
        let bottom = top + height;
        for value in ticks(scale.y_max) {
            let y = bottom - value / scale.y_max * height;
            self.rule(left, y, left + width, y, "#dddddd");
            self.text(left - 6.0, y + 4.0, "end", "#333333", &shown(value));
        }
        for value in ticks(scale.x_max) {
            let x = left + value / scale.x_max * width;
            self.rule(x, bottom, x, bottom + 4.0, "#333333");
            self.text(x, bottom + 17.0, "middle", "#333333", &shown(value));
        }
        self.rule(left, bottom, left + width, bottom, "#333333");
        self.rule(left, top, left, bottom, "#333333");
        self.text(left, top - 8.0, "start", "#111111", title);
        self.text(left + width, bottom + 32.0, "end", "#333333", x_title);
    }

    pub fn line(&mut self, frame: Frame, scale: Scale, colour: &str, points: &[(f64, f64)]) {
        let points = places(frame, scale, points.iter().copied());
        self.put(format_args!(
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" points=\"{points}\"/>"
        ));
    }

    /// Between two lines over the same places.
    pub fn area(&mut self, frame: Frame, scale: Scale, colour: &str, lower: &[(f64, f64)], upper: &[(f64, f64)]) {
        let points = places(frame, scale, lower.iter().copied().chain(upper.iter().rev().copied()));
        self.put(format_args!("<polygon fill=\"{colour}\" points=\"{points}\"/>"));
    }

    /// Draws a sample of a colour and its meaning; returns how wide it is.
    pub fn key(&mut self, x: f64, y: f64, colour: &str, text: &str) -> f64 {
        self.put(format_args!("<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"14\" height=\"9\" fill=\"{colour}\"/>", y - 9.0));
        self.text(x + 19.0, y, "start", "#333333", text);
        36.0 + 6.4 * text.len() as f64
    }

    fn rule(&mut self, x1: f64, y1: f64, x2: f64, y2: f64, colour: &str) {
        self.put(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\"/>"
        ));
    }

    fn put(&mut self, element: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.0, "{element}");
    }
}

fn places(frame: Frame, scale: Scale, points: impl Iterator<Item = (f64, f64)>) -> String {
    let place = |(x, y): (f64, f64)| {
        let x = frame.left + x / scale.x_max * frame.width;
        let y = frame.top + frame.height - y / scale.y_max * frame.height;
        format!("{x:.1},{y:.1}")
    };
    points.map(place).collect::<Vec<_>>().join(" ")
}

/// Returns four to eight round values from 0 on, none above `most`.
fn ticks(most: f64) -> Vec<f64> {
    let rough = most / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= rough * 0.999);
    let step = step.expect("ten times a power of ten is above");
    (0..=(most / step * 1.0001) as u32).map(|count| f64::from(count) * step).collect()
}

fn shown(value: f64) -> String {
    if value >= 10_000.0 { format!("{}k", value / 1000.0) } else { format!("{}", (value * 1000.0).round() / 1000.0) }
}

#[cfg(test)]
mod tests {
    use super::ticks;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(100.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ticks(1415.0), [0.0, 500.0, 1000.0]);
        assert!((4..=8).contains(&ticks(81.0).len()));
    }
}
