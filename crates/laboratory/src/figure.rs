//! Ratio against speed of all candidates with their Pareto front, and what each mode made of the blocks.

use plot::{Anchor, Axis, Colour, Frame, Label, Page, Point, Scale, place_labels};
use policy::compression::Mode;

use crate::{ModeComparison, Total, candidate_name, pareto_front, reference_name};

const WIDTH: f64 = 960.0;
const SCATTER: Frame = Frame { left: 64.0, top: 84.0, width: WIDTH - 64.0 - 24.0, height: 420.0 };
const BARS_TOP: f64 = SCATTER.top + SCATTER.height + 86.0;
const BAR_STEP: f64 = 46.0;

const INK: Colour = Colour(0x111111);
const FAINT: Colour = Colour(0x666666);
const RULE: Colour = Colour(0xb5bcc4);
const DOT: Colour = Colour(0x8a949e);
const FRONT: Colour = Colour(0x2c3e50);
const REFERENCE: Colour = Colour(0xc9ced3);

/// What is drawn.
pub struct Drawn<'a> {
    pub title: &'a str,
    pub subtitle: &'a str,
    pub candidates: &'a [Total],
    pub references: &'a [Total],
    pub modes: &'a [ModeComparison],
}

pub fn figure(drawn: &Drawn) -> Page {
    let mut page = Page::new(WIDTH, BARS_TOP + BAR_STEP * drawn.modes.len() as f64 + 30.0);
    page.sized_text((24.0, 30.0), Anchor::Start, 17.0, INK, drawn.title);
    page.sized_text((24.0, 50.0), Anchor::Start, 12.0, FAINT, drawn.subtitle);
    scatter(&mut page, drawn);
    bars(&mut page, drawn.modes);
    page
}

fn scatter(page: &mut Page, drawn: &Drawn) {
    let scale = scale(drawn);
    page.axes(SCATTER, scale, "ratio: raw / stored bytes", "MB/s to compress, one core");
    let place = |total: &Total| scale.place(SCATTER, (total.encode_mb_per_s(), total.ratio()));
    let candidates: Vec<Point> = drawn.candidates.iter().map(place).collect();
    let references: Vec<Point> = drawn.references.iter().map(place).collect();
    let front = pareto_front(drawn.candidates);
    page.line(FRONT, 1.5, front.iter().map(|candidate| candidates[*candidate]).collect());
    let chosen: Vec<(Colour, Point)> =
        drawn.modes.iter().map(|mode| (colour(mode.mode), place(&mode.chosen))).collect();
    let labels = labels(&candidates, &references, &front);
    let on_line = front.windows(2).flat_map(|ends| between(candidates[ends[0]], candidates[ends[1]]));
    let chosen_points = chosen.iter().map(|(_, at)| *at);
    let points = candidates.iter().chain(&references).copied().chain(chosen_points).chain(on_line).collect::<Vec<_>>();
    write_labels(page, &points, &labels);
    references.iter().for_each(|at| page.circle(REFERENCE, *at, 3.5));
    candidates.iter().enumerate().for_each(|(number, at)| match front.contains(&number) {
        true => page.circle(FRONT, *at, 4.5),
        false => page.circle(DOT, *at, 3.5),
    });
    for (colour, at) in chosen {
        page.diamond(Colour(0xffffff), at, 9.5);
        page.diamond(colour, at, 8.0);
    }
    legend(page, drawn.modes);
}

/// Returns points of a line, near enough to each other that no label fits between.
fn between((x1, y1): Point, (x2, y2): Point) -> impl Iterator<Item = Point> {
    let steps = ((x2 - x1).hypot(y2 - y1) / 8.0).ceil().max(1.0);
    (0..=steps as usize).map(move |step| {
        let share = step as f64 / steps;
        (x1 + (x2 - x1) * share, y1 + (y2 - y1) * share)
    })
}

/// Room for labels beside the outermost points.
fn scale(drawn: &Drawn) -> Scale {
    let totals = || drawn.candidates.iter().chain(drawn.references).chain(drawn.modes.iter().map(|mode| &mode.chosen));
    let range = |of: fn(&Total) -> f64| {
        totals().map(of).fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(value), most.max(value)))
    };
    let (slowest, fastest) = range(Total::encode_mb_per_s);
    let (least, most) = range(Total::ratio);
    let x = Axis::logarithmic(slowest / 1.8, fastest * 1.8);
    let margin = ((most - least) * 0.08).max(0.02);
    let y = match most / least > 8.0 {
        true => Axis::logarithmic(least / 1.2, most * 1.2),
        false => Axis::linear(least - margin, most + margin),
    };
    Scale { x, y }
}

/// Those on the front first: they get the best places.
fn labels(candidates: &[Point], references: &[Point], front: &[usize]) -> Vec<(Colour, Label)> {
    let label = |point: Point, text: String, size: f64| Label { point, text, size };
    let of_candidate = |number: usize, size: f64| label(candidates[number], candidate_name(number), size);
    let rest = (0..candidates.len()).filter(|number| !front.contains(number));
    let on_front = front.iter().map(|number| (INK, of_candidate(*number, 11.5)));
    let others = rest.map(|number| (FAINT, of_candidate(number, 10.0)));
    let of_references =
        (0..references.len()).map(|number| (DOT, label(references[number], reference_name(number), 10.0)));
    on_front.chain(others).chain(of_references).collect()
}

fn write_labels(page: &mut Page, points: &[Point], labels: &[(Colour, Label)]) {
    let all: Vec<Label> = labels.iter().map(|(_, label)| label.clone()).collect();
    for ((colour, label), placed) in labels.iter().zip(place_labels(SCATTER, points, &all)) {
        let Some(placed) = placed else { continue };
        if let Some(end) = placed.leader {
            page.line(RULE, 0.8, vec![label.point, end]);
        }
        page.sized_text(placed.at, Anchor::Start, label.size, *colour, &label.text);
    }
}

fn legend(page: &mut Page, modes: &[ModeComparison]) {
    let y = SCATTER.top + SCATTER.height + 32.0;
    let mut x = SCATTER.left;
    for mode in modes {
        page.diamond(colour(mode.mode), (x + 6.0, y - 4.0), 6.0);
        let name = mode_name(mode);
        page.text((x + 17.0, y), Anchor::Start, INK, &name);
        x += 17.0 + plot::text_width(&name, 12.0) + 18.0;
    }
}

/// What is stored, of each mode and of its oracle.
fn bars(page: &mut Page, modes: &[ModeComparison]) {
    let (left, width) = (190.0, 440.0);
    let title = "stored bytes, in % of the data: chosen, and below it what the oracle that tries everything stores";
    page.text((24.0, BARS_TOP - 12.0), Anchor::Start, INK, title);
    let most = modes.iter().map(|mode| share(&mode.chosen).max(share(&mode.oracle))).fold(1.0, f64::max);
    for (number, mode) in modes.iter().enumerate() {
        let top = BARS_TOP + number as f64 * BAR_STEP;
        let length = |total: &Total| share(total) / most * width;
        page.text((left - 12.0, top + 16.0), Anchor::End, INK, &mode_name(mode));
        page.rectangle(colour(mode.mode), (left, top), length(&mode.chosen), 17.0);
        page.rectangle(RULE, (left, top + 18.5), length(&mode.oracle), 9.0);
        let end = left + length(&mode.chosen).max(length(&mode.oracle)) + 10.0;
        page.text((end, top + 13.0), Anchor::Start, INK, &result(mode));
        page.sized_text((end, top + 27.0), Anchor::Start, 10.5, FAINT, &beside(mode));
    }
}

fn share(total: &Total) -> f64 {
    1.0 / total.ratio()
}

fn result(mode: &ModeComparison) -> String {
    let speed = mode.chosen.encode_mb_per_s();
    format!("{:.1} %  at {}", 100.0 * share(&mode.chosen), rate(speed))
}

fn beside(mode: &ModeComparison) -> String {
    let speed = mode.oracle.encode_mb_per_s();
    format!("oracle {:.1} %  at {}", 100.0 * share(&mode.oracle), rate(speed))
}

fn rate(mb_per_s: f64) -> String {
    if mb_per_s < 10.0 { format!("{mb_per_s:.1} MB/s") } else { format!("{mb_per_s:.0} MB/s") }
}

fn mode_name(mode: &ModeComparison) -> String {
    match mode.mode {
        Mode::Performance => {
            let mib_per_s = mode.conditions.bytes_per_second / (1 << 20) as f32;
            format!("performance, {mib_per_s} MiB/s")
        }
        Mode::Balanced => "balanced".into(),
        Mode::Archival => "archival".into(),
        Mode::Energy => "energy".into(),
    }
}

fn colour(mode: Mode) -> Colour {
    match mode {
        Mode::Performance => Colour(0xd35400),
        Mode::Balanced => Colour(0x1f5fa8),
        Mode::Archival => Colour(0x7d3c98),
        Mode::Energy => Colour(0x2e8b57),
    }
}
