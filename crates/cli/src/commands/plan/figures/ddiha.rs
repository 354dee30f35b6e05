//! DDiHA's figures 8 and 9, for GTC on Jaguar XT5.

use plot::{Anchor, Axis, Frame, Page, Scale};
use policy::cost::ddiha::{self, JAGUAR_GTC, NETWORK_MB_PER_S, RECOMMENDED_NODE_SHARE};

use super::panel::{COLOURS, Curve, FAINT, Panel, page};

const FRAME: Frame = Frame { left: 64.0, top: 92.0, width: 700.0, height: 380.0 };

/// The gain over the share of deduplication nodes, for several networks.
pub fn figure_8() -> Page {
    const NETWORKS: [f64; 5] = [1000.0, 100.0, 20.0, 10.0, 5.0];
    let subtitle = "DDiHA, figure 8 by equation (6): GTC on Jaguar XT5, C = 1.08 MB/s, b = 4.67 MB/s; deduplication fast enough to be hidden";
    let mut page = page(910.0, 530.0, "Gain of giving part of the nodes to deduplication", subtitle);
    let scale = Scale { x: Axis::linear(0.0, 0.3), y: Axis::linear(0.6, 1.3) };
    let panel = Panel { frame: FRAME, scale };
    let most = ddiha::equation_6_max_node_share(&JAGUAR_GTC, NETWORK_MB_PER_S);
    panel.shade(&mut page, most, 0.3);
    page.axes(FRAME, scale, "gain: performance with / without", "share of nodes that deduplicate, r");
    panel.level(&mut page, 1.0, "as fast as without");
    let (x, y) = panel.place((most, 1.3));
    page.sized_text((x + 8.0, y + 18.0), Anchor::Start, 11.0, FAINT, "at 100 MB/s no gain from here on");
    panel.line(&mut page, FAINT, 0.8, &[(RECOMMENDED_NODE_SHARE, 0.6), (RECOMMENDED_NODE_SHARE, 1.3)]);
    let (x, y) = panel.place((RECOMMENDED_NODE_SHARE, 0.6));
    page.sized_text((x + 6.0, y - 8.0), Anchor::Start, 11.0, FAINT, "the paper's \"around 10%\"");
    let curve = |(network, colour): (f64, plot::Colour)| Curve {
        name: format!("b_h = {network} MB/s"),
        colour,
        points: ddiha::figure_8(&JAGUAR_GTC, network),
    };
    panel.curves(&mut page, &NETWORKS.into_iter().zip(COLOURS).map(curve).collect::<Vec<_>>());
    page
}

/// The necessary speed over the reduction, for several shares of deduplication nodes.
pub fn figure_9() -> Page {
    const SHARES: [f64; 5] = [0.02, 0.05, 0.1, 0.15, 0.2];
    let subtitle = "DDiHA, figure 9 by equation (5): GTC on Jaguar XT5, C = 1.08, b = 4.67, b_h = 100 MB/s; r is the share of nodes that deduplicate";
    let mut page = page(910.0, 530.0, "How fast a deduplication node must be", subtitle);
    let scale = Scale { x: Axis::linear(1.0, 20.0), y: Axis::logarithmic(3.0, 300.0) };
    let panel = Panel { frame: FRAME, scale };
    let least = ddiha::equation_5_min_reduction(&JAGUAR_GTC, RECOMMENDED_NODE_SHARE, NETWORK_MB_PER_S);
    panel.shade(&mut page, 1.0, least);
    page.axes(
        FRAME,
        scale,
        "C': least MB/s of a deduplication node",
        "reduction: written bytes for each that is left, W/W'",
    );
    let (x, _) = panel.place((least, 3.0));
    let text = ["r = 10 %: up", &format!("to {least:.2} no"), "speed is", "enough"].map(str::to_owned);
    for (line, text) in text.iter().enumerate() {
        page.sized_text((x + 22.0, FRAME.top + 16.0 + 14.0 * line as f64), Anchor::Start, 11.0, FAINT, text);
    }
    panel.level(&mut page, 20.0, "the paper: \"no more than 20 MB/s\"");
    panel.level(&mut page, 65.0, "the paper's prototype: 65 MB/s");
    let curve = |(share, colour): (f64, plot::Colour)| Curve {
        name: format!("r = {:.0} %", 100.0 * share),
        colour,
        points: ddiha::figure_9(&JAGUAR_GTC, share, NETWORK_MB_PER_S),
    };
    panel.curves(&mut page, &SHARES.into_iter().zip(COLOURS).map(curve).collect::<Vec<_>>());
    page
}
