//! What links bring with each codec.

use plot::{Anchor, Axis, Colour, Frame, Page, Scale};
use policy::cost::codecs::{self, Codec};
use policy::cost::network::{self, LINKS, NODE_CORES};

use super::panel::{COLOURS, Curve, FAINT, Panel, RULE, page};

const FRAME: Frame = Frame { left: 64.0, top: 92.0, width: 780.0, height: 400.0 };
const SLOWEST: f64 = 0.5;
const FASTEST: f64 = 400.0;

pub fn figure() -> Page {
    let subtitle =
        "Data Reduction (Kuhn 2024): link x ratio, but no more than 24 cores compress and 24 others decompress";
    let mut page = page(960.0, 550.0, "Raw data through a link, compressed on the way", subtitle);
    let axis = Axis::logarithmic(SLOWEST, FASTEST);
    let panel = Panel { frame: FRAME, scale: Scale { x: axis, y: Axis::logarithmic(SLOWEST, 1000.0) } };
    page.axes(FRAME, panel.scale, "Gbit/s of raw data", "Gbit/s of the link");
    for link in LINKS {
        let (x, _) = panel.place((link.gbit_per_s, 1.0));
        page.line(RULE, 0.8, vec![(x, FRAME.top), (x, FRAME.top + FRAME.height)]);
        page.sized_text((x - 4.0, FRAME.top + 14.0), Anchor::End, 11.0, FAINT, link.name);
    }
    let plain = Curve { name: "none".to_owned(), colour: Colour(0x333333), points: points(&codecs::NONE) };
    let [fast, lz4, .., zlib, zstd] = codecs::LECTURE;
    let with_codecs = [fast, lz4, zstd, zlib, codecs::LECTURE[4]].into_iter().zip(COLOURS);
    let curve =
        |(codec, colour): (Codec, Colour)| Curve { name: codec.name.to_owned(), colour, points: points(&codec) };
    let curves: Vec<Curve> = [plain].into_iter().chain(with_codecs.map(curve)).collect();
    panel.curves(&mut page, &curves);
    page
}

fn points(codec: &Codec) -> Vec<(f64, f64)> {
    let steps = 240;
    let link = |step: i32| SLOWEST * (FASTEST / SLOWEST).powf(f64::from(step) / f64::from(steps));
    let effective = |link| (link, network::effective_gbit_per_s(link, codec, NODE_CORES));
    (0..=steps).map(link).map(effective).collect()
}
