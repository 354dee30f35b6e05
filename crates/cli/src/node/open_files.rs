//! How many connections a node serves: each takes an open file, and so does what the node itself needs.

/// Connections served at most, whatever the limit of open files: each has some kilobytes, and a thread while it is served.
const MAX_CONNECTIONS: u64 = 16_384;
/// Files the node opens itself: containers to read (128), the catalog's connections, tables, containers being written,
/// and connections that are being refused.
const OWN_FILES: u64 = 256;

/// Raises the limit of open files as far as may be; returns how many connections that is enough for.
pub(super) fn raise_limit() -> usize {
    max_connections(gate::raise_open_file_limit()) as usize
}

fn max_connections(open_files: u64) -> u64 {
    let own = OWN_FILES.min(open_files / 2);
    (open_files - own).min(MAX_CONNECTIONS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_the_node_itself() {
        assert_eq!(max_connections(1024), 768);
        assert_eq!(max_connections(64), 32);
        assert_eq!(max_connections(1 << 20), 16_384);
    }
}
