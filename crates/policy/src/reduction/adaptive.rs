//! Where to reduce, decided again while a program writes: the model of this module's parent, fed with what frames cost.
//!
//! While the node reduces, a frame now and then goes the client's way, which shows how many of its segments the node
//! has, how well the others compress, and how fast this machine reduces. Answers that come while more waits to
//! be sent give the rate of the link. The model may be wrong about what it cannot see (a node that waits for its disk
//! looks like a slow link), so a move to the client is kept only while it carries the program's bytes faster than
//! before. Times are the caller's seconds.

use super::{Choice, Conditions, End, choose};

/// While the node reduces, one frame in this many is reduced at the client, which is 3 % of the work, and one after this
/// time, which is less where the link is slow (s).
const PROBE_FRAMES: u64 = 32;
const PROBE_INTERVAL_S: f64 = 0.25;
/// An end is judged when frames have kept the link full for this long since the move to it, and the model must prefer
/// the client for this long before a move (s): by then rates are those of now.
const MIN_EVIDENCE_S: f64 = 0.5;
/// Part of earlier frames' weight that is left when another one is measured: of rates some eight frames count, of
/// probes, which are rare, four.
const KEPT_WEIGHT_OF_RATES: f64 = 1.0 - 1.0 / 8.0;
const KEPT_WEIGHT_OF_PROBES: f64 = 0.75;
/// Less than the model must predict before a move to the client: measured gains and predicted ones below this end it.
const MIN_KEPT_GAIN: f64 = 1.05;
/// After a move that was taken back the client is not tried for this long (s); doubles up to the maximum.
const FIRST_PAUSE_S: f64 = 10.0;
const MAX_PAUSE_S: f64 = 320.0;
/// While the client's reducing takes most of the time, and so hides how fast the link is, the node is tried this often (s).
const TRIAL_INTERVAL_S: f64 = 30.0;
const MIN_LIMITING_SHARE: f64 = 0.5;

/// A frame that the node has received.
#[derive(Clone, Copy, Debug)]
pub struct Receipt {
    /// The end that reduced it.
    pub end: End,
    /// The program's bytes in it.
    pub bytes: u64,
    /// The bytes that travelled for it.
    pub wire_bytes: u64,
    /// More was on its way: the link, or the node, decides how long it takes.
    pub is_link_busy: bool,
}

/// Decides for each frame at which end its segments are reduced.
#[derive(Clone, Debug)]
pub struct Adaptive {
    choice: Choice,
    conditions: Conditions,
    end: End,
    /// Frames since the last probe, and when it was.
    frames: u64,
    probed_at: Option<f64>,
    fingerprinting: Quotient,
    encoding: Quotient,
    missing: Quotient,
    encoded: Quotient,
    since_move: Evidence,
    /// The program's rate before the move to the client that is being judged.
    rate_before: Option<f64>,
    moved_at: f64,
    /// Since when the model prefers the client, while the node reduces.
    client_preferred_since: Option<f64>,
    client_not_before: f64,
    pause_s: f64,
}

impl Adaptive {
    /// Makes the decision of a process; `conditions` are what is known before its first frame.
    pub fn new(choice: Choice, conditions: Conditions) -> Self {
        Adaptive {
            choice,
            conditions,
            end: choose(choice, &conditions),
            frames: 0,
            probed_at: None,
            fingerprinting: Quotient::default(),
            encoding: Quotient::default(),
            missing: Quotient::default(),
            encoded: Quotient::default(),
            since_move: Evidence::default(),
            rate_before: None,
            moved_at: 0.0,
            client_preferred_since: None,
            client_not_before: 0.0,
            pause_s: FIRST_PAUSE_S,
        }
    }

    /// Makes the decision of a user who has chosen the end.
    pub fn fixed(end: End) -> Self {
        let choice = match end {
            End::Node => Choice::Node,
            End::Client => Choice::Client,
        };
        Adaptive::new(choice, Conditions::UNKNOWN)
    }

    /// Returns whether frames can ever be reduced at the client.
    pub fn may_use_client(&self) -> bool {
        self.choice != Choice::Node
    }

    /// Returns the end that reduces now.
    pub fn end(&self) -> End {
        self.end
    }

    /// Returns the end that reduces the next frame, which begins at `now`.
    pub fn next_frame(&mut self, now: f64) -> End {
        if self.choice != Choice::Auto || self.end == End::Client {
            return self.end;
        }
        self.frames += 1;
        let is_due = self.probed_at.is_none_or(|before| now >= before + PROBE_INTERVAL_S);
        if !is_due && self.frames < PROBE_FRAMES {
            return End::Node;
        }
        (self.frames, self.probed_at) = (0, Some(now));
        End::Client
    }

    /// Notes the time in which a thread of the client fingerprinted bytes.
    pub fn fingerprinted(&mut self, bytes: u64, seconds: f64) {
        self.fingerprinting.add(bytes as f64, seconds, KEPT_WEIGHT_OF_PROBES);
        self.fingerprinting.value().inspect(|rate| self.conditions.fingerprint_bytes_per_s = *rate);
    }

    /// Notes that the node was missing some of the segments that were offered.
    pub fn offered(&mut self, segments: u64, missing: u64) {
        self.missing.add(missing.min(segments) as f64, segments as f64, KEPT_WEIGHT_OF_PROBES);
        self.missing.value().inspect(|share| self.conditions.duplicate_share = 1.0 - share);
    }

    /// Notes the time and the result of encoding segments.
    pub fn encoded(&mut self, bytes: u64, encoded_bytes: u64, seconds: f64) {
        self.encoding.add(bytes as f64, seconds, KEPT_WEIGHT_OF_PROBES);
        self.encoded.add(encoded_bytes as f64, bytes as f64, KEPT_WEIGHT_OF_PROBES);
        self.encoding.value().inspect(|rate| self.conditions.encode_bytes_per_s = *rate);
        self.encoded.value().inspect(|share| self.conditions.encoded_share = share.min(1.0));
    }

    /// Notes a received frame, and decides.
    pub fn received(&mut self, receipt: &Receipt, now: f64) {
        self.since_move.add(receipt, self.end, now);
        self.learn_link();
        if self.choice == Choice::Auto && self.since_move.is_enough() {
            self.review(now);
        }
    }

    /// While the node reduces, the link carries the program's bytes as they are. Where the client's reducing takes most of the
    /// time, what it leaves may not fill the link and shows no more than a lower bound.
    fn learn_link(&mut self) {
        if !self.since_move.is_enough() {
            return;
        }
        let carried = self.since_move.wire_rate();
        self.conditions.link_bytes_per_s = match self.end {
            End::Client if self.is_limited_by_reducing() => self.conditions.link_bytes_per_s.max(carried),
            _ => carried,
        };
    }

    fn is_limited_by_reducing(&self) -> bool {
        self.since_move.program_rate() * self.conditions.reducing_seconds() > MIN_LIMITING_SHARE
    }

    fn review(&mut self, now: f64) {
        match self.end {
            End::Node => {
                if self.should_try_the_client(now) {
                    self.rate_before = Some(self.since_move.program_rate());
                    self.go(End::Client, now);
                }
            }
            End::Client => {
                if self.has_gained_too_little() {
                    self.client_not_before = now + self.pause_s;
                    self.pause_s = (2.0 * self.pause_s).min(MAX_PAUSE_S);
                    self.go(End::Node, now);
                } else if self.promises_too_little() || self.should_try_the_node(now) {
                    self.go(End::Node, now);
                }
            }
        }
    }

    fn should_try_the_client(&mut self, now: f64) -> bool {
        if now < self.client_not_before || choose(Choice::Auto, &self.conditions) == End::Node {
            self.client_preferred_since = None;
            return false;
        }
        now >= *self.client_preferred_since.get_or_insert(now) + MIN_EVIDENCE_S
    }

    /// Judges the last move to the client once; a good one ends the memory of bad ones.
    fn has_gained_too_little(&mut self) -> bool {
        let Some(before) = self.rate_before.take() else { return false };
        let is_too_little = self.since_move.program_rate() < MIN_KEPT_GAIN * before;
        if !is_too_little {
            self.pause_s = FIRST_PAUSE_S;
        }
        is_too_little
    }

    fn promises_too_little(&self) -> bool {
        self.conditions.node_seconds() < MIN_KEPT_GAIN * self.conditions.client_seconds()
    }

    fn should_try_the_node(&self, now: f64) -> bool {
        self.is_limited_by_reducing() && now >= self.moved_at + TRIAL_INTERVAL_S
    }

    fn go(&mut self, end: End, now: f64) {
        (self.end, self.moved_at) = (end, now);
        (self.since_move, self.client_preferred_since) = (Evidence::default(), None);
    }
}

/// The measurements of received frames since a move.
#[derive(Clone, Copy, Debug, Default)]
struct Evidence {
    program: Quotient,
    wire: Quotient,
    seconds: f64,
    /// When the last frame of the end was received, if the link has been full since.
    last: Option<f64>,
}

impl Evidence {
    fn add(&mut self, receipt: &Receipt, end: End, now: f64) {
        if receipt.end != end || !receipt.is_link_busy {
            self.last = None;
            return;
        }
        if let Some(last) = self.last.replace(now) {
            self.program.add(receipt.bytes as f64, now - last, KEPT_WEIGHT_OF_RATES);
            self.wire.add(receipt.wire_bytes as f64, now - last, KEPT_WEIGHT_OF_RATES);
            self.seconds += now - last;
        }
    }

    fn is_enough(&self) -> bool {
        self.seconds >= MIN_EVIDENCE_S
    }

    fn program_rate(&self) -> f64 {
        self.program.value().unwrap_or_default()
    }

    /// Returns the bytes a second on the wire; above zero, since the model divides by it.
    fn wire_rate(&self) -> f64 {
        self.wire.value().unwrap_or_default().max(1.0)
    }
}

/// A quotient of sums in which late frames weigh more than early ones.
#[derive(Clone, Copy, Debug, Default)]
struct Quotient {
    above: f64,
    below: f64,
}

impl Quotient {
    fn add(&mut self, above: f64, below: f64, kept_weight: f64) {
        self.above = self.above * kept_weight + above;
        self.below = self.below * kept_weight + below;
    }

    fn value(&self) -> Option<f64> {
        (self.below > 0.0).then(|| self.above / self.below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link, a machine and data, as a program meets them.
    #[derive(Clone, Copy, Debug)]
    struct World {
        link_bytes_per_s: f64,
        duplicate_share: f64,
        encoded_share: f64,
        /// Rate at which the node's disk takes encoded new bytes.
        disk_bytes_per_s: f64,
    }

    const FRAME: u64 = 1 << 20;
    const SLOW_AND_UNIQUE: World =
        World { link_bytes_per_s: 25e6, duplicate_share: 0.0, encoded_share: 1.0, disk_bytes_per_s: 1e12 };

    /// Before the first frame: what `--reduce auto` assumes of data, and a link that was measured.
    fn beginning(link_bytes_per_s: f64) -> Adaptive {
        let (client_cores_idle, node_cores) = (1.0, 4.0);
        Adaptive::new(
            Choice::Auto,
            Conditions { link_bytes_per_s, client_cores_idle, node_cores, ..Conditions::UNKNOWN },
        )
    }

    /// Writes for some seconds as fast as the world lets it; returns the time and the part of the frames that the
    /// client reduced.
    fn write(adaptive: &mut Adaptive, world: &World, from: f64, seconds: f64) -> (f64, f64) {
        let (mut now, mut frames, mut by_client) = (from, 0.0, 0.0);
        while now < from + seconds {
            let end = adaptive.next_frame(now);
            let new_share = 1.0 - world.duplicate_share;
            let encoded = (FRAME as f64 * new_share * world.encoded_share) as u64;
            let wire_bytes = if end == End::Client { encoded + 4096 } else { FRAME };
            let mut cost = wire_bytes as f64 / world.link_bytes_per_s;
            cost = cost.max(encoded as f64 / world.disk_bytes_per_s);
            if end == End::Client {
                adaptive.fingerprinted(FRAME, FRAME as f64 / 2e9);
                adaptive.offered(128, (128.0 * new_share) as u64);
                let new = (FRAME as f64 * new_share) as u64;
                if new > 0 {
                    adaptive.encoded(new, encoded, new as f64 / 500e6);
                }
                cost = cost.max(FRAME as f64 / 2e9 + new as f64 / 500e6);
                by_client += 1.0;
            }
            (now, frames) = (now + cost, frames + 1.0);
            adaptive.received(&Receipt { end, bytes: FRAME, wire_bytes, is_link_busy: true }, now);
        }
        (now, by_client / frames)
    }

    #[test]
    fn a_slow_link_is_spared_once_duplicates_show_and_left_when_they_end() {
        let mut adaptive = beginning(25e6);
        let (now, _) = write(&mut adaptive, &SLOW_AND_UNIQUE, 0.0, 10.0);
        assert_eq!(adaptive.end(), End::Node, "nothing is gained on unique bytes that do not compress");
        let many = World { duplicate_share: 0.75, ..SLOW_AND_UNIQUE };
        let (now, _) = write(&mut adaptive, &many, now, 10.0);
        assert_eq!(adaptive.end(), End::Client);
        let (_, share) = write(&mut adaptive, &SLOW_AND_UNIQUE, now, 20.0);
        assert_eq!(adaptive.end(), End::Node);
        assert!(share < 0.2, "{share}");
    }

    #[test]
    fn over_a_far_link_the_first_bytes_are_spared_too() {
        // As it is assumed; the link is slower, and the ranks leave no core idle.
        let far = Conditions { link_bytes_per_s: 60e6, node_cores: 2.0, node_clients: 2.0, ..Conditions::UNKNOWN };
        for (data, at_client) in [
            (World { duplicate_share: 1.0, ..SLOW_AND_UNIQUE }, 1.0),
            (World { encoded_share: 0.2, ..SLOW_AND_UNIQUE }, 1.0),
            // Half a second, and then one frame in a quarter of one.
            (SLOW_AND_UNIQUE, 0.25),
        ] {
            let mut adaptive = Adaptive::new(Choice::Auto, far);
            let (_, share) = write(&mut adaptive, &data, 0.0, 10.0);
            assert!(share == at_client || at_client < 1.0 && share < at_client, "{share} of {data:?}");
        }
    }

    #[test]
    fn a_link_that_becomes_slow_or_fast_moves_the_work() {
        let half = World { link_bytes_per_s: 5e9, duplicate_share: 0.5, encoded_share: 0.6, ..SLOW_AND_UNIQUE };
        let mut adaptive = beginning(5e9);
        let (now, share) = write(&mut adaptive, &half, 0.0, 5.0);
        assert_eq!(adaptive.end(), End::Node);
        assert!(share < 0.05, "{share}");
        let slow = World { link_bytes_per_s: 25e6, ..half };
        let (now, _) = write(&mut adaptive, &slow, now, 10.0);
        assert_eq!(adaptive.end(), End::Client);
        write(&mut adaptive, &half, now, 2.0 * TRIAL_INTERVAL_S);
        assert_eq!(adaptive.end(), End::Node);
    }

    #[test]
    fn a_disk_that_looks_like_a_slow_link_is_found_out() {
        let world = World { link_bytes_per_s: 5e9, encoded_share: 0.5, disk_bytes_per_s: 20e6, ..SLOW_AND_UNIQUE };
        let mut adaptive = beginning(5e9);
        let (_, share) = write(&mut adaptive, &world, 0.0, 120.0);
        assert!(share < 0.2, "{share} of the frames cost the client's cores and gained nothing");
    }

    #[test]
    fn what_the_user_chose_stays() {
        for end in [End::Client, End::Node] {
            let mut adaptive = Adaptive::fixed(end);
            write(&mut adaptive, &World { link_bytes_per_s: 5e9, ..SLOW_AND_UNIQUE }, 0.0, 40.0);
            assert_eq!((adaptive.end(), adaptive.next_frame(40.0)), (end, end));
        }
    }

    #[test]
    fn a_program_that_leaves_the_link_idle_shows_nothing_of_it() {
        let mut adaptive = beginning(5e9);
        for step in 0..10_000 {
            let receipt = Receipt { end: End::Node, bytes: FRAME, wire_bytes: FRAME, is_link_busy: false };
            adaptive.received(&receipt, step as f64);
        }
        assert_eq!((adaptive.end(), adaptive.conditions.link_bytes_per_s), (End::Node, 5e9));
    }
}
