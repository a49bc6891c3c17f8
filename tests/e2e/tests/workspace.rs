//! `--workspace` as people use it: on a repository of their own, whose files stay their own.

use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, Finished, ORDINARY, for_both_callers};
use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

for_both_callers!(
    files_belong_to_the_owner_afterwards,
    root_inside_makes_files_of_the_owner_too,
    git_works_inside,
    nothing_else_is_left_in_it,
    what_is_there_can_be_changed,
    a_relative_path_and_a_link,
    no_program_in_it_runs_as_its_owner,
);

/// Every way to a mode with set-user-id or set-group-id. Prints each that was not refused.
const SET_IDS: &str = r#"
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
here, fresh = -100, iter(range(1000))
def new():
    path = f'made{next(fresh)}'; open(path, 'w').close(); return path
def call(number, *words):
    if libc.syscall(number, *words) < 0: raise OSError(ctypes.get_errno(), 'refused')
def open2(mode):
    how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, mode, 0)
    call(437, here, f'made{next(fresh)}'.encode(), how, 24)
def unnamed(mode):
    file = os.open('.', os.O_TMPFILE | os.O_WRONLY, mode)
    os.link(f'/proc/self/fd/{file}', f'made{next(fresh)}')
ways = {
    'chmod': lambda mode: os.chmod(new(), mode),
    'fchmod': lambda mode: os.fchmod(os.open(new(), os.O_RDWR), mode),
    'fchmodat2': lambda mode: call(452, here, new().encode(), mode, 0),
    'open': lambda mode: os.open(f'made{next(fresh)}', os.O_CREAT | os.O_WRONLY, mode),
    'unnamed': unnamed,
    'openat2': open2,
    'mknod': lambda mode: os.mknod(f'made{next(fresh)}', mode | 0o100000),
    'directory': lambda mode: os.chmod((os.mkdir('d%o' % mode), 'd%o' % mode)[1], mode),
}
for name, way in ways.items():
    for mode in (0o4755, 0o2755, 0o6755):
        try: way(mode); print(name, oct(mode))
        except OSError: pass
os.chmod(new(), 0o1755); os.open(new(), os.O_RDONLY, 0o7777)
print('done')
"#;

/// A repository with one commit, owned by the ordinary user when the caller is root, else by the caller.
pub fn repository(caller: &Caller) -> Result<(PathBuf, u32)> {
    let directory = caller.directory("repository")?;
    let owner = if caller.is_root { ORDINARY } else { caller.uid };
    let script = "git init -q -b main . && echo one > tracked && mkdir sub && echo two > sub/file && git add . && \
                  git -c user.name=T -c user.email=t@example.org commit -q -m first";
    caller.shell(&directory, script)?.success().context("git outside")?;
    if caller.is_root {
        hand_over(&directory, owner)?;
    }
    Ok((directory, owner))
}

pub fn in_workspace(caller: &Caller, directory: &Path, options: &[&str], script: &str) -> Result<Finished> {
    let directory = directory.display().to_string();
    let all: Vec<&str> = ["--workspace", &directory].iter().chain(options).copied().collect();
    caller.script(&all, script)
}

/// Every path below, relative, without the entries of .git.
pub fn listing(directory: &Path) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut open = vec![directory.to_path_buf()];
    while let Some(place) = open.pop() {
        for entry in std::fs::read_dir(place)? {
            let path = entry?.path();
            found.insert(path.strip_prefix(directory)?.display().to_string());
            if path.symlink_metadata()?.is_dir() && !path.ends_with(".git") {
                open.push(path);
            }
        }
    }
    Ok(found)
}

pub fn hand_over(path: &Path, owner: u32) -> Result<()> {
    std::os::unix::fs::lchown(path, Some(owner), Some(owner))?;
    if path.symlink_metadata()?.is_dir() {
        for entry in std::fs::read_dir(path)? {
            hand_over(&entry?.path(), owner)?;
        }
    }
    Ok(())
}

fn files_belong_to_the_owner_afterwards(caller: &Caller) -> Result<()> {
    let (directory, owner) = repository(caller)?;
    let script = "echo x > made && mkdir dir && echo y > dir/deep && ln -s made link && chmod 755 made && \
                  echo more >> tracked && mv sub renamed && stat -c %U:%a made";
    let finished = in_workspace(caller, &directory, &[], script)?;
    assert_eq!(finished.success()?, "agent:755\n");
    for name in ["made", "dir", "dir/deep", "link", "tracked", "renamed", "renamed/file", "."] {
        let found = directory.join(name).symlink_metadata()?;
        assert_eq!((found.uid(), found.gid()), (owner, owner), "{name}");
    }
    assert_eq!(std::fs::read_to_string(directory.join("tracked"))?, "one\nmore\n");
    Ok(())
}

fn root_inside_makes_files_of_the_owner_too(caller: &Caller) -> Result<()> {
    let (directory, owner) = repository(caller)?;
    in_workspace(caller, &directory, &["--user", "root"], "echo x > made && mkdir dir")?.success()?;
    for name in ["made", "dir"] {
        let found = directory.join(name).symlink_metadata()?;
        // Never an id that no user of the host has.
        ensure!(found.uid() == owner, "{name} belongs to {}, not {owner}", found.uid());
    }
    Ok(())
}

fn git_works_inside(caller: &Caller) -> Result<()> {
    let (directory, _) = repository(caller)?;
    let script =
        "echo new >> tracked; git status --porcelain; git log --oneline | wc -l; git diff --stat | wc -l";
    let finished = in_workspace(caller, &directory, &[], script)?;
    assert_eq!(finished.success()?, " M tracked\n1\n2\n", "{}", finished.err());
    Ok(())
}

fn nothing_else_is_left_in_it(caller: &Caller) -> Result<()> {
    let (directory, _) = repository(caller)?;
    let mut expected = listing(&directory)?;
    in_workspace(caller, &directory, &[], "echo x > made; ls -A > /dev/null")?.success()?;
    expected.insert("made".into());
    assert_eq!(listing(&directory)?, expected);
    // Nor when the run ends badly.
    in_workspace(caller, &directory, &["--timeout", "300ms"], "sleep 600")?.exited(124)?;
    in_workspace(caller, &directory, &[], "kill -KILL $$")?.exited(137)?;
    in_workspace(caller, &directory, &["--user", "no such user"], "true")?.exited(125)?;
    in_workspace(caller, &directory, &["--read", "/no/such"], "true")?.exited(125)?;
    assert_eq!(listing(&directory)?, expected);
    caller.shell(&directory, "true")?.success()?;
    Ok(())
}

fn what_is_there_can_be_changed(caller: &Caller) -> Result<()> {
    let (directory, owner) = repository(caller)?;
    std::fs::write(directory.join("Makefile"), "all:\n")?;
    chown(directory.join("Makefile"), Some(owner), Some(owner))?;
    in_workspace(caller, &directory, &[], "rm tracked && rm -r sub && echo '#' >> Makefile")?.success()?;
    assert_eq!(listing(&directory)?, BTreeSet::from([".git".to_string(), "Makefile".to_string()]));
    Ok(())
}

fn a_relative_path_and_a_link(caller: &Caller) -> Result<()> {
    let (directory, _) = repository(caller)?;
    let link = caller.place().join("link");
    std::os::unix::fs::symlink(&directory, &link)?;
    for (place, argument) in
        [(&directory, "."), (&directory, "sub/.."), (&caller.home(), &link.display().to_string())]
    {
        let mut invocation = caller.start_run(["--workspace", argument, "--", "cat", "tracked"])?;
        invocation.command().current_dir(place);
        assert_eq!(invocation.finish()?.success()?, "one\n");
    }
    Ok(())
}

/// A file of a workspace belongs to the workspace's owner on the host, where its set-user-id bit would count.
fn no_program_in_it_runs_as_its_owner(caller: &Caller) -> Result<()> {
    let directory = caller.directory("programs")?;
    let place = directory.display().to_string();
    for backend in ["process", "gvisor"] {
        let run = |options: &[&str]| {
            let all = [&["--backend", backend], options, &["--", "python3", "-c", SET_IDS]].concat();
            caller.run(all)
        };
        let finished = run(&["--workspace", &place])?;
        if backend == "gvisor" && finished.err().contains("the sandbox cannot be made here") {
            paddock_e2e::skip(
                "no_program_in_it_runs_as_its_owner",
                finished.err().lines().next().unwrap_or_default(),
            );
            continue;
        }
        assert_eq!(finished.success()?, "done\n", "{backend}");
        let target = format!("{place}:/data");
        let finished = run(&["--write", &target, "--cwd", "/data"])?;
        assert_eq!(finished.success()?, "done\n", "{backend}");
        for name in listing(&directory)? {
            let mode = directory.join(&name).symlink_metadata()?.mode();
            ensure!(mode & 0o6000 == 0, "{backend}: {name} has the mode {mode:o}");
        }
    }
    // Files of its own are its own.
    let script = "touch x && chmod 6755 x && stat -c %a x";
    assert_eq!(caller.script(&[], script)?.success()?, "6755\n");
    Ok(())
}
