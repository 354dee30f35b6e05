//! `thalweg-paced ADDRESS BYTES_PER_SECOND AHEAD_BYTES WORKERS SYNC_MS`: an S3 server as the gate may find one. All
//! objects share one disk of this rate, kept nowhere. It reads and writes `AHEAD_BYTES` of each object ahead of the disk
//! (18446744073709551615: all of it), serves `WORKERS` requests at a time and does not read the others' connections
//! (0: as many as come), and takes so long for each object's sync before it replies.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// A disk that stood idle for less makes it good: a busy machine's late wake-ups are not the disk's.
const BURST: Duration = Duration::from_millis(20);
const PIECE: usize = 64 << 10;
/// Bytes that the kernel holds for a connection beside those read ahead.
const RECEIVE_BUFFER: usize = 64 << 10;

struct Server {
    disk: Disk,
    ahead_bytes: u64,
    workers: Option<Pool>,
    sync: Duration,
}

/// Takers of bytes wait for those before them.
struct Disk {
    free_at: Mutex<Instant>,
    bytes_per_second: f64,
}

impl Disk {
    fn moves(&self, bytes: usize) {
        let until = {
            let mut free_at = self.free_at.lock().expect("no thread panics with it");
            let burst_ago = Instant::now().checked_sub(BURST).expect("the machine is not just up");
            *free_at = (*free_at).max(burst_ago) + Duration::from_secs_f64(bytes as f64 / self.bytes_per_second);
            *free_at
        };
        thread::sleep(until.saturating_duration_since(Instant::now()));
    }
}

struct Pool {
    free: Mutex<usize>,
    changed: Condvar,
}

impl Pool {
    fn take(&self) {
        let free = self.free.lock().expect("no thread panics with it");
        *self.changed.wait_while(free, |free| *free == 0).expect("no thread panics with it") -= 1;
    }

    fn give_back(&self) {
        *self.free.lock().expect("no thread panics with it") += 1;
        self.changed.notify_one();
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [address, rate, ahead, workers, sync_ms] = words.as_slice() else {
        eprintln!("usage: thalweg-paced ADDRESS BYTES_PER_SECOND AHEAD_BYTES WORKERS SYNC_MS");
        std::process::exit(2);
    };
    let number = |word: &str| word.parse::<u64>().unwrap_or_else(|_| panic!("{word} is no number"));
    let pool = Some(number(workers) as usize).filter(|workers| *workers > 0);
    let server = Arc::new(Server {
        disk: Disk { free_at: Mutex::new(Instant::now()), bytes_per_second: number(rate) as f64 },
        ahead_bytes: number(ahead),
        workers: pool.map(|free| Pool { free: Mutex::new(free), changed: Condvar::new() }),
        sync: Duration::from_millis(number(sync_ms)),
    });
    let listener = TcpListener::bind(address).unwrap_or_else(|error| panic!("{address}: {error}"));
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, RECEIVE_BUFFER).expect("a buffer's size");
    println!("listening on {}", listener.local_addr().expect("it is bound"));
    for client in listener.incoming().flatten() {
        let server = server.clone();
        // Clients go away at the end of every case.
        thread::spawn(move || drop(server.serve(client)));
    }
}

impl Server {
    fn serve(&self, client: TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        let (mut input, mut output) = (BufReader::with_capacity(8 << 10, client.try_clone()?), client);
        loop {
            if input.fill_buf()?.is_empty() {
                return Ok(());
            }
            self.workers.iter().for_each(Pool::take);
            let served = self.request(&mut input, &mut output);
            self.workers.iter().for_each(Pool::give_back);
            served?;
        }
    }

    fn request(&self, input: &mut BufReader<TcpStream>, output: &mut TcpStream) -> io::Result<()> {
        let (path, length) = read_head(input)?;
        if length > 0 {
            self.piped(
                |pieces| take_body(input, length, pieces),
                |piece| {
                    self.disk.moves(piece);
                    Ok(())
                },
            )?;
            thread::sleep(self.sync);
            return output.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
        // `/bucket/BYTES-number`, as the generator names objects.
        let name = path.rsplit('/').next().unwrap_or("");
        let bytes: usize = name.split('-').next().and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n");
        if self.ahead_bytes == u64::MAX {
            in_pieces(bytes, |piece| self.disk.moves(piece));
            output.write_all(head.as_bytes())?;
            return write_body(output, bytes);
        }
        output.write_all(head.as_bytes())?;
        let read = |pieces: mpsc::SyncSender<usize>| {
            in_pieces(bytes, |piece| {
                self.disk.moves(piece);
                // Writing notices a closed connection.
                let _ = pieces.send(piece);
            });
            Ok(())
        };
        self.piped(read, |piece| write_body(output, piece))
    }

    /// Lets `from` be so far ahead of `to` as the server reads ahead.
    fn piped(
        &self,
        from: impl FnOnce(mpsc::SyncSender<usize>) -> io::Result<()> + Send,
        mut to: impl FnMut(usize) -> io::Result<()> + Send,
    ) -> io::Result<()> {
        let pieces = (self.ahead_bytes / PIECE as u64).min(1 << 20) as usize;
        let (sender, receiver) = mpsc::sync_channel(pieces);
        thread::scope(|scope| {
            let taking = scope.spawn(move || receiver.into_iter().try_for_each(&mut to));
            let given = from(sender);
            taking.join().expect("it does not panic").and(given)
        })
    }
}

fn take_body(input: &mut impl Read, length: usize, pieces: mpsc::SyncSender<usize>) -> io::Result<()> {
    let mut buffer = vec![0; PIECE];
    let mut left = length;
    while left > 0 {
        let piece = left.min(PIECE);
        input.read_exact(&mut buffer[..piece])?;
        pieces.send(piece).map_err(io::Error::other)?;
        left -= piece;
    }
    Ok(())
}

fn write_body(output: &mut impl Write, bytes: usize) -> io::Result<()> {
    static ZEROS: [u8; PIECE] = [0; PIECE];
    let mut left = bytes;
    while left > 0 {
        let piece = left.min(PIECE);
        output.write_all(&ZEROS[..piece])?;
        left -= piece;
    }
    Ok(())
}

fn in_pieces(bytes: usize, mut act: impl FnMut(usize)) {
    (0..bytes.div_ceil(PIECE)).for_each(|number| act((bytes - number * PIECE).min(PIECE)));
}

/// The path, and the length of the body.
fn read_head(input: &mut impl BufRead) -> io::Result<(String, usize)> {
    let mut line = String::new();
    input.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or("").to_owned();
    let mut length = 0;
    loop {
        line.clear();
        if input.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if line.trim().is_empty() {
            return Ok((path, length));
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
    }
}
