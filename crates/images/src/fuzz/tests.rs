use std::io::Write;

use super::fuzz_unpack;

/// Small, fast and always the same.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

fn header(kind: u8, name: &[u8], link: &[u8], size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.as_old_mut().linkname[..link.len()].copy_from_slice(link);
    header.set_entry_type(tar::EntryType::new(kind));
    header.set_mode(0o6777);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(1);
    header.set_size(size);
    header.set_cksum();
    header
}

/// Names and kinds that have broken other unpackers, in random order.
fn archive(random: &mut Random) -> Vec<u8> {
    const NAMES: [&[u8]; 16] = [
        b"a",
        b"a/b",
        b"a/b/c",
        b"./a",
        b"link",
        b"link/x",
        b"../canary/secret",
        b"link/canary/secret",
        b".wh.a",
        b"a/.wh.b",
        b".wh..wh..opq",
        b"link/.wh.canary",
        b".wh...",
        b"",
        b"/tmp/x",
        b"link/.wh..wh..opq",
    ];
    const LINKS: [&[u8]; 7] =
        [b"..", b"../canary", b"../canary/secret", b"a", b"a/b", b"link", b"link/canary/secret"];
    const KINDS: &[u8] = b"0000001122233455555567SVxgLKLx";
    let mut bytes = Vec::new();
    for _ in 0..=random.below(12) {
        let kind = KINDS[random.below(KINDS.len())];
        let content: &[u8] = match kind {
            b'L' | b'K' => NAMES[random.below(NAMES.len())],
            b'x' | b'g' => {
                [&b"17 path=../canary\n"[..], b"11 size=10\n", b"19 linkpath=../can\n"][random.below(3)]
            }
            b'0' => b"content",
            _ => b"",
        };
        let (name, link) = (NAMES[random.below(NAMES.len())], LINKS[random.below(LINKS.len())]);
        bytes.extend(header(kind, name, link, content.len() as u64).as_bytes());
        bytes.extend(content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes.extend([0; 1024]);
    bytes
}

/// Changes a few bytes, and then corrects the checksums so that the change is read.
///
/// No link gets to begin with a slash: if the code under test is ever broken, the damage stays in the test's own
/// directory, also for root.
fn mutate(bytes: &mut [u8], random: &mut Random) {
    for _ in 0..random.below(8) {
        let at = random.below(bytes.len());
        bytes[at] =
            if random.below(3) == 0 { b"/.\0\x80\xff07"[random.below(7)] } else { random.next() as u8 };
    }
    for block in bytes.chunks_exact_mut(512).filter(|block| block[257..262] == *b"ustar") {
        if block[157] == b'/' {
            block[157] = b'r';
        }
        let mut header = tar::Header::new_old();
        header.as_mut_bytes().copy_from_slice(block);
        header.set_cksum();
        block.copy_from_slice(header.as_bytes());
    }
}

#[test]
fn mutated_archives_stay_inside() {
    let mut random = Random(0x5eed_5eed_5eed_5eed);
    for round in 0..2000 {
        let mut bytes = archive(&mut random);
        if round % 4 != 0 {
            mutate(&mut bytes, &mut random);
        }
        match random.below(8) {
            0 => bytes.truncate(random.below(bytes.len())),
            1 => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(&bytes).unwrap();
                bytes = encoder.finish().unwrap();
                let at = random.below(bytes.len());
                bytes[at] ^= (random.below(3) == 0) as u8;
            }
            2 => bytes = zstd::encode_all(bytes.as_slice(), 1).unwrap(),
            _ => {}
        }
        fuzz_unpack(&bytes);
    }
}

/// A check that cannot fail proves nothing.
#[test]
fn the_canary_notices() {
    let directory = tempfile::tempdir().unwrap();
    let canary = directory.path().join("canary");
    super::prepare_canary(&canary).unwrap();
    let before = super::fingerprint(&canary);
    std::fs::write(canary.join("secret"), "changed").unwrap();
    assert_ne!(before, super::fingerprint(&canary));
}
