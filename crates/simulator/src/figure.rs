//! How a run went, as the source's figures show it: throughput and demand, queue and nodes, hit ratios, over time.

use plot::{Anchor, Colour, Frame, Page, Point, Scale};

use crate::measures::{MOMENT_S, Moment, Report};

const WIDTH: f64 = 900.0;
const PANEL_HEIGHT: f64 = 170.0;
const PANEL_STEP: f64 = 260.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 76.0;

const BLUE: Colour = Colour(0x1f5fa8);
const RED: Colour = Colour(0xc0392b);
const GREEN: Colour = Colour(0x7fb77e);
const SAND: Colour = Colour(0xe3c878);
const ROSE: Colour = Colour(0xd98880);
const GREY: Colour = Colour(0x555555);

/// Draws the whole run.
pub fn figure(title: &str, report: &Report) -> Page {
    let moments = &report.moments;
    let mut page = Page::new(WIDTH, TOP + 4.0 * PANEL_STEP);
    page.text((LEFT, 28.0), Anchor::Start, Colour(0x111111), title);
    let x_max = moments.last().map_or(MOMENT_S, |moment| moment.at_s).max(MOMENT_S);
    throughput(&mut page, moments, x_max);
    counts(&mut page, moments, x_max, 1, "Tasks that wait", RED, |moment| moment.waiting as f64);
    nodes(&mut page, moments, x_max);
    hits(&mut page, moments, x_max);
    page
}

fn frame(panel: usize) -> Frame {
    Frame { left: LEFT, top: TOP + panel as f64 * PANEL_STEP, width: WIDTH - LEFT - 30.0, height: PANEL_HEIGHT }
}

fn points(moments: &[Moment], value: impl Fn(&Moment) -> f64) -> Vec<Point> {
    moments.iter().map(|moment| (moment.at_s, value(moment))).collect()
}

fn maximum(lines: &[&[Point]]) -> f64 {
    let most = lines.iter().flat_map(|line| line.iter()).map(|point| point.1).fold(0.0, f64::max);
    if most > 0.0 { most * 1.05 } else { 1.0 }
}

fn throughput(page: &mut Page, moments: &[Moment], x_max: f64) {
    let gigabits = |bytes: f64| bytes * 8.0 / 1e9 / MOMENT_S;
    // The last moment is shorter than the others and would show a fall that is none.
    let whole = &moments[..moments.len().saturating_sub(1)];
    let demand = points(whole, |moment| gigabits(moment.demand_bytes));
    let had = points(whole, |moment| gigabits(moment.local_bytes + moment.peer_bytes + moment.store_bytes));
    let store = points(whole, |moment| gigabits(moment.store_bytes));
    let scale = Scale::from_zero(x_max, maximum(&[&demand, &had, &store]));
    let frame = frame(0);
    page.axes(frame, scale, "Throughput in Gb/s", "seconds");
    page.line(GREY, 1.5, scale.places(frame, demand));
    page.line(BLUE, 1.5, scale.places(frame, had));
    page.line(RED, 1.5, scale.places(frame, store));
    keys(page, 0, &[(GREY, "demand"), (BLUE, "all input"), (RED, "from the shared store")]);
}

fn counts(
    page: &mut Page,
    moments: &[Moment],
    x_max: f64,
    panel: usize,
    title: &str,
    colour: Colour,
    value: impl Fn(&Moment) -> f64,
) {
    let line = points(moments, value);
    let scale = Scale::from_zero(x_max, maximum(&[&line]));
    page.axes(frame(panel), scale, title, "seconds");
    page.line(colour, 1.5, scale.places(frame(panel), line));
}

fn nodes(page: &mut Page, moments: &[Moment], x_max: f64) {
    let nodes = points(moments, |moment| f64::from(moment.nodes));
    let busy = points(moments, |moment| f64::from(moment.busy_slots));
    let scale = Scale::from_zero(x_max, maximum(&[&nodes, &busy]));
    page.axes(frame(2), scale, "Nodes and busy CPUs", "seconds");
    page.line(BLUE, 1.5, scale.places(frame(2), nodes));
    page.line(RED, 1.5, scale.places(frame(2), busy));
    keys(page, 2, &[(BLUE, "nodes"), (RED, "busy CPUs")]);
}

fn hits(page: &mut Page, moments: &[Moment], x_max: f64) {
    let share = |moment: &Moment, part: u64| {
        100.0 * part as f64 / (moment.local_hits + moment.peer_hits + moment.misses).max(1) as f64
    };
    let zero = points(moments, |_| 0.0);
    let local = points(moments, |moment| share(moment, moment.local_hits));
    let peer = points(moments, |moment| share(moment, moment.local_hits + moment.peer_hits));
    let all = points(moments, |moment| share(moment, moment.local_hits + moment.peer_hits + moment.misses));
    let scale = Scale::from_zero(x_max, 100.0);
    page.axes(frame(3), scale, "Where input was found, in %", "seconds");
    page.area(GREEN, scale.places(frame(3), between(&zero, &local)));
    page.area(SAND, scale.places(frame(3), between(&local, &peer)));
    page.area(ROSE, scale.places(frame(3), between(&peer, &all)));
    keys(page, 3, &[(GREEN, "own cache"), (SAND, "a peer's"), (ROSE, "shared store")]);
}

/// Returns the way along one line and back along another, over the same places.
fn between<'a>(lower: &'a [Point], upper: &'a [Point]) -> impl Iterator<Item = Point> + 'a {
    lower.iter().chain(upper.iter().rev()).copied()
}

fn keys(page: &mut Page, panel: usize, keys: &[(Colour, &str)]) {
    let mut x = LEFT + 260.0;
    for (colour, text) in keys {
        x += page.key((x, frame(panel).top - 8.0), *colour, text);
    }
}
