//! Figures: a page of lines, areas and labels with axes, as SVG and as PNG. Pure.
//!
//! Reading order: [`Page`] is what figures are drawn on, `axes` and `labels` are what is laid on it; `svg` and `png` write it.
//! PNG needs no fonts of the machine: letters are filled by outlines of our own (`font`).

mod axes;
mod font;
mod labels;
mod page;
mod png;
mod svg;

pub use axes::{Axis, Frame, Scale};
pub use font::width as text_width;
pub use labels::{Label, Placed, place_labels};
pub use page::{Anchor, Colour, Page, Point};
