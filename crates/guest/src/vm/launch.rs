//! Starts the guest that does the work, in namespaces of its own. It builds the inside of a fence there as it does on a
//! host, so that the work meets the same world behind a kernel of its own as elsewhere.

use crate::failure::{During, Failure, Outcome};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg,
    socketpair,
};
use rustix::process::Pid;
use std::ffi::CString;
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// As on a host, except the time namespace, which the guest makes itself.
const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;
/// All ids that a sandbox has, unchanged: there is no other user in the VM.
const IDS: &str = "0 0 65536\n";

/// The guest's number, and the stream to it, over which the plan was sent.
pub fn launch(executable: &OwnedFd, plan: &[u8], descriptors: &[OwnedFd]) -> Outcome<(Pid, OwnedFd)> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::empty(), None)
        .during(|| "make a socket pair".into())?;
    rustix::io::fcntl_setfd(&ours, rustix::io::FdFlags::CLOEXEC).during(|| "mark a descriptor".into())?;
    let (wait, go) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).during(|| "make a pipe".into())?;
    let number = CString::new(theirs.as_raw_fd().to_string())
        .map_err(|_| Failure { step: "name a descriptor".into(), errno: Errno::INVAL })?;
    // SAFETY: this process has one thread; with no stack given the child runs on a copy of its memory, as after fork.
    let pid = unsafe { libc::syscall(libc::SYS_clone, NAMESPACES | libc::SIGCHLD, 0, 0, 0, 0) };
    if pid == 0 {
        drop(go);
        become_guest(executable, &wait, &number);
    }
    let pid = i32::try_from(pid).ok().and_then(|pid| Pid::from_raw(pid.max(0)));
    let pid = pid.ok_or_else(crate::work::last_errno).during(|| "clone into new namespaces".into())?;
    drop((wait, theirs));
    for file in ["uid_map", "gid_map"] {
        let path = format!("/proc/{}/{file}", pid.as_raw_nonzero());
        std::fs::write(&path, IDS).during(|| format!("write {path}"))?;
    }
    rustix::io::write(&go, &[1]).during(|| "release the guest".into())?;
    send(&ours, plan, descriptors)?;
    rustix::io::ioctl_fionbio(&ours, true).during(|| "unblock the guest's stream".into())?;
    Ok((pid, ours))
}

/// In the child: waits for its ids, then executes the guest. Never returns.
fn become_guest(executable: &OwnedFd, wait: &OwnedFd, number: &CString) -> ! {
    let mut byte = [0];
    let released = matches!(rustix::io::read(wait, &mut byte), Ok(1));
    let arguments = [c"paddock-guest".as_ptr(), number.as_ptr(), std::ptr::null()];
    let env = [std::ptr::null::<libc::c_char>()];
    // SAFETY: strings and arrays end as they should and outlive the call, which returns only on failure; then the child
    // ends at once.
    unsafe {
        if released {
            libc::syscall(
                libc::SYS_execveat,
                executable.as_raw_fd(),
                c"".as_ptr(),
                arguments.as_ptr(),
                env.as_ptr(),
                libc::AT_EMPTY_PATH,
            );
        }
        libc::_exit(127)
    }
}

/// The plan, and with its first byte the descriptors that it speaks of.
fn send(stream: &OwnedFd, plan: &[u8], descriptors: &[OwnedFd]) -> Outcome<()> {
    let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&borrowed)) {
        return Err(Failure { step: "send the descriptors".into(), errno: Errno::NOBUFS });
    }
    let mut sent = sendmsg(stream, &[IoSlice::new(plan)], &mut control, SendFlags::NOSIGNAL)
        .during(|| "send the plan".into())?;
    while sent < plan.len() {
        sent += rustix::io::write(stream, &plan[sent..]).during(|| "send the plan".into())?;
    }
    Ok(())
}
