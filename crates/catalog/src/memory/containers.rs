//! The states of containers, how collection changes them, and their lost segments.
//!
//! A record describes a logical number and the file with the same number. The two part when a number is relocated: a
//! file may then hold several live numbers, and goes when it holds none and no session is left that is older than the
//! leaving of the last one.

use format::{ContainerId, Fingerprint, LostSegment, SegmentAddress, SessionId};

use super::State;
use crate::{ContainerRecord, ContainerState, Error, Result, Snapshot, Statistics};

pub(super) struct Container {
    pub record: ContainerRecord,
    /// The session that has it open.
    pub opener: Option<SessionId>,
    /// The last commit or checkpoint that refers to it.
    referral: u64,
    /// When its segments were last moved to another file.
    moved_epoch: u64,
    /// When a number last left the file of this one, condemned or moved away.
    left_epoch: u64,
    file_gone: bool,
    /// Files its segments moved away from, newest first.
    left_files: Vec<ContainerId>,
}

impl Container {
    pub fn new(record: ContainerRecord, opener: Option<SessionId>) -> Self {
        let file_gone = record.state == ContainerState::Gone;
        let left_files = Vec::new();
        Container { record, opener, referral: 0, moved_epoch: 0, left_epoch: 0, file_gone, left_files }
    }

    fn is_referable(&self) -> bool {
        matches!(self.record.state, ContainerState::Open | ContainerState::Live)
    }

    /// Returns whether a collection that began at `snapshot` may take it: nothing has referred to it since.
    fn is_untouched(&self, snapshot: Snapshot) -> bool {
        self.record.state == ContainerState::Live && self.referral <= snapshot.referral
    }
}

impl State {
    pub fn open_container(&mut self, session: SessionId) -> Result<ContainerId> {
        self.lease(session)?;
        let id = self.counters.next_container();
        let state = ContainerState::Open;
        let record = ContainerRecord { id, state, physical: id, stored_bytes: 0, segments: 0 };
        self.containers.insert(id, Container::new(record, Some(session)));
        Ok(id)
    }

    pub fn seal_container(&mut self, id: ContainerId, stored_bytes: u64, segments: u64) -> Result<()> {
        let found = self.containers.get_mut(&id).filter(|container| container.is_referable());
        let container = found.ok_or_else(|| Error::NotLive { containers: vec![id] })?;
        container.opener = None;
        container.record = ContainerRecord { state: ContainerState::Live, stored_bytes, segments, ..container.record };
        Ok(())
    }

    pub fn truncate_container(&mut self, id: ContainerId) -> Result<()> {
        let epoch = self.counters.epoch + 1;
        let found = self.containers.get_mut(&id).filter(|container| container.is_referable());
        let container = found.ok_or_else(|| Error::NotLive { containers: vec![id] })?;
        container.opener = None;
        container.record.state = ContainerState::Live;
        container.moved_epoch = epoch;
        self.counters.epoch = epoch;
        Ok(())
    }

    pub fn files_of(&self, id: ContainerId) -> Vec<ContainerId> {
        let Some(found) = self.containers.get(&id) else { return Vec::new() };
        let now = (found.record.state != ContainerState::Gone).then_some(found.record.physical);
        now.into_iter().chain(found.left_files.iter().copied()).collect()
    }

    /// Checks the references: each must be open or live, and not moved after `epoch`.
    pub fn check_references(&self, references: &[ContainerId], epoch: u64) -> Result<()> {
        let good = |id: &ContainerId| {
            self.containers.get(id).is_some_and(|found| found.is_referable() && found.moved_epoch <= epoch)
        };
        let mut containers: Vec<_> = references.iter().filter(|id| !good(id)).copied().collect();
        containers.sort();
        containers.dedup();
        if containers.is_empty() { Ok(()) } else { Err(Error::NotLive { containers }) }
    }

    pub fn mark_referred(&mut self, references: &[ContainerId], referral: u64) {
        for id in references {
            if let Some(container) = self.containers.get_mut(id) {
                container.referral = referral;
            }
        }
    }

    pub fn condemn(&mut self, snapshot: Snapshot, containers: &[ContainerId]) -> Vec<ContainerId> {
        let mut condemned = Vec::new();
        let epoch = self.counters.epoch + 1;
        for id in containers {
            let Some(container) = self.containers.get_mut(id).filter(|found| found.is_untouched(snapshot)) else {
                continue;
            };
            container.record.state = ContainerState::Condemned;
            let physical = container.record.physical;
            self.leave_file(physical, epoch);
            condemned.push(*id);
        }
        self.raise_epoch(epoch, &condemned);
        condemned
    }

    pub fn relocate(&mut self, snapshot: Snapshot, moves: &[(ContainerId, ContainerId)]) -> Result<Vec<ContainerId>> {
        self.check_targets(moves)?;
        let mut moved = Vec::new();
        let epoch = self.counters.epoch + 1;
        for (logical, physical) in moves {
            let movable = |found: &&mut Container| found.is_untouched(snapshot) && found.record.physical != *physical;
            let Some(container) = self.containers.get_mut(logical).filter(movable) else {
                continue;
            };
            let former = std::mem::replace(&mut container.record.physical, *physical);
            container.moved_epoch = epoch;
            container.left_files.retain(|file| *file != former);
            container.left_files.insert(0, former);
            self.leave_file(former, epoch);
            self.lost.retain(|(lost, _), _| lost != logical);
            moved.push(*logical);
        }
        self.raise_epoch(epoch, &moved);
        Ok(moved)
    }

    /// Checks that segments move only into files that a container of their own number still claims: others may be
    /// deleted any moment.
    fn check_targets(&self, moves: &[(ContainerId, ContainerId)]) -> Result<()> {
        let claimed = |id: &ContainerId| {
            self.containers.get(id).is_some_and(|found| found.is_referable() && found.record.physical == *id)
        };
        let mut containers: Vec<_> = moves.iter().map(|(_, physical)| *physical).filter(|id| !claimed(id)).collect();
        containers.sort();
        containers.dedup();
        if containers.is_empty() { Ok(()) } else { Err(Error::NotLive { containers }) }
    }

    fn leave_file(&mut self, physical: ContainerId, epoch: u64) {
        if let Some(file) = self.containers.get_mut(&physical) {
            file.left_epoch = epoch;
        }
    }

    fn raise_epoch(&mut self, epoch: u64, changed: &[ContainerId]) {
        if !changed.is_empty() {
            self.counters.epoch = epoch;
        }
    }

    fn bears_live(&self, file: ContainerId) -> bool {
        self.containers.values().any(|container| container.is_referable() && container.record.physical == file)
    }

    pub fn deletable(&self) -> Vec<ContainerId> {
        let oldest = self.sessions.values().map(|lease| lease.epoch).min().unwrap_or(u64::MAX);
        let candidates = self.containers.iter().filter(|(_, file)| !file.file_gone && file.left_epoch <= oldest);
        candidates.map(|(id, _)| *id).filter(|id| !self.bears_live(*id)).collect()
    }

    pub fn deleted(&mut self, files: &[ContainerId]) {
        for id in files {
            if self.bears_live(*id) {
                continue;
            }
            if let Some(file) = self.containers.get_mut(id) {
                file.file_gone = true;
            }
            for (logical, container) in &mut self.containers {
                container.left_files.retain(|file| file != id);
                if container.record.physical == *id {
                    container.record.state = ContainerState::Gone;
                    self.lost.retain(|(lost, _), _| lost != logical);
                }
            }
        }
    }

    pub fn count_containers(&self, statistics: &mut Statistics) {
        for (id, file) in self.containers.iter().filter(|(_, file)| !file.file_gone) {
            let bears_live = self.bears_live(*id);
            statistics.live_containers += bears_live as u64;
            statistics.condemned_containers += !bears_live as u64;
            statistics.container_bytes = statistics.container_bytes.saturating_add(file.record.stored_bytes);
            statistics.container_segments = statistics.container_segments.saturating_add(file.record.segments);
        }
    }
}

impl State {
    pub fn lose(&mut self, lost: &[(SegmentAddress, Fingerprint)]) {
        for (address, fingerprint) in lost {
            let lost = LostSegment { address: *address, fingerprint: *fingerprint, copy: None };
            self.lost.entry((address.container, address.ordinal)).or_insert(lost);
        }
    }

    pub fn heal(&mut self, session: SessionId, epoch: u64, healed: &[(LostSegment, SegmentAddress)]) -> Result<()> {
        let epoch = self.lease(session)?.epoch.min(epoch);
        let copies: Vec<_> = healed.iter().map(|(_, copy)| copy.container).collect();
        self.check_references(&copies, epoch)?;
        let referral = self.counters.next_referral();
        self.mark_referred(&copies, referral);
        for (lost, copy) in healed {
            let key = (lost.address.container, lost.address.ordinal);
            self.lost.insert(key, LostSegment { copy: Some(*copy), ..*lost });
        }
        Ok(())
    }
}
