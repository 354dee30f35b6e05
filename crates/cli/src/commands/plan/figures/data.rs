//! The figures of a plan's page: what cutting and codecs make of the data, and what that does on the machine.

use laboratory::{Cut, Distinct, Surveyed};
use plot::{Anchor, Axis, Colour, Frame, Label, Page, Point, Scale, place_labels};
use policy::cost::write_time::Reduction;

use super::panel::{COLOURS, Curve, FAINT, INK, Panel, RULE, page};
use crate::commands::plan::data::{CODECS, saved_share};
use crate::commands::plan::system_report::{Case, SystemReport, keeping_eur};

const FRAME: Frame = Frame { left: 64.0, top: 92.0, width: 620.0, height: 300.0 };
const PAGE: (f64, f64) = (900.0, 450.0);
const PLAIN: Colour = Colour(0x333333);

/// What is drawn of the data.
pub struct Drawn<'a> {
    pub surveyed: &'a Surveyed,
    pub of_system: Option<&'a SystemReport>,
}

/// Returns the figures of the data, each with what it shows.
pub fn of_data(drawn: &Drawn) -> Vec<(&'static str, Page)> {
    if drawn.of_system.is_none() {
        return Vec::new();
    }
    vec![
        ("Bytes that deduplication saves, by the length of segments", savings(drawn.surveyed)),
        ("Ratio and speed of codecs and modes", ratios(drawn.surveyed)),
    ]
}

/// Returns the figures of the machine.
pub fn of_system(report: &SystemReport) -> Vec<(&'static str, Page)> {
    vec![
        ("Seconds of a phase, by codec or mode", phases(report)),
        ("Costs of keeping the data over the years", costs(report)),
    ]
}

fn savings(surveyed: &Surveyed) -> Page {
    let mut page = page(
        PAGE.0,
        PAGE.1,
        "What deduplication saves",
        "by the way files are cut; bars are errors that hold in 95 of 100 cases",
    );
    let all = surveyed.bytes as f64;
    let saved = |found: &Distinct| 100.0 * saved_share(found, all);
    let most = surveyed.cuts.iter().map(|(_, found)| saved(found)).fold(1.0, f64::max);
    let scale = Scale { x: Axis::logarithmic(3.5, 72.0), y: Axis::from_zero(round_up(most * 1.05)) };
    let panel = Panel { frame: FRAME, scale };
    page.axes(FRAME, scale, "% of all bytes saved", "mean length of segments, KiB");
    let kib = |cut: &Cut| match cut {
        Cut::Fixed(bytes) | Cut::Content(bytes) => *bytes as f64 / 1024.0,
        Cut::Whole => f64::NAN,
    };
    let curve = |name: &str, colour, is_of: fn(&Cut) -> bool| {
        let found = surveyed.cuts.iter().filter(|(cut, _)| is_of(cut));
        let points = found.map(|(cut, found)| (kib(cut), saved(found))).collect();
        Curve { name: name.to_owned(), colour, points }
    };
    let whole = surveyed.cuts.iter().find(|(cut, _)| *cut == Cut::Whole).map_or(0.0, |(_, found)| saved(found));
    let curves = [
        Curve { name: "whole files".to_owned(), colour: FAINT, points: vec![(3.5, whole), (72.0, whole)] },
        curve("content-defined", COLOURS[0], |cut| matches!(cut, Cut::Content(_))),
        curve("fixed", COLOURS[1], |cut| matches!(cut, Cut::Fixed(_))),
    ];
    for (cut, found) in &surveyed.cuts {
        if *cut == Cut::Whole {
            continue;
        }
        let (value, error) = (saved(found), 100.0 * found.error_bytes / all);
        let ends = [(kib(cut), (value - error).max(0.0)), (kib(cut), value + error)];
        panel.line(&mut page, FAINT, 1.2, &ends);
    }
    panel.curves(&mut page, &curves);
    for curve in &curves[1..] {
        curve.points.iter().for_each(|point| page.circle(curve.colour, panel.place(*point), 3.2));
    }
    page
}

fn ratios(surveyed: &Surveyed) -> Page {
    let mut page = page(
        PAGE.0,
        PAGE.1,
        "What codecs make of what deduplication leaves",
        "raw for each stored byte, and what a core of this machine encodes",
    );
    let found = CODECS.iter().zip(&surveyed.of_new).filter_map(|(codec, found)| Some((codec.name, found.as_ref()?)));
    let points: Vec<(&str, f64, f64)> =
        found.map(|(name, found)| (name, found.mb_per_s, 1.0 / found.stored_share)).collect();
    let [slowest, fastest] = [f64::min, f64::max].map(|of| points.iter().map(|point| point.1).fold(100.0, of));
    let most = points.iter().map(|point| point.2).fold(1.0, f64::max);
    let scale =
        Scale { x: Axis::logarithmic(slowest / 2.0, fastest * 2.0), y: Axis::linear(0.0, round_up(most * 1.15)) };
    let panel = Panel { frame: FRAME, scale };
    page.axes(FRAME, scale, "ratio", "MB/s of a core");
    let (right, y) = panel.place((fastest * 2.0, 1.0));
    page.line(RULE, 1.4, vec![(FRAME.left, y), (right, y)]);
    page.text((right - 6.0, y + 16.0), Anchor::End, FAINT, "no codec");
    let places: Vec<Point> = points.iter().map(|(_, mb_per_s, ratio)| panel.place((*mb_per_s, *ratio))).collect();
    let label = |(point, (name, ..)): (&Point, &(&str, f64, f64))| Label {
        point: *point,
        text: (*name).to_owned(),
        size: 12.0,
    };
    let labels: Vec<Label> = places.iter().zip(&points).map(label).collect();
    places.iter().zip(COLOURS).for_each(|(place, colour)| page.circle(colour, *place, 5.0));
    for (label, placed) in labels.iter().zip(place_labels(FRAME, &places, &labels)) {
        let Some(placed) = placed else { continue };
        if let Some(end) = placed.leader {
            page.line(RULE, 0.8, vec![label.point, end]);
        }
        page.sized_text(placed.at, Anchor::Start, label.size, INK, &label.text);
    }
    page
}

fn phases(report: &SystemReport) -> Page {
    let plain_s = report.unreduced_phase_s();
    let subtitle =
        "computation, and behind it what of the writing is not hidden; reduced where that makes the phase shorter";
    let mut page = page(PAGE.0, PAGE.1, "How long a phase takes", subtitle);
    let rows =
        [("unreduced", plain_s)].into_iter().chain(report.cases.iter().map(|case| (case.name(), case.phase.seconds)));
    let rows: Vec<(&str, f64)> = rows.collect();
    let most = rows.iter().map(|row| row.1).fold(0.0, f64::max);
    let (left, step) = (130.0, 40.0);
    let length = |seconds: f64| seconds / most * 560.0;
    let compute_x = left + length(report.machine.program.compute_s);
    for (number, (name, seconds)) in rows.iter().enumerate() {
        let top = FRAME.top + step * number as f64;
        let colour = if number == 1 + report.chosen { COLOURS[0] } else { COLOURS[4] };
        page.rectangle(colour, (left, top), length(*seconds), 26.0);
        page.text((left - 10.0, top + 18.0), Anchor::End, INK, name);
        page.text((left + length(*seconds) + 8.0, top + 18.0), Anchor::Start, INK, &format!("{seconds:.1} s"));
    }
    let bottom = FRAME.top + step * rows.len() as f64;
    page.line(RULE, 1.4, vec![(compute_x, FRAME.top - 6.0), (compute_x, bottom)]);
    page.sized_text((compute_x - 6.0, bottom + 16.0), Anchor::End, 12.0, FAINT, "computation of all nodes");
    page.key((left, bottom + 40.0), COLOURS[0], "recommended");
    page
}

fn costs(report: &SystemReport) -> Page {
    const MAX_YEARS: f64 = 10.0;
    let keeping = |reduction: &Reduction, years| keeping_eur(report, reduction, years);
    let most = keeping(&Reduction::NONE, MAX_YEARS);
    let (kept_tb, price) = (report.machine.kept_tb, report.machine.eur_per_tb_year);
    let subtitle =
        format!("{kept_tb:.3} TB before reduction, {price} EUR a TB and year, a hundredth of that ten years later");
    let mut page = page(PAGE.0, PAGE.1, "What it costs to keep the data", &subtitle);
    let (unit, factor) = if most < 1e6 { ("EUR", 1.0) } else { ("million EUR", 1e-6) };
    let scale = Scale { x: Axis::linear(0.0, MAX_YEARS), y: Axis::from_zero(most * factor * 1.05) };
    let panel = Panel { frame: FRAME, scale };
    page.axes(FRAME, scale, unit, "years");
    let curve = |name: &str, colour, reduction: &Reduction| {
        let years = (0..=60).map(|step| f64::from(step) * MAX_YEARS / 60.0);
        let points = years.map(|years| (years, factor * keeping(reduction, years))).collect();
        Curve { name: name.to_owned(), colour, points }
    };
    let of_case = |(case, colour): (&Case, Colour)| curve(case.name(), colour, &case.kept);
    let colours = [FAINT].into_iter().chain(COLOURS);
    let curves: Vec<Curve> = [curve("unreduced", PLAIN, &Reduction::NONE)]
        .into_iter()
        .chain(report.cases.iter().zip(colours).map(of_case))
        .collect();
    panel.curves(&mut page, &curves);
    page
}

/// Returns the next of 1, 2 or 5 times a power of ten, for the end of an axis.
fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= value).unwrap_or(value)
}
