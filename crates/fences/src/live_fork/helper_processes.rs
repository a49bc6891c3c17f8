//! From one process to a copy of it in another pid namespace: see the three processes of [`super`].

use super::fd_transfer::{FdTransfer, misled};
use super::tracee::{INSTRUCTION, Tracee, host};
use super::work_ids::HostIds;
use super::{Transfer, process_facts};
use crate::error::LiveForkError;
use crate::shared::kernel::has_time_namespace;
use paddock_protocol::NAMESPACES;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Two pages of the interpreter's memory that are ours while it is stopped: an instruction, and the arguments of calls.
pub const SCRATCH: u64 = 8192;
/// Places in there, before those of the module `fd_transfer`.
const TID: u64 = 64;
const BYTE: u64 = 72;
/// From here on the scratch memory is free for other uses.
pub const FREE: u64 = 4096;

const PR_GET_TID_ADDRESS: u64 = 40;

/// A copy, stopped where its original waits, in the pid namespace of its new sandbox.
pub struct Copy {
    pub tracee: Tracee,
    pub scratch: u64,
    /// The socket by which it gets descriptors.
    pub fd_transfer: FdTransfer,
    /// The descriptors that we gave it, among those of the interpreter's files.
    pub ours: Vec<i32>,
    /// The number of the stream at which it waits.
    pub control: i32,
    /// The kernel knows these addresses in the original's memory; the copy tells them to the kernel anew.
    pub robust_list: (u64, u64),
    pub rseq: Option<Rseq>,
    /// The address at which its C library notes its thread id.
    pub tid: Option<u64>,
}

/// `struct ptrace_rseq_configuration`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Rseq {
    pub address: u64,
    pub size: u32,
    pub signature: u32,
    pub flags: u32,
    pad: u32,
}

impl Rseq {
    /// The arguments of the call that sets it.
    pub fn arguments(self) -> [u64; 4] {
        [self.address, self.size.into(), self.flags.into(), self.signature.into()]
    }
}

impl Copy {
    pub fn go_on(self) -> Result<(), LiveForkError> {
        self.tracee.let_go()
    }
}

/// The destination's namespaces and ids, looked up before the interpreter is stopped.
pub struct Arrival {
    user: OwnedFd,
    pid: OwnedFd,
    pub work: HostIds,
}

impl Transfer<'_> {
    pub fn arrival(&self) -> Result<Arrival, LiveForkError> {
        let work = HostIds::of(self.to, self.ids.work, self.ids.work_group)
            .map_err(|source| host("look at the ids of the fork", source))?;
        Ok(Arrival { user: self.namespace("user")?, pid: self.namespace("pid")?, work })
    }

    /// If a step fails, the source can be let go, and is as it was.
    pub fn bear(&self, source: &mut Tracee, arrival: &Arrival) -> Result<Copy, LiveForkError> {
        let control = source.waits_in().map_or(-1, |(_, descriptor)| descriptor as i32);
        let robust_list = robust_list(source.pid);
        let rseq = rseq(source.pid);
        let rights = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let arguments = [0, SCRATCH, rights as u64, flags as u64, u64::MAX, 0];
        let scratch = source.must("map memory in the interpreter", libc::SYS_mmap, &arguments)?;
        let born = self.bear_with(source, scratch, arrival);
        let unmapped = source.must("unmap it again", libc::SYS_munmap, &[scratch, SCRATCH]);
        let (tracee, fd_transfer, ours, tid) = born?;
        unmapped?;
        Ok(Copy { tracee, scratch, fd_transfer, ours, control, robust_list, rseq, tid })
    }

    fn bear_with(
        &self,
        source: &mut Tracee,
        scratch: u64,
        arrival: &Arrival,
    ) -> Result<(Tracee, FdTransfer, Vec<i32>, Option<u64>), LiveForkError> {
        source.write(scratch, &INSTRUCTION)?;
        let dumpable = source.must(
            "ask who may look at it",
            libc::SYS_prctl,
            &[libc::PR_GET_DUMPABLE as u64, 0, 0, 0, 0],
        )?;
        let tid = self.tid_address(source, scratch);
        let flags = (libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PARENT | libc::SIGCHLD) as u64;
        let made = {
            let mut first = source.bear("copy the interpreter", &[flags, 0, 0, 0, 0])?;
            first.site = scratch;
            self.enter_namespaces(&mut first, scratch, arrival).and_then(|(fd_transfer, ours)| {
                let mut second = first.bear("make a process in the fork", &[flags, 0, 0, 0, 0])?;
                let (more, address) = match tid {
                    Some(address) => (libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID, address),
                    None => (0, 0),
                };
                let flags = (libc::SIGCHLD | more) as u64;
                let third = second.bear("copy the memory of the interpreter", &[flags, 0, 0, address, 0])?;
                Ok((third, fd_transfer, ours, tid))
            })
            // The two processes in between end here, the second before the first.
        };
        // A process that enters a namespace marks its memory as not dumpable, and the interpreter shares that memory.
        let mark = [libc::PR_SET_DUMPABLE as u64, dumpable.min(1), 0, 0, 0];
        source.must("let be looked at it as before", libc::SYS_prctl, &mark)?;
        made
    }

    /// The address at which its C library notes its thread id; a copy has another id.
    fn tid_address(&self, source: &mut Tracee, scratch: u64) -> Option<u64> {
        let answer = source.call(libc::SYS_prctl, &[PR_GET_TID_ADDRESS, scratch + TID, 0, 0, 0]).ok()?;
        let mut bytes = [0; 8];
        source.read(scratch + TID, &mut bytes).ok()?;
        let address = u64::from_ne_bytes(bytes);
        (answer == 0 && address != 0).then_some(address)
    }

    /// In the first process: it joins the cgroups, and enters the namespaces that only its children are in then.
    /// Returns the descriptors that we gave it.
    fn enter_namespaces(
        &self,
        first: &mut Tracee,
        scratch: u64,
        arrival: &Arrival,
    ) -> Result<(FdTransfer, Vec<i32>), LiveForkError> {
        let mut passed: Vec<BorrowedFd<'_>> = self.entrances.iter().map(AsFd::as_fd).collect();
        passed.extend([arrival.user.as_fd(), arrival.pid.as_fd()]);
        let fd_transfer = FdTransfer::into(first, scratch)?;
        let mut ours = fd_transfer.pass(first, &passed)?;
        let (entrances, namespaces) = ours.split_at(self.entrances.len());
        self.join_cgroups(first, scratch, entrances)?;
        for (number, kind) in namespaces.iter().zip([libc::CLONE_NEWUSER, libc::CLONE_NEWPID]) {
            let arguments = [*number as u64, kind as u64];
            first.must("enter the fork's namespaces", libc::SYS_setns, &arguments)?;
        }
        ours.extend(fd_transfer.numbers());
        Ok((fd_transfer, ours))
    }

    /// The copy joins them itself. When another process moves it, the kernel waits until no process on the host forks
    /// or ends. That takes milliseconds, in which the interpreter would be stopped.
    fn join_cgroups(&self, first: &mut Tracee, scratch: u64, entrances: &[i32]) -> Result<(), LiveForkError> {
        first.write(scratch + BYTE, b"0")?;
        for number in entrances {
            let arguments = [*number as u64, scratch + BYTE, 1];
            first.must("join the cgroups of the fork", libc::SYS_write, &arguments)?;
        }
        // The byte that it wrote came from its own memory, so the kernel is asked.
        match process_facts::is_in_cgroups(first.pid, self.entrances) {
            Ok(true) => Ok(()),
            Ok(false) => Err(misled()),
            Err(source) => Err(host("look at the cgroups of the copy", source)),
        }
    }

    /// The namespaces that the copy enters itself, when the guest is ready.
    pub fn other_namespaces(&self) -> Result<Vec<OwnedFd>, LiveForkError> {
        let others = NAMESPACES.iter().filter(|(name, _)| !["user", "pid"].contains(name));
        let wanted = others.filter(|(name, _)| *name != "time" || has_time_namespace());
        wanted.map(|(_, file)| self.namespace(file)).collect()
    }

    fn namespace(&self, file: &str) -> Result<OwnedFd, LiveForkError> {
        let opened = File::open(format!("/proc/{}/ns/{file}", self.to)).map(OwnedFd::from);
        opened.map_err(|source| host("open the fork's namespaces", source))
    }
}

/// The address at which the kernel finds the locks that a process held when it died.
pub fn robust_list(pid: i32) -> (u64, u64) {
    let (mut head, mut length) = (0_u64, 0_u64);
    // SAFETY: the kernel writes two words.
    let found = unsafe { libc::syscall(libc::SYS_get_robust_list, pid, &raw mut head, &raw mut length) };
    if found == 0 { (head, length) } else { (0, 0) }
}

/// The address at which the kernel tells a process on which processor it runs.
pub fn rseq(pid: i32) -> Option<Rseq> {
    const PTRACE_GET_RSEQ_CONFIGURATION: libc::c_uint = 0x420f;
    let mut found = Rseq::default();
    let size = size_of::<Rseq>() as u64;
    super::tracee::ask(PTRACE_GET_RSEQ_CONFIGURATION, pid, size, (&raw mut found).addr() as u64).ok()?;
    (found.address != 0).then_some(found)
}
