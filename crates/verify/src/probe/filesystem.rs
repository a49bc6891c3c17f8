//! A: files of the host, protected names, mounts, devices.

use super::system::{call, check, fact, text, workspace};
use crate::attack::{Attack, Finding, Outcome};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::process::Command;

pub const ATTACKS: &[Attack] = &[
    Attack::text("A1-write-etc", "a new file in /etc", create, "/etc/paddock-probe-mark"),
    Attack::text("A1-write-usr", "a new file in /usr", create, "/usr/paddock-probe-mark"),
    Attack::text("A1-write-usr-bin", "a new program in /usr/bin", create, "/usr/bin/paddock-probe-mark"),
    Attack::text("A1-write-bin", "a new program in /bin", create, "/bin/paddock-probe-mark"),
    Attack::text("A1-write-lib", "a new file in /lib", create, "/lib/paddock-probe-mark"),
    Attack::text("A1-write-root", "a new file in /", create, "/paddock-probe-mark"),
    Attack::plain("A1-write-host-home", "a new file in the caller's home", write_home),
    Attack::text("A1-overwrite-usr", "an open for writing of /usr/bin/env", open_write, "/usr/bin/env"),
    Attack::text("A1-overwrite-probe", "an open for writing of a --read file", open_fact, "readonly"),
    Attack::text("A2-read-private", "a secret in a 0700 directory", read_fact, "canary_private"),
    Attack::text("A2-read-public", "a world-readable file outside the roots", read_fact, "canary_public"),
    Attack::text("A2-list-home", "the caller's home directory", list_fact, "home"),
    Attack::plain("A3-dotdot", "../../.. out of the workspace", dotdot),
    Attack::plain("A3-symlink", "a symlink in the workspace to the secret", through_symlink),
    Attack::text("A3-proc-self-root", "/proc/self/root", read_below, "/proc/self/root"),
    Attack::text("A3-proc-1-root", "/proc/1/root", read_below, "/proc/1/root"),
    Attack::text(
        "A3-proc-self-cwd",
        "/proc/self/cwd/..",
        read_below,
        "/proc/self/cwd/../../../../../../../..",
    ),
    Attack::plain("A4-inherited-fds", "an inherited descriptor above 2", inherited),
    Attack::plain("A4-openat-fds", "openat(fd, ..) on every number up to 1024", openat_all),
    Attack::number(
        "A10-remount",
        "remount of / read-write",
        mount_flags,
        (libc::MS_REMOUNT | libc::MS_BIND) as i64,
    ),
    Attack::number("A10-bind", "a bind mount of /", mount_flags, libc::MS_BIND as i64),
    Attack::plain("A10-umount", "umount of /proc", umount),
    Attack::plain("A10-open-tree", "open_tree clone of /", open_tree),
    Attack::number("A13-mknod-block", "mknod of a block device", mknod, libc::S_IFBLK as i64),
    Attack::number("A13-mknod-char", "mknod of a character device", mknod, libc::S_IFCHR as i64),
    Attack::plain("A13-planted-node", "a device node that lies in the workspace", planted_node),
    Attack::text("A14-setuid", "a setuid-root program in the workspace", gain, "setuid-probe"),
    Attack::text("A14-file-capabilities", "a program with file capabilities", gain, "fscaps-probe"),
    Attack::plain("A15-open-by-handle", "open_by_handle_at of the root's inode", by_handle),
    Attack::plain("A16-chroot", "chroot and the walk out of it", chroot),
    Attack::plain("A16-pivot-root", "pivot_root", pivot),
    Attack::plain("A17-overlay-paths", "upper and work directories in mountinfo", overlay_paths),
    Attack::plain("A20-host-socket", "a pathname socket of the host", host_socket),
    Attack::text("A22-host-tmp", "a file in the host's /tmp", read_fact, "mark_tmp"),
    Attack::text("A22-host-var-tmp", "a file in the host's /var/tmp", read_fact, "mark_var_tmp"),
    Attack::text("A22-host-shm", "a file in the host's /dev/shm", read_fact, "mark_shm"),
    Attack::plain("A22-host-ipc", "a System V segment of the host", host_segment).on_host(),
    Attack::text("A23-truncate", "truncate of a read-only file", readonly, "truncate"),
    Attack::text("A23-chmod", "chmod of a read-only file", readonly, "chmod"),
    Attack::text("A23-unlink", "unlink of a read-only file", readonly, "unlink"),
    Attack::text("A23-utimes", "new times on a read-only file", readonly, "utimes"),
    Attack::text("A23-xattr", "setxattr on a read-only file", readonly, "xattr"),
    Attack::text("A23-setflags", "FS_IOC_SETFLAGS on a read-only file", readonly, "setflags"),
    Attack::text("A23-fallocate", "fallocate of a read-only file", readonly, "fallocate"),
];

/// Leaves the file where it is inside, so that the harness can look for it on the host; cleans up outside.
fn create(path: &'static str) -> Finding {
    let made = OpenOptions::new().write(true).create_new(true).open(path);
    let finding = Finding::of(made, path);
    if fact("place") == "outside" {
        let _ = fs::remove_file(path);
    }
    finding
}

fn write_home() -> Finding {
    let path = format!("{}/paddock-probe-mark", fact("home"));
    let finding = Finding::of(OpenOptions::new().write(true).create_new(true).open(&path), &path);
    if fact("place") == "outside" {
        let _ = fs::remove_file(path);
    }
    finding
}

fn open_write(path: &'static str) -> Finding {
    Finding::of(OpenOptions::new().write(true).open(path), path)
}

fn open_fact(name: &'static str) -> Finding {
    Finding::of(OpenOptions::new().write(true).open(fact(name)), name)
}

/// Done only when the host's own value came out.
fn host_value(read: io::Result<Vec<u8>>, what: &str) -> Finding {
    match read {
        Ok(bytes) if String::from_utf8_lossy(&bytes).contains(&fact("canary_text")) => {
            Finding::new(Outcome::Done, what)
        }
        Ok(_) => Finding::new(Outcome::Hidden, format!("{what}: other content")),
        Err(error) => Finding::of(Err::<(), _>(error), what),
    }
}

fn read_fact(name: &'static str) -> Finding {
    host_value(fs::read(fact(name)), name)
}

fn list_fact(name: &'static str) -> Finding {
    match fs::read_dir(fact(name)) {
        Ok(entries) => {
            let mark = fact("home_mark");
            let seen = entries.flatten().any(|entry| *entry.file_name() == *mark);
            Finding::new(if seen { Outcome::Done } else { Outcome::Hidden }, name)
        }
        Err(error) => Finding::of(Err::<(), _>(error), name),
    }
}

fn dotdot() -> Finding {
    host_value(fs::read(workspace(&format!("{}{}", "../".repeat(40), fact("canary_public")))), "../ x 40")
}

fn through_symlink() -> Finding {
    let link = workspace("link-out");
    let _ = fs::remove_file(&link);
    if let Err(error) = symlink(fact("canary_public"), &link) {
        return Finding::new(Outcome::Error, format!("symlink: {error}"));
    }
    host_value(fs::read(&link), "symlink")
}

fn read_below(prefix: &'static str) -> Finding {
    host_value(fs::read(format!("{prefix}{}", fact("canary_public"))), prefix)
}

fn inherited() -> Finding {
    // The directory is read through a descriptor of its own, which is gone by the time its entry is looked at.
    let names: Vec<_> = match fs::read_dir("/proc/self/fd") {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(error) => return Finding::new(Outcome::Error, format!("/proc/self/fd: {error}")),
    };
    let high = |path: &std::path::PathBuf| {
        let number = path.file_name().and_then(|n| n.to_str()).and_then(|n| n.parse::<i32>().ok());
        number.is_some_and(|n| n > 2)
    };
    let open: Vec<String> = names
        .iter()
        .filter(|path| high(path))
        .filter_map(|path| {
            fs::read_link(path).ok().map(|to| format!("{} -> {}", path.display(), to.display()))
        })
        .collect();
    let outcome = if open.is_empty() { Outcome::Denied } else { Outcome::Done };
    Finding::new(outcome, format!("{open:?}"))
}

fn openat_all() -> Finding {
    let up = text("../../../../../..");
    for fd in 3..1024 {
        let opened = call(libc::SYS_openat, [fd, up.as_ptr() as i64, libc::O_PATH as i64, 0, 0, 0]);
        if opened.is_ok() {
            return Finding::new(Outcome::Done, format!("descriptor {fd} is a directory"));
        }
    }
    Finding::new(Outcome::Denied, "no directory among the descriptors")
}

fn mount_flags(flags: i64) -> Finding {
    // A remount is of the root; a new bind goes where it does not hide the root from the attacks that follow.
    let remount = flags & libc::MS_REMOUNT as i64 != 0;
    let (from, to) = (text("/"), text(&if remount { "/".to_string() } else { fact("scratch") }));
    Finding::of(call(libc::SYS_mount, [from.as_ptr() as i64, to.as_ptr() as i64, 0, flags, 0, 0]), "mount")
}

fn umount() -> Finding {
    let target = text("/proc");
    let lazy = i64::from(libc::MNT_DETACH);
    let finding =
        Finding::of(call(libc::SYS_umount2, [target.as_ptr() as i64, lazy, 0, 0, 0, 0]), "umount /proc");
    if finding.outcome == Outcome::Done {
        let kind = text("proc");
        let (kind, target) = (kind.as_ptr() as i64, target.as_ptr() as i64);
        let _ = call(libc::SYS_mount, [kind, target, kind, 0, 0, 0]);
    }
    finding
}

fn open_tree() -> Finding {
    let root = text("/");
    let at = i64::from(libc::AT_FDCWD);
    Finding::of(call(libc::SYS_open_tree, [at, root.as_ptr() as i64, 1, 0, 0, 0]), "open_tree(CLONE)")
}

fn mknod(kind: i64) -> Finding {
    let path = workspace("node");
    let _ = fs::remove_file(&path);
    let name = text(&path);
    let at = i64::from(libc::AT_FDCWD);
    // 7:0 is the first loop device, 1:5 is /dev/zero: neither does harm where the control makes it.
    let device = if kind == i64::from(libc::S_IFBLK) { libc::makedev(7, 0) } else { libc::makedev(1, 5) };
    let made = call(libc::SYS_mknodat, [at, name.as_ptr() as i64, kind | 0o666, device as i64, 0, 0]);
    let _ = fs::remove_file(path);
    Finding::of(made, "mknod")
}

fn planted_node() -> Finding {
    let mut byte = [1u8];
    Finding::of(File::open(workspace("zero-node")).and_then(|mut f| f.read_exact(&mut byte)), "open and read")
}

/// Effective user and capabilities, for the exec'd half of [`gain`].
pub fn privileges() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_whitespace().skip(1).take(2).collect::<Vec<_>>().join("/")
    };
    format!("euid {} caps {}", field("Uid:").split('/').nth(1).unwrap_or("?"), field("CapPrm:"))
}

fn gain(program: &'static str) -> Finding {
    if fact("place") == "outside" {
        // The control starts as root, from where nothing can be gained: become an ordinary user first.
        // SAFETY: no memory is involved; this process is a child made for this attack.
        unsafe { libc::setgroups(0, std::ptr::null()) };
        // SAFETY: as above.
        if let Err(error) = check(i64::from(unsafe { libc::setresuid(61234, 61234, 61234) })) {
            return Finding::new(Outcome::Error, format!("setresuid: {error}"));
        }
    }
    let before = privileges();
    match Command::new(workspace(program)).args([super::PROBE, "--privileges"]).output() {
        Ok(output) => {
            let after = String::from_utf8_lossy(&output.stdout).trim().to_string();
            let outcome = match (after.is_empty(), after == before) {
                (true, _) => Outcome::Error,
                (_, true) => Outcome::Denied,
                _ => Outcome::Done,
            };
            Finding::new(outcome, format!("{before} -> {after}"))
        }
        Err(error) => Finding::of(Err::<(), _>(error), "exec"),
    }
}

fn by_handle() -> Finding {
    #[repr(C)]
    struct Handle {
        bytes: u32,
        kind: i32,
        data: [u8; 128],
    }
    let mut handle = Handle { bytes: 128, kind: 0, data: [0; 128] };
    let mut mount_id = 0i32;
    // /usr is of a file system on disk wherever it stands; memory and overlay ones may give no handles.
    let path = text("/usr");
    let (at, handle_at) = (i64::from(libc::AT_FDCWD), &raw mut handle as i64);
    let named = call(
        libc::SYS_name_to_handle_at,
        [at, path.as_ptr() as i64, handle_at, &raw mut mount_id as i64, 0, 0],
    );
    if named.is_err() {
        // The shocker needs no name: the root's inode is 2 on ext4, generation 0.
        handle = Handle { bytes: 8, kind: 1, data: [0; 128] };
        handle.data[0] = 2;
    }
    let Ok(place) = File::open("/usr") else {
        return Finding::new(Outcome::Error, "no /usr");
    };
    let opened = call(
        libc::SYS_open_by_handle_at,
        [i64::from(place.as_raw_fd()), &raw mut handle as i64, i64::from(libc::O_PATH), 0, 0, 0],
    );
    Finding::reached(opened, "open_by_handle_at")
}

fn chroot() -> Finding {
    let place = text("/usr");
    Finding::of(call(libc::SYS_chroot, [place.as_ptr() as i64, 0, 0, 0, 0, 0]), "chroot")
}

fn pivot() -> Finding {
    let place = text("/");
    let at = place.as_ptr() as i64;
    Finding::reached(call(libc::SYS_pivot_root, [at, at, 0, 0, 0, 0]), "pivot_root")
}

fn overlay_paths() -> Finding {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    // Relative names say nothing of the host.
    let tell = ["upperdir=/", "workdir=/", "lowerdir=/"];
    let shown: Vec<_> = mounts.lines().filter(|line| tell.iter().any(|t| line.contains(t))).collect();
    let outcome = match (mounts.is_empty(), shown.is_empty()) {
        (true, _) => Outcome::Error,
        (_, true) => Outcome::Hidden,
        _ => Outcome::Done,
    };
    Finding::new(outcome, format!("{shown:?}"))
}

fn host_socket() -> Finding {
    Finding::of(std::os::unix::net::UnixStream::connect(fact("unix_path")), "connect")
}

/// Open to everyone, by a number that is the host's.
fn host_segment() -> Finding {
    let id: i32 = fact("segment").parse().unwrap_or(-1);
    // SAFETY: attached read-only wherever the kernel likes; read only if it was attached.
    let at = unsafe { libc::shmat(id, std::ptr::null(), libc::SHM_RDONLY) };
    if at as isize == -1 {
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::EINVAL | libc::EIDRM) => Finding::new(Outcome::Hidden, "no such segment"),
            _ => Finding::of(Err::<(), _>(error), "shmat"),
        };
    }
    let text = fact("canary_text");
    // SAFETY: a segment has at least a page, and the text is shorter.
    let found = unsafe { std::slice::from_raw_parts(at.cast::<u8>(), text.len()) };
    let outcome = if found == text.as_bytes() { Outcome::Done } else { Outcome::Hidden };
    Finding::new(outcome, "attached")
}

/// The file is writable by everyone where it stands on the host, so only the read-only mount holds.
fn readonly(how: &'static str) -> Finding {
    let path = fact("readonly");
    let name = text(&path);
    let at = name.as_ptr() as i64;
    let result = match how {
        "truncate" => call(libc::SYS_truncate, [at, 1, 0, 0, 0, 0]).map(drop),
        "chmod" => fs::set_permissions(&path, fs::Permissions::from_mode(0o666)),
        "unlink" => fs::remove_file(&path).and_then(|()| fs::write(&path, "here again\n")),
        "utimes" => call(libc::SYS_utimensat, [i64::from(libc::AT_FDCWD), at, 0, 0, 0, 0]).map(drop),
        "xattr" => {
            let (key, value) = (text("user.probe"), text("x"));
            call(libc::SYS_setxattr, [at, key.as_ptr() as i64, value.as_ptr() as i64, 1, 0, 0]).map(drop)
        }
        "setflags" => set_flags(&path),
        _ => OpenOptions::new().write(true).custom_flags(libc::O_CLOEXEC).open(&path).and_then(|file| {
            call(libc::SYS_fallocate, [i64::from(file.as_raw_fd()), 0, 0, 4096, 0, 0]).map(drop)
        }),
    };
    Finding::of(result, how)
}

fn set_flags(path: &str) -> io::Result<()> {
    const NODUMP: libc::c_long = 0x40;
    let file = File::open(path)?;
    let mut flags: libc::c_long = 0;
    // SAFETY: flags outlives both calls; the request numbers take a pointer to it.
    check(i64::from(unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_GETFLAGS, &raw mut flags) }))?;
    flags ^= NODUMP;
    // SAFETY: as above.
    check(i64::from(unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_SETFLAGS, &raw const flags) }))
        .map(drop)
}
