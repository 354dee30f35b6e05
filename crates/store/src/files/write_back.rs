//! Writing a file's bytes back to the disk piece by piece, before a sync: a sync of many megabytes takes minutes on a
//! slow disk and shows nothing meanwhile, and its callers must be able to see that the disk works.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

const PIECE_BYTES: u64 = 2 << 20;
/// At most this much is on its way to the disk: enough that a fast one is never idle.
const WINDOW_BYTES: u64 = 16 << 20;

/// Writes the range back, and calls `written` with the length of each piece that the disk has taken. The bytes are not
/// durable by that: the file must be synced. A file system that cannot do so leaves all to the sync.
pub(super) fn write_back(file: &File, range: Range<u64>, written: &dyn Fn(u64)) -> io::Result<()> {
    let mut started = range.start;
    for begin in range.clone().step_by(PIECE_BYTES as usize) {
        let end = range.end.min(begin + PIECE_BYTES);
        let ahead = range.end.min(begin + WINDOW_BYTES);
        let done = call(file, started..ahead, libc::SYNC_FILE_RANGE_WRITE).and_then(|()| call(file, begin..end, WAIT));
        match done {
            Err(error) if is_unsupported(&error) => return Ok(()),
            done => done?,
        }
        started = ahead;
        written(end - begin);
    }
    Ok(())
}

const WAIT: libc::c_uint =
    libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;

fn call(file: &File, range: Range<u64>, flags: libc::c_uint) -> io::Result<()> {
    // A length of 0 would be all of the file.
    if range.is_empty() {
        return Ok(());
    }
    let (offset, bytes) = (range.start as libc::off64_t, (range.end - range.start) as libc::off64_t);
    // SAFETY: the descriptor is open as long as `file` is borrowed, and no memory of ours is passed.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), offset, bytes, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL | libc::ESPIPE | libc::EOPNOTSUPP | libc::EPERM))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io::Write;

    use super::*;

    #[test]
    fn each_piece_is_told_once_and_all_of_them_are_the_range() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![1; 5 << 20]).unwrap();
        let reported = RefCell::new(Vec::new());
        write_back(&file, 100..5 << 20, &|bytes| reported.borrow_mut().push(bytes)).unwrap();
        assert_eq!(*reported.borrow(), [PIECE_BYTES, PIECE_BYTES, (1 << 20) - 100]);
        write_back(&file, 7..7, &|_| panic!("nothing is to be written")).unwrap();
    }
}
