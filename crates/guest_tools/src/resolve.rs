//! Where a path leads, through all links on it. Parts that are missing stay as they are written.

use super::{node, shown, streams};
use paddock_guest_system::failure::{During, Failure, Outcome};
use paddock_protocol::Resolved;
use rustix::fs::{CWD, readlinkat};
use rustix::io::Errno;
use serde_bytes::ByteBuf;

/// As many as the kernel follows.
const MOST_LINKS: usize = 40;
/// The longest path that the kernel takes, and the longest name in it.
const LONGEST_PATH: usize = 4095;
const LONGEST_NAME: usize = 255;

/// The tool.
pub fn resolve(path: &[u8]) -> Outcome<()> {
    let real = real_path(path)?;
    let node = match node::look(&real) {
        Ok(node) => Some(node),
        Err(Failure { errno: Errno::NOENT | Errno::NOTDIR, .. }) => None,
        Err(failure) => return Err(failure),
    };
    streams::answer(&Resolved { path: ByteBuf::from(real), node })
}

/// The absolute path without links, `.` and `..`. It is resolved with the rights and in the root of this process.
pub fn real_path(path: &[u8]) -> Outcome<Vec<u8>> {
    let refuse = |errno| Failure { step: format!("resolve {}", shown(path)), errno };
    let mut real = if path.starts_with(b"/") { Vec::new() } else { working_directory()? };
    let mut waiting: Vec<Vec<u8>> = parts(path);
    let mut links = 0;
    while let Some(part) = waiting.pop() {
        if part == b".." {
            real.truncate(above(&real));
            continue;
        }
        real.push(b'/');
        real.extend(&part);
        if part.len() > LONGEST_NAME || real.len() > LONGEST_PATH {
            return Err(refuse(Errno::NAMETOOLONG));
        }
        match readlinkat(CWD, &real[..], Vec::new()) {
            Ok(target) => {
                links += 1;
                if links > MOST_LINKS {
                    return Err(refuse(Errno::LOOP));
                }
                let target = target.into_bytes();
                real.truncate(if target.starts_with(b"/") { 0 } else { above(&real) });
                waiting.extend(parts(&target));
            }
            // No link, or not there.
            Err(Errno::INVAL | Errno::NOENT | Errno::NOTDIR) => {}
            Err(errno) => return Err(refuse(errno)),
        }
    }
    Ok(if real.is_empty() { b"/".to_vec() } else { real })
}

/// The parts of a path, the first one last.
fn parts(path: &[u8]) -> Vec<Vec<u8>> {
    let parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    parts.rev().map(<[u8]>::to_vec).collect()
}

/// The length of the directory of a path that begins with `/` or is empty.
fn above(path: &[u8]) -> usize {
    path.iter().rposition(|byte| *byte == b'/').unwrap_or(0)
}

fn working_directory() -> Outcome<Vec<u8>> {
    let step = || "find the working directory".to_string();
    let found = rustix::process::getcwd(Vec::new()).during(step)?.into_bytes();
    match &found[..] {
        b"/" => Ok(Vec::new()),
        // The kernel names a directory so that is not below the root.
        _ if !found.starts_with(b"/") => Err(Failure { step: step(), errno: Errno::NOENT }),
        _ => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_and_missing_parts_stay() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        std::fs::create_dir_all(top.join("a/b")).unwrap();
        std::fs::write(top.join("a/file"), b"x").unwrap();
        for (target, name) in
            [("a/b", "here"), ("../file", "a/b/up"), ("/no/such", "away"), ("none", "dangling")]
        {
            symlink(target, top.join(name)).unwrap();
        }
        let real = |path: &str| {
            let found =
                real_path([top.as_os_str().as_bytes(), b"/", path.as_bytes()].concat().as_slice()).unwrap();
            let found = String::from_utf8(found).unwrap();
            found.strip_prefix(&format!("{}/", top.display())).map_or(found.clone(), str::to_string)
        };
        let cases = [
            ("here", "a/b"),
            ("here/up", "a/file"),
            ("./here//../b/./up", "a/file"),
            ("here/new/er", "a/b/new/er"),
            ("new/../here", "a/b"),
            ("dangling", "none"),
            ("a/file/x", "a/file/x"),
            ("away/x", "/no/such/x"),
            ("../../../../../../../../..", "/"),
        ];
        for (path, wanted) in cases {
            assert_eq!(real(path), wanted, "{path}");
        }
    }

    #[test]
    fn loops_and_endless_paths_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        symlink("loop", top.join("loop")).unwrap();
        // Each is longer than the one before: without a bound, the path would grow for ever.
        symlink("grow/grow/grow", top.join("grow")).unwrap();
        for (name, errno) in [("loop", Errno::LOOP), ("grow", Errno::LOOP)] {
            let refused = real_path(top.join(name).as_os_str().as_bytes()).unwrap_err();
            assert_eq!(refused.errno, errno, "{name}");
        }
        let long = ["/x"; 3000].concat();
        assert_eq!(real_path(long.as_bytes()).unwrap_err().errno, Errno::NAMETOOLONG);
        assert_eq!(
            real_path(["/", &"x".repeat(256)].concat().as_bytes()).unwrap_err().errno,
            Errno::NAMETOOLONG
        );
    }
}
