//! From one process to a copy of it in another pid namespace: see the three of [`super`].

use super::as_work::HostIds;
use super::belongings::{Belongings, Between};
use super::tracee::{INSTRUCTION, Tracee, host};
use super::{Journey, idle, looks};
use crate::backend::CarryError;
use crate::process::probe;
use paddock_protocol::NAMESPACES;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::fs::File;
use std::io::{Error, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Two pages of the interpreter's memory that are ours while it stands: an instruction, and what calls point to.
pub const SCRATCH: u64 = 8192;
/// Places in there.
const TID: u64 = 64;
const PAIR: u64 = 80;
const MESSAGE: u64 = 128;
const PIECE: u64 = 256;
const BYTE: u64 = 288;
const CONTROL: u64 = 512;
const CONTROL_LENGTH: u64 = 1280;
/// For whoever needs more.
pub const FREE: u64 = 4096;

const PR_GET_TID_ADDRESS: u64 = 40;

/// A copy, stopped where its original waits, in the pid namespace of its new sandbox.
pub struct Copy {
    pub tracee: Tracee,
    pub scratch: u64,
    /// The numbers under which it has the namespaces, in the order of [`NAMESPACES`], without the first two.
    pub namespaces: Vec<i32>,
    pub directory: i32,
    /// The same for what was kept: the number that it has, that it is to have, and whether it is lost at an exec.
    pub kept: Vec<(i32, i32, bool)>,
    /// What the kernel was told of the original's memory, and is told anew.
    pub robust_list: (u64, u64),
    pub rseq: Option<Rseq>,
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

impl Copy {
    pub fn go_on(self) -> Result<(), CarryError> {
        self.tracee.let_go()
    }
}

/// What is known of where it goes before anything stands still.
pub struct Arrival {
    /// In the order of [`NAMESPACES`].
    namespaces: Vec<OwnedFd>,
    work: HostIds,
}

impl Journey<'_> {
    pub fn look_ahead(&self) -> Result<Arrival, CarryError> {
        let work = HostIds::of(self.to, self.ids.work, self.ids.work_group)
            .map_err(|source| host("look at the ids of the fork", source))?;
        Ok(Arrival { namespaces: self.namespaces()?, work })
    }

    /// Whatever fails, the source can be let go, and is as it was then.
    pub fn bear(&self, source: &mut Tracee, arrival: &Arrival) -> Result<(Copy, Belongings), CarryError> {
        let control = source.waits_in().map_or(-1, |(_, descriptor)| descriptor as i32);
        let pipes = (self.interpreter.stdout, self.interpreter.stderr);
        let (to, streams, work) = (self.to, self.streams, arrival.work);
        let between = Between { pid: source.pid, to, streams, pipes, control, work };
        let belongings = between.collect()?;
        let robust_list = robust_list(source.pid);
        let rseq = rseq(source.pid);
        let rights = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let arguments = [0, SCRATCH, rights as u64, flags as u64, u64::MAX, 0];
        let scratch = source.must("map memory in the interpreter", libc::SYS_mmap, &arguments)?;
        let born = self.bear_with(source, scratch, (&belongings, &arrival.namespaces));
        let unmapped = source.must("unmap it again", libc::SYS_munmap, &[scratch, SCRATCH]);
        let (tracee, namespaces, directory, kept) = born?;
        unmapped?;
        Ok((Copy { tracee, scratch, namespaces, directory, kept, robust_list, rseq }, belongings))
    }

    #[expect(clippy::type_complexity, reason = "the parts of a copy, in one place only")]
    fn bear_with(
        &self,
        source: &mut Tracee,
        scratch: u64,
        (belongings, namespaces): (&Belongings, &[OwnedFd]),
    ) -> Result<(Tracee, Vec<i32>, i32, Vec<(i32, i32, bool)>), CarryError> {
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
            self.enter_namespaces(&mut first, scratch, (belongings, namespaces)).and_then(
                |(namespaces, directory, kept)| {
                    let mut second = first.bear("make a process in the fork", &[flags, 0, 0, 0, 0])?;
                    let (more, address) = match tid {
                        Some(address) => (libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID, address),
                        None => (0, 0),
                    };
                    let flags = (libc::SIGCHLD | more) as u64;
                    let third =
                        second.bear("copy the memory of the interpreter", &[flags, 0, 0, address, 0])?;
                    Ok((third, namespaces, directory, kept))
                },
            )
            // Those that only stood between end here, the second before the first.
        };
        // Whoever enters a namespace marks the memory that it has as nobody's to look at: it is the interpreter's, too.
        let mark = [libc::PR_SET_DUMPABLE as u64, dumpable.min(1), 0, 0, 0];
        source.must("let be looked at it as before", libc::SYS_prctl, &mark)?;
        made
    }

    /// Where its C library notes its number; a copy has another one.
    fn tid_address(&self, source: &mut Tracee, scratch: u64) -> Option<u64> {
        let answer = source.call(libc::SYS_prctl, &[PR_GET_TID_ADDRESS, scratch + TID, 0, 0, 0]).ok()?;
        let mut bytes = [0; 8];
        source.read(scratch + TID, &mut bytes).ok()?;
        let address = u64::from_ne_bytes(bytes);
        (answer == 0 && address != 0).then_some(address)
    }

    /// In the first process: it is given everything, joins the cgroups, and enters what its children are to be in.
    #[expect(clippy::type_complexity, reason = "as above")]
    fn enter_namespaces(
        &self,
        first: &mut Tracee,
        scratch: u64,
        (belongings, namespaces): (&Belongings, &[OwnedFd]),
    ) -> Result<(Vec<i32>, i32, Vec<(i32, i32, bool)>), CarryError> {
        let mut passed: Vec<BorrowedFd<'_>> = self.entrances.iter().map(AsFd::as_fd).collect();
        passed.extend(namespaces.iter().map(AsFd::as_fd));
        passed.push(belongings.directory.as_fd());
        passed.extend(belongings.kept.iter().map(|(_, _, descriptor)| descriptor.as_fd()));
        let received = give(first, scratch, &passed)?;
        let (entrances, rest) = received.split_at(self.entrances.len());
        self.join_cgroups(first, scratch, entrances)?;
        let (entered, rest) = rest.split_at(namespaces.len());
        for (place, kind) in [(0, libc::CLONE_NEWUSER), (1, libc::CLONE_NEWPID)] {
            let arguments = [entered[place] as u64, kind as u64];
            first.must("enter the fork's namespaces", libc::SYS_setns, &arguments)?;
        }
        let kept = belongings.kept.iter().zip(&rest[1..]);
        let kept = kept.map(|((wanted, closes, _), number)| (*number, *wanted, *closes)).collect();
        Ok((entered[2..].to_vec(), rest[0], kept))
    }

    /// It joins them itself: to move another process, the kernel waits until nobody on the machine forks or ends, which takes
    /// milliseconds in which the interpreter would stand still.
    fn join_cgroups(&self, first: &mut Tracee, scratch: u64, entrances: &[i32]) -> Result<(), CarryError> {
        first.write(scratch + BYTE, b"0")?;
        for number in entrances {
            let arguments = [*number as u64, scratch + BYTE, 1];
            first.must("join the cgroups of the fork", libc::SYS_write, &arguments)?;
        }
        // What it wrote stood in its memory.
        match looks::is_in_cgroups(first.pid, self.entrances) {
            Ok(true) => Ok(()),
            Ok(false) => Err(misled()),
            Err(source) => Err(host("look at the cgroups of the copy", source)),
        }
    }

    fn namespaces(&self) -> Result<Vec<OwnedFd>, CarryError> {
        let open = |file: &str| File::open(format!("/proc/{}/ns/{file}", self.to)).map(OwnedFd::from);
        let wanted = NAMESPACES.iter().filter(|(name, _)| *name != "time" || probe::has_time_namespace());
        let opened: std::io::Result<Vec<OwnedFd>> = wanted.map(|(_, file)| open(file)).collect();
        opened.map_err(|source| host("open the fork's namespaces", source))
    }
}

/// Sends descriptors to a stopped process; the numbers that they have there.
fn give(process: &mut Tracee, scratch: u64, passed: &[BorrowedFd<'_>]) -> Result<Vec<i32>, CarryError> {
    let kind = (libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC) as u64;
    let arguments = [libc::AF_UNIX as u64, kind, 0, scratch + PAIR];
    process.must("make a socket pair in the copy", libc::SYS_socketpair, &arguments)?;
    let mut pair = [0; 8];
    let failed = |source: Error| host("read from the copy's memory", source);
    process.read(scratch + PAIR, &mut pair).map_err(failed)?;
    let [ours, theirs] = [word(&pair, 0), word(&pair, 4)];
    let socket = idle::copy_of(process.pid, ours).map_err(|source| host("reach the copy", source))?;
    // What stands in memory may be somebody else's word: the kernel notes who made a pair.
    let made_by = rustix::net::sockopt::socket_peercred(&socket).ok();
    if made_by.is_none_or(|peer| peer.pid.as_raw_nonzero().get() != process.pid) {
        return Err(misled());
    }
    let mut space = vec![std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(passed.len()))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(passed)) {
        return Err(CarryError::Unable("it has too many files open".into()));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(&socket, &[IoSlice::new(b"p")], &mut ancillary, flags)
        .map_err(|errno| host("hand descriptors to the copy", errno.into()))?;
    process.write(scratch + MESSAGE, &message(scratch))?;
    let mut piece = [(scratch + BYTE).to_ne_bytes(), 1_u64.to_ne_bytes()].concat();
    piece.resize(16, 0);
    process.write(scratch + PIECE, &piece)?;
    let flags = (libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT) as u64;
    process.must("take descriptors", libc::SYS_recvmsg, &[theirs as u64, scratch + MESSAGE, flags])?;
    let mut control = vec![0; CONTROL_LENGTH as usize];
    process.read(scratch + CONTROL, &mut control).map_err(failed)?;
    let length = usize::try_from(u64::from_ne_bytes(array(&control, 0))).unwrap_or(0);
    let numbers: Vec<i32> = (16..length.min(control.len())).step_by(4).map(|at| word(&control, at)).collect();
    if numbers.len() != passed.len() || numbers.iter().any(|number| *number < 0) {
        return Err(CarryError::Unable("it may not have as many files open as it takes".into()));
    }
    // The same for the numbers: each has to stand for what was sent.
    let sent = |(number, descriptor): (&i32, &BorrowedFd<'_>)| is_one_file(process.pid, *number, *descriptor);
    if !numbers.iter().zip(passed).all(sent) {
        return Err(misled());
    }
    Ok(numbers)
}

/// Whether a number of another process stands for an opened file of ours.
fn is_one_file(pid: i32, number: i32, own: BorrowedFd<'_>) -> bool {
    const FILE: i32 = 0;
    let this = std::process::id() as i32;
    // SAFETY: numbers only.
    unsafe { libc::syscall(libc::SYS_kcmp, pid, this, FILE, number, own.as_raw_fd()) == 0 }
}

fn misled() -> CarryError {
    CarryError::Unable("somebody else writes to its memory".into())
}

/// `struct msghdr`.
fn message(scratch: u64) -> Vec<u8> {
    [0, 0, scratch + PIECE, 1, scratch + CONTROL, CONTROL_LENGTH, 0]
        .iter()
        .flat_map(|word: &u64| word.to_ne_bytes())
        .collect()
}

fn word(bytes: &[u8], at: usize) -> i32 {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(-1, i32::from_ne_bytes)
}

fn array(bytes: &[u8], at: usize) -> [u8; 8] {
    bytes.get(at..at + 8).and_then(|eight| eight.try_into().ok()).unwrap_or_default()
}

/// Where the kernel finds locks that a process held when it died.
fn robust_list(pid: i32) -> (u64, u64) {
    let (mut head, mut length) = (0_u64, 0_u64);
    // SAFETY: the kernel writes two words.
    let found = unsafe { libc::syscall(libc::SYS_get_robust_list, pid, &raw mut head, &raw mut length) };
    if found == 0 { (head, length) } else { (0, 0) }
}

/// Where the kernel tells a process on which processor it runs.
fn rseq(pid: i32) -> Option<Rseq> {
    const PTRACE_GET_RSEQ_CONFIGURATION: libc::c_uint = 0x420f;
    let mut found = Rseq::default();
    let size = size_of::<Rseq>() as u64;
    super::tracee::ask(PTRACE_GET_RSEQ_CONFIGURATION, pid, size, (&raw mut found).addr() as u64).ok()?;
    (found.address != 0).then_some(found)
}
