//! Namespaces for a control to spoil: mount, pid, net, ipc, uts, cgroup, and a user namespace where the caller is
//! not root. Nothing that is done in them outlives the process.

use super::system::{End, call, check, fork, text, wait};
use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Addresses of the outside, kept for documentation, on the loopback of the throw-away network.
const OUTSIDE_4: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const OUTSIDE_6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

/// Runs `work` as process 1 of such namespaces, with a directory in memory at `scratch`.
pub fn run(scratch: &str, work: impl FnOnce() -> i32) -> i32 {
    if let Err(error) = leave() {
        eprintln!("probe: no throw-away namespaces: {error}");
        return 4;
    }
    let child = fork(|| {
        // SAFETY: takes no memory. With it everything in the namespace goes.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        if let Err(error) = furnish(scratch) {
            eprintln!("probe: the throw-away namespaces are not whole: {error}");
        }
        work()
    });
    match child.and_then(wait) {
        Ok(End::Exited(code)) => code,
        _ => 1,
    }
}

fn leave() -> io::Result<()> {
    let ids = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut flags = libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWNET;
    flags |= libc::CLONE_NEWIPC | libc::CLONE_NEWUTS | libc::CLONE_NEWCGROUP;
    if ids.0 != 0 {
        flags |= libc::CLONE_NEWUSER;
    }
    // SAFETY: takes no memory.
    check(i64::from(unsafe { libc::unshare(flags) }))?;
    if ids.0 != 0 {
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("0 {} 1", ids.0))?;
        fs::write("/proc/self/gid_map", format!("0 {} 1", ids.1))?;
    }
    mount("none", "/", "", libc::MS_REC | libc::MS_PRIVATE, "")
}

/// An own /proc, an overlay to be seen in mountinfo, and outside addresses on loopback.
fn furnish(scratch: &str) -> io::Result<()> {
    mount("proc", "/proc", "proc", libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC, "")?;
    mount("scratch", scratch, "tmpfs", 0, "size=512m")?;
    let at = |name: &str| format!("{scratch}/{name}");
    for name in ["low", "up", "work", "all", "place"] {
        fs::create_dir(at(name))?;
    }
    let layers = format!("lowerdir={},upperdir={},workdir={}", at("low"), at("up"), at("work"));
    // Of this network namespace: datagrams of ICMP, which a new one gives to no user. If it cannot be set, the control
    // says so.
    let _ = fs::write("/proc/sys/net/ipv4/ping_group_range", "0 0");
    let overlay = mount("overlay", &at("all"), "overlay", 0, &layers);
    addresses()?;
    overlay
}

fn mount(source: &str, target: &str, kind: &str, flags: libc::c_ulong, data: &str) -> io::Result<()> {
    let (source, target, kind, data) = (text(source), text(target), text(kind), text(data));
    let words = [source.as_ptr() as i64, target.as_ptr() as i64, kind.as_ptr() as i64];
    call(libc::SYS_mount, [words[0], words[1], words[2], flags as i64, data.as_ptr() as i64, 0]).map(drop)
}

fn request(name: &[u8]) -> libc::ifreq {
    // SAFETY: an all-zero ifreq is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    request
}

fn addresses() -> io::Result<()> {
    let datagram = i64::from(libc::SOCK_DGRAM | libc::SOCK_CLOEXEC);
    let four = call(libc::SYS_socket, [i64::from(libc::AF_INET), datagram, 0, 0, 0, 0])?;
    let mut up = request(b"lo");
    up.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
    call(libc::SYS_ioctl, [four, libc::SIOCSIFFLAGS as i64, &raw const up as i64, 0, 0, 0])?;
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: 0,
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(OUTSIDE_4.octets()) },
        sin_zero: [0; 8],
    };
    let mut alias = request(b"lo:1");
    // SAFETY: both are 16 bytes of plain numbers, an address in its general and its own form.
    alias.ifr_ifru.ifru_addr = unsafe { std::mem::transmute::<libc::sockaddr_in, libc::sockaddr>(address) };
    call(libc::SYS_ioctl, [four, libc::SIOCSIFADDR as i64, &raw const alias as i64, 0, 0, 0])?;

    // A host without IPv6 has no such socket: the attacks over it then say so themselves.
    let Ok(six) = call(libc::SYS_socket, [i64::from(libc::AF_INET6), datagram, 0, 0, 0, 0]) else {
        return Ok(());
    };
    #[repr(C)]
    struct Request6 {
        address: [u8; 16],
        prefix: u32,
        interface: i32,
    }
    let loopback = Request6 { address: OUTSIDE_6.octets(), prefix: 128, interface: 1 };
    call(libc::SYS_ioctl, [six, libc::SIOCSIFADDR as i64, &raw const loopback as i64, 0, 0, 0]).map(drop)
}
