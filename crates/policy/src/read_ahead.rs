//! What a program that reads a far file piece by piece reads next, and how much of that a client asks for ahead of it.
//!
//! Reads follow one another when each begins where the one before ended, or when each is the one before moved by the
//! same distance, as when ranks take turns. Bytes ahead of the program pass the link while it works on what it has:
//! their window begins small and grows each time a part of it is used up while the program waited. A program that reads
//! elsewhere after all waits behind them, which bounds their window in time.

use std::ops::Range;

/// Asked for ahead of one file, and of all files of a process together (bytes).
pub const MAX_FILE_BYTES: u64 = 16 << 20;
pub const MAX_PROCESS_BYTES: u64 = 64 << 20;
const MIN_WINDOW_BYTES: u64 = 256 << 10;
/// A guess from one read that followed another: a program that stops there has fetched no more in vain.
const MAX_FIRST_WINDOW_BYTES: u64 = 4 << 20;
/// Noting where shorter ranges are would take about as much memory as they do.
const MIN_RANGE_BYTES: u64 = 4 << 10;
/// A window is filled again when a fourth of it is used up: a link that is full stays full, and requests are not too short.
const REFILLS: u64 = 4;
/// A window below this grows fourfold, one above it twofold.
const SMALL_WINDOW_BYTES: u64 = 1 << 20;
/// What the link brings in two round trips, and in this time besides (s). Two round trips at the measured rate alone
/// would keep a small window small: connections that have idled begin slowly, and what they bring then fills no link.
const ROUND_TRIPS: f64 = 2.0;
const STARTING_S: f64 = 1.0;

/// What is known of the link and of the file, and how much memory there is.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    pub round_trip_s: f64,
    /// The rate at which bytes came that were asked for ahead; none: not measured yet.
    pub bytes_per_s: Option<f64>,
    pub file_bytes: u64,
    /// No more than this may be asked for now.
    pub room_bytes: u64,
}

/// The reads of one file handle.
#[derive(Default)]
pub struct ReadAhead {
    last: Vec<Range<u64>>,
    run: Option<Run>,
    window_bytes: u64,
    /// The program has waited for bytes since the window was last filled.
    has_waited: bool,
}

/// How reads follow one another.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Run {
    /// Each begins where the one before ended; asked for up to `asked_end`.
    Adjacent { asked_end: u64 },
    /// Each is the one before moved by `distance`; `asked` reads are asked for. One move alone may be any jump.
    Strided { distance: i64, is_confirmed: bool, asked: u64 },
}

impl ReadAhead {
    /// Notes a read of these ranges, in order and none of them empty. Returns whether it goes on as expected; otherwise
    /// what was asked for ahead will not be read.
    pub fn read(&mut self, ranges: &[Range<u64>]) -> bool {
        let expected = self.run.and_then(|run| self.continued(run, ranges));
        self.run = expected.or_else(|| self.begun(ranges));
        self.last = ranges.to_vec();
        if expected.is_none() {
            self.window_bytes = 0;
        }
        expected.is_some()
    }

    /// Notes that the program waits for bytes of the read.
    pub fn waits(&mut self) {
        self.has_waited = true;
    }

    /// Returns the ranges to ask for now, in the order in which they will be read.
    pub fn ahead(&mut self, conditions: &Conditions) -> Vec<Range<u64>> {
        let Some(unread_bytes) = self.unread_bytes() else { return Vec::new() };
        if self.window_bytes.saturating_sub(unread_bytes) < self.window_bytes / REFILLS {
            return Vec::new();
        }
        self.window_bytes = self.next_window(conditions);
        self.has_waited = false;
        let until_bytes = self.window_bytes.min(unread_bytes.saturating_add(conditions.room_bytes));
        self.ask_until(until_bytes, conditions.file_bytes)
    }

    /// Returns the run after a read that goes on as it was expected to.
    fn continued(&self, run: Run, ranges: &[Range<u64>]) -> Option<Run> {
        match run {
            Run::Adjacent { asked_end } => {
                self.adjacent_end(ranges).map(|end| Run::Adjacent { asked_end: asked_end.max(end) })
            }
            Run::Strided { distance, asked, .. } => (self.distance(ranges) == Some(distance)).then(|| Run::Strided {
                distance,
                is_confirmed: true,
                asked: asked.saturating_sub(1),
            }),
        }
    }

    fn begun(&self, ranges: &[Range<u64>]) -> Option<Run> {
        let adjacent = self.adjacent_end(ranges).map(|asked_end| Run::Adjacent { asked_end });
        let strided = |distance| Run::Strided { distance, is_confirmed: false, asked: 0 };
        adjacent.or_else(|| self.distance(ranges).map(strided))
    }

    /// Returns the end of a read that begins where the last one ended.
    fn adjacent_end(&self, ranges: &[Range<u64>]) -> Option<u64> {
        match (&self.last[..], ranges) {
            ([last], [range]) if last.end == range.start => Some(range.end),
            _ => None,
        }
    }

    /// Returns how far the ranges lie from those of the last read, where all have moved alike and clear of them.
    fn distance(&self, ranges: &[Range<u64>]) -> Option<i64> {
        let (last, first) = (self.last.first()?, ranges.first()?);
        let distance = first.start.wrapping_sub(last.start) as i64;
        let span = ranges.last()?.end.checked_sub(first.start)?;
        let are_in_order = ranges.windows(2).all(|two| two[0].end <= two[1].start);
        let is_long = bytes_of(ranges) >= MIN_RANGE_BYTES * ranges.len() as u64;
        let have_moved = self.last.len() == ranges.len()
            && self.last.iter().zip(ranges).all(|(last, range)| moved(last, distance).as_ref() == Some(range));
        (have_moved && are_in_order && is_long && distance.unsigned_abs() >= span).then_some(distance)
    }

    /// Returns how many bytes are asked for that the program has not come to; none where nothing is to be expected.
    fn unread_bytes(&self) -> Option<u64> {
        match self.run? {
            Run::Adjacent { asked_end } => Some(asked_end - self.last[0].end),
            Run::Strided { is_confirmed, asked, .. } => is_confirmed.then(|| asked * bytes_of(&self.last)),
        }
    }

    /// At least one read goes ahead, as far as a file may.
    fn next_window(&self, conditions: &Conditions) -> u64 {
        let carried = |rate: f64| ((ROUND_TRIPS * conditions.round_trip_s + STARTING_S) * rate) as u64;
        let least = bytes_of(&self.last).clamp(MIN_WINDOW_BYTES, MAX_FILE_BYTES);
        let most = conditions.bytes_per_s.map_or(MAX_FILE_BYTES, carried).clamp(least, MAX_FILE_BYTES);
        match (self.window_bytes, self.has_waited) {
            (0, _) => (2 * bytes_of(&self.last)).min(MAX_FIRST_WINDOW_BYTES).max(least),
            (window_bytes, true) if window_bytes < SMALL_WINDOW_BYTES => (4 * window_bytes).min(most),
            (window_bytes, true) => (2 * window_bytes).min(most),
            (window_bytes, false) => window_bytes.min(most),
        }
    }

    /// Asks for more, until so many bytes lie ahead of the program.
    fn ask_until(&mut self, bytes: u64, file_bytes: u64) -> Vec<Range<u64>> {
        let (read_bytes, read_end) = (bytes_of(&self.last), self.last.last().map_or(0, |range| range.end));
        match &mut self.run {
            Some(Run::Adjacent { asked_end }) => {
                let range = *asked_end..read_end.saturating_add(bytes).min(file_bytes);
                *asked_end = range.end.max(range.start);
                if range.is_empty() { Vec::new() } else { vec![range] }
            }
            Some(Run::Strided { distance, asked, .. }) => {
                let mut ranges = Vec::new();
                while (*asked + 1) * read_bytes <= bytes {
                    let next = moved_by_steps(&self.last, *distance, *asked + 1, file_bytes);
                    if next.is_empty() {
                        break;
                    }
                    ranges.extend(next);
                    *asked += 1;
                }
                ranges
            }
            None => Vec::new(),
        }
    }
}

/// Returns what the file has of the read that follows this many reads later.
fn moved_by_steps(read: &[Range<u64>], distance: i64, steps: u64, file_bytes: u64) -> Vec<Range<u64>> {
    let Some(distance) = distance.checked_mul(steps as i64) else { return Vec::new() };
    let within = |range: Range<u64>| range.start..range.end.min(file_bytes);
    let ranges = read.iter().filter_map(|range| moved(range, distance)).map(within);
    ranges.filter(|range| !range.is_empty()).collect()
}

fn moved(range: &Range<u64>, distance: i64) -> Option<Range<u64>> {
    Some(range.start.checked_add_signed(distance)?..range.end.checked_add_signed(distance)?)
}

fn bytes_of(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    fn far() -> Conditions {
        Conditions { round_trip_s: 0.18, bytes_per_s: None, file_bytes: 1 << 40, room_bytes: MAX_PROCESS_BYTES }
    }

    fn one(range: Range<u64>) -> Vec<Range<u64>> {
        std::iter::once(range).collect()
    }

    /// One read, with what is asked for ahead of the next.
    fn asked(reads: &mut ReadAhead, range: Range<u64>, waits: bool, conditions: &Conditions) -> Vec<Range<u64>> {
        reads.read(&one(range));
        if waits {
            reads.waits();
        }
        reads.ahead(conditions)
    }

    fn note(reads: &mut ReadAhead, all: impl Iterator<Item = Vec<Range<u64>>>) {
        all.for_each(|ranges| {
            reads.read(&ranges);
        });
    }

    fn bytes_asked(reads: &mut ReadAhead, range: Range<u64>, waits: bool, conditions: &Conditions) -> u64 {
        bytes_of(&asked(reads, range, waits, conditions))
    }

    #[test]
    fn the_second_of_two_adjacent_reads_asks_ahead() {
        let mut reads = ReadAhead::default();
        assert_eq!(asked(&mut reads, 0..100, true, &far()), []);
        assert_eq!(asked(&mut reads, 100..250, true, &far()), one(250..250 + MIN_WINDOW_BYTES));
        assert!(!reads.read(&one(5000..5100)), "elsewhere");
        assert_eq!(reads.ahead(&far()), []);
    }

    #[test]
    fn reads_at_random_ask_nothing_ahead() {
        let mut random = random::Random::new(7);
        let mut reads = ReadAhead::default();
        for _ in 0..10_000 {
            let start = random.below(1 << 30) * 512;
            assert_eq!(asked(&mut reads, start..start + 4 * KIB, true, &far()), []);
        }
    }

    /// Reads a file piece by piece; returns the largest number of bytes that were asked for ahead of it.
    fn most_ahead(piece: u64, waits: bool, conditions: &Conditions) -> u64 {
        let (mut reads, mut end, mut most) = (ReadAhead::default(), 0, 0);
        for number in 0..2000 {
            let read = number * piece..(number + 1) * piece;
            if let Some(range) = asked(&mut reads, read.clone(), waits, conditions).first() {
                assert!(end == 0 || range.start == end.max(read.end), "{range:?} is asked for behind {end}");
                end = range.end;
                most = most.max(end - read.end);
            }
        }
        most
    }

    #[test]
    fn a_window_grows_only_while_the_program_waits_and_never_beyond_its_limit() {
        assert_eq!(most_ahead(64 * KIB, true, &far()), MAX_FILE_BYTES);
        assert_eq!(most_ahead(MIB, true, &far()), MAX_FILE_BYTES);
        assert_eq!(most_ahead(64 * KIB, false, &far()), MIN_WINDOW_BYTES);
        assert_eq!(most_ahead(100 * MIB, true, &far()), MAX_FILE_BYTES);
    }

    #[test]
    fn a_measured_rate_bounds_the_window_in_time() {
        let at = |rate: f64| most_ahead(64 * KIB, true, &Conditions { bytes_per_s: Some(rate), ..far() });
        assert_eq!(at(1e3), MIN_WINDOW_BYTES);
        assert_eq!(at(1e6) / 1000, 1359, "what comes within a second and two round trips");
        assert_eq!(at(1e9), MAX_FILE_BYTES);
    }

    #[test]
    fn nothing_is_asked_for_behind_the_end_of_the_file_or_twice() {
        let conditions = Conditions { file_bytes: 10 * MIB, ..far() };
        let (mut reads, mut ahead_bytes) = (ReadAhead::default(), 0);
        for number in 0..10 {
            ahead_bytes += bytes_asked(&mut reads, number * MIB..(number + 1) * MIB, true, &conditions);
        }
        assert_eq!(ahead_bytes, 8 * MIB, "all but the first two reads");
        // The file grew behind the program's back.
        let grown = Conditions { file_bytes: 20 * MIB, ..far() };
        assert_eq!(asked(&mut reads, 10 * MIB..11 * MIB, true, &grown)[0].start, 11 * MIB);
    }

    #[test]
    fn no_more_is_asked_for_than_there_is_memory() {
        let mut reads = ReadAhead::default();
        let conditions = Conditions { room_bytes: 100 * KIB, ..far() };
        asked(&mut reads, 0..MIB, true, &conditions);
        assert_eq!(bytes_asked(&mut reads, MIB..2 * MIB, true, &conditions), 100 * KIB);
        let full = Conditions { room_bytes: 0, ..far() };
        assert_eq!(bytes_asked(&mut reads, 2 * MIB..3 * MIB, true, &full), 0);
    }

    #[test]
    fn reads_that_move_by_the_same_distance_ask_for_the_next_of_them() {
        for distance in [4 * MIB as i64, -4 * MIB as i64] {
            let mut reads = ReadAhead::default();
            let read = |number: i64| (512 * MIB).checked_add_signed(number * distance).unwrap();
            let range = |number| read(number)..read(number) + MIB;
            assert_eq!(asked(&mut reads, range(0), true, &far()), []);
            assert_eq!(asked(&mut reads, range(1), true, &far()), [], "one move may be any");
            assert_eq!(asked(&mut reads, range(2), true, &far()), [range(3), range(4)]);
            assert_eq!(asked(&mut reads, range(3), true, &far()), [range(5), range(6), range(7)]);
            assert_eq!(asked(&mut reads, range(4), false, &far()), [range(8)]);
        }
    }

    #[test]
    fn interleaved_ranges_move_together() {
        let view = |number: u64| -> Vec<Range<u64>> {
            (0..4).map(|at| (number * 16 + at * 4) * 64 * KIB).map(|start| start..start + 64 * KIB).collect()
        };
        let mut reads = ReadAhead::default();
        note(&mut reads, (0..3).map(view));
        assert_eq!(reads.ahead(&far()), [view(3), view(4)].concat());
        let shorter: Vec<_> = view(3).into_iter().map(|range| range.start..range.end - 1).collect();
        assert!(!reads.read(&shorter));
    }

    #[test]
    fn strided_reads_end_where_the_file_does() {
        let conditions = Conditions { file_bytes: 13 * MIB + 5, ..far() };
        let mut reads = ReadAhead::default();
        let read = |number: u64| 4 * number * MIB..(4 * number + 2) * MIB;
        note(&mut reads, (0..3).map(|number| one(read(number))));
        assert_eq!(reads.ahead(&conditions), one(12 * MIB..13 * MIB + 5));
        let mut back = ReadAhead::default();
        note(&mut back, (0..3).rev().map(|number| one(read(number))));
        assert_eq!(back.ahead(&conditions), [], "nothing lies before the beginning");
    }

    #[test]
    fn ranges_that_are_too_short_or_overlap_are_left_alone() {
        let cells = |number: u64| -> Vec<Range<u64>> {
            (0..100).map(|at| number * 65536 + at * 400).map(|start| start..start + 40).collect()
        };
        let mut reads = ReadAhead::default();
        note(&mut reads, (0..5).map(cells));
        assert_eq!(reads.ahead(&far()), []);
        note(&mut reads, (0..5).map(|number| one(number * MIB..number * MIB + 2 * MIB)));
        assert_eq!(reads.ahead(&far()), []);
    }
}
