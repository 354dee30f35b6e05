//! `thalweg._thalweg`: stores, and plans of data diffusion, as Python sees them. Doors without logic: what they do is in
//! `repository` and `diffusion`, how stores are opened in `place`; what fsspec and Dask want of it is in `../thalweg`.
//!
//! Every call that may wait gives up the interpreter's lock meanwhile. Paths are bytes here.

mod chunk;
mod entry;
mod error;
mod finalizer;
mod plan;
mod process;
mod recipes;
mod recomputed;
mod rounding;
mod store;
mod unwinding;
mod writer;

use pyo3::prelude::*;

#[pymodule]
mod _thalweg {
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
    #[pymodule_export]
    const MAX_CHUNK_BYTES: usize = segment::MAX_BLOCK_BYTES;
    #[pymodule_export]
    use crate::chunk::{check_codec, decode_chunk, encode_chunk};
    #[pymodule_export]
    use crate::entry::Entry;
    #[pymodule_export]
    use crate::finalizer::Finalizer;
    #[pymodule_export]
    use crate::plan::{EvictOrder, FetchOrder, Plan, RecallOrder, RunOrder};
    #[pymodule_export]
    use crate::recipes::{
        drop_recomputable, list_recipes, plan_recompute, provide, recompute, record, run_on_copies, store_run,
    };
    #[pymodule_export]
    use crate::rounding::{parse_error_bound, round_values};
    #[pymodule_export]
    use crate::store::{EpochPin, Store, check_mode, create};
    #[pymodule_export]
    use crate::unwinding::is_left_by_exception;
    #[pymodule_export]
    use crate::writer::{Draft, Writer};
}
