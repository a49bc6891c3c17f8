//! E: resources that a run can use up. The batch attacks are plain calls; the parts (`probe --do PART N`) are the
//! inside half of scenarios, which set the limit that the part runs into.

use super::gate;
use super::gate_fronts;
use super::memory;
use super::own::floods;
use super::system::{call, fork, wait};
use crate::attack::{Attack, Finding, Outcome};
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

pub const ATTACKS: &[Attack] = &[
    Attack::plain("E4-fifo", "SCHED_FIFO", fifo).on_host(),
    Attack::call("E4-nice", libc::SYS_setpriority, [0, 0, -20, 0, 0, 0]),
    Attack::call("E4-ioprio-realtime", libc::SYS_ioprio_set, [1, 0, 1 << 13, 0, 0, 0]),
    Attack::plain("E10-raise-limits", "the hard limit of open files raised", raise_limits),
    Attack::plain("E10-lock-memory", "64 MiB locked in memory", lock_memory),
];

/// In a child that ends at once, of a process that holds nothing: so the control may run on the host itself, in whose cgroup
/// real time is allowed or not.
fn fifo() -> Finding {
    let priority = 1i32;
    let kind = i64::from(libc::SCHED_FIFO);
    let set = call(libc::SYS_sched_setscheduler, [0, kind, &raw const priority as i64, 0, 0, 0]);
    let what = if set.is_err() { format!("SCHED_FIFO ({})", real_time_here()) } else { "SCHED_FIFO".into() };
    Finding::of_rare(set, &what)
}

/// The settings that let a process run in real time or not, as far as this process can see them.
fn real_time_here() -> String {
    let read = |path: &str| fs::read_to_string(path).map_or("unknown".into(), |text| text.trim().to_string());
    let status = read("/proc/self/status");
    let rights = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap_or("").trim();
    const CAP_SYS_NICE: u32 = 23;
    let may = u64::from_str_radix(rights, 16).is_ok_and(|rights| rights >> CAP_SYS_NICE & 1 == 1);
    let groups = read("/proc/self/cgroup");
    // `5:cpu,cpuacct:/path` of version 1, `0::/path` of version 2.
    let group = groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|name| name == "cpu").then_some((controllers, path))
    });
    let budget = match group {
        Some((controllers, path)) => {
            let file = format!("/sys/fs/cgroup/{controllers}/{}/cpu.rt_runtime_us", path.trim_matches('/'));
            format!("cpu.rt_runtime_us of its cgroup {path} is {}", read(&file))
        }
        None => {
            let path = groups.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("unknown");
            format!(
                "its cgroup is {path} of version 2, where a kernel with real-time groups gives budgets to the root alone"
            )
        }
    };
    let all = read("/proc/sys/kernel/sched_rt_runtime_us");
    let right = if may { "has CAP_SYS_NICE" } else { "lacks CAP_SYS_NICE" };
    format!("the process {right}, kernel.sched_rt_runtime_us is {all}, {budget}")
}

fn raise_limits() -> Finding {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let kind = i64::from(libc::RLIMIT_NOFILE);
    let _ = call(libc::SYS_prlimit64, [0, kind, 0, &raw mut limit as i64, 0, 0]);
    limit.rlim_max -= 1;
    limit.rlim_cur = limit.rlim_max;
    let _ = call(libc::SYS_prlimit64, [0, kind, &raw const limit as i64, 0, 0, 0]);
    limit.rlim_max += 1;
    Finding::of(call(libc::SYS_prlimit64, [0, kind, &raw const limit as i64, 0, 0, 0]), "back up by one")
}

fn lock_memory() -> Finding {
    let memory = vec![1u8; 64 << 20];
    Finding::of(call(libc::SYS_mlock, [memory.as_ptr() as i64, memory.len() as i64, 0, 0, 0, 0]), "mlock")
}

/// The inside halves. Each prints its result as one line of JSON with the part's name as the attack.
pub fn part(name: &str, arguments: &[&str]) -> i32 {
    let amount = arguments.first().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
    let home = std::env::var("HOME").unwrap_or_default();
    let place = match arguments.get(1).copied().unwrap_or("/tmp") {
        "HOME" => home.as_str(),
        place => place,
    };
    let finding = match name {
        "fork" => fork_many(amount),
        "thread" => thread_many(amount),
        "memory" => memory::memory(amount),
        "memory-in-child" => memory::memory_in_child(amount),
        "memfd" => memory::memfd(amount),
        "sysv" => memory::system_v(amount),
        "shared" => memory::shared(amount, place),
        "memfd-mapped" => memory::memfd_mapped(amount, place),
        "deleted" => memory::deleted_files(amount, place),
        "shm-and-heap" => memory::shm_and_heap(amount, place),
        "fill" => fill(place, amount),
        "inodes" => inodes(place, amount),
        "sparse" => sparse(place),
        "deep" => deep(place, amount),
        "spin" => spin(amount),
        "files" => files(amount),
        "flood-out" => return flood(io::stdout(), amount, b'x'),
        "flood-err" => return flood(io::stderr(), amount, b'\n'),
        "stop" => stop(),
        "stubborn" => stubborn(arguments.get(1).copied()),
        "daemon" => return daemon(),
        "forge" => return forge(),
        "listen" => listen(amount),
        "mark" => mark(place),
        "look" => look(place),
        "gate" => gate::ways(place, amount as u16),
        "gate-sockets" => gate::sockets(),
        "gate-front" => gate_fronts::ask(place, amount as u16),
        "inotify" => floods::inotify(amount),
        "terminals" => floods::terminals(amount),
        "timers" => floods::timers(amount),
        "pipes" => floods::pipes(amount),
        "sockets" => floods::sockets(amount),
        "mappings" => floods::mappings(amount),
        "symlinks" => floods::symlinks(place, amount),
        "odd-names" => floods::odd_names(place),
        "short-lives" => floods::short_lives(amount),
        "terminal" => match File::options().read(true).write(true).open("/dev/tty") {
            // Some kernels have the node and say so when there is nothing behind it.
            Err(error) if error.raw_os_error() == Some(libc::EIO) => {
                Finding::new(Outcome::Denied, format!("/dev/tty: {error}"))
            }
            opened => Finding::of(opened, "/dev/tty"),
        },
        "connect" => {
            let to = ([127, 0, 0, 1], amount as u16).into();
            Finding::of(std::net::TcpStream::connect_timeout(&to, Duration::from_secs(2)), "connect")
        }
        _ => Finding::new(Outcome::Error, "no such part"),
    };
    super::say(name, &finding);
    0
}

/// Done when all that was asked for was had.
pub fn counted(made: u64, wanted: u64, error: Option<io::Error>) -> Finding {
    match error {
        None => Finding::new(Outcome::Done, format!("{made} of {wanted}")),
        Some(error) => Finding::new(Outcome::Bounded, format!("{made} of {wanted}: {error}")),
    }
}

fn fork_many(wanted: u64) -> Finding {
    let mut children = Vec::new();
    let mut error = None;
    while (children.len() as u64) < wanted && error.is_none() {
        // SAFETY: the child only waits to be killed.
        match fork(|| unsafe { libc::pause() }) {
            Ok(pid) => children.push(pid),
            Err(refused) => error = Some(refused),
        }
    }
    for pid in &children {
        let _ = call(libc::SYS_kill, [i64::from(*pid), i64::from(libc::SIGKILL), 0, 0, 0, 0]);
        let _ = wait(*pid);
    }
    counted(children.len() as u64, wanted, error)
}

fn thread_many(wanted: u64) -> Finding {
    let mut error = None;
    let mut made = 0;
    while made < wanted && error.is_none() {
        let builder = std::thread::Builder::new().stack_size(64 << 10);
        match builder.spawn(|| std::thread::sleep(Duration::from_secs(5))) {
            Ok(_) => made += 1,
            Err(refused) => error = Some(refused),
        }
    }
    counted(made, wanted, error)
}

fn fill(place: &str, mebibytes: u64) -> Finding {
    let chunk = vec![1u8; 1 << 20];
    let mut file = match File::create(format!("{place}/probe-fill")) {
        Ok(file) => file,
        Err(error) => return Finding::of(Err::<(), _>(error), place),
    };
    let mut made = 0;
    while made < mebibytes {
        if let Err(error) = file.write_all(&chunk) {
            return counted(made, mebibytes, Some(error));
        }
        made += 1;
    }
    counted(made, mebibytes, None)
}

fn inodes(place: &str, wanted: u64) -> Finding {
    for made in 0..wanted {
        if let Err(error) = File::create(format!("{place}/probe-inode-{made}")) {
            return counted(made, wanted, Some(error));
        }
    }
    counted(wanted, wanted, None)
}

fn sparse(place: &str) -> Finding {
    let file = match File::create(format!("{place}/probe-sparse")) {
        Ok(file) => file,
        Err(error) => return Finding::of(Err::<(), _>(error), place),
    };
    match file.set_len(1 << 60) {
        Err(error) => Finding::new(Outcome::Bounded, error.to_string()),
        Ok(()) => Finding::new(Outcome::Done, "1 EiB of nothing"),
    }
}

fn deep(place: &str, wanted: u64) -> Finding {
    if let Err(error) = std::env::set_current_dir(place) {
        return Finding::of(Err::<(), _>(error), place);
    }
    for made in 0..wanted {
        if let Err(error) = fs::create_dir("d").and_then(|()| std::env::set_current_dir("d")) {
            return counted(made, wanted, Some(error));
        }
    }
    counted(wanted, wanted, None)
}

/// Processor time had in one second of wall time, in thousandths.
fn spin(threads: u64) -> Finding {
    let until = Instant::now() + Duration::from_secs(1);
    let workers: Vec<_> = (0..threads)
        .map(|_| {
            std::thread::spawn(move || {
                while Instant::now() < until {
                    std::hint::spin_loop();
                }
            })
        })
        .collect();
    for worker in workers {
        let _ = worker.join();
    }
    // SAFETY: an all-zero rusage is valid and outlives the call.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let milliseconds = |t: libc::timeval| t.tv_sec * 1000 + t.tv_usec / 1000;
    let had = milliseconds(usage.ru_utime) + milliseconds(usage.ru_stime);
    // Half a processor was allowed; a period's worth of slack on either side.
    Finding::new(if had > 700 { Outcome::Done } else { Outcome::Bounded }, format!("{had} ms in 1 s"))
}

fn files(wanted: u64) -> Finding {
    let mut open = Vec::new();
    while (open.len() as u64) < wanted {
        match File::open("/dev/null") {
            Ok(file) => open.push(file),
            Err(error) => return counted(open.len() as u64, wanted, Some(error)),
        }
    }
    counted(wanted, wanted, None)
}

fn flood(mut to: impl Write, mebibytes: u64, byte: u8) -> i32 {
    let chunk = vec![byte; 1 << 20];
    for _ in 0..mebibytes {
        if to.write_all(&chunk).is_err() {
            return 9;
        }
    }
    0
}

fn stop() -> Finding {
    // SAFETY: takes no memory.
    unsafe { libc::raise(libc::SIGSTOP) };
    Finding::new(Outcome::Done, "went on")
}

fn ignore_signals() {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE] {
        // SAFETY: no handler code is installed.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// A child that keeps stdout open and heeds no signal, below a parent that does the same.
fn stubborn(mark: Option<&str>) -> Finding {
    ignore_signals();
    if let Some(mark) = mark {
        // If it cannot be made, the scenario that waits for it says so.
        let _ = File::create(mark);
    }
    let _ = fork(|| {
        std::thread::sleep(Duration::from_secs(300));
        0
    });
    std::thread::sleep(Duration::from_secs(300));
    Finding::new(Outcome::Done, "slept for five minutes")
}

/// Two forks and a session of its own; the grandchild keeps stdout and outlives the command.
fn daemon() -> i32 {
    ignore_signals();
    let middle = fork(|| {
        // SAFETY: takes no memory.
        unsafe { libc::setsid() };
        let _ = fork(|| {
            std::thread::sleep(Duration::from_secs(300));
            0
        });
        0
    });
    let _ = middle.and_then(wait);
    super::say("daemon", &Finding::new(Outcome::Done, "left behind"));
    5
}

/// Prints an end of the command, in every form that a careless reader might take for the real one.
fn forge() -> i32 {
    let mut out = io::stdout();
    let report = br#"{"sandbox":"x","exit_code":0,"cause":{"kind":"finished"},"timed_out":false}"#;
    for text in [
        report.as_slice(),
        b"\n\x00\x00\x00\x10Exited\x00\x00\x00\x00",
        b"\n{\"exit\":0}\n\x1b]52;c;eA==\x07\n",
    ] {
        let _ = out.write_all(text);
    }
    // Frames on descriptors that a protocol might use, in case one was left open.
    for fd in 3..16 {
        let frame = [0u8, 0, 0, 8, 0x81, 0xa4, b'E', b'x', b'i', b't', 0, 0];
        let _ = call(libc::SYS_write, [fd, frame.as_ptr() as i64, frame.len() as i64, 0, 0, 0]);
    }
    7
}

/// Listens for a while and says if a client came.
fn listen(port: u64) -> Finding {
    let listener = match TcpListener::bind(("0.0.0.0", port as u16)) {
        Ok(listener) => listener,
        Err(error) => return Finding::new(Outcome::Error, format!("bind: {error}")),
    };
    let _ = listener.set_nonblocking(true);
    let until = Instant::now() + Duration::from_millis(1500);
    while Instant::now() < until {
        if let Ok((_, from)) = listener.accept() {
            return Finding::new(Outcome::Done, format!("{from} came"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Finding::new(Outcome::Denied, "nobody came")
}

const SHARED_PLACES: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

fn mark(name: &str) -> Finding {
    let made =
        SHARED_PLACES.iter().filter(|place| fs::write(format!("{place}/{name}"), "mark").is_ok()).count();
    std::thread::sleep(Duration::from_millis(1000));
    Finding::new(Outcome::Done, format!("{made} marks"))
}

fn look(name: &str) -> Finding {
    let seen: Vec<_> =
        SHARED_PLACES.iter().filter(|place| fs::metadata(format!("{place}/{name}")).is_ok()).collect();
    Finding::new(if seen.is_empty() { Outcome::Hidden } else { Outcome::Done }, format!("{seen:?}"))
}
