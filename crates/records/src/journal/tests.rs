use super::*;
use crate::capture::Capture;
use paddock_model::Captured;
use paddock_model::api::StreamName::{Stderr, Stdout};
use std::fs;
use std::os::unix::fs::MetadataExt;

/// xorshift: the same sequences every time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn pattern(from: u64, count: u64) -> Vec<u8> {
    (from..from + count).map(|at| (at % 251) as u8 ^ (at >> 9) as u8).collect()
}

/// The pieces of both streams, put together again, with `None` for bytes that were not kept.
fn gather(ordered: &mut Ordered, max: usize) -> Vec<(StreamName, u64, Option<Vec<u8>>, u64)> {
    let mut all = Vec::new();
    while let Some(OrderedPiece { stream, offset, piece }) = ordered.next(max).unwrap() {
        match piece {
            Piece::Bytes(bytes) => {
                assert!(bytes.len() <= max && !bytes.is_empty());
                let length = bytes.len() as u64;
                all.push((stream, offset, Some(bytes), length));
            }
            Piece::Gap { bytes } => all.push((stream, offset, None, bytes)),
            Piece::End => panic!("an end is not a piece"),
        }
    }
    all
}

#[test]
fn nothing_is_made_before_the_first_byte() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("execs/1");
    let journal = Journal::open(&path, 100).unwrap();
    journal.append(Stdout, b"").unwrap();
    journal.finish();
    assert!(!path.exists());
    assert_eq!(journal.lengths(), (0, 0));
    assert_eq!(journal.read_at(Stdout, 0, 10).unwrap(), Piece::End);
    assert_eq!(journal.captured(Stderr).unwrap(), Captured::default());
    journal.append(Stderr, b"x").unwrap();
    assert!(path.join("stderr").exists() && !path.join("stdout").exists());
}

#[test]
fn order_between_the_streams_is_kept_from_any_offsets() {
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::open(directory.path(), 1000).unwrap();
    let written =
        [(Stdout, "one "), (Stderr, "two "), (Stderr, "three "), (Stdout, "four "), (Stderr, "five")];
    written.iter().for_each(|(stream, text)| journal.append(*stream, text.as_bytes()).unwrap());
    for reopened in [journal.clone(), Journal::open(directory.path(), 1000).unwrap()] {
        let said = |stdout, stderr, max| {
            gather(&mut reopened.ordered(stdout, stderr), max)
                .into_iter()
                .map(|(_, _, bytes, _)| String::from_utf8(bytes.unwrap()).unwrap())
                .collect::<String>()
        };
        assert_eq!(said(0, 0, 1000), "one two three four five");
        assert_eq!(said(0, 0, 1), "one two three four five");
        assert_eq!(said(2, 5, 3), "e hree four five");
        assert_eq!(said(4, 10, 3), "four five");
        assert_eq!(said(9, 14, 3), "");
        assert_eq!(said(100, 100, 3), "");
    }
}

#[test]
fn a_thousand_random_sequences_agree_with_a_model() {
    for seed in 1..=1000 {
        sequence(seed);
    }
}

fn sequence(seed: u64) {
    let directory = tempfile::tempdir().unwrap();
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let limit = [1, 2, 3, 1000, 100_000][random.below(5) as usize];
    let mut journal = Journal::open(directory.path(), limit).unwrap();
    let mut captures = [Capture::new(limit), Capture::new(limit)];
    let mut lengths = [0_u64; 2];
    let mut order: Vec<(StreamName, u64, u64)> = Vec::new();
    for _ in 0..1 + random.below(30) {
        if random.below(10) == 0 {
            // After any end of the server, the appended bytes are there; the limit is that of the first byte.
            journal = Journal::open(directory.path(), if lengths == [0, 0] { limit } else { 7 }).unwrap();
        }
        let stream = if random.below(2) == 0 { Stdout } else { Stderr };
        let bound = [10, 5_000, 200_000][random.below(3) as usize];
        let count = random.below(bound);
        let bytes = pattern(lengths[stream as usize], count);
        journal.append(stream, &bytes).unwrap();
        captures[stream as usize].push(&bytes);
        order.push((stream, lengths[stream as usize], count));
        lengths[stream as usize] += count;
    }
    assert_eq!(journal.lengths(), (lengths[0], lengths[1]), "seed {seed}");
    let kept = captures.map(Capture::finish);
    for (stream, kept) in [Stdout, Stderr].into_iter().zip(&kept) {
        let got = journal.captured(stream).unwrap();
        assert_eq!(got.missing, kept.missing, "seed {seed}");
        assert!(got.head == kept.head && got.tail == kept.tail, "seed {seed}");
    }
    let from = [random.below(lengths[0] + 1), random.below(lengths[1] + 1)];
    let max = 1 + random.below(100_000) as usize;
    let mut next = from;
    let mut seen = Vec::new();
    for (stream, offset, bytes, length) in gather(&mut journal.ordered(from[0], from[1]), max) {
        assert_eq!(offset, next[stream as usize], "seed {seed}");
        next[stream as usize] += length;
        if let Some(bytes) = bytes {
            assert!(bytes == pattern(offset, length), "seed {seed}");
            seen.push((stream, offset));
        }
    }
    assert_eq!(next, lengths, "seed {seed}: all of it, from where it was asked for");
    // A later piece was written no earlier.
    let written_at = |(stream, offset): (StreamName, u64)| {
        order
            .iter()
            .position(|(of, start, count)| *of == stream && (*start..*start + *count).contains(&offset))
    };
    assert!(seen.iter().map(|at| written_at(*at).unwrap()).is_sorted(), "seed {seed}");
}

#[test]
fn disk_use_is_bounded_and_order_degrades_last() {
    let directory = tempfile::tempdir().unwrap();
    let limit = 256 * 1024;
    let journal = Journal::open(directory.path(), limit).unwrap();
    let chunk = pattern(0, 10_000);
    for _ in 0..2_000 {
        journal.append(Stdout, &chunk).unwrap();
        journal.append(Stderr, &chunk[..3]).unwrap();
    }
    let blocks: u64 = fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().blocks() * 512)
        .sum();
    // 20 MB were printed to stdout.
    assert!(blocks < limit + 64 * 1024 + 256 * 1024, "{blocks}");
    for journal in [journal.clone(), Journal::open(directory.path(), limit).unwrap()] {
        assert_eq!(journal.lengths(), (20_000_000, 6_000));
        let pieces = gather(&mut journal.ordered(0, 0), 1 << 20);
        // All of stderr is kept, although most of stdout between it is not.
        let stderr: u64 =
            pieces.iter().filter(|piece| piece.0 == Stderr && piece.2.is_some()).map(|piece| piece.3).sum();
        assert_eq!(stderr, 6_000);
        // The newest pieces are in their exact order.
        let mut last: Vec<(StreamName, u64)> = Vec::new();
        for piece in pieces.iter().rev().take(9) {
            match last.last_mut() {
                // Reads are split at the place at which the ring begins again.
                Some((stream, length)) if *stream == piece.0 => *length += piece.3,
                _ => last.push((piece.0, piece.3)),
            }
        }
        last.truncate(4);
        assert_eq!(last, [(Stderr, 3), (Stdout, 10_000), (Stderr, 3), (Stdout, 10_000)]);
    }
}

#[test]
fn more_changes_between_streams_than_are_kept_lose_order_but_no_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::open(directory.path(), 1 << 20).unwrap();
    let changes = 4 * 4096 + 123;
    for at in 0..changes {
        journal.append(Stdout, &pattern(at, 1)).unwrap();
        journal.append(Stderr, &pattern(at, 1)).unwrap();
    }
    let mut slow = journal.ordered(0, 0);
    for _ in 0..10 {
        slow.next(1).unwrap();
    }
    journal.append(Stdout, &pattern(changes, 1)).unwrap();
    for journal in [journal.clone(), Journal::open(directory.path(), 1 << 20).unwrap()] {
        let pieces = gather(&mut journal.ordered(0, 0), 1 << 20);
        let of = |stream| -> Vec<u8> {
            pieces
                .iter()
                .filter(|piece| piece.0 == stream)
                .flat_map(|piece| piece.2.clone().unwrap())
                .collect()
        };
        assert!(of(Stdout) == pattern(0, changes + 1) && of(Stderr) == pattern(0, changes));
        assert!(pieces.len() > 8000, "{}", pieces.len());
        assert!(pieces.iter().any(|piece| piece.3 > 1000), "the middle is without order");
    }
    let rest: u64 = gather(&mut slow, 1 << 20).iter().map(|piece| piece.3).sum();
    assert_eq!(rest, 2 * changes + 1 - 10);
}

#[test]
fn a_server_killed_at_any_byte_of_an_append_leaves_a_whole_journal() {
    let directory = tempfile::tempdir().unwrap();
    let write = |path: &Path| {
        let journal = Journal::open(path, 1000).unwrap();
        journal.append(Stdout, b"first").unwrap();
        journal.append(Stderr, b"second").unwrap();
        journal
    };
    let sizes = directory.path().join("sizes");
    write(&sizes);
    let sizes = ["stdout", "stderr", "order"].map(|name| fs::metadata(sizes.join(name)).unwrap().len());
    assert_eq!(sizes, [5, 6, 96]);
    // The data was cut, or the data was there and its entry was not, or not whole.
    for (number, (data, order)) in
        (0..=6).map(|data| (data, 64)).chain((64..=96).map(|order| (6, order))).enumerate()
    {
        let path = directory.path().join(number.to_string());
        write(&path);
        fs::File::options().write(true).open(path.join("stderr")).unwrap().set_len(data).unwrap();
        fs::File::options().write(true).open(path.join("order")).unwrap().set_len(order).unwrap();
        for round in 0..2 {
            let journal = Journal::open(&path, 1000).unwrap();
            let said: Vec<u8> = gather(&mut journal.ordered(0, 0), 99)
                .into_iter()
                .flat_map(|piece| piece.2.unwrap())
                .collect();
            let mut expected = [b"first", &b"second"[..data as usize]].concat();
            if round == 1 {
                expected.extend_from_slice(b"third");
            }
            assert_eq!(said, expected, "data {data}, order {order}");
            assert_eq!(journal.lengths(), (if round == 0 { 5 } else { 10 }, data));
            journal.append(Stdout, b"third").unwrap();
        }
    }
    // The disk lost the bytes, not the server: they are counted, and reported.
    let path = directory.path().join("power");
    write(&path);
    fs::File::options().write(true).open(path.join("stderr")).unwrap().set_len(2).unwrap();
    let journal = Journal::open(&path, 1000).unwrap();
    assert_eq!(journal.read_at(Stderr, 0, 99).unwrap(), Piece::Bytes(b"se".to_vec()));
    assert_eq!(journal.read_at(Stderr, 2, 99).unwrap(), Piece::Gap { bytes: 4 });
    journal.append(Stderr, b"more").unwrap();
    let journal = Journal::open(&path, 1000).unwrap();
    assert_eq!(journal.read_at(Stderr, 2, 99).unwrap(), Piece::Gap { bytes: 4 });
    assert_eq!(journal.read_at(Stderr, 6, 99).unwrap(), Piece::Bytes(b"more".to_vec()));
}

#[test]
fn a_full_disk_costs_the_bytes_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/dev/full", directory.path().join("stdout")).unwrap();
    let journal = Journal::open(directory.path(), 1000).unwrap();
    assert!(matches!(journal.append(Stdout, b"lost"), Err(JournalError::Full { .. })));
    journal.append(Stderr, b"kept").unwrap();
    assert!(matches!(journal.append(Stdout, b"again"), Err(JournalError::Full { .. })));
    assert_eq!(journal.lengths(), (9, 4));
    assert_eq!(journal.read_at(Stdout, 0, 99).unwrap(), Piece::Gap { bytes: 9 });
    journal.finish();
    // There is room now, and another server.
    fs::remove_file(directory.path().join("stdout")).unwrap();
    let journal = Journal::open(directory.path(), 1000).unwrap();
    assert_eq!(journal.lengths(), (9, 4));
    journal.append(Stdout, b"room").unwrap();
    journal.skip(Stdout, 3).unwrap();
    journal.append(Stdout, b"end").unwrap();
    for journal in [journal.clone(), Journal::open(directory.path(), 1000).unwrap()] {
        let kept = journal.captured(Stdout).unwrap();
        assert_eq!((kept.head, kept.tail, kept.missing), (vec![], b"end".to_vec(), 16));
        assert_eq!(journal.read_at(Stdout, 9, 99).unwrap(), Piece::Bytes(b"room".to_vec()));
        assert_eq!(journal.read_at(Stdout, 13, 99).unwrap(), Piece::Gap { bytes: 3 });
        assert_eq!(journal.read_at(Stderr, 0, 99).unwrap(), Piece::Bytes(b"kept".to_vec()));
    }
}

#[test]
fn when_not_even_the_loss_can_be_written_down_nothing_wrong_is() {
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/dev/full", directory.path().join("missing")).unwrap();
    std::os::unix::fs::symlink("/dev/full", directory.path().join("order")).unwrap();
    let journal = Journal::open(directory.path(), 1000).unwrap();
    for _ in 0..3 {
        assert!(matches!(journal.append(Stdout, b"lost"), Err(JournalError::Full { .. })));
    }
    assert!(journal.skip(Stderr, 2).is_err());
    assert_eq!(journal.lengths(), (12, 2));
    let pieces = gather(&mut journal.ordered(0, 0), 99);
    assert_eq!(pieces, [(Stdout, 0, None, 12), (Stderr, 0, None, 2)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_see_everything_while_it_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let total: u64 = 4 << 20;
    let journal = Journal::open(directory.path(), 1 << 20).unwrap();
    let follow = |max| {
        let mut ordered = journal.ordered(0, 0);
        tokio::spawn(async move {
            let (mut next, mut kept) = ([0_u64; 2], 0_u64);
            while let Some(OrderedPiece { stream, offset, piece }) = ordered.follow(max).await.unwrap() {
                assert_eq!(offset, next[stream as usize]);
                next[stream as usize] += match piece {
                    Piece::Bytes(bytes) => {
                        assert!(bytes == pattern(offset, bytes.len() as u64), "wrong bytes at {offset}");
                        kept += bytes.len() as u64;
                        bytes.len() as u64
                    }
                    Piece::Gap { bytes } => bytes,
                    Piece::End => panic!("an end is not a piece"),
                };
            }
            (next, kept)
        })
    };
    let followers = [follow(64 << 10), follow(1 << 20), follow(1000)];
    let writer = journal.clone();
    let written = tokio::task::spawn_blocking(move || {
        let mut random = Random(42);
        let mut lengths = [0_u64; 2];
        while lengths[0] < total {
            let stream = if random.below(4) == 0 { Stderr } else { Stdout };
            let count = 1 + random.below(60_000);
            writer.append(stream, &pattern(lengths[stream as usize], count)).unwrap();
            lengths[stream as usize] += count;
        }
        writer.finish();
        lengths
    });
    let lengths = written.await.unwrap();
    for follower in followers {
        let (next, kept) = follower.await.unwrap();
        assert_eq!(next, lengths);
        assert!(kept >= 1 << 20, "at least what is kept in the end: {kept}");
    }
}

#[tokio::test]
async fn a_follower_waits_for_news_and_then_for_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::open(directory.path(), 1000).unwrap();
    let mut follower = journal.follow();
    let waits = |follower: &mut Follower| {
        let mut changed = Box::pin(follower.changed());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        changed.as_mut().poll(&mut context).is_pending()
    };
    assert!(waits(&mut follower));
    journal.append(Stdout, b"x").unwrap();
    assert!(follower.changed().await);
    assert!(waits(&mut follower));
    journal.finish();
    assert!(follower.changed().await);
    assert!(!follower.changed().await);
    assert!(!journal.follow().changed().await);
}

/// `cargo test --release -p paddock-records throughput -- --ignored --nocapture`, with TMPDIR on the disk that is
/// measured.
#[test]
#[ignore = "a measurement, which a clock decides: by hand, with --ignored --nocapture"]
fn throughput() {
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::open(directory.path(), 8 << 20).unwrap();
    let chunk = pattern(0, 64 << 10);
    let started = std::time::Instant::now();
    for _ in 0..32 * 1024 {
        journal.append(Stdout, &chunk).unwrap();
    }
    let rate = 2048.0 / started.elapsed().as_secs_f64();
    println!("journal: {rate:.0} MiB/s in 64 KiB chunks");
    assert!(rate > 500.0);
}

#[test]
fn what_is_finished_or_rests_holds_no_descriptor() {
    let directory = tempfile::tempdir().unwrap();
    let open = || {
        let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let targets = links.filter_map(|link| std::fs::read_link(link.path()).ok());
        targets.filter(|target| target.starts_with(directory.path())).count()
    };
    let journal = Journal::open(directory.path(), 1000).unwrap();
    journal.append(StreamName::Stdout, b"one").unwrap();
    journal.append(StreamName::Stderr, b"two").unwrap();
    assert_eq!(open(), 3);
    journal.rest();
    assert_eq!(
        (open(), journal.read_at(StreamName::Stdout, 0, 10).unwrap()),
        (0, Piece::Bytes(b"one".into()))
    );
    journal.append(StreamName::Stdout, b" more").unwrap();
    journal.finish();
    let again = Journal::open(directory.path(), 1000).unwrap();
    assert_eq!(open(), 3);
    again.rest();
    for journal in [journal, again] {
        assert_eq!(journal.captured(StreamName::Stdout).unwrap().to_text(), "one more");
        assert_eq!((journal.captured(StreamName::Stderr).unwrap().to_text().as_str(), open()), ("two", 0));
    }
}

#[test]
fn what_was_there_and_is_not_any_more_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::open(directory.path(), 1000).unwrap();
    journal.append(StreamName::Stdout, &[b'x'; 300]).unwrap();
    journal.finish();
    std::fs::remove_file(directory.path().join("order")).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(directory.path().join("stdout")).unwrap();
    file.set_len(100).unwrap();
    for _ in 0..2 {
        let journal = Journal::open(directory.path(), 1000).unwrap();
        journal.had(300, 0);
        assert_eq!((journal.lengths(), journal.kept_until(StreamName::Stdout, 0)), ((300, 0), 100));
        assert_eq!(journal.captured(StreamName::Stdout).unwrap().missing, 200);
        assert_eq!(journal.read_at(StreamName::Stdout, 100, 10).unwrap(), Piece::Gap { bytes: 200 });
    }
}

#[test]
fn where_a_stream_was_kept_until() {
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::open(directory.path(), 1000).unwrap();
    journal.append(StreamName::Stdout, &[b'x'; 400]).unwrap();
    assert_eq!(journal.kept_until(StreamName::Stdout, 10), 400);
    for _ in 0..100 {
        journal.append(StreamName::Stdout, &[b'y'; 1000]).unwrap();
    }
    let (length, _) = journal.lengths();
    assert_eq!(journal.kept_until(StreamName::Stdout, 10), 500);
    assert_eq!(journal.kept_until(StreamName::Stdout, 600), 600);
    assert_eq!(journal.kept_until(StreamName::Stdout, length - 10), length);
}
