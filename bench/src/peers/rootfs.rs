//! The root that runc and docker are given: the links of a merged /usr, and places to mount on.

use anyhow::Result;
use std::fs::create_dir_all;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Precondition: `root` exists and is empty.
pub fn build(root: &Path) -> Result<()> {
    for name in
        ["usr/bin", "usr/lib", "usr/lib64", "usr/sbin", "proc", "sys", "dev", "etc", "tmp", "workspace"]
    {
        create_dir_all(root.join(name))?;
    }
    for name in ["bin", "lib", "lib64", "sbin"] {
        symlink(Path::new("usr").join(name), root.join(name))?;
    }
    Ok(())
}

/// Debian also has a busybox that needs the host's libraries: such a one is of no use in a small root.
pub fn is_static(program: &Path) -> bool {
    let mut start = [0; 4096];
    let read = std::fs::File::open(program).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && !start.windows(4).any(|bytes| bytes == b"/ld-")
}

/// A `true` that needs nothing from the host.
pub fn add_busybox(root: &Path, busybox: &Path) -> Result<()> {
    std::fs::copy(busybox, root.join("usr/bin/busybox"))?;
    symlink("busybox", root.join("usr/bin/true"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_a_loader_is_not_static() {
        assert!(!is_static(Path::new("/bin/true")));
        assert!(!is_static(Path::new("/does/not/exist")));
    }
}
