//! Which system calls the work may make: an allow-list. An unknown call does not exist (ENOSYS), a call that is known
//! and refused fails (EPERM), a socket family, kind or protocol that is not for sandboxes is not supported
//! (EAFNOSUPPORT, ESOCKTNOSUPPORT, EPROTONOSUPPORT), and a call of a foreign architecture kills the process.
//!
//! - [`own`]: the calls that the engine gives up itself
//! - [`calls`]: the lists, and everything that depends on the processor
//! - [`program`]: lists to BPF

mod calls;
mod own;
mod program;

pub use own::{give_up_calls, keep_only_calls};

use program::{Check, Verdict};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Terminal requests that put keystrokes into, or talk to, another user's terminal.
const REFUSED_TERMINAL_REQUESTS: [u32; 4] =
    [libc::TIOCSTI as u32, libc::TIOCLINUX as u32, libc::TIOCCONS as u32, libc::TIOCSETD as u32];
/// Requests that btrfs grants to every user: a subvolume made inside a disk would not count against its limit, and a
/// snapshot of the disk would not hold it.
const REFUSED_DISK_REQUESTS: [u32; 8] = [
    0x5000_9401, // SNAP_CREATE
    0x5000_9417, // SNAP_CREATE_V2
    0x5000_940E, // SUBVOL_CREATE
    0x5000_9418, // SUBVOL_CREATE_V2
    0x5000_940F, // SNAP_DESTROY
    0x5000_943F, // SNAP_DESTROY_V2
    0x4008_941A, // SUBVOL_SETFLAGS
    0xC0C8_9425, // SET_RECEIVED_SUBVOL
];
/// Every flag of clone(2) that makes a namespace.
const NAMESPACE_FLAGS: u32 = 0x7e02_0000;
/// Leaves an overlay's mark for a removed file, which has a meaning for a user of the workspace as a layer.
const RENAME_WHITEOUT: u32 = libc::RENAME_WHITEOUT;
/// Such a mark is a device that every user may make, and on Linux 6.1 it passes Landlock. Of the files that mknod
/// makes, devices alone have this bit in their mode.
const DEVICES: u32 = libc::S_IFCHR;
/// A program with them runs with the rights of its file's owner. A file of a workspace belongs to the owner of the workspace, on the host
/// too, where no mount without set-user-id stands in the way.
const SET_IDS: u32 = libc::S_ISUID | libc::S_ISGID;
/// Flags of open(2) with which its mode counts; without them it may be anything.
const CREATES: u32 = (libc::O_CREAT | libc::O_TMPFILE & !libc::O_DIRECTORY) as u32;
/// The next open of the file waits for the holder, 45 seconds long: on the host too.
const LEASES: [u32; 1] = [libc::F_SETLEASE as u32];
/// The default, Linux32, and the question which one it is: no execution of data, no fixed addresses.
const PERSONALITIES: [u32; 5] = [0, 8, 0x2_0000, 0x2_0008, 0xffff_ffff];

/// In the kernel's layout of a program: eight bytes an instruction.
pub fn filter() -> &'static [u8] {
    static COMPILED: OnceLock<Vec<u8>> = OnceLock::new();
    COMPILED.get_or_init(|| program::compile(&verdicts(), calls::ARCHITECTURE))
}

/// The same for work that writes directories of the host: it makes no program there that runs as somebody else.
pub fn filter_without_set_ids() -> &'static [u8] {
    static COMPILED: OnceLock<Vec<u8>> = OnceLock::new();
    COMPILED.get_or_init(|| program::compile(&verdicts_without_set_ids(), calls::ARCHITECTURE))
}

fn verdicts_without_set_ids() -> BTreeMap<u32, Verdict> {
    let mut verdicts = verdicts();
    let mut check = |call: i64, check: Check| {
        verdicts.insert(call as u32, Verdict::When(check));
    };
    let mode = |argument| Check::NoBits { argument, bits: SET_IDS };
    let node = |argument| Check::NoBits { argument, bits: SET_IDS | DEVICES };
    let open = |flags| Check::NotBoth { arguments: [flags, flags + 1], bits: [CREATES, SET_IDS] };
    check(libc::SYS_fchmod, mode(1));
    check(libc::SYS_fchmodat, mode(2));
    check(libc::SYS_fchmodat2, mode(2));
    check(libc::SYS_mknodat, node(2));
    check(libc::SYS_openat, open(2));
    #[cfg(target_arch = "x86_64")]
    {
        check(libc::SYS_chmod, mode(1));
        check(libc::SYS_creat, mode(1));
        check(libc::SYS_mknod, node(1));
        check(libc::SYS_open, open(1));
    }
    // Its mode is in memory, which a filter does not see. Programs take openat where there is none, as before Linux 5.6.
    verdicts.insert(libc::SYS_openat2 as u32, Verdict::Errno(libc::ENOSYS));
    verdicts
}

/// One of the two with one call more, for a zygote: it joins the namespaces of those that it is forked
/// into. They take the call away again, and keep all else.
pub fn filter_of_a_zygote(without_set_ids: bool) -> Vec<u8> {
    let mut verdicts = if without_set_ids { verdicts_without_set_ids() } else { verdicts() };
    verdicts.insert(libc::SYS_setns as u32, Verdict::Allow);
    program::compile(&verdicts, calls::ARCHITECTURE)
}

/// The same with mknod allowed, for tools that work on the disk itself and run no code of strangers.
pub fn filter_for_the_disk() -> &'static [u8] {
    static COMPILED: OnceLock<Vec<u8>> = OnceLock::new();
    COMPILED.get_or_init(|| {
        let mut verdicts = verdicts();
        verdicts.insert(libc::SYS_mknodat as u32, Verdict::Allow);
        program::compile(&verdicts, calls::ARCHITECTURE)
    })
}

fn verdicts() -> BTreeMap<u32, Verdict> {
    let mut verdicts = BTreeMap::new();
    let mut set = |calls: &[i64], verdict: Verdict| {
        verdicts.extend(calls.iter().map(|call| (*call as u32, verdict.clone())));
    };
    set(calls::REFUSED, Verdict::Errno(libc::EPERM));
    set(calls::ALLOWED, Verdict::Allow);
    set(&[libc::SYS_clone], Verdict::When(Check::NoBits { argument: 0, bits: NAMESPACE_FLAGS }));
    let requests = [&REFUSED_TERMINAL_REQUESTS[..], &REFUSED_DISK_REQUESTS[..]].concat();
    set(&[libc::SYS_ioctl], Verdict::When(Check::NoneOf { argument: 1, values: requests }));
    set(
        &[libc::SYS_personality],
        Verdict::When(Check::AnyOf { argument: 0, values: PERSONALITIES.to_vec() }),
    );
    set(&[libc::SYS_fcntl], Verdict::When(Check::NoneOf { argument: 1, values: LEASES.to_vec() }));
    set(&[libc::SYS_renameat2], Verdict::When(Check::NoBits { argument: 4, bits: RENAME_WHITEOUT }));
    set(&[libc::SYS_mknodat], Verdict::When(Check::NoBits { argument: 2, bits: DEVICES }));
    #[cfg(target_arch = "x86_64")]
    set(&[libc::SYS_mknod], Verdict::When(Check::NoBits { argument: 1, bits: DEVICES }));
    let unix = vec![libc::AF_UNIX as u32];
    set(&[libc::SYS_socketpair], Verdict::When(Check::AnyOf { argument: 0, values: unix }));
    set(&[libc::SYS_socket], Verdict::Sockets);
    // Calls that change a process by its number are only for the caller itself: the guest may have the work's id.
    set(calls::ON_ITSELF_BY_FIRST, Verdict::When(Check::AnyOf { argument: 0, values: vec![0] }));
    set(calls::ON_ITSELF_BY_SECOND, Verdict::When(Check::AnyOf { argument: 1, values: vec![0] }));
    verdicts
}

#[cfg(test)]
mod tests {
    use super::program::run;
    use super::*;

    const ALLOWED: u32 = 0x7fff_0000;
    const KILL: u32 = 0x8000_0000;

    fn verdict(call: i64, arguments: [u64; 6]) -> u32 {
        run(filter(), calls::ARCHITECTURE, call as u32, arguments)
    }

    fn errno(number: i32) -> u32 {
        0x0005_0000 | number as u32
    }

    #[test]
    fn every_listed_call_gets_its_verdict_and_every_other_does_not_exist() {
        let filter = filter();
        let verdicts = verdicts();
        for call in (0..1024).chain([0x4000_0000, 0x4000_0001, u32::MAX]) {
            let found = run(filter, calls::ARCHITECTURE, call, [0; 6]);
            match verdicts.get(&call) {
                Some(Verdict::Allow) => assert_eq!(found, ALLOWED, "call {call}"),
                Some(Verdict::Errno(number)) => assert_eq!(found, errno(*number), "call {call}"),
                Some(_) => {}
                None => assert_eq!(found, errno(libc::ENOSYS), "call {call}"),
            }
        }
        assert!(filter.len() / 8 < 1000, "{} instructions", filter.len() / 8);
    }

    #[test]
    fn a_foreign_architecture_dies() {
        const I386: u32 = 0x4000_0003;
        assert_eq!(run(filter(), I386, 20, [0; 6]), KILL);
    }

    #[test]
    fn arguments_decide_where_they_must() {
        assert_eq!(verdict(libc::SYS_clone, [libc::SIGCHLD as u64, 0, 0, 0, 0, 0]), ALLOWED);
        for flag in [libc::CLONE_NEWUSER, libc::CLONE_NEWNS, libc::CLONE_NEWNET, libc::CLONE_NEWCGROUP] {
            assert_eq!(verdict(libc::SYS_clone, [flag as u64, 0, 0, 0, 0, 0]), errno(libc::EPERM));
        }
        assert_eq!(verdict(libc::SYS_fcntl, [0, libc::F_SETFL as u64, 0, 0, 0, 0]), ALLOWED);
        assert_eq!(verdict(libc::SYS_fcntl, [0, libc::F_SETLEASE as u64, 0, 0, 0, 0]), errno(libc::EPERM));
        assert_eq!(verdict(libc::SYS_renameat2, [0, 0, 0, 0, libc::RENAME_NOREPLACE.into(), 0]), ALLOWED);
        for kind in [libc::S_IFREG, libc::S_IFIFO, libc::S_IFSOCK, 0] {
            assert_eq!(verdict(libc::SYS_mknodat, [0, 0, u64::from(kind | 0o600), 0, 0, 0]), ALLOWED);
        }
        for kind in [libc::S_IFCHR, libc::S_IFBLK] {
            assert_eq!(
                verdict(libc::SYS_mknodat, [0, 0, u64::from(kind | 0o600), 0, 0, 0]),
                errno(libc::EPERM)
            );
        }
        let whiteout = libc::RENAME_WHITEOUT.into();
        assert_eq!(verdict(libc::SYS_renameat2, [0, 0, 0, 0, whiteout, 0]), errno(libc::EPERM));
        assert_eq!(verdict(libc::SYS_ioctl, [0, libc::TIOCGWINSZ, 0, 0, 0, 0]), ALLOWED);
        // Every user may make copies that share their blocks.
        assert_eq!(verdict(libc::SYS_ioctl, [0, 0x4004_9409, 0, 0, 0, 0]), ALLOWED);
        for request in REFUSED_DISK_REQUESTS {
            assert_eq!(verdict(libc::SYS_ioctl, [0, request.into(), 0, 0, 0, 0]), errno(libc::EPERM));
        }
        // The kernel looks at the low half only, and so do we.
        for request in [libc::TIOCSTI, libc::TIOCSTI | 1 << 32, libc::TIOCLINUX] {
            assert_eq!(verdict(libc::SYS_ioctl, [0, request, 0, 0, 0, 0]), errno(libc::EPERM));
        }
        assert_eq!(verdict(libc::SYS_prlimit64, [0, 7, 0, 0, 0, 0]), ALLOWED);
        assert_eq!(verdict(libc::SYS_prlimit64, [1, 7, 0, 0, 0, 0]), errno(libc::EPERM));
        assert_eq!(verdict(libc::SYS_setpriority, [0, 1, 19, 0, 0, 0]), errno(libc::EPERM));
        assert_eq!(verdict(libc::SYS_personality, [0x0040_0000, 0, 0, 0, 0, 0]), errno(libc::EPERM));
    }

    #[test]
    fn work_in_a_workspace_makes_no_file_that_runs_as_its_owner() {
        let strict = |call: i64, arguments: [u64; 6]| {
            run(filter_without_set_ids(), calls::ARCHITECTURE, call as u32, arguments)
        };
        let (create, read) = (libc::O_CREAT as u64 | libc::O_WRONLY as u64, libc::O_RDONLY as u64);
        let unnamed = libc::O_TMPFILE as u64 | libc::O_RDWR as u64;
        let garbage = u64::MAX;
        for bits in [0o4000, 0o2000, 0o6000] {
            for (call, place) in [
                (libc::SYS_fchmod, 1),
                (libc::SYS_fchmodat, 2),
                (libc::SYS_fchmodat2, 2),
                (libc::SYS_mknodat, 2),
            ] {
                let with = |mode: u64| std::array::from_fn(|at| if at == place { mode } else { 0 });
                assert_eq!(strict(call, with(0o100_755 | bits)), errno(libc::EPERM), "{call}");
                assert_eq!(strict(call, with(0o101_777)), ALLOWED, "{call}");
                assert_eq!(verdict(call, with(0o100_755 | bits)), ALLOWED, "{call}");
            }
            for flags in [create, unnamed] {
                assert_eq!(strict(libc::SYS_openat, [0, 0, flags, 0o755 | bits, 0, 0]), errno(libc::EPERM));
                assert_eq!(strict(libc::SYS_openat, [0, 0, flags, 0o644, 0, 0]), ALLOWED);
            }
        }
        let directory = libc::O_DIRECTORY as u64;
        for flags in [read, directory] {
            assert_eq!(strict(libc::SYS_openat, [0, 0, flags, garbage, 0, 0]), ALLOWED);
        }
        assert_eq!(strict(libc::SYS_openat2, [0; 6]), errno(libc::ENOSYS));
        assert_eq!(strict(libc::SYS_mknodat, [0, 0, libc::S_IFCHR.into(), 0, 0, 0]), errno(libc::EPERM));
        let (usual, own) = (verdicts(), verdicts_without_set_ids());
        assert!(usual.keys().eq(own.keys()), "a call is new or gone");
    }

    #[test]
    fn socket_families() {
        let socket = |family: i32, protocol: i32| {
            verdict(libc::SYS_socket, [family as u64, 1, protocol as u64, 0, 0, 0])
        };
        for family in [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK] {
            assert_eq!(socket(family, 0), ALLOWED);
        }
        for family in
            [libc::AF_ALG, libc::AF_VSOCK, libc::AF_PACKET, libc::AF_XDP, libc::AF_KEY, libc::AF_TIPC]
        {
            assert_eq!(socket(family, 0), errno(libc::EAFNOSUPPORT));
        }
        assert_eq!(socket(libc::AF_NETLINK, libc::NETLINK_XFRM), errno(libc::EAFNOSUPPORT));
    }

    #[test]
    fn internet_sockets_are_tcp_and_udp() {
        let socket = |family: i32, kind: i32, protocol: i32| {
            verdict(libc::SYS_socket, [family as u64, kind as u64, protocol as u64, 0, 0, 0])
        };
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        for family in [libc::AF_INET, libc::AF_INET6] {
            for (kind, protocol) in
                [(libc::SOCK_STREAM, libc::IPPROTO_TCP), (libc::SOCK_DGRAM, libc::IPPROTO_UDP)]
            {
                for kind in [kind, kind | flags] {
                    assert_eq!(socket(family, kind, 0), ALLOWED);
                    assert_eq!(socket(family, kind, protocol), ALLOWED);
                }
                let other = if protocol == libc::IPPROTO_TCP { libc::IPPROTO_UDP } else { libc::IPPROTO_TCP };
                // UDP-Lite, SCTP, MPTCP, SMC, ICMP, ICMPv6, L2TP, DCCP, and every number that the kernel may learn.
                for protocol in [other, 136, 132, 262, 256, 1, 58, 115, 33, 255, -1] {
                    for kind in [kind, kind | flags] {
                        assert_eq!(socket(family, kind, protocol), errno(libc::EPROTONOSUPPORT));
                    }
                }
            }
            assert_eq!(socket(family, libc::SOCK_RAW | flags, libc::IPPROTO_ICMP), errno(libc::EPERM));
            for kind in [0, libc::SOCK_RDM, libc::SOCK_SEQPACKET, 6, 10, 15] {
                assert_eq!(socket(family, kind, 0), errno(libc::ESOCKTNOSUPPORT));
            }
        }
        for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_SEQPACKET] {
            assert_eq!(socket(libc::AF_UNIX, kind | flags, 0), ALLOWED);
        }
    }

    #[test]
    fn nothing_is_both_allowed_and_refused() {
        for call in calls::REFUSED {
            assert!(!calls::ALLOWED.contains(call), "call {call}");
        }
    }
}
