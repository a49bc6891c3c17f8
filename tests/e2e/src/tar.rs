//! A tar archive, written by hand so that it can also hold entries that no honest tool would put there.

/// Type flags of an entry.
const FILE: u8 = b'0';
const SYMBOLIC_LINK: u8 = b'2';
const CHARACTER_DEVICE: u8 = b'3';
const DIRECTORY: u8 = b'5';

const BLOCK: usize = 512;

#[derive(Default)]
pub struct Tar {
    bytes: Vec<u8>,
}

impl Tar {
    pub fn directory(self, name: &str) -> Tar {
        self.entry(name, DIRECTORY, 0o755, "", &[])
    }

    pub fn file(self, name: &str, mode: u32, content: &[u8]) -> Tar {
        self.entry(name, FILE, mode, "", content)
    }

    pub fn link(self, name: &str, target: &str) -> Tar {
        self.entry(name, SYMBOLIC_LINK, 0o777, target, &[])
    }

    pub fn device(self, name: &str) -> Tar {
        self.entry(name, CHARACTER_DEVICE, 0o666, "", &[])
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len() + 2 * BLOCK, 0);
        self.bytes
    }

    fn entry(mut self, name: &str, kind: u8, mode: u32, target: &str, content: &[u8]) -> Tar {
        let mut header = [0; BLOCK];
        let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
        put(0, name);
        put(100, &format!("{mode:07o}"));
        put(108, "0000000");
        put(116, "0000000");
        put(124, &format!("{:011o}", content.len()));
        put(136, "00000000000");
        put(148, "        ");
        put(156, &char::from(kind).to_string());
        put(157, target);
        put(257, "ustar\x0000");
        // The numbers of a device: 1:3, which is /dev/null.
        put(329, "0000001");
        put(337, "0000003");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.bytes.extend_from_slice(&header);
        self.bytes.extend_from_slice(content);
        self.bytes.resize(self.bytes.len().next_multiple_of(BLOCK), 0);
        self
    }
}
