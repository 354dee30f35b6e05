//! A store that lives in memory, and the simplest registrar there is: for tests and simulations.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use format::{ContainerId, Settings};

use crate::files::Memory;
use crate::guard::lock;
use crate::{LocalStore, Options, Registrar, Result, SealedContainer};

/// Makes local stores over files in memory.
pub struct MemoryStore;

impl MemoryStore {
    /// Makes an empty store; nothing runs in the background.
    pub fn create(settings: &Settings, registrar: Arc<dyn Registrar>) -> Result<LocalStore> {
        Self::over(Arc::new(Memory::new()), settings, registrar)
    }

    /// Makes a store on the given files: what a crash left, say.
    pub fn over(files: Arc<Memory>, settings: &Settings, registrar: Arc<dyn Registrar>) -> Result<LocalStore> {
        let options = Options { background: false, ..Options::default() };
        LocalStore::open(files.clone(), files, settings, registrar, options)
    }
}

/// Counts containers up; all are live until condemned.
#[derive(Default)]
pub struct CountingRegistrar {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: u64,
    sealed: HashMap<ContainerId, SealedContainer>,
    truncated: HashSet<ContainerId>,
    condemned: HashSet<ContainerId>,
    /// Where the segments of containers that moved lie, and where they lay before, newest first.
    files: HashMap<ContainerId, Vec<ContainerId>>,
}

impl CountingRegistrar {
    pub fn new() -> Self {
        Self::default()
    }

    /// Condemns the container: no duplicate may refer to it any more.
    pub fn condemn(&self, container: ContainerId) {
        lock(&self.state).condemned.insert(container);
    }

    /// Moves the logical container's segments to the file of `physical`.
    pub fn relocate(&self, logical: ContainerId, physical: ContainerId) {
        lock(&self.state).files.entry(logical).or_default().insert(0, physical);
    }

    pub fn is_truncated(&self, container: ContainerId) -> bool {
        lock(&self.state).truncated.contains(&container)
    }

    /// Returns the facts reported when the container was sealed.
    pub fn facts(&self, container: ContainerId) -> Option<SealedContainer> {
        lock(&self.state).sealed.get(&container).copied()
    }
}

impl Registrar for CountingRegistrar {
    fn open(&self) -> Result<ContainerId> {
        let mut state = lock(&self.state);
        state.last += 1;
        Ok(ContainerId(state.last))
    }

    fn sealed(&self, container: ContainerId, facts: SealedContainer) -> Result<()> {
        lock(&self.state).sealed.insert(container, facts);
        Ok(())
    }

    fn truncated(&self, container: ContainerId) -> Result<()> {
        lock(&self.state).truncated.insert(container);
        Ok(())
    }

    fn referable(&self, container: ContainerId) -> Result<Option<ContainerId>> {
        let state = lock(&self.state);
        let physical = state.files.get(&container).and_then(|files| files.first().copied()).unwrap_or(container);
        Ok((!state.condemned.contains(&container)).then_some(physical))
    }

    fn epoch(&self) -> u64 {
        0
    }

    fn locate(&self, container: ContainerId) -> Result<Vec<ContainerId>> {
        Ok(lock(&self.state).files.get(&container).cloned().unwrap_or_default())
    }
}
