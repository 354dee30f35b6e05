//! Which segments are stored: own newest ones and claims first, then the indexes hit last, then the table, whose hints
//! count only when a container's index confirms them and the catalog calls it live.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use format::{Fingerprint, SegmentAddress};

use super::Shared;
use super::containers::{Confirmed, Referable, bring_forward};
use super::damage::Lost;
use crate::guard::{lock, wait_timeout};
use crate::{Answer, ClaimOwner, Result};

/// How long another claim owner's claim is honoured: a client that has stopped must not block all others with the same
/// data. Beyond, the segment is sent, and stored, twice.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(2);

/// How a wait for others' claims ended.
enum WaitOutcome {
    /// The claim owner itself holds all of them.
    AllOwn,
    /// No other claim owner holds any.
    Resolved,
    TimedOut,
}

impl Shared {
    pub fn missing(&self, claim_owner: ClaimOwner, fingerprints: &[Fingerprint]) -> Result<Vec<Answer>> {
        self.alive()?;
        let mut answers: Vec<Option<Answer>> = Vec::with_capacity(fingerprints.len());
        self.forget_unreferable_newest()?;
        let mut publications = {
            let claims = lock(&self.claims);
            answers.extend(fingerprints.iter().map(|fingerprint| claims.answer(fingerprint)));
            claims.publications()
        };
        loop {
            let open: Vec<usize> = (0..answers.len()).filter(|&at| answers[at].is_none()).collect();
            let addresses = self.stored(open.iter().map(|&at| &fingerprints[at]))?;
            let mut claims = lock(&self.claims);
            let missed_some = claims.publications() != publications;
            publications = claims.publications();
            for (at, address) in open.into_iter().zip(addresses) {
                let fingerprint = &fingerprints[at];
                answers[at] = address.map(Answer::Have).or_else(|| claims.answer(fingerprint));
                if answers[at].is_none() && !missed_some {
                    claims.claim(*fingerprint, claim_owner);
                    answers[at] = Some(Answer::Send);
                }
            }
            if !missed_some {
                break;
            }
        }
        let answers: Vec<Answer> = answers.into_iter().flatten().collect();
        self.note_answers(fingerprints, &answers);
        let found = answers.iter().filter(|answer| matches!(answer, Answer::Have(_))).count();
        self.counts.duplicates_found.fetch_add(found as u64, Ordering::Relaxed);
        Ok(answers)
    }

    pub fn await_claims(&self, claim_owner: ClaimOwner, fingerprints: &[Fingerprint]) -> Result<Vec<Answer>> {
        let mut answers = self.missing(claim_owner, fingerprints)?;
        loop {
            let awaited: Vec<usize> = (0..answers.len()).filter(|&at| answers[at] == Answer::Claimed).collect();
            let again: Vec<Fingerprint> = awaited.iter().map(|&at| fingerprints[at]).collect();
            match self.wait_for_others(claim_owner, &again)? {
                WaitOutcome::AllOwn => return Ok(answers),
                WaitOutcome::TimedOut => self.take_over(claim_owner, &again),
                WaitOutcome::Resolved => {}
            }
            // No other claim owner held these a moment ago; what is not stored becomes this one's to send.
            for (at, answer) in awaited.into_iter().zip(self.missing(claim_owner, &again)?) {
                answers[at] = answer;
            }
        }
    }

    /// Forgets newest segments that may not be referred to. This process's last segments are known without the table,
    /// but a sealed container may be condemned or rewritten before it is published, and one of an expired lease at any
    /// time.
    fn forget_unreferable_newest(&self) -> Result<()> {
        let newest = lock(&self.claims).newest_containers();
        for container in newest {
            if self.containers.referable(container)? != Referable::In(container) {
                lock(&self.claims).forget(container);
            }
        }
        Ok(())
    }

    /// Waits until no other claim owner holds these claims, or for too long.
    fn wait_for_others(&self, claim_owner: ClaimOwner, fingerprints: &[Fingerprint]) -> Result<WaitOutcome> {
        let deadline = Instant::now() + CLAIM_TIMEOUT;
        let mut claims = lock(&self.claims);
        while fingerprints.iter().any(|fingerprint| claims.is_claimed_by_other(fingerprint, claim_owner)) {
            self.alive()?;
            let Some(left) = deadline.checked_duration_since(Instant::now()) else { return Ok(WaitOutcome::TimedOut) };
            claims = wait_timeout(&self.resolved, claims, left).0;
        }
        let own = fingerprints.iter().all(|fingerprint| claims.is_claimed_by(fingerprint, claim_owner));
        Ok(if own { WaitOutcome::AllOwn } else { WaitOutcome::Resolved })
    }

    /// Drops others' claims on these, so that the next look-up answers `Send`.
    fn take_over(&self, claim_owner: ClaimOwner, fingerprints: &[Fingerprint]) {
        let mut claims = lock(&self.claims);
        fingerprints.iter().for_each(|fingerprint| claims.release_from_others(fingerprint, claim_owner));
        drop(claims);
        self.resolved.notify_all();
    }

    /// Returns where each segment lies in a container, if the table knows one that may be referred to.
    fn stored<'a>(&self, fingerprints: impl Iterator<Item = &'a Fingerprint>) -> Result<Vec<Option<SegmentAddress>>> {
        let (runs, recent, lost) = (self.table.runs(), self.containers.recent(), self.lost()?);
        let mut search = Lookup { shared: self, runs, recent, lost };
        let before = search.recent.first().map(|index| index.container());
        let addresses = fingerprints.map(|fingerprint| search.find(fingerprint)).collect::<Result<Vec<_>>>()?;
        if let Some(last) = search.recent.first().filter(|index| Some(index.container()) != before) {
            self.containers.hit(last.clone());
        }
        Ok(addresses)
    }
}

impl Shared {
    /// Returns of each segment the lowest address that may be referred to, among those that the table knows.
    pub fn lowest_addresses(&self, fingerprints: &[Fingerprint]) -> Result<Vec<Option<SegmentAddress>>> {
        let (runs, lost) = (self.table.runs(), self.lost()?);
        let lowest = |fingerprint: &Fingerprint| {
            let mut addresses = runs.candidates(fingerprint);
            addresses.sort_unstable();
            for address in addresses.into_iter().filter(|address| !lost.contains(*address)) {
                if let Referable::In(physical) = self.containers.referable(address.container)?
                    && let Confirmed::Yes(_) = self.containers.confirm(physical, address, fingerprint)
                {
                    return Ok(Some(address));
                }
            }
            Ok(None)
        };
        fingerprints.iter().map(lowest).collect()
    }
}

/// One batch of look-ups.
struct Lookup<'a> {
    shared: &'a Shared,
    runs: crate::table::Runs,
    recent: Vec<std::sync::Arc<crate::container::ContainerIndex>>,
    lost: std::sync::Arc<Lost>,
}

impl Lookup<'_> {
    fn find(&mut self, fingerprint: &Fingerprint) -> Result<Option<SegmentAddress>> {
        // Where something is lost, all addresses are checked: the last hit would hide the one to be healed.
        if self.lost.is_empty()
            && let Some(address) = self.find_recent(fingerprint)?
        {
            return Ok(Some(address));
        }
        self.lost.wanted(fingerprint).iter().for_each(|address| self.shared.damage.seek(fingerprint, *address));
        let mut found = None;
        for address in self.runs.candidates(fingerprint) {
            let confirmed = match self.shared.containers.referable(address.container)? {
                Referable::In(physical) => self.shared.containers.confirm(physical, address, fingerprint),
                Referable::Missing => Confirmed::Unreadable,
                Referable::No => Confirmed::No,
            };
            match confirmed {
                Confirmed::No => {}
                Confirmed::Unreadable => self.seek(fingerprint, address),
                Confirmed::Yes(_) if self.lost.contains(address) => self.seek(fingerprint, address),
                Confirmed::Yes(index) => {
                    bring_forward(&mut self.recent, index);
                    found.get_or_insert(address);
                }
            }
            // Where something is lost, all addresses count: a copy found at one heals the others.
            if found.is_some() && self.lost.is_empty() {
                break;
            }
        }
        if found.is_none() && !self.lost.is_empty() {
            return self.find_recent(fingerprint);
        }
        Ok(found)
    }

    /// Handles an address that is lost, or cannot be checked: its content is wanted, unless it has a copy already.
    fn seek(&self, fingerprint: &Fingerprint, address: SegmentAddress) {
        let copy = self.lost.copy_of(address);
        if copy.is_none_or(|copy| self.lost.contains(copy)) {
            self.shared.damage.seek(fingerprint, address);
        }
    }

    fn find_recent(&mut self, fingerprint: &Fingerprint) -> Result<Option<SegmentAddress>> {
        for at in 0..self.recent.len() {
            let index = &self.recent[at];
            // Another process may still be writing there: only durable segments count.
            let Some(segment) = index.find(fingerprint).filter(|&segment| segment < index.durable_segments()) else {
                continue;
            };
            let address = index.address_of(segment);
            let referable = self.shared.containers.referable(address.container)?;
            if referable == Referable::In(index.container()) && !self.lost.contains(address) {
                self.recent[..=at].rotate_right(1);
                return Ok(Some(address));
            }
        }
        Ok(None)
    }
}
