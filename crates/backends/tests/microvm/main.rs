//! VMs: booted once, copied, spoken to, kept and brought back. They need QEMU and a kernel (PADDOCK_KERNEL, or one that
//! is installed); without, the tests say so.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    dead_code,
    reason = "a test: whatever fails shall fail it; the host of these tests is that of others too"
)]

mod booted;
mod copies;
#[path = "../limits/mod.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod limits;
#[path = "../lasting/support.rs"]
mod support;

use paddock_backends::{Backend, Purpose, Raised, all};
use paddock_model::net::NetRules;
use paddock_model::{Disk, Limits, Network, Root, Spec};
use paddock_protocol::{Channel, Decoder, ExitKind, Frame, FromGuest, StreamKind, ToGuest};
use paddock_protocol::{decode_from_guest, encode_message};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use support::{new_id, shell, traces, traces_in_the_end};

fn machines(state: &Path) -> Option<Box<dyn Backend>> {
    let backend = all(state).into_iter().find(|backend| backend.name() == "microvm").unwrap();
    let missing = backend.missing();
    if let Some(missing) = &missing {
        // Past the harness, which would keep it to itself.
        let _ = writeln!(std::io::stderr().lock(), "\nSKIP microvm: {missing}");
    }
    if missing.is_some() {
        return None;
    }
    let boot = || -> std::io::Result<()> {
        let id = new_id();
        let mut raised = backend.create(&id, &small(), Purpose::Passing).map_err(std::io::Error::other)?;
        raised.fence.destroy().map(drop)
    };
    booted::boot_once(&state.join("machines"), boot).unwrap();
    Some(backend)
}

fn small() -> Spec {
    let limits = Limits { memory: 192 << 20, cpus: 1.0, disk: 64 << 20, ..Limits::default() };
    Spec { limits, ..support::spec(None) }
}

/// Runs a script and collects its output.
struct Talk {
    stream: UnixStream,
    decoder: Decoder,
}

impl Talk {
    fn new(stream: UnixStream) -> Talk {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Talk { stream, decoder: Decoder::new() }
    }

    fn say(&mut self, message: &ToGuest) {
        let mut bytes = Vec::new();
        encode_message(message, &mut bytes).unwrap();
        self.stream.write_all(&bytes).unwrap();
    }

    fn next(&mut self) -> Frame {
        let mut buffer = [0; 65536];
        loop {
            if let Some(frame) = self.decoder.next_frame().unwrap() {
                return frame;
            }
            let count = self.stream.read(&mut buffer).expect("the guest says nothing");
            assert!(count > 0, "the guest has gone");
            self.decoder.push(&buffer[..count]);
        }
    }

    fn ready(&mut self) {
        loop {
            if let Frame::Message(body) = self.next() {
                match decode_from_guest(&body).unwrap() {
                    FromGuest::Ready { .. } | FromGuest::Resumed { .. } => return,
                    FromGuest::EnterFailed { step, errno } => panic!("{step}: {errno}"),
                    _ => {}
                }
            }
        }
    }

    fn run(&mut self, exec: u32, script: &str) -> (ExitKind, String) {
        self.say(&shell(exec, script));
        let (mut out, mut ended) = (Vec::new(), None);
        loop {
            match self.next() {
                Frame::Data { channel, bytes } => {
                    let channel = Channel::from_number(channel).unwrap();
                    if channel.exec == exec && channel.stream != StreamKind::Control {
                        out.extend(bytes);
                    }
                }
                Frame::Message(body) => match decode_from_guest(&body).unwrap() {
                    FromGuest::Exited { exec: number, status, .. } if number == exec => ended = Some(status),
                    FromGuest::Closed { exec: number } if number == exec => {
                        return (ended.unwrap(), String::from_utf8_lossy(&out).into());
                    }
                    FromGuest::StartFailed { step, errno, .. } => panic!("{step}: {errno}"),
                    _ => {}
                },
            }
        }
    }
}

#[test]
fn a_machine_runs_commands_behind_a_kernel_of_its_own() {
    let state = tempfile::tempdir().unwrap();
    let Some(backend) = machines(state.path()) else { return };
    let begun = Instant::now();
    for round in 0..3 {
        let id = new_id();
        let started = Instant::now();
        let Raised { mut fence, stream, .. } = backend.create(&id, &small(), Purpose::Passing).unwrap();
        eprintln!("round {round}: created after {:?}", started.elapsed());
        let mut talk = Talk::new(stream);
        talk.ready();
        eprintln!("round {round}: ready after {:?}", started.elapsed());
        let (status, said) = talk.run(1, "echo hello; uname -r; id -u; cat /etc/machine-id; exit 7");
        eprintln!("round {round}: first command after {:?}: {said}", started.elapsed());
        assert_eq!(status, ExitKind::Exited(7));
        assert!(said.starts_with("hello\n") && said.contains("\n1000\n"), "{said}");
        let host = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        assert!(!said.contains(host.trim()), "{said}");
        fence.destroy().unwrap();
        assert_eq!(traces_in_the_end(state.path(), std::slice::from_ref(&id)), [""; 0]);
    }
    eprintln!("all after {:?}", begun.elapsed());
}

/// The shell and a few programs of this host, with the libraries that they load.
fn tiny_image(place: &Path) -> Root {
    for program in ["/bin/sh", "/bin/cat", "/bin/sleep", "/usr/bin/head", "/usr/bin/od", "/usr/bin/uname"] {
        put(place, Path::new(program));
        let loaded = Command::new("ldd").arg(program).output().unwrap();
        for word in
            String::from_utf8_lossy(&loaded.stdout).split_whitespace().filter(|word| word.starts_with('/'))
        {
            put(place, Path::new(word));
        }
    }
    Root::Directory { path: place.to_path_buf() }
}

fn put(place: &Path, file: &Path) {
    let target = place.join(file.strip_prefix("/").unwrap());
    std::fs::create_dir_all(target.parent().unwrap()).unwrap();
    std::fs::copy(file.canonicalize().unwrap(), target).unwrap();
}

fn in_storage(state: &Path, image: &Path, name: &str) -> Spec {
    let path: PathBuf = state.join(name);
    std::fs::create_dir(&path).unwrap();
    Spec { root: tiny_image(image), disk: Disk::Directory { path, start: None }, ..small() }
}

#[test]
fn a_machine_goes_on_from_kept_memory_and_so_does_the_one_it_was_kept_from() {
    let (state, image) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some(backend) = machines(state.path()) else { return };
    let (parent, child) = (new_id(), new_id());
    let spec = in_storage(state.path(), image.path(), "parent");
    assert_eq!(backend.guarantees(&spec).snapshot, paddock_model::SnapshotKind::Memory);
    let Raised { fence, stream, .. } = backend.create(&parent, &spec, Purpose::Lasting).unwrap();
    let mut talk = Talk::new(stream);
    talk.ready();
    let count =
        "(i=0; while :; do i=$((i+1)); echo $i > /tmp/count; sleep 0.1; done) >/dev/null 2>&1 & echo begun";
    assert_eq!(talk.run(1, count), (ExitKind::Exited(0), "begun\n".into()));
    drop(talk);

    let memory = state.path().join("memory");
    std::fs::create_dir(&memory).unwrap();
    let started = Instant::now();
    let kept = fence.keep_memory(&memory).unwrap();
    eprintln!("kept after {:?}", started.elapsed());
    let copy = state.path().join("child");
    std::fs::create_dir(&copy).unwrap();
    assert!(
        Command::new("cp")
            .args(["-r", "--sparse=always"])
            .arg(state.path().join("parent/."))
            .arg(&copy)
            .status()
            .unwrap()
            .success()
    );
    kept.go_on().unwrap();
    eprintln!("went on after {:?}", started.elapsed());

    let spec = Spec { disk: Disk::Directory { path: copy, start: None }, ..spec };
    let started = Instant::now();
    let raised = backend.create_from_memory(&child, &spec, &memory).unwrap();
    let mut second = Talk::new(raised.stream);
    second.say(&ToGuest::Resume);
    second.ready();
    eprintln!("brought back after {:?}", started.elapsed());
    fence.leave();
    let adopted = backend.adopt(&parent).unwrap();
    let mut first = Talk::new(adopted.stream);
    first.say(&ToGuest::Resume);
    first.ready();
    // The file is empty for a moment whenever it is written.
    let look = "until a=$(cat /tmp/count) && [ -n \"$a\" ]; do sleep 0.1; done; \
        until b=$(cat /tmp/count) && [ \"${b:-0}\" -gt \"$a\" ]; do sleep 0.1; done; echo counts; \
        head -c 16 /dev/urandom | od -An -tx1; cat /etc/machine-id";
    let (mut random, mut exec) = (Vec::new(), 10);
    for talk in [&mut first, &mut second] {
        exec += 1;
        let (status, said) = talk.run(exec, look);
        assert_eq!(status, ExitKind::Exited(0));
        assert!(said.starts_with("counts\n"), "{said}");
        random.push(said.lines().nth(1).unwrap().to_string());
    }
    assert_ne!(random[0], random[1], "both draw the same random bytes");
    half_of_it_is_refused(backend.as_ref(), &spec, &memory);
    assert_eq!(first.run(20, "echo lives"), (ExitKind::Exited(0), "lives\n".into()));
    drop((adopted.fence, raised.fence));
    assert_eq!(traces_in_the_end(state.path(), &[parent, child]), [""; 0]);
}

#[test]
fn many_begin_with_what_one_has_loaded_and_share_no_name() {
    let (state, image) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some(backend) = machines(state.path()) else { return };
    let spec = Spec { root: tiny_image(image.path()), ..small() };
    assert!(backend.template_memory(&small(), b"what").unwrap().is_none(), "a part of the host is shared");
    let place = backend.template_memory(&spec, b"what").unwrap().unwrap();
    assert_ne!(backend.template_memory(&spec, b"other").unwrap().unwrap(), place);
    let first = new_id();
    let Raised { mut fence, stream, .. } = backend.create(&first, &spec, Purpose::TemplateMemory).unwrap();
    let mut talk = Talk::new(stream);
    talk.ready();
    let count = "(i=0; while :; do i=$((i+1)); echo $i > /tmp/count; sleep 0.1; done) >/dev/null 2>&1 & \
        echo loaded > /tmp/loaded; echo begun";
    assert_eq!(talk.run(1, count), (ExitKind::Exited(0), "begun\n".into()));
    let names = "cat /etc/machine-id /proc/sys/kernel/random/boot_id";
    let mut drawn = vec![talk.run(2, names).1];
    drop(talk);
    let new = place.with_extension("new");
    std::fs::create_dir(&new).unwrap();
    fence.keep_memory(&new).unwrap().stay_down().unwrap();
    fence.destroy().unwrap();
    std::fs::rename(&new, &place).unwrap();
    assert_eq!(traces_in_the_end(state.path(), std::slice::from_ref(&first)), [""; 0]);

    let mut sandboxes = Vec::new();
    for number in 0..3 {
        let id = new_id();
        let path = state.path().join(format!("disk-{number}"));
        std::fs::create_dir(&path).unwrap();
        // On a disk of its own, or one without a name.
        let disk = if number == 0 { Disk::Memory } else { Disk::Directory { path, start: None } };
        let started = Instant::now();
        let raised = backend.create_from_memory(&id, &Spec { disk, ..spec.clone() }, &place).unwrap();
        let mut talk = Talk::new(raised.stream);
        talk.say(&ToGuest::Resume);
        talk.ready();
        eprintln!("begun after {:?}", started.elapsed());
        sandboxes.push((id, raised.fence, talk));
    }
    for (number, (_, _, talk)) in sandboxes.iter_mut().enumerate() {
        let look = "a=; while [ -z \"$a\" ]; do a=$(cat /tmp/count); done; b=; \
            while [ -z \"$b\" ] || [ \"$b\" = \"$a\" ]; do b=$(cat /tmp/count); done; cat /tmp/loaded";
        assert_eq!(talk.run(10, look), (ExitKind::Exited(0), "loaded\n".into()));
        drawn.push(talk.run(11, names).1);
        drawn.push(talk.run(12, "head -c 16 /dev/urandom | od -An -tx1").1);
        let written =
            talk.run(13, &format!("echo {number} > /tmp/loaded; echo x > /proc/sys/kernel/random/boot_id"));
        assert_ne!(written.0, ExitKind::Exited(0), "its names can be written from inside");
    }
    let lines: Vec<&str> =
        drawn.iter().flat_map(|said| said.lines()).filter(|line| !line.is_empty()).collect();
    let mut different = lines.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!((different.len(), lines.len()), (11, 11), "two have something in common: {lines:?}");
    let ids: Vec<_> = sandboxes.iter().map(|(id, ..)| id.clone()).collect();
    drop(sandboxes);
    assert_eq!(traces_in_the_end(state.path(), &ids), [""; 0]);

    // Changed files of the template have another place, and no sandbox begins with a memory that was cut off.
    std::fs::write(image.path().join("changed"), b"x").unwrap();
    let other = backend.template_memory(&spec, b"what").unwrap().unwrap();
    assert_ne!(other, place);
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("memory"), b"cut off").unwrap();
    let id = new_id();
    let error = backend.create_from_memory(&id, &spec, &other).err().expect("it began with nothing");
    let why = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    assert!(why.contains("not whole"), "{error}: {why}");
    assert_eq!(traces_in_the_end(state.path(), &[id]), [""; 0]);
}

/// A disk that is full, for this thread alone.
fn on_a_full_disk<T: Send>(place: &Path, action: impl FnOnce() -> T + Send) -> T {
    let body = || {
        // SAFETY: takes flags; what it changes is this thread's own.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_FS | libc::CLONE_NEWNS) }, 0);
        let private =
            rustix::mount::MountPropagationFlags::PRIVATE | rustix::mount::MountPropagationFlags::REC;
        rustix::mount::mount_change("/", private).unwrap();
        rustix::mount::mount("tmpfs", place, "tmpfs", rustix::mount::MountFlags::empty(), c"size=1m")
            .unwrap();
        action()
    };
    std::thread::scope(|scope| scope.spawn(body).join().unwrap())
}

#[test]
fn a_full_disk_keeps_no_memory_and_harms_nobody() {
    let (state, image) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some(backend) = machines(state.path()) else { return };
    let spec = in_storage(state.path(), image.path(), "disk");
    let id = new_id();
    let Raised { fence, stream, .. } = backend.create(&id, &spec, Purpose::Lasting).unwrap();
    let mut talk = Talk::new(stream);
    talk.ready();
    assert_eq!(talk.run(1, "echo mine > /tmp/file; echo set"), (ExitKind::Exited(0), "set\n".into()));
    drop(talk);
    let memory = state.path().join("memory");
    std::fs::create_dir(&memory).unwrap();
    let error =
        on_a_full_disk(&memory, || fence.keep_memory(&memory).err()).expect("it was kept on a full disk");
    eprintln!("refused: {error}");
    assert!(error.to_string().contains("QEMU failed"), "{error}");
    fence.leave();
    let adopted = backend.adopt(&id).unwrap();
    let mut talk = Talk::new(adopted.stream);
    talk.say(&ToGuest::Resume);
    talk.ready();
    assert_eq!(talk.run(2, "cat /tmp/file"), (ExitKind::Exited(0), "mine\n".into()));
    drop(adopted.fence);
    assert_eq!(traces_in_the_end(state.path(), &[id]), [""; 0]);
}

/// The state that a full disk or a crash leaves.
fn half_of_it_is_refused(backend: &dyn Backend, spec: &Spec, memory: &Path) {
    let state = memory.parent().unwrap();
    let (half, disk, id) = (state.join("half"), state.join("half-disk"), new_id());
    // Parent and child live on.
    let living = traces(state, &[]);
    std::fs::create_dir(&half).unwrap();
    std::fs::create_dir(&disk).unwrap();
    for entry in std::fs::read_dir(memory).unwrap().flatten() {
        std::fs::copy(entry.path(), half.join(entry.file_name())).unwrap();
    }
    let file = std::fs::OpenOptions::new().write(true).open(half.join("state")).unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    let spec = Spec { disk: Disk::Directory { path: disk, start: None }, ..spec.clone() };
    let error = backend.create_from_memory(&id, &spec, &half).err().expect("it went on from half of it");
    let whole = format!("{error}: {:?}", std::error::Error::source(&error).map(ToString::to_string));
    assert!(whole.contains("VM") || whole.contains("memory"), "{whole}");
    eprintln!("refused: {whole}");
    assert_eq!(traces_in_the_end(state, &[id]), living);
}

#[test]
fn what_leads_out_comes_out_of_the_machine() {
    let state = tempfile::tempdir().unwrap();
    let Some(backend) = machines(state.path()) else { return };
    let id = new_id();
    let spec = Spec { network: Network::Gate(NetRules::default()), ..small() };
    let Raised { mut fence, stream, network, .. } = backend.create(&id, &spec, Purpose::Passing).unwrap();
    let ends = network.unwrap().wait(Duration::from_secs(30)).unwrap();
    let mut talk = Talk::new(stream);
    talk.ready();

    // To the proxy: bytes sent there come to the holder of its socket, and back.
    let proxy = std::net::TcpListener::from(ends.proxy);
    let served = std::thread::spawn(move || {
        let (mut connection, _) = proxy.accept().unwrap();
        let mut said = String::new();
        connection.read_to_string(&mut said).unwrap();
        let long = "x".repeat(1 << 20);
        connection.write_all(format!("heard {} {long}", said.len()).as_bytes()).unwrap();
    });
    let script = "python3 -c 'import socket\ns=socket.create_connection((\"127.0.0.1\",3128))\ns.sendall(b\"y\"*1000000)\n\
        s.shutdown(socket.SHUT_WR)\na=b\"\"\nwhile True:\n d=s.recv(65536)\n if not d: break\n a+=d\nprint(a[:13], len(a))'";
    let (status, said) = talk.run(1, script);
    assert_eq!((status, said.as_str()), (ExitKind::Exited(0), "b'heard 1000000' 1048590\n"));
    served.join().unwrap();

    // To any other address: frames come to the holder of the far end of the link.
    let script = "python3 -c 'import socket\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n\
        for i in range(20): s.sendto(b\"sent-outside\",(\"198.18.0.1\",9))'";
    assert_eq!(talk.run(2, script).0, ExitKind::Exited(0));
    let mut frame = [0; 70_000];
    let patience = Instant::now() + Duration::from_secs(30);
    rustix::io::ioctl_fionbio(&ends.link, true).unwrap();
    loop {
        match rustix::io::read(&ends.link, &mut frame) {
            Ok(count) if frame[..count].windows(12).any(|window| window == b"sent-outside") => break,
            _ => assert!(Instant::now() < patience, "no frame came out"),
        }
    }
    fence.destroy().unwrap();
    assert_eq!(traces_in_the_end(state.path(), &[id]), [""; 0]);
}

#[test]
fn memory_that_was_cut_off_is_refused_and_nothing_is_left() {
    let (state, image) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some(backend) = machines(state.path()) else { return };
    let id = new_id();
    let spec = in_storage(state.path(), image.path(), "disk");
    let memory = state.path().join("memory");
    std::fs::create_dir(&memory).unwrap();
    std::fs::write(memory.join("state"), b"QEVM and nothing else").unwrap();
    let error = backend.create_from_memory(&id, &spec, &memory).err().expect("it went on from nothing");
    let whole = format!("{error}: {:?}", std::error::Error::source(&error).map(ToString::to_string));
    assert!(whole.contains("VM") || whole.contains("memory"), "{whole}");
    assert_eq!(traces_in_the_end(state.path(), &[id]), [""; 0]);
}
