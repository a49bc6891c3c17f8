//! F: values of the host that the work could read.

use super::system::{call, fact};
use crate::attack::{Attack, Finding, Outcome};
use std::fs::{self, File};
use std::io::Read;

const fn shown(id: &'static str, path: &'static str) -> Attack {
    Attack::text(id, "a file of the kernel that tells of the host", content, path)
}

const fn same(id: &'static str, title: &'static str, fact: &'static str) -> Attack {
    Attack::text(id, title, same_as_host, fact).on_host()
}

pub const ATTACKS: &[Attack] = &[
    Attack::plain("F1-environment", "the caller's secret in the environment", environment).on_host(),
    Attack::plain("F1-proc-secret", "the caller's secret in any /proc/PID", proc_secret).on_host(),
    Attack::plain("F3-cgroup-path", "the caller's place among the cgroups", cgroup_path).on_host(),
    shown("F2-kcore", "/proc/kcore"),
    shown("F2-keys", "/proc/keys"),
    shown("F2-key-users", "/proc/key-users"),
    Attack::plain("F2-kallsyms", "kernel addresses in /proc/kallsyms", kallsyms),
    shown("F2-timer-list", "/proc/timer_list"),
    shown("F2-sched-debug", "/proc/sched_debug"),
    shown("F2-interrupts", "/proc/interrupts"),
    shown("F2-config", "/proc/config.gz"),
    same("F2-cmdline", "how the host was booted", "cmdline"),
    shown("F2-kmsg", "/proc/kmsg"),
    shown("F2-iomem", "/proc/iomem"),
    shown("F2-modules", "/proc/modules"),
    shown("F2-slabinfo", "/proc/slabinfo"),
    shown("F2-vmallocinfo", "/proc/vmallocinfo"),
    shown("F2-pagetypeinfo", "/proc/pagetypeinfo"),
    shown("F2-kpagecgroup", "/proc/kpagecgroup"),
    shown("F2-diskstats", "/proc/diskstats"),
    shown("F2-partitions", "/proc/partitions"),
    shown("F2-acpi", "/proc/acpi"),
    shown("F2-scsi", "/proc/scsi"),
    Attack::plain("F2-mountinfo", "the host's paths in mountinfo", mount_sources),
    Attack::text("F2-sys", "anything in /sys", entries, "/sys"),
    Attack::text("F2-sys-firmware", "/sys/firmware", entries, "/sys/firmware"),
    Attack::text("F2-sys-devices", "/sys/devices", entries, "/sys/devices"),
    same("F3-hostname", "the host's name", "hostname"),
    same("F3-machine-id", "the host's machine-id", "machine_id"),
    same("F3-boot-id", "the host's boot id", "boot_id"),
    Attack::plain("F3-uptime", "how long the host has been up", uptime).on_host(),
    same("F3-resolv-conf", "the host's resolv.conf", "resolv_conf"),
    Attack::plain("F4-syslog", "the kernel's log by syslog(2)", syslog),
    shown("F4-dev-kmsg", "/dev/kmsg"),
];

fn environment() -> Finding {
    let secret = fact("secret");
    let seen = std::env::vars_os().any(|(_, value)| value.to_string_lossy().contains(&secret));
    let count = std::env::vars_os().count();
    Finding::new(if seen { Outcome::Done } else { Outcome::Hidden }, format!("{count} variables"))
}

fn proc_secret() -> Finding {
    let secret = fact("secret").into_bytes();
    let holds = |bytes: Vec<u8>| bytes.windows(secret.len()).any(|window| window == secret);
    let Ok(processes) = fs::read_dir("/proc") else {
        return Finding::new(Outcome::Error, "no /proc");
    };
    for process in processes.flatten() {
        for file in ["environ", "cmdline"] {
            if fs::read(process.path().join(file)).is_ok_and(holds) {
                return Finding::new(Outcome::Done, format!("{}/{file}", process.path().display()));
            }
        }
    }
    Finding::new(Outcome::Hidden, "in no process")
}

/// A masked file is missing, may not be opened or is empty.
fn content(path: &'static str) -> Finding {
    if fs::metadata(path).is_ok_and(|m| m.is_dir()) {
        return entries(path);
    }
    let mut buffer = [0u8; 512];
    // The logs are endless and would wait for the next line.
    use std::os::unix::fs::OpenOptionsExt;
    let opened = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    match opened.and_then(|mut file| file.read(&mut buffer)) {
        Ok(0) => Finding::new(Outcome::Hidden, format!("{path} is empty")),
        Ok(size) => Finding::new(Outcome::Done, format!("{path}: {size} bytes")),
        // An empty log is still an open one.
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Finding::new(Outcome::Done, path),
        Err(error) => Finding::of(Err::<(), _>(error), path),
    }
}

fn entries(path: &'static str) -> Finding {
    match fs::read_dir(path).map(|list| list.count()) {
        Ok(0) => Finding::new(Outcome::Hidden, format!("{path} is empty")),
        Ok(count) => Finding::new(Outcome::Done, format!("{path}: {count} entries")),
        Err(error) => Finding::of(Err::<(), _>(error), path),
    }
}

fn kallsyms() -> Finding {
    let symbols = match fs::read_to_string("/proc/kallsyms") {
        Ok(symbols) => symbols,
        Err(error) => return Finding::of(Err::<(), _>(error), "/proc/kallsyms"),
    };
    let known = symbols.lines().take(100).any(|line| !line.starts_with("0000000000000000"));
    Finding::new(if known { Outcome::Done } else { Outcome::Hidden }, "addresses")
}

/// The root and source columns of mountinfo name host paths. The work knows the paths that the caller named, but not
/// the state directory and the caller's home.
fn mount_sources() -> Finding {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let told = fact("host_paths");
    let paths: Vec<&str> = told.split(':').filter(|path| !path.is_empty()).collect();
    let shown: Vec<&str> =
        mounts.lines().filter(|line| paths.iter().any(|path| line.contains(path))).collect();
    let outcome = match shown.is_empty() {
        _ if mounts.is_empty() => Outcome::Error,
        true => Outcome::Hidden,
        false => Outcome::Done,
    };
    Finding::new(outcome, format!("{shown:?}"))
}

fn same_as_host(name: &'static str) -> Finding {
    let path = match name {
        "hostname" => "/proc/sys/kernel/hostname",
        "machine_id" => "/etc/machine-id",
        "boot_id" => "/proc/sys/kernel/random/boot_id",
        "cmdline" => "/proc/cmdline",
        _ => "/etc/resolv.conf",
    };
    match fs::read_to_string(path) {
        Ok(value) if !value.trim().is_empty() && value.trim().replace('\n', "|") == fact(name) => {
            Finding::new(Outcome::Done, path)
        }
        Ok(_) => Finding::new(Outcome::Hidden, format!("{path} is another's or empty")),
        Err(error) => Finding::of(Err::<(), _>(error), path),
    }
}

fn uptime() -> Finding {
    let seconds = |text: &str| text.split('.').next().and_then(|s| s.parse::<u64>().ok());
    let shown = fs::read_to_string("/proc/uptime").ok().and_then(|text| seconds(&text));
    let host = seconds(&fact("uptime"));
    match (shown, host) {
        (Some(shown), Some(host)) if (host..host + 600).contains(&shown) => {
            Finding::new(Outcome::Done, format!("{shown} s"))
        }
        (Some(shown), Some(_)) => Finding::new(Outcome::Hidden, format!("{shown} s")),
        _ => Finding::new(Outcome::Hidden, "no /proc/uptime"),
    }
}

fn cgroup_path() -> Finding {
    let shown = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let told = fact("cgroups");
    let seen = told.split('|').find(|path| !path.is_empty() && shown.contains(path));
    match seen {
        Some(path) => Finding::new(Outcome::Done, path),
        None => Finding::new(Outcome::Hidden, "none of the caller's"),
    }
}

fn syslog() -> Finding {
    let mut buffer = [0u8; 4096];
    Finding::of(call(libc::SYS_syslog, [3, buffer.as_mut_ptr() as i64, 4096, 0, 0, 0]), "syslog")
}
