//! `thalweg.h`: the client of path sessions as C functions.
//!
//! Thin on purpose: pointers in, verbs of `transfer::client`, codes out. No panic crosses the boundary, and the
//! sentence for every failure stays with the thread that saw it.
//!
//! `thalweg.h` says what makes each of these functions safe to call: pointers are valid, handles are used until they
//! are detached or finished and not after.
#![allow(clippy::missing_safety_doc)]

mod boundary;
mod reducer;
mod reduction;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::time::Instant;

use boundary::{Failure, OK, answer};
use format::ErrorCode;
use transfer::client::{Client, File, Operation, Piece, PointerStart, Settings, Ticket};

/// One client per process; made by the first call that needs it.
static CLIENT: OnceLock<Client> = OnceLock::new();

fn client() -> Result<&'static Client, Failure> {
    if let Some(client) = CLIENT.get() {
        return Ok(client);
    }
    let begun = Instant::now();
    let settings = Settings::from_environment()?;
    let reducer = reduction::reducer(&settings);
    Ok(CLIENT.get_or_init(|| Client::new(settings, reducer).with_first_call_begun(begun)))
}

unsafe fn name<'a>(name: *const c_char) -> &'a [u8] {
    unsafe { CStr::from_ptr(name) }.to_bytes()
}

unsafe fn bytes<'a>(start: *const c_void, count: usize) -> &'a [u8] {
    unsafe { std::slice::from_raw_parts(start.cast(), count) }
}

unsafe fn pieces<'a>(start: *const Piece, count: usize) -> &'a [Piece] {
    if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(start, count) } }
}

#[unsafe(no_mangle)]
pub extern "C" fn thalweg_last_error() -> *const c_char {
    boundary::last_error()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_connect(path: *const c_char, processes: u32) {
    // The call that opens or attaches reports errors.
    let _ = answer(|| {
        client()?.connect(unsafe { name(path) }, processes);
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_open(
    path: *const c_char,
    flags: u32,
    ticket: *mut c_void,
    capacity: usize,
    ticket_bytes: *mut usize,
) -> c_int {
    answer(|| {
        let opened = client()?.open(unsafe { name(path) }, flags)?;
        let encoded = opened.encode();
        if encoded.len() > capacity {
            client()?.abandon(&opened)?;
            let why = format!("the ticket needs {} bytes, {capacity} are given", encoded.len());
            return Err(Failure::refused(ErrorCode::CallRefused, &why));
        }
        unsafe { std::ptr::copy_nonoverlapping(encoded.as_ptr(), ticket.cast(), encoded.len()) };
        unsafe { *ticket_bytes = encoded.len() };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_abandon(ticket: *const c_void, ticket_bytes: usize) -> c_int {
    answer(|| Ok(client()?.abandon(&Ticket::decode(unsafe { bytes(ticket, ticket_bytes) })?)?))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_attach(
    ticket: *const c_void,
    ticket_bytes: usize,
    flags: u32,
    file: *mut *mut File,
) -> c_int {
    answer(|| {
        let ticket = Ticket::decode(unsafe { bytes(ticket, ticket_bytes) })?;
        let attached = client()?.attach(&ticket, flags)?;
        unsafe { *file = Box::into_raw(Box::new(attached)) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_detach(file: *mut File, last_of: c_int) -> c_int {
    answer(|| Ok(unsafe { Box::from_raw(file) }.detach(last_of.unsigned_abs())?))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_write(file: *mut File, start: *const Piece, count: usize) -> c_int {
    answer(|| unsafe { Ok((*file).write(pieces(start, count))?) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_read(file: *mut File, start: *const Piece, count: usize, got: *mut u64) -> c_int {
    answer(|| unsafe {
        *got = (*file).read(pieces(start, count))?;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_allow_read_ahead(file: *mut File, allowed: c_int) {
    // Nothing fails here but a bug, whose report would have no reader.
    let _ = answer(|| {
        unsafe { (*file).allow_read_ahead(allowed != 0) };
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_encode_by(file: *mut File, mode: *const c_char) -> c_int {
    answer(|| {
        let word = String::from_utf8_lossy(unsafe { name(mode) });
        let mode = if word.is_empty() { None } else { Some(word.parse().map_err(refused_mode)?) };
        unsafe { (*file).encode_by(mode) };
        Ok(())
    })
}

fn refused_mode(error: format::Error) -> Failure {
    Failure::refused(error.code(), &error.to_string())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_start_write(
    file: *mut File,
    start: *const Piece,
    count: usize,
    operation: *mut *mut Operation,
) -> c_int {
    answer(|| unsafe {
        *operation = Box::into_raw(Box::new((*file).start_write(pieces(start, count))?));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_start_read(
    file: *mut File,
    start: *const Piece,
    count: usize,
    operation: *mut *mut Operation,
) -> c_int {
    answer(|| unsafe {
        *operation = Box::into_raw(Box::new((*file).start_read(pieces(start, count))?));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_test(operation: *mut Operation, done: *mut c_int, got: *mut u64) -> c_int {
    unsafe { *done = c_int::from((*operation).is_done()) };
    if unsafe { *done } == 0 {
        return OK;
    }
    unsafe { thalweg_wait(operation, got) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_wait(operation: *mut Operation, got: *mut u64) -> c_int {
    answer(|| unsafe {
        *got = Box::from_raw(operation).wait()?;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_is_done(operation: *mut Operation) -> c_int {
    c_int::from(unsafe { (*operation).is_done() })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_flush(file: *mut File) -> c_int {
    answer(|| unsafe { Ok((*file).flush()?) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_checkpoint(file: *mut File, epoch: *mut u64) -> c_int {
    answer(|| unsafe {
        *epoch = (*file).checkpoint()?;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_set_epoch(file: *mut File, epoch: u64) -> c_int {
    answer(|| unsafe { Ok((*file).set_epoch(epoch)?) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_commit(file: *mut File) -> c_int {
    answer(|| unsafe { Ok((*file).commit()?) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_size(file: *mut File, size: *mut u64) -> c_int {
    answer(|| unsafe {
        *size = (*file).size()?;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_set_size(file: *mut File, size: u64) -> c_int {
    answer(|| unsafe { Ok((*file).set_size(size)?) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_lock(file: *mut File) -> c_int {
    answer(|| unsafe { Ok((*file).lock()?) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_unlock(file: *mut File) -> c_int {
    answer(|| unsafe { Ok((*file).unlock()?) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_move_pointer(
    file: *mut File,
    generation: u64,
    initial: u64,
    by: u64,
    before: *mut u64,
) -> c_int {
    answer(|| unsafe {
        *before = (*file).move_pointer(&PointerStart { generation, position: initial }, by)?;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_delete(path: *const c_char) -> c_int {
    answer(|| Ok(client()?.delete(unsafe { name(path) })?))
}

#[unsafe(no_mangle)]
pub extern "C" fn thalweg_finalize() -> c_int {
    answer(|| CLIENT.get().map_or(Ok(()), |client| Ok(client.finalize()?)))
}

#[unsafe(no_mangle)]
pub extern "C" fn thalweg_wait_for_background() {
    // Nothing fails here but a bug, whose report would have no reader.
    let _ = answer(|| {
        CLIENT.get().inspect(|client| client.wait_for_background());
        Ok(())
    });
}
