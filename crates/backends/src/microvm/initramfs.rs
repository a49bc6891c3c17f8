//! The initramfs of a VM: the guest as its first program, and the kernel modules. A cpio archive in the format `newc`.
//!
//! Written by hand: an entry is a header of thirteen numbers in hexadecimal, a name and the content, and only
//! files and directories are written. Nothing reads such an archive here.

use super::kernel::{Kernel, module_content};
use std::io::Result;

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const FILE: u32 = 0o100_644;

pub fn archive(kernel: &Kernel, guest: &[u8]) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    archive.add("init", PROGRAM, guest);
    for directory in ["dev", "proc", "sys", "new", "modules"] {
        archive.add(directory, DIRECTORY, b"");
    }
    for (number, path) in kernel.modules.iter().enumerate() {
        archive.add(&format!("modules/{number:03}.ko"), FILE, &module_content(path)?);
    }
    Ok(archive.end())
}

#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    inode: u32,
}

impl Archive {
    fn add(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.inode += 1;
        let links = 1;
        let fields =
            [self.inode, mode, 0, 0, links, 0, content.len() as u32, 0, 0, 0, 0, path.len() as u32 + 1, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn end(mut self) -> Vec<u8> {
        self.add("TRAILER!!!", 0, b"");
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_begins_where_the_format_wants_it() {
        let mut archive = Archive::default();
        archive.add("init", PROGRAM, b"hello");
        archive.add("a", DIRECTORY, b"");
        let bytes = archive.end();
        assert!(bytes.starts_with(b"070701000000010000"));
        let starts: Vec<usize> = (0..bytes.len() - 6).filter(|at| &bytes[*at..at + 6] == b"070701").collect();
        assert_eq!(starts.len(), 3);
        assert!(starts.iter().all(|start| start % 4 == 0));
        assert!(bytes.windows(11).any(|window| window == b"TRAILER!!!\0"));
    }
}
