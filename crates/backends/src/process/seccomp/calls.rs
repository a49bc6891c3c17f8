//! The lists. Everything that depends on the processor is here.

use libc::*;

/// The kernel's number of this processor architecture (linux/audit.h).
#[cfg(target_arch = "x86_64")]
pub const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
pub const ARCHITECTURE: u32 = 0xc000_00b7;

/// Calls that ordinary programs make and that give no hold on the kernel's rarer parts.
#[rustfmt::skip]
pub const ALLOWED: &[i64] = &[
    // files
    SYS_openat, SYS_openat2, SYS_close, SYS_close_range, SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_pread64,
    SYS_pwrite64, SYS_preadv, SYS_pwritev, SYS_preadv2, SYS_pwritev2, SYS_lseek, SYS_fstat, SYS_newfstatat, SYS_statx,
    SYS_statfs, SYS_fstatfs, SYS_faccessat, SYS_faccessat2, SYS_fchmod, SYS_fchmodat, SYS_fchmodat2, SYS_fchown,
    SYS_fchownat, SYS_mkdirat, SYS_linkat, SYS_symlinkat, SYS_readlinkat, SYS_unlinkat, SYS_renameat,
    SYS_truncate, SYS_ftruncate, SYS_fallocate, SYS_fadvise64, SYS_readahead, SYS_fsync, SYS_fdatasync,
    SYS_sync, SYS_syncfs, SYS_sync_file_range, SYS_getdents64, SYS_getcwd, SYS_chdir, SYS_fchdir, SYS_umask, SYS_utimensat,
    SYS_copy_file_range, SYS_sendfile, SYS_splice, SYS_tee, SYS_vmsplice, SYS_flock, SYS_dup, SYS_dup3,
    SYS_pipe2, SYS_memfd_create, SYS_inotify_init1, SYS_inotify_add_watch, SYS_inotify_rm_watch,
    SYS_getxattr, SYS_lgetxattr, SYS_fgetxattr, SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr, SYS_listxattr,
    SYS_llistxattr, SYS_flistxattr, SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr,
    // memory
    SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise, SYS_mincore, SYS_msync, SYS_mlock, SYS_mlock2,
    SYS_munlock, SYS_mlockall, SYS_munlockall, SYS_membarrier, SYS_pkey_alloc, SYS_pkey_free, SYS_pkey_mprotect,
    SYS_remap_file_pages, SYS_shmget, SYS_shmat, SYS_shmdt, SYS_shmctl, SYS_get_mempolicy,
    // processes and threads
    SYS_execve, SYS_execveat, SYS_exit, SYS_exit_group, SYS_wait4, SYS_waitid, SYS_getpid, SYS_getppid, SYS_gettid,
    SYS_getpgid, SYS_setpgid, SYS_getsid, SYS_setsid, SYS_kill, SYS_tkill, SYS_tgkill, SYS_pidfd_open, SYS_pidfd_send_signal,
    SYS_prctl, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_getrusage, SYS_getrlimit, SYS_setrlimit,
    SYS_times, SYS_set_tid_address, SYS_set_robust_list, SYS_get_robust_list, SYS_rseq, SYS_futex, SYS_futex_waitv,
    SYS_getcpu, SYS_sched_yield, SYS_sched_getaffinity, SYS_sched_getparam, SYS_sched_getscheduler, SYS_sched_getattr,
    SYS_sched_get_priority_max, SYS_sched_get_priority_min, SYS_sched_rr_get_interval, SYS_getpriority, SYS_ioprio_get,
    // identity: without capabilities these can only give up
    SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getresuid, SYS_getresgid, SYS_getgroups, SYS_setuid, SYS_setgid,
    SYS_setreuid, SYS_setregid, SYS_setresuid, SYS_setresgid, SYS_setfsuid, SYS_setfsgid, SYS_setgroups, SYS_capget, SYS_capset,
    SYS_seccomp, SYS_landlock_create_ruleset, SYS_landlock_add_rule, SYS_landlock_restrict_self,
    // signals and time
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigpending, SYS_rt_sigtimedwait, SYS_rt_sigsuspend,
    SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_sigaltstack, SYS_signalfd4, SYS_restart_syscall,
    SYS_nanosleep, SYS_clock_nanosleep, SYS_clock_gettime, SYS_clock_getres, SYS_gettimeofday, SYS_getitimer, SYS_setitimer,
    SYS_timer_create, SYS_timer_delete, SYS_timer_gettime, SYS_timer_settime, SYS_timer_getoverrun,
    SYS_timerfd_create, SYS_timerfd_gettime, SYS_timerfd_settime,
    // waiting and talking
    SYS_ppoll, SYS_pselect6, SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait, SYS_epoll_pwait2, SYS_eventfd2,
    SYS_bind, SYS_listen, SYS_accept, SYS_accept4, SYS_connect, SYS_shutdown, SYS_getsockname, SYS_getpeername,
    SYS_getsockopt, SYS_setsockopt, SYS_sendto, SYS_recvfrom, SYS_sendmsg, SYS_recvmsg, SYS_sendmmsg, SYS_recvmmsg,
    SYS_mq_open, SYS_mq_unlink, SYS_mq_timedsend, SYS_mq_timedreceive, SYS_mq_notify, SYS_mq_getsetattr,
    SYS_msgget, SYS_msgctl, SYS_msgsnd, SYS_msgrcv, SYS_semget, SYS_semctl, SYS_semop, SYS_semtimedop,
    // the system
    SYS_uname, SYS_sysinfo, SYS_getrandom,
    #[cfg(target_arch = "x86_64")] SYS_open, #[cfg(target_arch = "x86_64")] SYS_creat,
    #[cfg(target_arch = "x86_64")] SYS_stat, #[cfg(target_arch = "x86_64")] SYS_lstat,
    #[cfg(target_arch = "x86_64")] SYS_access, #[cfg(target_arch = "x86_64")] SYS_chmod,
    #[cfg(target_arch = "x86_64")] SYS_chown, #[cfg(target_arch = "x86_64")] SYS_lchown,
    #[cfg(target_arch = "x86_64")] SYS_mkdir, #[cfg(target_arch = "x86_64")] SYS_rmdir,
    #[cfg(target_arch = "x86_64")] SYS_link,
    #[cfg(target_arch = "x86_64")] SYS_symlink, #[cfg(target_arch = "x86_64")] SYS_readlink,
    #[cfg(target_arch = "x86_64")] SYS_unlink, #[cfg(target_arch = "x86_64")] SYS_rename,
    #[cfg(target_arch = "x86_64")] SYS_utime, #[cfg(target_arch = "x86_64")] SYS_utimes,
    #[cfg(target_arch = "x86_64")] SYS_futimesat, #[cfg(target_arch = "x86_64")] SYS_getdents,
    #[cfg(target_arch = "x86_64")] SYS_dup2, #[cfg(target_arch = "x86_64")] SYS_pipe,
    #[cfg(target_arch = "x86_64")] SYS_fork, #[cfg(target_arch = "x86_64")] SYS_vfork,
    #[cfg(target_arch = "x86_64")] SYS_getpgrp, #[cfg(target_arch = "x86_64")] SYS_alarm,
    #[cfg(target_arch = "x86_64")] SYS_pause, #[cfg(target_arch = "x86_64")] SYS_time,
    #[cfg(target_arch = "x86_64")] SYS_poll, #[cfg(target_arch = "x86_64")] SYS_select,
    #[cfg(target_arch = "x86_64")] SYS_epoll_create, #[cfg(target_arch = "x86_64")] SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")] SYS_eventfd, #[cfg(target_arch = "x86_64")] SYS_signalfd,
    #[cfg(target_arch = "x86_64")] SYS_inotify_init, #[cfg(target_arch = "x86_64")] SYS_arch_prctl,
    #[cfg(target_arch = "x86_64")] SYS_get_thread_area, #[cfg(target_arch = "x86_64")] SYS_set_thread_area,
];

/// Allowed when the process they name is the caller: 0 in the first argument.
pub const ON_ITSELF_BY_FIRST: &[i64] =
    &[SYS_prlimit64, SYS_sched_setaffinity, SYS_sched_setattr, SYS_sched_setparam, SYS_sched_setscheduler];

/// The same, with the process in the second argument.
pub const ON_ITSELF_BY_SECOND: &[i64] = &[SYS_setpriority, SYS_ioprio_set];

/// Known, and refused with EPERM, so that a person reads "not permitted" rather than "not implemented".
/// clone3 is not here on purpose: ENOSYS makes C libraries fall back to clone, whose flags can be looked at. Nor is
/// io_setup: the host has one count of those for all users, and programs do without when it does not exist.
#[rustfmt::skip]
pub const REFUSED: &[i64] = &[
    SYS_unshare, SYS_setns, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick,
    SYS_open_tree, SYS_move_mount, SYS_mount_setattr, SYS_quotactl, SYS_quotactl_fd, SYS_swapon, SYS_swapoff,
    SYS_bpf, SYS_perf_event_open, SYS_userfaultfd, SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register,
    SYS_add_key, SYS_request_key, SYS_keyctl, SYS_open_by_handle_at, SYS_name_to_handle_at, SYS_fanotify_init, SYS_fanotify_mark,
    SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load, SYS_kexec_file_load, SYS_reboot,
    SYS_settimeofday, SYS_clock_settime, SYS_adjtimex, SYS_clock_adjtime, SYS_sethostname, SYS_setdomainname,
    SYS_acct, SYS_syslog, SYS_vhangup, SYS_lookup_dcookie, SYS_nfsservctl,
    SYS_kcmp, SYS_pidfd_getfd, SYS_process_madvise, SYS_process_mrelease, SYS_memfd_secret,
    SYS_mbind, SYS_set_mempolicy, SYS_set_mempolicy_home_node, SYS_migrate_pages, SYS_move_pages,
    #[cfg(target_arch = "x86_64")] SYS_iopl, #[cfg(target_arch = "x86_64")] SYS_ioperm,
    #[cfg(target_arch = "x86_64")] SYS_modify_ldt, #[cfg(target_arch = "x86_64")] SYS_ustat,
    #[cfg(target_arch = "x86_64")] SYS_sysfs, #[cfg(target_arch = "x86_64")] SYS_uselib,
];

/// Calls that the engine never makes once a sandbox stands: it executes nothing, mounts nothing, enters nothing, and
/// has no business with the kernel's modules, programs or keys, or with the memory of others.
#[rustfmt::skip]
pub const ENGINE_GIVES_UP: &[i64] = &[
    SYS_execve, SYS_execveat, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_init_module, SYS_finit_module,
    SYS_delete_module, SYS_kexec_load, SYS_kexec_file_load, SYS_reboot, SYS_bpf, SYS_perf_event_open, SYS_userfaultfd,
    SYS_io_uring_setup, SYS_add_key, SYS_request_key, SYS_keyctl, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot,
    SYS_open_tree, SYS_move_mount, SYS_fsopen, SYS_fsmount, SYS_mount_setattr, SYS_unshare, SYS_setns, SYS_swapon,
    SYS_swapoff, SYS_acct, SYS_quotactl, SYS_settimeofday, SYS_clock_settime, SYS_sethostname, SYS_setdomainname,
];
