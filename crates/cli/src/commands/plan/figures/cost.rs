//! What a computing centre pays with deduplication and without, and what 50 PB cost with compression.

use plot::{Anchor, Axis, Colour, Frame, Page, Scale};
use policy::cost::codecs::{self, Codec};
use policy::cost::dedup_table::{self, Table};
use policy::cost::deduplication::{SAVINGS, same_capacity};
use policy::cost::procurement::{self, CAPACITY_PB, Purchase, Scenario};
use policy::cost::system::System;

use super::panel::{COLOURS, Curve, FAINT, INK, Panel, page};

const YEARS: Frame = Frame { left: 64.0, top: 112.0, width: 330.0, height: 330.0 };
const BARS_LEFT: f64 = 630.0;
const BARS_WIDTH: f64 = 165.0;
const BAR_STEP: f64 = 82.0;

pub fn figure() -> Page {
    let subtitle = "Data Reduction (Kuhn 2024): 30 % savings for the same capacity; a storage system of 50 PB with servers and disks";
    let mut page = page(960.0, 510.0, "What reduction saves", subtitle);
    years(&mut page);
    bars(&mut page);
    page
}

/// A system's costs over the years.
fn years(page: &mut Page) {
    let scale = Scale { x: Axis::linear(2008.0, 2036.0), y: Axis::linear(28.0, 30.5) };
    let panel = Panel { frame: YEARS, scale };
    panel.shade(page, 2025.0, 2036.0);
    page.axes(YEARS, scale, "a system with deduplication, M EUR", "year of procurement");
    let (x, y) = panel.place((2025.0, 28.0));
    page.sized_text((x + 6.0, y - 8.0), Anchor::Start, 11.0, FAINT, "extrapolated");
    let with =
        |table: &'static Table| move |system: &System| same_capacity(system, SAVINGS, table).cost_million_eur.total();
    let curves = [
        curve("without", Colour(0x333333), |system| system.cost_million_eur),
        curve("the lecture's table", COLOURS[1], with(&dedup_table::LECTURE)),
        curve("Thalweg's table", COLOURS[0], with(&dedup_table::OURS)),
    ];
    panel.curves(page, &curves);
    for curve in &curves {
        curve.points.iter().for_each(|point| page.circle(curve.colour, panel.place(*point), 3.4));
    }
}

fn curve(name: &str, colour: Colour, cost: impl Fn(&System) -> f64) -> Curve {
    let points = System::series().iter().map(|system| (f64::from(system.year), cost(system))).collect();
    Curve { name: name.to_owned(), colour, points }
}

/// 50 PB by codec, in both scenarios.
fn bars(page: &mut Page) {
    page.text((BARS_LEFT - 62.0, YEARS.top - 8.0), Anchor::Start, INK, "a storage system of 50 PB, M EUR");
    let all = [codecs::NONE, codecs::LZ4_FAST, codecs::LZ4, codecs::ZSTD];
    let of = |scenario, codec: &Codec| procurement::purchase(scenario, CAPACITY_PB, codec, &procurement::LECTURE);
    for (number, codec) in all.iter().enumerate() {
        let top = YEARS.top + 10.0 + number as f64 * BAR_STEP;
        page.text((BARS_LEFT - 10.0, top + 31.0), Anchor::End, INK, codec.name);
        bar(page, top, COLOURS[0], &of(Scenario::AllServers, codec));
        bar(page, top + 25.0, COLOURS[4], &of(Scenario::FewServers, codec));
    }
    let y = YEARS.top + YEARS.height + 32.0;
    let x = BARS_LEFT + page.key((BARS_LEFT, y), COLOURS[0], "S2: 50 servers");
    page.key((x, y), COLOURS[4], "S1: as few as suffice");
}

fn bar(page: &mut Page, top: f64, colour: Colour, purchase: &Purchase) {
    const MOST_MILLION_EUR: f64 = 6.0;
    let length = purchase.cost_million_eur / MOST_MILLION_EUR * BARS_WIDTH;
    page.rectangle(colour, (BARS_LEFT, top), length, 21.0);
    let text = format!("{:.1}", purchase.cost_million_eur);
    page.text((BARS_LEFT + length + 7.0, top + 15.0), Anchor::Start, INK, &text);
    let beside = format!("{:.0} servers, {:.0} GB/s", purchase.servers, purchase.gb_per_s);
    page.sized_text((BARS_LEFT + length + 32.0, top + 15.0), Anchor::Start, 10.5, FAINT, &beside);
}
