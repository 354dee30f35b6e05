//! The command as its users meet it: run as a process, judged by what it prints, returns and leaves behind.

mod cli {
    mod absent;
    mod architecture;
    mod at;
    mod bounds;
    mod broken;
    mod company;
    mod deaf_readers;
    mod deletion;
    mod faltering;
    mod half_frames;
    mod handle_keys;
    mod hostile;
    mod interruption;
    mod job_failures;
    mod known_damage;
    mod limits;
    mod listings;
    mod logging;
    mod long_lists;
    mod mistakes;
    mod monitored;
    mod names;
    mod node;
    mod ownership;
    mod planted;
    mod printing;
    mod random;
    mod reconnecting;
    mod remote;
    mod replacing;
    mod restoring;
    mod rewritten;
    mod runner;
    mod secret;
    mod sessions;
    mod snapshot;
    mod stale;
    mod stopping;
    mod streams;
    mod tampered;
    mod terms;
    mod trees;
    mod updates;
    mod versions;
}
