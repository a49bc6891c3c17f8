//! VMs by QEMU: its VM type `microvm`, with only the devices that are named here.

use super::monitor::{Acceleration, Command, Files, MemorySource, Monitor, Shape, Vmm};
use super::qmp::Qmp;
use super::runtime::Runtime;
use super::{counter, sparse};
use paddock_protocol::{VM_PORT, VM_SHARE, VM_SHARE_TAG, VM_SYSTEM, VM_SYSTEM_TAG};
use serde_json::json;
use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// An RCU grace period takes three ticks of the clock, unless it is expedited: so long would a command wait to be put
/// under its limits. A VM has few processors to ask.
const PARAMETERS: &str =
    "console=ttyS0 quiet loglevel=1 panic=-1 reboot=t random.trust_cpu=on rcupdate.rcu_expedited=1";
/// The kernel is told the rate of its clock: an emulated one cannot measure it, and hangs in the attempt.
const EMULATED_CLOCK: &str = "tsc_early_khz";
/// A filter that the kernel translated would be translated once more, for every command anew.
const INTERPRETED: &str = "sysctl.net.core.bpf_jit_enable=0";
/// See [`wants_fixed_addresses`].
const FIXED_ADDRESSES: &str = "norandmaps";
/// Processor features that cost more in emulation than they give: `erms` makes copies and clears run byte by byte, and
/// `la57` adds a fifth level of page tables for addresses that no VM has.
const EMULATED_PROCESSOR: &str = "max,-erms,-la57";
/// Grows with every change of the command line below: VMs that were kept before the change do not go on after it.
pub const FORM: u32 = 6;
/// An empty directory, for a share without content.
const NOTHING: &str = "/nothing";
/// The size of the cache of translated code, in MiB. QEMU throws all of it away when it is full. A VM with a started
/// interpreter has translated 70 MiB, and its copies should not begin with a flush.
pub const TRANSLATED: u64 = 128;
/// Writing out the memory of a large VM takes its time.
const SAVE_TIMEOUT: Duration = Duration::from_secs(120);
const PAUSE_BETWEEN_LOOKS: Duration = Duration::from_millis(1);

pub struct Qemu {
    pub runtime: Runtime,
}

/// True if programs in newly booted, emulated VMs are to have the same addresses each time (decision 43). QEMU
/// translates code anew for each address that it meets it at. With random addresses it therefore translates every
/// command from its first instruction on.
pub fn wants_fixed_addresses() -> bool {
    std::env::var_os("PADDOCK_VM_ASLR").is_some_and(|value| value == "off")
}

impl Vmm for Qemu {
    fn command(&self, shape: Shape, files: Files) -> Command {
        let mut command = Command { words: Vec::new(), files: Vec::new() };
        command.word(self.runtime.path.display().to_string());
        command.pair("-name", "paddock,process=paddock-machine");
        command.words.extend(["-no-user-config", "-nodefaults", "-no-reboot"].map(String::from));
        command.pair("-display", "none");
        command.pair(
            "-machine",
            "microvm,acpi=on,pit=on,pic=on,rtc=on,isa-serial=on,x-option-roms=off,memory-backend=ram",
        );
        let mut parameters = PARAMETERS.to_string();
        match shape.acceleration {
            Acceleration::Kvm => {
                command.pair("-accel", "kvm");
                command.pair("-cpu", "host");
            }
            Acceleration::Emulated => {
                let rate = counter::rate();
                parameters = format!("{parameters} {EMULATED_CLOCK}={rate} {INTERPRETED}");
                if shape.fixed_addresses {
                    parameters = format!("{parameters} {FIXED_ADDRESSES}");
                }
                command.pair("-accel", format!("tcg,thread=multi,tb-size={TRANSLATED}"));
                command.pair("-cpu", EMULATED_PROCESSOR);
            }
        }
        command.pair("-m", format!("{}B", shape.memory));
        command.pair("-smp", shape.processors.to_string());
        command.pair("-global", "virtio-mmio.force-legacy=false");
        // QEMU starts no other program, takes no rights back, and keeps to its list of system calls.
        command.pair("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny");
        command.begin(files.memory, shape.memory, parameters);
        command.pair("-serial", "null");
        command.port();
        command.disk("image", files.image, true);
        command.disk("disk", files.disk, false);
        command.share(VM_SYSTEM_TAG, if files.shares_system { VM_SYSTEM } else { NOTHING }, true);
        command.share(VM_SHARE_TAG, if files.shares { VM_SHARE } else { NOTHING }, !files.shares);
        let monitor = command.file(files.monitor);
        let listens = if files.listens { ",server=on,wait=off" } else { "" };
        command.pair("-chardev", format!("socket,id=monitor,fd={monitor}{listens}"));
        command.pair("-mon", "chardev=monitor,mode=control");
        command
    }

    fn monitor(&self, stream: UnixStream) -> Result<Box<dyn Monitor>> {
        Ok(Box::new(QemuMonitor { qmp: Qmp::greet(stream)? }))
    }
}

impl Command {
    fn word(&mut self, word: impl Into<String>) {
        self.words.push(word.into());
    }

    fn pair(&mut self, option: &str, value: impl Into<String>) {
        self.word(option);
        self.word(value);
    }

    /// How the words name it.
    fn file(&mut self, file: OwnedFd) -> String {
        self.files.push(file);
        format!("{{{}}}", self.files.len() - 1)
    }

    fn begin(&mut self, source: MemorySource, bytes: u64, parameters: String) {
        let memory = |command: &mut Command, file: OwnedFd, share: &str| {
            let file = command.file(file);
            let place = format!("mem-path=/proc/self/fd/{file}");
            command.pair("-object", format!("memory-backend-file,id=ram,size={bytes},share={share},{place}"));
        };
        match source {
            MemorySource::Boot { kernel, initramfs, memory: file } => {
                memory(self, file, "on");
                let (kernel, initramfs) = (self.file(kernel), self.file(initramfs));
                self.pair("-kernel", format!("/proc/self/fd/{kernel}"));
                self.pair("-initrd", format!("/proc/self/fd/{initramfs}"));
                self.pair("-append", parameters);
            }
            MemorySource::Copy { memory: file, shared } => {
                memory(self, file, if shared { "on" } else { "off" });
                self.pair("-incoming", "defer");
            }
            MemorySource::Stream => {
                self.pair("-object", format!("memory-backend-ram,id=ram,size={bytes},share=off"));
                self.pair("-incoming", "defer");
            }
        }
    }

    fn port(&mut self) {
        self.pair("-chardev", "socket,id=port,fd={port}");
        self.pair("-device", "virtio-serial-device");
        self.pair("-device", format!("virtserialport,chardev=port,name={VM_PORT}"));
    }

    fn disk(&mut self, name: &str, file: OwnedFd, read_only: bool) {
        let number = self.file(file);
        let set = self.files.len();
        self.pair("-add-fd", format!("fd={number},set={set}"));
        let switch = if read_only { "on" } else { "off" };
        self.pair(
            "-blockdev",
            format!(
                "driver=raw,node-name={name},read-only={switch},discard=unmap,file.driver=file,file.locking=off,\
                 file.filename=/dev/fdset/{set},file.discard=unmap,cache.no-flush=on,file.cache.no-flush=on"
            ),
        );
        self.pair("-device", format!("virtio-blk-device,drive={name}"));
    }

    fn share(&mut self, tag: &str, path: &str, read_only: bool) {
        let switch = if read_only { ",readonly=on" } else { "" };
        self.pair(
            "-fsdev",
            format!("local,id={tag},path={path},security_model=none,multidevs=remap{switch}"),
        );
        self.pair("-device", format!("virtio-9p-device,fsdev={tag},mount_tag={tag}"));
    }
}

struct QemuMonitor {
    qmp: Qmp,
}

impl QemuMonitor {
    /// Precondition: nothing is being kept or recalled.
    fn set_up(&mut self, state: &File, shared: bool) -> Result<()> {
        let capabilities = json!({ "capabilities": [{ "capability": "x-ignore-shared", "state": shared }] });
        self.qmp.execute("migrate-set-capabilities", Some(capabilities))?;
        self.qmp.execute_with("getfd", Some(json!({ "fdname": "state" })), state)?;
        Ok(())
    }

    /// Waits until the migration is done; QEMU has to be asked.
    fn wait(&mut self) -> Result<()> {
        let deadline = Instant::now() + SAVE_TIMEOUT;
        loop {
            let answer = self.qmp.execute("query-migrate", None)?;
            let status = answer.get("status").and_then(|status| status.as_str()).unwrap_or("none");
            match status {
                "completed" => return Ok(()),
                "failed" | "cancelled" => {
                    let why = answer
                        .get("error-desc")
                        .and_then(|why| why.as_str())
                        .unwrap_or("it does not say why");
                    return Err(Error::other(format!("QEMU failed: {}", why.escape_debug())));
                }
                _ if Instant::now() > deadline => {
                    return Err(Error::new(std::io::ErrorKind::TimedOut, "QEMU did not finish in time"));
                }
                _ => std::thread::sleep(PAUSE_BETWEEN_LOOKS),
            }
        }
    }
}

impl Monitor for QemuMonitor {
    fn recall(&mut self, state: &File, copied: bool) -> Result<()> {
        // A descriptor of its own, so that the file is read from its beginning even if others read it at the same time.
        let state = sparse::read_only(state)?;
        self.set_up(&state, copied)?;
        self.qmp.execute("migrate-incoming", Some(json!({ "uri": "fd:state" })))?;
        self.wait()
    }

    fn keep(&mut self, state: &File, shared: bool) -> Result<()> {
        if !shared {
            self.pause()?;
        }
        let unbounded = json!({ "max-bandwidth": u64::MAX >> 2, "downtime-limit": 100_000 });
        self.qmp.execute("migrate-set-parameters", Some(unbounded))?;
        self.set_up(state, shared)?;
        self.qmp.execute("migrate", Some(json!({ "uri": "fd:state" })))?;
        self.wait()
    }

    fn pause(&mut self) -> Result<()> {
        self.qmp.execute("stop", None).map(drop)
    }

    fn go_on(&mut self) -> Result<()> {
        self.qmp.execute("cont", None).map(drop)
    }
}
