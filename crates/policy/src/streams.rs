//! How many streams a process opens to a node, and which of them carries the next bytes: the one that is expected to have
//! brought them first.
//!
//! Streams of one process over one path are rarely equally fast: one that lost a packet sends at half its rate for many
//! round trips. Bytes dealt out evenly then wait for the slowest stream, while the others idle. Times are the caller's
//! seconds.

/// A rate is measured over at least this time of sending (s).
const MIN_MEASURED_S: f64 = 0.25;
/// Weight of an earlier measurement beside a new one.
const KEPT_WEIGHT: f64 = 0.5;

/// Streams to a node from which an answer is soon: while one is being served the other is filled.
const NEAR_STREAMS: u32 = 2;
/// Streams under way over a far link, of all processes and to all nodes together: more start faster, and lose less of
/// their rate together when one loses a packet.
const FAR_STREAMS: u32 = 8;
/// From this time there and back on a link is far (s).
const FAR_S: f64 = 0.01;
/// A part of a read that is not divided further.
const MIN_REQUEST_BYTES: u64 = 128 << 10;

/// Returns how many streams a process opens to a node, where none is asked for: `sharers` counts the pairs of a process
/// and a node that may share the link.
pub fn count(round_trip_s: f64, sharers: u32) -> u32 {
    if round_trip_s < FAR_S { NEAR_STREAMS } else { FAR_STREAMS.div_ceil(sharers.max(1)).max(NEAR_STREAMS) }
}

/// Returns how long the requests are that a read over a far link is divided into, `max_bytes` at most: connections begin
/// slowly there, and a read that all of them bring part of is there many round trips sooner. A short read is one
/// request, and the next one goes over the connection that it has made faster.
pub fn request_bytes(read_bytes: u64, streams: usize, max_bytes: u64) -> u64 {
    if read_bytes <= MIN_REQUEST_BYTES {
        return max_bytes;
    }
    read_bytes.div_ceil(streams.max(1) as u64).next_power_of_two().clamp(MIN_REQUEST_BYTES, max_bytes)
}

/// How fast a stream brings bytes, as its receipts show, while it has something to bring.
#[derive(Clone, Debug, Default)]
pub struct StreamPace {
    bytes_per_s: Option<f64>,
    outstanding_bytes: u64,
    /// Since when bytes are counted, while some are outstanding.
    since: Option<f64>,
    counted_bytes: u64,
}

impl StreamPace {
    /// Notes bytes that the stream is to bring.
    pub fn given(&mut self, bytes: u64, now: f64) {
        self.outstanding_bytes += bytes;
        if self.since.is_none() {
            (self.since, self.counted_bytes) = (Some(now), 0);
        }
    }

    /// Notes that the node has received bytes.
    pub fn received(&mut self, bytes: u64, now: f64) {
        self.outstanding_bytes = self.outstanding_bytes.saturating_sub(bytes);
        self.counted_bytes += bytes;
        let elapsed = self.since.map_or(0.0, |since| now - since);
        if elapsed >= MIN_MEASURED_S {
            let measured = self.counted_bytes as f64 / elapsed;
            let kept = |before| KEPT_WEIGHT * before + (1.0 - KEPT_WEIGHT) * measured;
            self.bytes_per_s = Some(self.bytes_per_s.map_or(measured, kept));
            (self.since, self.counted_bytes) = (Some(now), 0);
        }
        if self.outstanding_bytes == 0 {
            self.since = None;
        }
    }

    /// Returns the rate at which it brought bytes; none before it is measured.
    pub fn bytes_per_s(&self) -> Option<f64> {
        self.bytes_per_s
    }

    /// Returns the bytes given and not received.
    pub fn outstanding_bytes(&self) -> u64 {
        self.outstanding_bytes
    }
}

/// Returns the index of the stream that is expected to have brought `bytes` more first. Without a rate for each, all
/// count as equally fast.
pub fn first(streams: &[StreamPace], bytes: u64) -> usize {
    let are_measured = streams.iter().all(|stream| stream.bytes_per_s.is_some_and(|rate| rate > 0.0));
    let rate = |stream: &StreamPace| if are_measured { stream.bytes_per_s.unwrap_or(1.0) } else { 1.0 };
    let seconds = |stream: &StreamPace| (stream.outstanding_bytes + bytes) as f64 / rate(stream);
    let order = |one: &usize, other: &usize| seconds(&streams[*one]).total_cmp(&seconds(&streams[*other]));
    (0..streams.len()).min_by(order).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_far_link_gets_more_streams_of_all_processes_together() {
        assert_eq!(count(0.0002, 1), NEAR_STREAMS);
        assert_eq!([1, 2, 3, 4, 64].map(|sharers| count(0.18, sharers)), [8, 4, 3, 2, 2]);
        assert_eq!(count(0.18, 0), FAR_STREAMS);
    }

    #[test]
    fn every_stream_brings_a_part_of_a_read_that_is_long_enough() {
        let kib = |read_kib: u64| request_bytes(read_kib << 10, 8, MIB) >> 10;
        assert_eq!([1, 64, 128].map(kib), [1024; 3], "one request");
        assert_eq!([129, 256, 1024, 2048].map(kib), [128, 128, 128, 256]);
        assert_eq!([3000, 8192, 65536].map(kib), [512, 1024, 1024]);
    }

    /// Deals `stripes` out in bursts to streams with these rates; returns when each has brought its part (s).
    fn ends(rates: &[f64], stripes: usize, window: u64) -> Vec<f64> {
        let mut paces = vec![StreamPace::default(); rates.len()];
        let (mut left, mut now, mut brought) = (stripes, 0.0, vec![0.0; rates.len()]);
        let mut ends = vec![0.0; rates.len()];
        while left > 0 || paces.iter().any(|pace| pace.outstanding_bytes() > 0) {
            let outstanding = |paces: &[StreamPace]| paces.iter().map(StreamPace::outstanding_bytes).sum::<u64>();
            while left > 0 && outstanding(&paces) + 4 * MIB <= window {
                let to = first(&paces, 4 * MIB);
                paces[to].given(4 * MIB, now);
                left -= 1;
            }
            now += 0.01;
            for (index, rate) in rates.iter().enumerate() {
                brought[index] += rate * 0.01;
                let bytes = (brought[index] as u64).min(paces[index].outstanding_bytes());
                brought[index] =
                    if paces[index].outstanding_bytes() == bytes { 0.0 } else { brought[index] - bytes as f64 };
                if bytes > 0 {
                    paces[index].received(bytes, now);
                    ends[index] = now;
                }
            }
        }
        ends
    }

    #[test]
    fn a_slow_stream_gets_less_and_all_end_together() {
        let ends = ends(&[16e6, 4e6], 64, 64 * MIB);
        let ideal = 64.0 * 4.0 * MIB as f64 / 20e6;
        let last = ends.iter().copied().fold(0.0, f64::max);
        assert!(last < 1.12 * ideal, "{ends:?}, {ideal} at best");
    }

    #[test]
    fn equal_streams_get_equal_parts() {
        let ends = ends(&[10e6, 10e6, 10e6], 60, 64 * MIB);
        assert!((ends[0] - ends[2]).abs() < 0.5, "{ends:?}");
    }

    #[test]
    fn before_anything_is_measured_the_least_burdened_is_taken() {
        let mut paces = vec![StreamPace::default(); 3];
        let dealt: Vec<usize> = (0..6)
            .map(|_| {
                let to = first(&paces, MIB);
                paces[to].given(MIB, 0.0);
                to
            })
            .collect();
        assert_eq!(dealt, [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn idle_time_is_not_measured() {
        let mut pace = StreamPace::default();
        pace.given(MIB, 0.0);
        pace.received(MIB, 1.0);
        pace.given(MIB, 100.0);
        pace.received(MIB, 101.0);
        assert_eq!(pace.bytes_per_s, Some(MIB as f64));
    }
}
