//! Reading ahead: fewer answers are waited for, and reads see the bytes that they would have seen without.

use policy::read_ahead::MAX_PROCESS_BYTES;
use random::Random;

use super::*;

const FAR: Duration = Duration::from_millis(180);
const PIECE_BYTES: u64 = 16 << 10;

fn open_far(client: &Client, flags: u32) -> File {
    let file = open(client, flags);
    file.assume_round_trip(FAR);
    file
}

/// Makes a file that a process wrote, closed and made durable; returns its bytes.
fn written(nodes: &[Arc<Node>], bytes: u64) -> Vec<u8> {
    let content = Random::new(5).bytes(bytes as usize);
    let writer = Client::new(settings(nodes), None);
    let file = open(&writer, WRITE);
    file.write(&[source(0, &content)]).unwrap();
    file.commit().unwrap();
    file.detach(1).unwrap();
    content
}

fn reads(nodes: &[Arc<Node>]) -> u64 {
    nodes.iter().map(|node| node.does.reads.load(Ordering::SeqCst)).sum()
}

fn room_bytes(client: &Client) -> u64 {
    client.process().unwrap().read_ahead_memory.room_bytes()
}

/// Reads the file piece by piece to its end.
fn read_pieces(file: &File) -> Vec<u8> {
    let mut found = Vec::new();
    loop {
        let piece = read(file, found.len() as u64, PIECE_BYTES as usize);
        if piece.is_empty() {
            return found;
        }
        found.extend(piece);
    }
}

#[test]
fn a_far_file_that_is_read_piece_by_piece_is_asked_for_in_few_requests() {
    for (round_trip, is_far) in [(FAR, true), (Duration::from_millis(1), false)] {
        let (_world, nodes) = nodes(2);
        let content = written(&nodes, 100 * PIECE_BYTES + 77);
        let client = Client::new(settings(&nodes), None);
        let file = open(&client, READ);
        file.assume_round_trip(round_trip);
        assert!(read_pieces(&file) == content);
        let reads = reads(&nodes);
        assert_eq!(reads < 50, is_far, "{reads} requests for 102 pieces");
    }
}

#[test]
fn a_program_that_says_it_reads_at_random_is_not_read_ahead_of() {
    let (_world, nodes) = nodes(1);
    let content = written(&nodes, 20 * PIECE_BYTES);
    let client = Client::new(settings(&nodes), None);
    let file = open_far(&client, READ);
    file.allow_read_ahead(false);
    assert!(read_pieces(&file) == content);
    assert!(reads(&nodes) > 20, "{}", reads(&nodes));
    assert_eq!(room_bytes(&client), MAX_PROCESS_BYTES);
}

#[test]
fn ranks_that_take_turns_are_read_ahead_of() {
    let (_world, nodes) = nodes(2);
    let content = written(&nodes, 300 * PIECE_BYTES);
    let client = Client::new(settings(&nodes), None);
    let file = open_far(&client, READ);
    for number in (2..300).step_by(3) {
        let offset = number * PIECE_BYTES;
        let piece = read(&file, offset, PIECE_BYTES as usize);
        assert!(piece == content[offset as usize..][..PIECE_BYTES as usize], "piece {number}");
    }
    assert!(reads(&nodes) < 60, "{} requests for 100 pieces", reads(&nodes));
}

#[test]
fn a_damaged_byte_fails_the_read_that_holds_it_and_no_other() {
    let (_world, nodes) = nodes(1);
    let content = written(&nodes, 40 * PIECE_BYTES);
    let damaged = 20 * PIECE_BYTES + 5;
    *nodes[0].does.damaged.lock().unwrap() = Some(damaged);
    let client = Client::new(settings(&nodes), None);
    let file = open_far(&client, READ);
    for number in 0..40 {
        let range = (number * PIECE_BYTES) as usize..((number + 1) * PIECE_BYTES) as usize;
        let mut memory = vec![0; PIECE_BYTES as usize];
        match file.read(&[target(range.start as u64, &mut memory)]) {
            Ok(got) => assert!(got == PIECE_BYTES && memory == content[range], "piece {number}"),
            Err(error) => assert!(number == 20 && error.failure() == Some(FailureKind::Corrupt), "{number}: {error}"),
        }
    }
    *nodes[0].does.damaged.lock().unwrap() = None;
    assert!(read_pieces(&file) == content);
}

/// Reads two pieces, while what is asked for ahead of the third gets no answer.
fn read_two_and_hold_the_rest(nodes: &[Arc<Node>], client: &Client) -> File {
    nodes[0].does.held_above.store(PIECE_BYTES, Ordering::SeqCst);
    let file = open_far(client, READ);
    (0..2).for_each(|number| assert_eq!(read(&file, number * PIECE_BYTES, PIECE_BYTES as usize).len(), 16384));
    eventually("something is asked for ahead", || reads(nodes) > 2);
    file
}

#[test]
fn a_node_that_is_away_while_nobody_reads_fails_no_file() {
    let (_world, nodes) = nodes(1);
    let content = written(&nodes, 40 * PIECE_BYTES);
    let client = Client::new(Settings { timeout: Duration::from_secs(1), ..settings(&nodes) }, None);
    let file = read_two_and_hold_the_rest(&nodes, &client);
    nodes[0].crash();
    std::thread::sleep(Duration::from_secs(3));
    nodes[0].does.held_above.store(0, Ordering::SeqCst);
    nodes[0].revive();
    assert!(read(&file, 2 * PIECE_BYTES, 100) == content[2 * PIECE_BYTES as usize..][..100]);
}

#[test]
fn a_read_that_waits_for_what_was_asked_for_ahead_fails_with_its_node() {
    let (_world, nodes) = nodes(1);
    written(&nodes, 40 * PIECE_BYTES);
    let client = Client::new(Settings { timeout: Duration::from_secs(1), ..settings(&nodes) }, None);
    let file = read_two_and_hold_the_rest(&nodes, &client);
    nodes[0].crash();
    let mut memory = [0; 100];
    let error = file.read(&[target(2 * PIECE_BYTES, &mut memory)]).unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
}

#[test]
fn memory_of_what_was_read_ahead_is_released_at_the_close() {
    let (_world, nodes) = nodes(1);
    written(&nodes, 100 * PIECE_BYTES);
    let client = Client::new(settings(&nodes), None);
    let file = open_far(&client, READ);
    (0..5).for_each(|number| drop(read(&file, number * PIECE_BYTES, PIECE_BYTES as usize)));
    assert!(room_bytes(&client) < MAX_PROCESS_BYTES);
    file.detach(1).unwrap();
    eventually("the memory is free", || room_bytes(&client) == MAX_PROCESS_BYTES);
}

#[test]
fn a_reader_sees_what_another_process_wrote_when_it_has_synchronised() {
    let (_world, nodes) = nodes(2);
    let mut content = written(&nodes, 40 * PIECE_BYTES);
    let clients = [(); 2].map(|()| Client::new(settings(&nodes), None));
    let (reader, writer) = (open_far(&clients[0], READ), open(&clients[1], WRITE));
    (0..4).for_each(|number| drop(read(&reader, number * PIECE_BYTES, PIECE_BYTES as usize)));
    let changed = 4 * PIECE_BYTES as usize..12 * PIECE_BYTES as usize;
    content[changed.clone()].fill(9);
    writer.write(&[source(changed.start as u64, &content[changed.clone()])]).unwrap();
    let epoch = writer.checkpoint().unwrap();
    [&writer, &reader].iter().for_each(|file| file.set_epoch(epoch).unwrap());
    assert!(read(&reader, changed.start as u64, changed.len()) == content[changed]);
}

const MAX_FILE_BYTES: u64 = 2 << 20;

/// One handle, and the reads that it does: from `at` on, of `pieces` with `gap` bytes between them.
struct Reader<'a> {
    file: &'a File,
    at: u64,
    piece_bytes: u64,
    pieces: u64,
    gap: u64,
}

impl<'a> Reader<'a> {
    fn new(file: &'a File, random: &mut Random) -> Self {
        let mut reader = Reader { file, at: 0, piece_bytes: 1, pieces: 1, gap: 0 };
        reader.jump(random);
        reader
    }

    fn jump(&mut self, random: &mut Random) {
        self.at = random.below(MAX_FILE_BYTES);
        self.piece_bytes = 1 + random.below(24 << 10);
        self.pieces = [1, 1, 3][random.below(3) as usize];
        self.gap = [0, 0, 10_000][random.below(3) as usize];
    }

    /// Reads what comes next, and compares it with the file.
    fn check(&mut self, file: &[u8], case: &str) {
        let mut memory: Vec<Vec<u8>> = vec![vec![0xee; self.piece_bytes as usize]; self.pieces as usize];
        let mut pieces = Vec::new();
        let mut expected = Vec::new();
        for memory in &mut memory {
            pieces.push(target(self.at, memory));
            let part = |end: u64| (end as usize).min(file.len());
            expected.extend_from_slice(&file[part(self.at)..part(self.at + self.piece_bytes)]);
            self.at += self.piece_bytes + self.gap;
        }
        let got = self.file.start_read(&pieces).unwrap().wait().unwrap();
        assert_eq!(got, expected.len() as u64, "{case}: bytes of a file of {}", file.len());
        let found = memory.concat();
        let wrong = (0..expected.len()).find(|at| found[*at] != expected[*at]);
        assert_eq!(wrong, None, "{case}: a byte is not what was written last");
    }
}

/// Two handles of one process read and write a file, and another process writes it and synchronises; a vector is the
/// file as it must be seen.
fn history(seed: u64) {
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let (_world, nodes) = nodes(1 + seed as usize % 3);
    nodes.iter().for_each(|node| node.does.delay.store(true, Ordering::SeqCst));
    let mut file = written(&nodes, MAX_FILE_BYTES);
    let clients = [(); 2].map(|()| Client::new(settings(&nodes), None));
    let handles = [(); 2].map(|()| open_far(&clients[0], READ | WRITE));
    let other = open(&clients[1], WRITE);
    let mut readers = [0, 1].map(|index| Reader::new(&handles[index], &mut random));
    for step in 0..600u64 {
        let case = format!("seed {seed}, step {step}");
        let reader = random.below(2) as usize;
        let mut change = |random: &mut Random, writer: &File| {
            // Mostly where something is read soon.
            let offset = (readers[random.below(2) as usize].at + random.below(300_000)) % MAX_FILE_BYTES;
            let bytes = vec![step as u8; 1 + random.below(20_000) as usize];
            let end = offset as usize + bytes.len();
            file.resize(file.len().max(end), 0);
            file[offset as usize..end].copy_from_slice(&bytes);
            match random.below(2) {
                0 => writer.write(&[source(offset, &bytes)]).unwrap(),
                _ => drop(writer.start_write(&[source(offset, &bytes)]).unwrap().wait().unwrap()),
            }
        };
        match random.below(100) {
            0..15 => change(&mut random, &handles[1 - reader]),
            15..20 => {
                change(&mut random, &other);
                let epoch = other.checkpoint().unwrap();
                handles.iter().chain([&other]).for_each(|handle| handle.set_epoch(epoch).unwrap());
            }
            20..23 => {
                change(&mut random, &other);
                other.flush().unwrap();
                handles[reader].lock().unwrap();
                readers[reader].check(&file, &case);
                handles[reader].unlock().unwrap();
                handles.iter().for_each(|handle| handle.allow_read_ahead(false));
                handles.iter().for_each(|handle| handle.allow_read_ahead(true));
            }
            23..25 => {
                let bytes = random.below(MAX_FILE_BYTES);
                handles[reader].set_size(bytes).unwrap();
                file.resize(bytes as usize, 0);
            }
            25..28 => readers[reader].jump(&mut random),
            _ => readers[reader].check(&file, &case),
        }
        if readers[reader].at > file.len() as u64 {
            readers[reader].at = random.below(1000);
        }
    }
    handles.into_iter().for_each(|handle| handle.detach(0).unwrap());
    eventually("the memory is free", || room_bytes(&clients[0]) == MAX_PROCESS_BYTES);
}

#[test]
fn reads_see_every_write_that_they_must_see() {
    (1..=8).for_each(history);
}
