//! A node's work for a path while programs write it (design, rules 7 and 8).
//!
//! A [`StripeOwner`] is one node's share of a session: the stripes it serves. Pieces arrive in any size and order;
//! they are assembled into segments, reduced in the background, and checkpointed: made durable as a checkpoint
//! that lists what was written. When all stripe sets have checkpointed, [`publish`] lays their checkpoints over the
//! path's head and commits the result. Nothing here has threads, sockets or a clock; the node has them.

mod budget;
mod buffers;
mod checkpoint;
mod checkpoint_steps;
mod content_map;
mod leaves;
mod publish;
mod runs;
mod sources;
mod storing;
mod stripe_owner;
mod write_session;

pub use budget::Budget;
pub use publish::{PublishedVersion, checkpointed_data, checkpointed_size, data_bytes, publish, recover, unfinished};
pub use sources::{DurableUpTo, Source};
pub use stripe_owner::{StripeOwner, StripeOwnerOptions, WriteOrigin};

/// The time, where a session must note one (nanoseconds since 1970): the caller's clock, real or simulated.
pub type Clock = std::sync::Arc<dyn Fn() -> i64 + Send + Sync>;
