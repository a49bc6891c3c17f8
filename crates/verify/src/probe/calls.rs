//! Kernel calls that nothing inside needs, each with arguments that cannot work: a bad pointer, a bad number, a
//! descriptor that is not open. The only question is if the call reaches the kernel's own check.
//!
//! None of these may ever be given arguments that could work: reboot, kexec and the like would.

use crate::attack::Attack;
use libc::*;

/// Never mapped, never null: the kernel answers EFAULT when it looks.
const BAD: i64 = -4096;
const NO_FD: i64 = -1;

pub const ATTACKS: &[Attack] = &[
    Attack::call("C3-fsopen", SYS_fsopen, [BAD, 0, 0, 0, 0, 0]),
    Attack::call("C3-fsconfig", SYS_fsconfig, [NO_FD, 99, 0, 0, 0, 0]),
    Attack::call("C3-fsmount", SYS_fsmount, [NO_FD, 0, 0, 0, 0, 0]),
    Attack::call("C3-fspick", SYS_fspick, [NO_FD, BAD, 0, 0, 0, 0]),
    Attack::call("C3-move-mount", SYS_move_mount, [NO_FD, BAD, NO_FD, BAD, 0, 0]),
    Attack::call("C3-mount-setattr", SYS_mount_setattr, [NO_FD, BAD, 0, BAD, 32, 0]),
    Attack::call("C3-mount", SYS_mount, [BAD, BAD, BAD, 0, 0, 0]),
    Attack::call("C3-umount", SYS_umount2, [BAD, 0, 0, 0, 0, 0]),
    Attack::call("C4-bpf", SYS_bpf, [5, BAD, 120, 0, 0, 0]),
    Attack::call("C4-perf-event-open", SYS_perf_event_open, [BAD, 0, -1, -1, 0, 0]),
    Attack::call("C4-userfaultfd", SYS_userfaultfd, [1, 0, 0, 0, 0, 0]),
    Attack::call("C4-io-uring-setup", SYS_io_uring_setup, [1, BAD, 0, 0, 0, 0]),
    Attack::call("C4-io-uring-enter", SYS_io_uring_enter, [NO_FD, 0, 0, 0, 0, 0]),
    Attack::call("C4-io-uring-register", SYS_io_uring_register, [NO_FD, 0, 0, 0, 0, 0]),
    Attack::call("C6-add-key", SYS_add_key, [BAD, BAD, 0, 0, 0, 0]),
    Attack::call("C6-request-key", SYS_request_key, [BAD, BAD, 0, 0, 0, 0]),
    Attack::call("C6-keyctl", SYS_keyctl, [0, -3, 0, 0, 0, 0]),
    Attack::call("C13-init-module", SYS_init_module, [BAD, 4096, BAD, 0, 0, 0]),
    Attack::call("C13-finit-module", SYS_finit_module, [NO_FD, BAD, 0, 0, 0, 0]),
    Attack::call("C13-delete-module", SYS_delete_module, [BAD, 0, 0, 0, 0, 0]),
    Attack::call("C13-kexec-load", SYS_kexec_load, [0, 1000, BAD, 0, 0, 0]),
    Attack::call("C13-kexec-file-load", SYS_kexec_file_load, [NO_FD, NO_FD, 0, 0, 0x8000_0000, 0]),
    // The magic numbers are wrong, so that the kernel can only ever answer EINVAL.
    Attack::call("C13-reboot", SYS_reboot, [1, 1, 1, 0, 0, 0]),
    Attack::call("C13-swapon", SYS_swapon, [BAD, 0, 0, 0, 0, 0]),
    Attack::call("C13-swapoff", SYS_swapoff, [BAD, 0, 0, 0, 0, 0]),
    Attack::call("C13-settimeofday", SYS_settimeofday, [BAD, 0, 0, 0, 0, 0]),
    Attack::call("C13-clock-settime", SYS_clock_settime, [0, BAD, 0, 0, 0, 0]),
    Attack::call("C13-sethostname", SYS_sethostname, [BAD, 1, 0, 0, 0, 0]),
    Attack::call("C13-setdomainname", SYS_setdomainname, [BAD, 1, 0, 0, 0, 0]),
    Attack::call("C13-acct", SYS_acct, [BAD, 0, 0, 0, 0, 0]),
    Attack::call("C13-quotactl", SYS_quotactl, [0x80_0005 << 8, BAD, 0, 0, 0, 0]),
    Attack::call("C13-quotactl-fd", SYS_quotactl_fd, [NO_FD, 0, 0, 0, 0, 0]),
    Attack::call("C13-syslog", SYS_syslog, [3, BAD, 16, 0, 0, 0]),
    Attack::call("C15-mbind", SYS_mbind, [1, 1, 0, 0, 0, 0]),
    Attack::call("C15-move-pages", SYS_move_pages, [1, 1, BAD, 0, 0, 0]),
    Attack::call("C15-migrate-pages", SYS_migrate_pages, [1, 0, BAD, BAD, 0, 0]),
    Attack::call("C15-set-mempolicy", SYS_set_mempolicy, [99, 0, 0, 0, 0, 0]),
    Attack::call("C15-process-madvise", SYS_process_madvise, [NO_FD, BAD, 1, 0, 0, 0]),
    Attack::call("C15-process-mrelease", SYS_process_mrelease, [NO_FD, 0, 0, 0, 0, 0]),
    Attack::call("C15-memfd-secret", SYS_memfd_secret, [99, 0, 0, 0, 0, 0]),
    Attack::call("C15-pidfd-getfd", SYS_pidfd_getfd, [NO_FD, 0, 0, 0, 0, 0]),
    Attack::call("C20-fanotify-init", SYS_fanotify_init, [0, 0, 0, 0, 0, 0]),
    Attack::call("C20-fanotify-mark", SYS_fanotify_mark, [NO_FD, 1, 0, 0, BAD, 0]),
    Attack::call("C20-name-to-handle", SYS_name_to_handle_at, [NO_FD, BAD, BAD, BAD, 0, 0]),
];
