//! Checks that a container file is not needed, by its own content: the last check before it is deleted. The catalog's
//! own word for it may be wrong.

use std::collections::BTreeMap;
use std::sync::Arc;

use format::{ContainerId, SegmentAddress};
use store::{ContainerIndex, LocalStore};

use crate::divergence::refusal;
use crate::marks::LiveBitmap;
use crate::{Repository, Result};

/// Another collection may move a number on while its file is looked for.
const LOOKS: u32 = 3;

/// Refuses when the file holds a segment that a kept version or a checkpoint needs, and that the file where the catalog has
/// its number now does not hold.
pub(crate) fn check_unneeded(
    repository: &Repository,
    local: &LocalStore,
    marks: &LiveBitmap,
    physical: ContainerId,
) -> Result<()> {
    let addresses: Vec<SegmentAddress> = match local.index(physical) {
        Ok(index) => index.addresses().map(|(address, _)| address).collect(),
        Err(store::Error::NotFound { .. }) => return Ok(()),
        // Only the number shows what a damaged file holds.
        Err(store::Error::Corrupt { .. }) => marks.runs(physical).iter().flat_map(|run| run.addresses()).collect(),
        Err(other) => return Err(other.into()),
    };
    let mut homes = BTreeMap::new();
    for address in addresses.into_iter().filter(|address| marks.is_marked(address.container, address.ordinal)) {
        let home = match homes.get(&address.container) {
            Some(home) => home,
            None => {
                let found = home_of(repository, local, physical, address.container)?;
                homes.entry(address.container).or_insert(found)
            }
        };
        if home.as_ref().is_none_or(|home| home.segment_at(address).is_none()) {
            let why = format!(
                "kept versions need segment {} of container {}, which the file of container {physical} holds and the \
                 catalog has nowhere else",
                address.ordinal, address.container
            );
            return Err(refusal(&why));
        }
    }
    Ok(())
}

/// Returns the index of the file where the number's segments lie now, if that is another one.
fn home_of(
    repository: &Repository,
    local: &LocalStore,
    physical: ContainerId,
    number: ContainerId,
) -> Result<Option<Arc<ContainerIndex>>> {
    for _ in 0..LOOKS {
        let record = repository.local_catalog()?.container(number)?.filter(catalog::ContainerRecord::is_referable);
        let Some(home) = record.map(|record| record.physical).filter(|home| *home != physical) else { return Ok(None) };
        match local.index(home) {
            Ok(index) => return Ok(Some(index)),
            Err(store::Error::NotFound { .. } | store::Error::Corrupt { .. }) => {}
            Err(other) => return Err(other.into()),
        }
    }
    Ok(None)
}
