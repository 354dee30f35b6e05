//! What changes of names mean for sessions whose path is open (`docs/decisions/0092`): the one decision every engine
//! makes with a commit, without I/O.

use format::{Change, FileKind, SessionId, StorePath};

use crate::PathState;

/// An open path, as far as changes concern it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenName {
    pub session: SessionId,
    pub path: StorePath,
    pub state: PathState,
    /// Its programs live. Of an interrupted session's path a removal leaves the checkpoints, for `thalweg recover`.
    pub is_live: bool,
}

/// Returns the sessions whose path or state the changes alter, as they are afterwards. `own` are those whose checkpoints
/// the commit takes.
pub(crate) fn altered(open: Vec<OpenName>, changes: &[Change], own: &[SessionId]) -> Vec<OpenName> {
    let after = |before: OpenName| {
        let is_own = own.contains(&before.session);
        let after = changes.iter().fold(before.clone(), |name, change| name.after(change, is_own));
        (after != before).then_some(after)
    };
    open.into_iter().filter_map(after).collect()
}

impl OpenName {
    fn after(mut self, change: &Change, is_own: bool) -> Self {
        if self.state == PathState::Removed {
            return self;
        }
        match change {
            Change::Write { path, .. } | Change::Link { path, .. } if *path == self.path && !is_own => self.supersede(),
            Change::Make { path, attributes } if *path == self.path && attributes.kind != FileKind::Directory => {
                self.supersede();
            }
            Change::Remove { path, .. } if self.is_live && self.path.is_within(path) => self.state = PathState::Removed,
            Change::Rename { from, to } if from == to => {}
            Change::Rename { from, to } if self.path.is_within(from) => self.move_below(from, to),
            Change::Rename { to, .. } if *to == self.path => self.supersede(),
            _ => {}
        }
        self
    }

    fn supersede(&mut self) {
        if self.is_live {
            self.state = PathState::Superseded;
        }
    }

    /// A path that would be too long stays: the rename is refused for names that are committed.
    fn move_below(&mut self, from: &StorePath, to: &StorePath) {
        let rest = &self.path.as_bytes()[from.as_bytes().len()..];
        if let Ok(moved) = StorePath::new(&[to.as_bytes(), rest].concat()) {
            self.path = moved;
        }
    }
}
