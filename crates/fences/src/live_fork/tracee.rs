//! A stopped process, and system calls that it makes for us.
//!
//! The author of the process's code may want to mislead us. So a call is compared, when it begins, with the call that
//! was put into its registers; and its result is the kernel's, never a value from its memory.

use super::timer::Timer;
use crate::error::LiveForkError;
use std::fs::File;
use std::io::{Error, ErrorKind, Result as IoResult};
use std::os::unix::fs::FileExt;
use std::time::Instant;

/// For x86-64: `syscall`, and the kernel's number of the architecture.
pub const INSTRUCTION: [u8; 2] = [0x0f, 0x05];
const ARCHITECTURE: u32 = 0xc000_003e;
/// The kernel's return value of an interrupted call that waits to be made again.
const TO_BE_MADE_AGAIN: i64 = -512;
/// The same for calls that are not made again after a signal's handler, and for calls that go on with the time that is
/// left.
const UNLESS_HANDLED: i64 = -514;
const WITH_WHAT_IS_LEFT: i64 = -516;

const OPTIONS: i32 = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | SUSPEND_SECCOMP;
/// PTRACE_O_SUSPEND_SECCOMP.
const SUSPEND_SECCOMP: i32 = 1 << 21;
const CALL_STOP: i32 = libc::SIGTRAP | 0x80;
const EVENT_STOP: i32 = 128;
/// A process that gets signal after signal is not waited for.
const MOST_SIGNALS: u32 = 64;

/// Killed when dropped, unless it was let go.
pub struct Tracee {
    pub pid: i32,
    /// The address at which it executes a call.
    pub site: u64,
    /// Its registers when it stopped first, in the middle of waiting.
    before: libc::user_regs_struct,
    place: Place,
    kind: Kind,
    memory: File,
}

/// The point in the kernel at which it is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before it goes back to its own code; a call that was interrupted is made again by itself.
    Interrupted,
    /// At the beginning of a call.
    Beginning,
    /// At the end of one.
    End,
    /// Within a call that made a process.
    Within,
    /// It is to get this signal.
    Signal(i32),
}

/// The owner of the traced process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The one that is copied, which is not to be harmed.
    Source,
    /// A process that we made.
    Own,
    /// It has ended or was let go; it belongs to no tracer any more.
    Gone,
}

enum Stop {
    Call,
    Event(i32),
    Signal(i32),
    Ended,
}

impl Tracee {
    /// Stops a running process, at any point: the caller has to look where. The timer keeps this thread, which is the
    /// only one that may trace it, from waiting for ever.
    pub fn stop(pid: i32, until: Instant, _: &Timer) -> Result<Tracee, LiveForkError> {
        ask(libc::PTRACE_SEIZE, pid, 0, OPTIONS as u64).map_err(|error| refused(&error))?;
        let memory = open_memory(pid);
        let mut tracee = Tracee {
            pid,
            site: 0,
            // SAFETY: plain integers, for which zero is a value.
            before: unsafe { std::mem::zeroed() },
            place: Place::Interrupted,
            kind: Kind::Source,
            memory: memory.map_err(|source| host("open the memory of the interpreter", source))?,
        };
        ask(libc::PTRACE_INTERRUPT, pid, 0, 0).map_err(|source| host("interrupt the interpreter", source))?;
        match tracee.wait(until)? {
            Stop::Event(EVENT_STOP) => {}
            Stop::Signal(signal) => {
                tracee.place = Place::Signal(signal);
                tracee.before = tracee.registers()?;
                return Err(LiveForkError::Busy("it was just being signalled".into()));
            }
            Stop::Ended => return Err(tracee.gone()),
            Stop::Call | Stop::Event(_) => return Err(tracee.astray("it stopped where it was not told to")),
        }
        tracee.before = tracee.registers()?;
        tracee.site = tracee.before.rip.wrapping_sub(INSTRUCTION.len() as u64);
        Ok(tracee)
    }

    /// The call that it waits in: its number and its first argument. `None` where it waits in none that can be made again.
    pub fn waits_in(&self) -> Option<(i64, u64)> {
        let mut code = [0; INSTRUCTION.len()];
        self.read(self.site, &mut code).ok()?;
        let again = self.before.rax as i64 == TO_BE_MADE_AGAIN && code == INSTRUCTION;
        again.then_some((self.before.orig_rax as i64, self.before.rdi))
    }

    /// As [`Tracee::waits_in`], if the wait may begin anew: the number of the call.
    pub fn stands_in(&self) -> Option<i64> {
        let mut code = [0; INSTRUCTION.len()];
        self.read(self.site, &mut code).ok()?;
        let again = [TO_BE_MADE_AGAIN, UNLESS_HANDLED, WITH_WHAT_IS_LEFT].contains(&(self.before.rax as i64));
        (again && code == INSTRUCTION).then_some(self.before.orig_rax as i64)
    }

    /// Its registers when it stopped first.
    pub fn stood_at(&self) -> &libc::user_regs_struct {
        &self.before
    }

    /// Has it go on where another one stands, with the call that that one waits in.
    pub fn stand_at(&mut self, registers: libc::user_regs_struct) {
        self.before = registers;
        self.place = Place::End;
    }

    /// Has it make a call, and returns the kernel's answer.
    pub fn call(&mut self, number: i64, arguments: &[u64]) -> Result<u64, LiveForkError> {
        self.begin(number, arguments)?;
        self.resume()?;
        match self.wait(deadline())? {
            Stop::Call => self.end(),
            Stop::Ended => Err(self.gone()),
            _ => Err(self.astray("a call ended in another way than calls do")),
        }
    }

    /// As [`Tracee::call`], but a refusal is an error. `what` completes "could not".
    pub fn must(&mut self, what: &str, number: i64, arguments: &[u64]) -> Result<u64, LiveForkError> {
        let answer = self.call(number, arguments)?;
        match errno(answer) {
            None => Ok(answer),
            Some(number) => Err(host(what, Error::from_raw_os_error(number))),
        }
    }

    /// Has it make a process, which stands where it stands. It stays in that call itself.
    pub fn bear(&mut self, what: &str, arguments: &[u64]) -> Result<Tracee, LiveForkError> {
        self.begin(libc::SYS_clone, arguments)?;
        self.resume()?;
        match self.wait(deadline())? {
            Stop::Event(libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_CLONE) => {}
            Stop::Call => {
                let answer = self.end()?;
                let number = errno(answer).unwrap_or(libc::EIO);
                return Err(host(what, Error::from_raw_os_error(number)));
            }
            Stop::Ended => return Err(self.gone()),
            _ => return Err(self.astray("a fork ended in another way than forks do")),
        }
        self.place = Place::Within;
        let mut child = 0_u64;
        ask(libc::PTRACE_GETEVENTMSG, self.pid, 0, (&raw mut child).addr() as u64)
            .map_err(|source| host("ask for the child's number", source))?;
        let child = i32::try_from(child).unwrap_or(0);
        Tracee::new_child(child, self.site, self.before)
    }

    /// Precondition: it is a child of a tracee, made by [`Tracee::bear`].
    fn new_child(pid: i32, site: u64, before: libc::user_regs_struct) -> Result<Tracee, LiveForkError> {
        let memory = open_memory(pid).map_err(|source| {
            kill(pid);
            host("open the memory of the copy", source)
        })?;
        let mut tracee = Tracee { pid, site, before, place: Place::Interrupted, kind: Kind::Own, memory };
        match tracee.wait(deadline())? {
            Stop::Event(EVENT_STOP) => {}
            Stop::Ended => return Err(tracee.gone()),
            _ => return Err(tracee.astray("a copy began in another way than copies do")),
        }
        // If this engine is killed, nothing of ours goes on by itself.
        let options = OPTIONS | libc::PTRACE_O_EXITKILL;
        ask(libc::PTRACE_SETOPTIONS, pid, 0, options as u64)
            .map_err(|source| host("hold the copy", source))?;
        Ok(tracee)
    }

    pub fn read(&self, at: u64, bytes: &mut [u8]) -> IoResult<()> {
        self.memory.read_exact_at(bytes, at)
    }

    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<(), LiveForkError> {
        self.memory.write_all_at(bytes, at).map_err(|source| host("write to the copy's memory", source))
    }

    /// Leaves it as it was before it was stopped: it makes again the call that it waited in.
    pub fn let_go(mut self) -> Result<(), LiveForkError> {
        self.leave()
    }

    fn leave(&mut self) -> Result<(), LiveForkError> {
        if self.kind == Kind::Gone {
            return Ok(());
        }
        if self.place == Place::Beginning {
            // The call that was begun is not made.
            let mut registers = self.registers()?;
            registers.orig_rax = u64::MAX;
            registers.rax = u64::MAX;
            self.set_registers(&registers)?;
        }
        if self.place == Place::Beginning {
            self.place = Place::Within;
        }
        self.come_back()?;
        let mut registers = self.before;
        if self.place == Place::End {
            // Here the kernel does not make it again by itself.
            registers.rax = registers.orig_rax;
            registers.orig_rax = u64::MAX;
            registers.rip = registers.rip.wrapping_sub(INSTRUCTION.len() as u64);
        }
        self.set_registers(&registers)?;
        let signal = if let Place::Signal(signal) = self.place { signal } else { 0 };
        self.kind = Kind::Gone;
        ask(libc::PTRACE_DETACH, self.pid, 0, signal as u64)
            .map(drop)
            .map_err(|source| host("let it go", source))
    }

    /// Out of the call that made a process.
    ///
    /// Precondition: that process has ended, where this one waits for its end.
    fn come_back(&mut self) -> Result<(), LiveForkError> {
        while self.place == Place::Within {
            self.resume()?;
            match self.wait(deadline())? {
                Stop::Call => self.place = Place::End,
                Stop::Event(_) => {}
                Stop::Ended => return Err(self.gone()),
                Stop::Signal(_) => return Err(self.astray("it stopped where it was not told to")),
            }
        }
        Ok(())
    }

    fn begin(&mut self, number: i64, arguments: &[u64]) -> Result<(), LiveForkError> {
        self.come_back()?;
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        let mut registers = self.before;
        registers.rip = self.site;
        registers.rax = number as u64;
        registers.orig_rax = u64::MAX;
        [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9] = all;
        self.set_registers(&registers)?;
        for _ in 0..MOST_SIGNALS {
            self.resume()?;
            match self.wait(deadline())? {
                Stop::Call => {
                    self.place = Place::Beginning;
                    return self.is_ours(number, all);
                }
                Stop::Ended => return Err(self.gone()),
                // The signal was meant for the original.
                Stop::Signal(_) | Stop::Event(EVENT_STOP) if self.kind == Kind::Own => {}
                Stop::Signal(signal) => {
                    self.place = Place::Signal(signal);
                    return Err(LiveForkError::Busy("it was just being signalled".into()));
                }
                Stop::Event(_) => return Err(self.astray("it stopped where it was not told to")),
            }
        }
        Err(self.astray("it gets one signal after the other"))
    }

    /// Checks that the kernel is about to make the call that we put into the registers.
    fn is_ours(&mut self, number: i64, arguments: [u64; 6]) -> Result<(), LiveForkError> {
        let info = self.call_info()?;
        // SAFETY: the kernel says that it is the beginning of a call, and fills this part then.
        let entry = unsafe { info.u.entry };
        let same = info.op == libc::PTRACE_SYSCALL_INFO_ENTRY
            && info.arch == ARCHITECTURE
            && entry.nr == number as u64
            && entry.args == arguments
            && info.instruction_pointer == self.site + INSTRUCTION.len() as u64;
        if same { Ok(()) } else { Err(self.astray("it began another call than it was told to")) }
    }

    fn end(&mut self) -> Result<u64, LiveForkError> {
        self.place = Place::End;
        let info = self.call_info()?;
        if info.op != libc::PTRACE_SYSCALL_INFO_EXIT {
            return Err(self.astray("a call ended twice"));
        }
        // SAFETY: the kernel says that it is the end of a call, and fills this part then.
        Ok(unsafe { info.u.exit.sval } as u64)
    }

    fn call_info(&self) -> Result<libc::ptrace_syscall_info, LiveForkError> {
        // SAFETY: plain integers, for which zero is a value; the kernel writes at most the size that it is told.
        let mut info: libc::ptrace_syscall_info = unsafe { std::mem::zeroed() };
        let size = size_of::<libc::ptrace_syscall_info>();
        ask(libc::PTRACE_GET_SYSCALL_INFO, self.pid, size as u64, (&raw mut info).addr() as u64)
            .map_err(|source| host("look at a call", source))?;
        Ok(info)
    }

    fn registers(&self) -> Result<libc::user_regs_struct, LiveForkError> {
        // SAFETY: as above; the kernel writes exactly this structure.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        ask(libc::PTRACE_GETREGS, self.pid, 0, (&raw mut registers).addr() as u64)
            .map_err(|source| host("read registers", source))?;
        Ok(registers)
    }

    fn set_registers(&self, registers: &libc::user_regs_struct) -> Result<(), LiveForkError> {
        ask(libc::PTRACE_SETREGS, self.pid, 0, std::ptr::from_ref(registers).addr() as u64)
            .map(drop)
            .map_err(|source| host("set registers", source))
    }

    fn resume(&self) -> Result<(), LiveForkError> {
        ask(libc::PTRACE_SYSCALL, self.pid, 0, 0)
            .map(drop)
            .map_err(|source| host("let it make a call", source))
    }

    /// The next stop.
    fn wait(&mut self, until: Instant) -> Result<Stop, LiveForkError> {
        loop {
            match collect(self.pid) {
                Ok(status) => return Ok(decode(status)),
                // The timer.
                Err(error) if error.kind() == ErrorKind::Interrupted && Instant::now() < until => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {
                    return Err(self.astray("it does not stop"));
                }
                Err(error) => return Err(host("wait for it", error)),
            }
        }
    }

    /// True if it has ended while it was stopped.
    pub fn has_ended(&mut self) -> bool {
        let mut status = 0;
        // SAFETY: a number and a place for the answer.
        let found = unsafe { libc::waitpid(self.pid, &raw mut status, libc::__WALL | libc::WNOHANG) };
        let ended = found == self.pid && matches!(decode(status), Stop::Ended);
        if ended {
            self.kind = Kind::Gone;
        }
        ended
    }

    fn gone(&mut self) -> LiveForkError {
        self.kind = Kind::Gone;
        LiveForkError::Unable("it ended meanwhile".into())
    }

    fn astray(&self, what: &str) -> LiveForkError {
        LiveForkError::Unable(format!("it does not do what it is told: {what}"))
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        match self.kind {
            Kind::Gone => {}
            Kind::Source => drop(self.leave()),
            Kind::Own => {
                kill(self.pid);
                // Only we can collect it while we trace it; then it is its parent's.
                while collect(self.pid).is_err_and(|error| error.kind() == ErrorKind::Interrupted) {}
            }
        }
    }
}

fn kill(pid: i32) {
    // SAFETY: plain integers; the number is that of a process that we trace, which nobody else can collect.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

/// Waits for the next stop of a tracee, or its end.
fn collect(pid: i32) -> IoResult<i32> {
    let mut status = 0;
    // SAFETY: a number and a place for the answer.
    let found = unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) };
    if found == pid { Ok(status) } else { Err(Error::last_os_error()) }
}

fn decode(status: i32) -> Stop {
    if !libc::WIFSTOPPED(status) {
        return Stop::Ended;
    }
    match (status >> 16, libc::WSTOPSIG(status)) {
        (0, CALL_STOP) => Stop::Call,
        (0, signal) => Stop::Signal(signal),
        (event, _) => Stop::Event(event),
    }
}

/// The error number that an answer stands for.
pub fn errno(answer: u64) -> Option<i32> {
    let value = answer as i64;
    (-4095..0).contains(&value).then(|| -value as i32)
}

fn deadline() -> Instant {
    Instant::now() + super::STEPS_TIMEOUT
}

fn open_memory(pid: i32) -> IoResult<File> {
    File::options().read(true).write(true).open(format!("/proc/{pid}/mem"))
}

/// The call of the library takes other arguments for some requests.
pub fn ask(request: libc::c_uint, pid: i32, address: u64, data: u64) -> IoResult<i64> {
    // SAFETY: where a request writes or reads memory, its caller gave the address of a value that lives across the call and
    // has the size that the request means.
    let answer = unsafe { libc::syscall(libc::SYS_ptrace, u64::from(request), pid, address, data) };
    if answer < 0 { Err(Error::last_os_error()) } else { Ok(answer) }
}

fn refused(error: &Error) -> LiveForkError {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EINVAL) => LiveForkError::Unavailable(
            "this host does not let the engine suspend the seccomp filter of a process that it traces".into(),
        ),
        Some(libc::ESRCH) => LiveForkError::Unable("it ended meanwhile".into()),
        _ => LiveForkError::Unable(format!("it cannot be traced: {error}")),
    }
}

pub fn host(step: &str, source: Error) -> LiveForkError {
    LiveForkError::Host { step: step.into(), source }
}
