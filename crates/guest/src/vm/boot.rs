//! The first steps of a VM: a root that can be moved away from, the kernel's file systems, its modules, and the port
//! that leads out.

use crate::failure::{During, Failure, Outcome};
use paddock_protocol::VM_PORT;
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount, mount_move};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// A device that was found is there long before that.
const DEVICE_TIMEOUT: Duration = Duration::from_secs(20);
const PAUSE_BETWEEN_LOOKS: Duration = Duration::from_millis(2);
const MODULES: &str = "/modules";

/// Mounts, modules, and a root that `pivot_root` can leave, which that of the kernel's archive is not.
pub fn boot() -> Outcome<()> {
    for (kind, path) in [("proc", "proc"), ("sysfs", "sys"), ("devtmpfs", "dev")] {
        make(path)?;
        put(kind, kind, &format!("/{path}"), MountFlags::NOSUID | MountFlags::NOEXEC, "")?;
    }
    load_modules()?;
    make("new")?;
    put("tmpfs", "tmpfs", "/new", MountFlags::NOSUID, "mode=755")?;
    for path in ["usr", "disk", "image", "share", "tmp", "etc"] {
        make(&format!("new/{path}"))?;
    }
    for path in ["proc", "sys", "dev"] {
        make(&format!("new/{path}"))?;
        mount_move(format!("/{path}"), format!("/new/{path}")).during(|| format!("move /{path}"))?;
    }
    rustix::process::chdir("/new").during(|| "go to the new root".into())?;
    mount_move(".", "/").during(|| "move the new root".into())?;
    rustix::process::chroot(".").during(|| "enter the new root".into())?;
    rustix::process::chdir("/").during(|| "go to /".into())?;
    put("cgroup2", "cgroup2", "/sys/fs/cgroup", MountFlags::NOSUID | MountFlags::NOEXEC, "")?;
    crate::system::raise_loopback().during(|| "bring loopback up".into())
}

pub fn make(path: &str) -> Outcome<()> {
    match mkdirat(CWD, format!("/{path}"), Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno).during(|| format!("make /{path}")),
    }
}

pub fn put(source: &str, kind: &str, place: &str, flags: MountFlags, options: &str) -> Outcome<()> {
    let options = std::ffi::CString::new(options)
        .map_err(|_| Failure { step: "an option has a NUL".into(), errno: Errno::INVAL })?;
    mount(source, place, kind, flags, options.as_c_str()).during(|| format!("mount {kind} on {place}"))
}

/// In the order of their names, which is that in which they need each other.
fn load_modules() -> Outcome<()> {
    let mut names: Vec<_> = std::fs::read_dir(MODULES)
        .during(|| format!("list {MODULES}"))?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    names.sort();
    for path in names {
        let module = std::fs::File::open(&path).during(|| format!("open {}", path.display()))?;
        // SAFETY: a descriptor that lives across the call, an empty C string, and no flags.
        let loaded = unsafe { libc::syscall(libc::SYS_finit_module, module.as_raw_fd(), c"".as_ptr(), 0) };
        if loaded != 0 && crate::work::last_errno() != Errno::EXIST {
            return Err(crate::work::last_errno()).during(|| format!("load {}", path.display()));
        }
        let _ = std::fs::remove_file(&path);
    }
    Ok(())
}

/// The port, once its device was found. Unblocked.
pub fn open_port() -> Outcome<OwnedFd> {
    let deadline = Instant::now() + DEVICE_TIMEOUT;
    loop {
        for entry in std::fs::read_dir("/sys/class/virtio-ports").into_iter().flatten().flatten() {
            let name = std::fs::read_to_string(entry.path().join("name")).unwrap_or_default();
            if name.trim() == VM_PORT {
                let device = Path::new("/dev").join(entry.file_name());
                let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
                match openat(CWD, &device, flags, Mode::empty()) {
                    Err(Errno::NOENT) => {}
                    opened => return opened.during(|| format!("open {}", device.display())),
                }
            }
        }
        if Instant::now() > deadline {
            return Err(Errno::NODEV).during(|| format!("find the port `{VM_PORT}`"));
        }
        std::thread::sleep(PAUSE_BETWEEN_LOOKS);
    }
}
