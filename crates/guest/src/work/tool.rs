//! Starts a tool: a copy of this process that gives up everything and then works for the host, outside of the
//! work's cgroup and of its limit on processes, so that it works when the work is at its limits or stands still.

use crate::failure::{During, Failure, Outcome};
use crate::trees::Trees;
use crate::work::Confinement;
use crate::work::spawn::{Spawned, Streams, pipe, pipes, tell, unblock, user};
use paddock_guest_tools::Reach;
use paddock_protocol::{Start, Tool};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::Pid;
use std::os::fd::{AsRawFd, OwnedFd};

/// The numbers under which the child keeps the trees of the disk.
const LAYER: i32 = 3;
const START: i32 = 4;
const IMAGE: i32 = 5;
const REPORT: i32 = 6;

/// `trees` are for the tools that work on the disk itself.
pub fn spawn_tool(start: &Start, tool: &Tool, confinement: &Confinement, trees: &Trees) -> Outcome<Spawned> {
    // A missing user is no missing file.
    let unknown = |failure: Failure| match failure.errno {
        Errno::NOENT => Failure { errno: Errno::SRCH, ..failure },
        _ => failure,
    };
    let (uid, gid, _) = user(start, confinement).map_err(unknown)?;
    let (report, report_child) = pipe("the start report")?;
    let (streams, stdin, stdout, stderr) = pipes(true, uid, gid)?;
    // SAFETY: this process has one thread; the child runs on a copy of its memory and never returns from here.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let child = Child { start, tool, confinement, trees, ids: (uid, gid) };
        let code = child.run(&streams, &report_child);
        // SAFETY: ends the child at once, without the exit handlers of its parent.
        unsafe { libc::_exit(code) }
    }
    let pid = Pid::from_raw(pid.max(0)).ok_or_else(super::spawn::last_errno).during(|| "fork".into())?;
    let spawned = Spawned { pid, stdin, stdout, stderr, control: None, report: Some(report) };
    unblock(&spawned)?;
    Ok(spawned)
}

struct Child<'a> {
    start: &'a Start,
    tool: &'a Tool,
    confinement: &'a Confinement,
    trees: &'a Trees,
    ids: (u32, u32),
}

impl Child<'_> {
    fn run(&self, streams: &Streams, report: &OwnedFd) -> i32 {
        if let Err(failure) = self.connect(streams, report) {
            tell(report.as_raw_fd(), &failure);
            return 127;
        }
        // From here on the report has another number.
        if let Err(failure) = self.give_up() {
            tell(REPORT, &failure);
            return 127;
        }
        // SAFETY: closes our own copy of the report, by which the parent hears that the tool has begun.
        unsafe { libc::close(REPORT) };
        let at = |tree: &Option<OwnedFd>, number| tree.is_some().then_some(number);
        let Trees { layer, start, image, built, .. } = self.trees;
        // SAFETY: `keep_only_what_is_needed` put each tree that there is at its number, and nothing closes it.
        let reach = unsafe { Reach::new(at(layer, LAYER), at(start, START), at(image, IMAGE), built) };
        paddock_guest_tools::run(self.tool, &reach)
    }

    fn connect(&self, streams: &Streams, report: &OwnedFd) -> Outcome<()> {
        rustix::process::setsid().during(|| "start a session".into())?;
        rustix::stdio::dup2_stdin(&streams.stdin).during(|| "set stdin".into())?;
        rustix::stdio::dup2_stdout(&streams.stdout).during(|| "set stdout".into())?;
        rustix::stdio::dup2_stderr(&streams.stderr).during(|| "set stderr".into())?;
        self.keep_only_what_is_needed(report)
    }

    fn give_up(&self) -> Outcome<()> {
        crate::system::reset_signals();
        rustix::process::umask(Mode::from_raw_mode(0o022));
        if self.tool.is_of_the_disk() {
            return self.confinement.put_on_for_the_disk();
        }
        self.confinement.put_on_for_a_tool(self.ids.0, self.ids.1)?;
        let cwd = self.start.cwd.as_deref().unwrap_or("/");
        rustix::process::chdir(cwd).during(|| format!("enter the directory {cwd}"))
    }

    /// No descriptor of the guest may stay open: not its connection, not the entrances of its cgroups.
    fn keep_only_what_is_needed(&self, report: &OwnedFd) -> Outcome<()> {
        // Moved out of the way first: either may have the number of the other's place.
        let high = |descriptor: &OwnedFd| {
            rustix::io::fcntl_dupfd_cloexec(descriptor, 10)
                .map(|copy| std::mem::ManuallyDrop::new(copy).as_raw_fd())
        };
        let report = high(report).during(|| "keep the report".into())?;
        let disk = self.tool.is_of_the_disk();
        let Trees { layer, start, image, .. } = self.trees;
        let trees = [(layer, LAYER), (start, START), (image, IMAGE)].map(|(tree, number)| {
            tree.as_ref().filter(|_| disk).map(high).transpose().map(|tree| (tree, number))
        });
        let place = |from: i32, to: i32| {
            // SAFETY: plain integers. The descriptor with the number `to` is one of the parent's, which this process
            // neither uses nor closes by itself: it ends by _exit.
            if unsafe { libc::dup2(from, to) } == to { Ok(()) } else { Err(Errno::BADF) }
        };
        place(report, REPORT).during(|| "keep the report".into())?;
        for tree in trees {
            let (tree, number) = tree.during(|| "keep the disk".into())?;
            match tree {
                Some(tree) => place(tree, number).during(|| "keep the disk".into())?,
                None => {
                    crate::system::close_range(number, number)
                        .during(|| "close what is not needed".into())?;
                }
            }
        }
        crate::system::close_range(REPORT + 1, i32::MAX).during(|| "close what is not needed".into())
    }
}
