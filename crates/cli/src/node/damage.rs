//! The known damage, as clients see it: files that `put` cannot trust to be unchanged, and reads again. So it need not
//! know which are damaged, and content that comes again heals.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use catalog::FileEntry;
use format::FileTime;
use repository::{KnownDamage, Repository};

/// How old what is known may be: others' findings go unseen for as long.
const KNOWN_TTL: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct DamageView(Mutex<Option<Known>>);

#[derive(Clone)]
struct Known {
    at: Instant,
    /// How often this process had recorded losses by then: its own findings are seen at once.
    recorded: u64,
    damage: Arc<Option<KnownDamage>>,
}

impl DamageView {
    /// Takes away the time of the last change from files whose newest version cannot be read whole, as far as that is
    /// known.
    pub fn mark<'a>(&self, repository: &Repository, entries: impl Iterator<Item = &'a mut FileEntry>) {
        let known = self.known(repository);
        let Some(damage) = &*known else { return };
        for entry in entries {
            let is_damaged = entry.head.as_ref().is_some_and(|head| damage.affects(repository, &head.record.root));
            if is_damaged {
                entry.attributes.times.changed = FileTime::default();
            }
        }
    }

    /// Looked up without the lock: the catalog may take its time. If the look-up fails, no damage is known.
    fn known(&self, repository: &Repository) -> Arc<Option<KnownDamage>> {
        let (now, recorded) = (Instant::now(), repository.losses_recorded());
        let cached = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = cached
            && now.duration_since(known.at) < KNOWN_TTL
            && known.recorded == recorded
        {
            return known.damage;
        }
        let damage = Arc::new(repository.known_damage().ok().flatten());
        let known = Known { at: now, recorded, damage: damage.clone() };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
        damage
    }
}
