//! A page as SVG.

use std::fmt::Write;

use crate::page::{Anchor, Colour, Page, Point, Shape};

pub fn text(page: &Page) -> String {
    let Page { width, height, .. } = page;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"Helvetica, Arial, sans-serif\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (Colour(colour), shape) in &page.shapes {
        let _ = writeln!(text, "{}", element(&format!("#{colour:06x}"), shape));
    }
    text.push_str("</svg>\n");
    text
}

fn element(colour: &str, shape: &Shape) -> String {
    match shape {
        Shape::Line { points, width } => format!(
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" stroke-linejoin=\"round\" points=\"{}\"/>",
            listed(points)
        ),
        Shape::Area { points } => format!("<polygon fill=\"{colour}\" points=\"{}\"/>", listed(points)),
        Shape::Circle { centre: (x, y), radius } => {
            format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{colour}\"/>")
        }
        Shape::Text { at: (x, y), anchor, size, text } => format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{}\" font-size=\"{size}\" fill=\"{colour}\">{}</text>",
            anchor_word(*anchor),
            escaped(text)
        ),
    }
}

fn listed(points: &[Point]) -> String {
    points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ")
}

fn anchor_word(anchor: Anchor) -> &'static str {
    match anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    }
}

/// XML has no place for control characters, escaped or not.
fn escaped(text: &str) -> String {
    let visible = text.replace(|character: char| character.is_control(), "\u{fffd}");
    visible.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped() {
        let mut page = Page::new(10.0, 10.0);
        page.text((1.0, 2.0), Anchor::End, Colour(0xff), "a<b & \u{1}");
        assert!(page.svg().contains("fill=\"#0000ff\">a&lt;b &amp; \u{fffd}</text>"), "{}", page.svg());
    }
}
