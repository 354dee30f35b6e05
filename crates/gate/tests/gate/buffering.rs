//! Bandwidth follows the weights, and none of it is lost, before servers that take bytes long before they serve them,
//! or serve few connections at a time. What is counted is whole objects.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::fixture::{Gate, content_length, read_head, server};
use crate::sharing::{APPLICATIONS, Disk, head};

const PIECE: usize = 64 << 10;
const MIB: usize = 1 << 20;
const RATE: f64 = 40e6;
const CLIENTS: usize = 8;

/// Takes each object at once as far as it may be ahead of the disk, and replies when all of it is there.
fn ahead_of_its_disk(ahead: usize) -> SocketAddr {
    let disk = Disk::new(RATE);
    server(move |mut stream| {
        loop {
            let length = content_length(&read_head(&mut stream)?);
            let (pieces, written) = mpsc::sync_channel(ahead / PIECE);
            thread::scope(|scope| {
                let writing = scope.spawn(|| written.into_iter().for_each(|piece| disk.moves(piece)));
                let taken = take(&mut stream, length, pieces);
                writing.join().expect("it does not panic");
                taken
            })?;
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
        }
    })
}

fn take(stream: &mut TcpStream, length: usize, pieces: SyncSender<usize>) -> io::Result<()> {
    let (mut left, mut buffer) = (length, [0; PIECE]);
    while left > 0 {
        let piece = left.min(PIECE);
        stream.read_exact(&mut buffer[..piece])?;
        pieces.send(piece).map_err(io::Error::other)?;
        left -= piece;
    }
    Ok(())
}

/// Accepts all and serves so many requests at a time; of the others it reads nothing.
fn with_workers(workers: usize) -> SocketAddr {
    let (disk, free) = (Disk::new(RATE), Arc::new((Mutex::new(workers), Condvar::new())));
    server(move |mut stream| {
        loop {
            stream.peek(&mut [0])?;
            let (count, changed) = &*free;
            *changed.wait_while(count.lock().expect("nobody panics"), |count| *count == 0).expect("nobody panics") -= 1;
            let served = serve_one(&mut stream, &disk);
            *count.lock().expect("nobody panics") += 1;
            changed.notify_one();
            served?;
        }
    })
}

fn serve_one(stream: &mut TcpStream, disk: &Disk) -> io::Result<()> {
    let mut left = content_length(&read_head(stream)?);
    let mut buffer = [0; PIECE];
    while left > 0 {
        let piece = left.min(PIECE);
        stream.read_exact(&mut buffer[..piece])?;
        disk.moves(piece);
        left -= piece;
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
}

/// Reads a whole object from its disk before it answers, then answers from memory.
fn from_memory(bytes_per_second: f64, length: usize) -> SocketAddr {
    let disk = Disk::new(bytes_per_second);
    server(move |mut stream| {
        loop {
            read_head(&mut stream)?;
            (0..length / PIECE).for_each(|_| disk.moves(PIECE));
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n")?;
            stream.write_all(&vec![7; length])?;
        }
    })
}

fn put(client: &mut TcpStream, key: &str, length: usize) -> io::Result<()> {
    client.write_all(head("PUT", key, length).as_bytes())?;
    client.write_all(&vec![1; length])?;
    read_head(client).map(drop)
}

fn get(client: &mut TcpStream, key: &str, length: usize) -> io::Result<()> {
    client.write_all(head("GET", key, 0).as_bytes())?;
    read_head(client)?;
    client.read_exact(&mut vec![0; length])
}

type Act = fn(&mut TcpStream, &str, usize) -> io::Result<()>;

/// Heavy bytes over light bytes, due 4:1, and the part of the disk's rate that both got, after two seconds.
fn shared(server: SocketAddr, act: Act, length: usize) -> (f64, f64) {
    let gate = Gate::before(server, APPLICATIONS);
    let stop = Arc::new(AtomicBool::new(false));
    let moved: [Arc<AtomicU64>; 2] = Default::default();
    let clients = ["HEAVY", "LIGHT"].into_iter().zip(&moved).flat_map(|each| [each; CLIENTS]);
    let clients: Vec<_> = clients
        .map(|(key, moved)| {
            let (moved, stop, mut client) = (moved.clone(), stop.clone(), gate.connect());
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    act(&mut client, key, length).expect("the server serves");
                    moved.fetch_add(length as u64, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let read = || moved.each_ref().map(|moved| moved.load(Ordering::Relaxed) as f64);
    thread::sleep(Duration::from_secs(2));
    let (before, began) = (read(), Instant::now());
    thread::sleep(Duration::from_secs(4));
    let (after, lasted) = (read(), began.elapsed());
    stop.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|client| client.join().expect("it ends"));
    let [heavy, light] = [0, 1].map(|at| after[at] - before[at]);
    (heavy / light.max(1.0), (heavy + light) / lasted.as_secs_f64() / RATE)
}

fn assert_shared((ratio, part): (f64, f64)) {
    assert!((2.8..5.4).contains(&ratio), "4:1 became {ratio:.2}, at {part:.2} of the disk's rate");
    assert!(part > 0.7, "{part:.2} of the disk's rate was used, at {ratio:.2}:1");
}

#[test]
fn uploads_share_before_a_server_that_reads_a_mebibyte_ahead() {
    assert_shared(shared(ahead_of_its_disk(MIB), put, MIB));
}

#[test]
fn uploads_share_before_a_server_with_one_worker() {
    assert_shared(shared(with_workers(1), put, 256 << 10));
}

#[test]
fn uploads_share_before_a_server_with_four_workers() {
    assert_shared(shared(with_workers(4), put, 256 << 10));
}

#[test]
fn downloads_share_before_a_server_that_answers_from_memory() {
    assert_shared(shared(from_memory(RATE, MIB), get, MIB));
}

/// The rest of what the kernel has room for was waited for in vain: 20 ms, three times an object.
#[test]
fn an_answer_from_memory_does_not_stand_still_on_its_way() {
    let gate = Gate::before(from_memory(1e12, MIB), "");
    let mut client = gate.connect();
    let began = Instant::now();
    for _ in 0..50 {
        get(&mut client, "A", MIB).expect("the server serves");
    }
    assert!(began.elapsed() < Duration::from_millis(1500), "50 MiB took {:?}", began.elapsed());
}

/// Served bytes of heavy and light, each second: `LENGTH=… WEIGHT=… SECONDS=… cargo test … measured -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn measured() {
    let number = |name: &str, default: usize| std::env::var(name).map_or(default, |text| text.parse().expect(name));
    let (length, seconds, weight) = (number("LENGTH", 32 * MIB), number("SECONDS", 20), number("WEIGHT", 16));
    let (disk, moved) = (Disk::new(RATE), <Arc<[AtomicU64; 2]>>::default());
    let (counted, ahead) = (moved.clone(), number("AHEAD", MIB));
    let served = server(move |mut stream| {
        loop {
            let head = read_head(&mut stream)?;
            let counted = &counted[usize::from(head.contains("LIGHT"))];
            let (pieces, written) = mpsc::sync_channel::<usize>(ahead / PIECE);
            thread::scope(|scope| {
                let writing = scope.spawn(|| {
                    written.into_iter().for_each(|piece| {
                        disk.moves(piece);
                        counted.fetch_add(piece as u64, Ordering::Relaxed);
                    })
                });
                let taken = take(&mut stream, content_length(&head), pieces);
                writing.join().expect("it does not panic");
                taken
            })?;
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
        }
    });
    let gate = Gate::before(served, &APPLICATIONS.replace("weight = 4", &format!("weight = {weight}")));
    for key in ["HEAVY", "LIGHT"] {
        for _ in 0..CLIENTS {
            let mut client = gate.connect();
            thread::spawn(move || while put(&mut client, key, length).is_ok() {});
        }
    }
    thread::sleep(Duration::from_secs(3));
    let read = || [0, 1].map(|at| moved[at].load(Ordering::Relaxed) as f64);
    let (first, mut last) = (read(), read());
    for _ in 0..seconds {
        thread::sleep(Duration::from_secs(1));
        let now = read();
        print!("{:.1}+{:.1} ", (now[0] - last[0]) / 1e6, (now[1] - last[1]) / 1e6);
        last = now;
    }
    let [heavy, light] = [0, 1].map(|at| last[at] - first[at]);
    let total = (heavy + light) / seconds as f64 / 1e6;
    println!("\n{length} bytes, {weight}:1: {:.2}:1, {total:.1} MB/s", heavy / light.max(1.0));
}
