//! The C library's allocator gives every few threads an arena of their own, 8 for each core, and what is freed in one is of
//! no use in another: a node with many readers held far more memory than it uses. One arena for each core keeps
//! cores apart as well.

const MIN_ARENAS: usize = 2;

/// Limits the arenas, before any thread is there.
#[cfg(target_env = "gnu")]
pub(super) fn limit() {
    let cores = std::thread::available_parallelism().map_or(MIN_ARENAS, usize::from);
    // SAFETY: mallopt takes any numbers, and no other thread allocates yet.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, cores.max(MIN_ARENAS) as libc::c_int) };
}

#[cfg(not(target_env = "gnu"))]
pub(super) fn limit() {}
