//! The interpreter that is forked into sandboxes: the memory that its children share, and the possible attacks of a
//! hostile template.

use crate::contexts::text_of;
use crate::pools::{filled, pool, set};
use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, PATIENCE, Server, as_root, until};
use serde_json::{Value, json};
use std::path::Path;

macro_rules! for_root {
    ($($name:ident),+ $(,)?) => {
        mod as_root {
            $(#[test]
            fn $name() -> anyhow::Result<()> {
                super::as_root(concat!(module_path!(), "::", stringify!($name)), super::$name)
            })+
        }
    };
}

for_root!(
    two_children_share_no_memory_no_offset_and_no_descriptor,
    two_children_have_nothing_random_in_common,
    code_of_a_caller_never_runs_in_the_zygote,
    a_child_has_every_layer,
    a_child_makes_no_set_user_id_file_of_the_hosts,
    a_child_that_keeps_its_rights_is_refused,
    a_hostile_template_reaches_nobody_else,
    a_template_that_does_not_let_its_children_end_ends_itself,
    a_killed_zygote_is_replaced,
);

/// A template whose preloaded module is this text.
fn template(caller: &Caller, server: &Server, name: &str, module: &str) -> Result<()> {
    let directory = caller.directory(&format!("modules-{name}"))?;
    std::fs::write(directory.join("loaded.py"), module)?;
    let policy = format!(
        "read = ['{}:/modules']\npreload = ['loaded']\nenv = {{ PYTHONPATH = '/modules' }}\n",
        directory.display()
    );
    let policy = caller.file(&format!("{name}.toml"), policy)?;
    server
        .run([Path::new("template"), Path::new("add"), Path::new(name), Path::new("--policy"), &policy])?
        .success()?;
    Ok(())
}

/// A sandbox, and Python in it.
struct Inside<'a> {
    server: &'a Server<'a>,
    id: String,
}

impl<'a> Inside<'a> {
    fn new(server: &'a Server<'a>, template: &str) -> Result<Inside<'a>> {
        Ok(Inside { server, id: server.create(&["--template", template])? })
    }

    fn python(&self, code: &str) -> Result<Value> {
        let path = format!("/v1/sandboxes/{}/code", self.id);
        self.server.api("POST", &path, Some(&json!({ "code": code })))?.expect(200)
    }

    fn value(&self, code: &str) -> Result<String> {
        text_of(&self.python(code)?)
    }
}

/// A server whose template `two` preloads this module, with two sandboxes ready.
fn with_two<'a>(caller: &'a Caller, module: &str) -> Result<Server<'a>> {
    let server = Server::start(caller)?;
    template(caller, &server, "two", module)?;
    set(&server, "two", 2, 4)?;
    filled(&server, "two", 2)?;
    Ok(server)
}

fn two<'a>(server: &'a Server<'a>) -> Result<[Inside<'a>; 2]> {
    let both = [Inside::new(server, "two")?, Inside::new(server, "two")?];
    assert_eq!(pool(server, "two")?["hits"], 2);
    Ok(both)
}

fn two_children_share_no_memory_no_offset_and_no_descriptor(caller: &Caller) -> Result<()> {
    let module = "import mmap\n\
                  shared = mmap.mmap(-1, 8192)\nshared[:5] = b'begin'\n\
                  private = bytearray(b'begin')\n\
                  kept = open('/usr/bin/env', 'rb')\nkept.read(3)\nnumber = kept.fileno()\n";
    let server = with_two(caller, module)?;
    let [first, second] = two(&server)?;
    assert_eq!(first.value("import loaded; bytes(loaded.shared[:5])")?, "b'begin'");
    first.python("loaded.shared[:5] = b'first'; loaded.private[:] = b'first'")?;
    assert_eq!(
        second.value("import loaded; bytes(loaded.shared[:5]), bytes(loaded.private)")?,
        "(b'begin', b'begin')"
    );
    assert_eq!(first.value("bytes(loaded.shared[:5])")?, "b'first'");
    // Files that the template had open are closed: no offset is common, because no open file is.
    let listed = first.value("import os; sorted(int(n) for n in os.listdir('/proc/self/fd'))[:4]")?;
    ensure!(listed.starts_with("[0, 1, 2, 3"), "{listed}");
    let kept = first.value("os.path.exists('/proc/self/fd/%d' % loaded.number) and os.readlink('/proc/self/fd/%d' % loaded.number)")?;
    ensure!(!kept.contains("env"), "{kept}");
    Ok(())
}

fn two_children_have_nothing_random_in_common(caller: &Caller) -> Result<()> {
    let module = "import random, uuid, tempfile, ssl, secrets\nrandom.seed(1)\ntempfile.mktemp()\nuuid.uuid1()\n\
                  try:\n    import numpy\n    numpy.random.seed(1)\nexcept ImportError:\n    numpy = None\n";
    let server = with_two(caller, module)?;
    let [first, second] = two(&server)?;
    for code in [
        "import loaded; loaded.random.random()",
        "loaded.uuid.uuid1().hex, loaded.uuid.uuid4().hex",
        "loaded.tempfile.mktemp()",
        "loaded.ssl.RAND_bytes(8)",
        "loaded.secrets.token_hex()",
        "loaded.numpy.random.random() if loaded.numpy else __import__('os').urandom(8)",
        "open('/proc/sys/kernel/random/boot_id').read()",
    ] {
        let (one, other) = (first.value(code)?, second.value(code)?);
        ensure!(one != other, "{code} is {one} in both");
    }
    Ok(())
}

fn code_of_a_caller_never_runs_in_the_zygote(caller: &Caller) -> Result<()> {
    let server = with_two(caller, "state = []\n")?;
    let [first, second] = two(&server)?;
    first.python("import loaded, builtins, sys\nloaded.state.append('mine')\nbuiltins.print = None\nsys.path.append('/mine')")?;
    assert_eq!(
        second.value("import loaded, sys; loaded.state, '/mine' in sys.path, print is None")?,
        "([], False, False)"
    );
    // A sandbox that is forked only now.
    let place = Inside::new(&server, "two")?;
    assert_eq!(
        place.value("import loaded, sys; loaded.state, '/mine' in sys.path, print is None")?,
        "([], False, False)"
    );
    // Nothing inside leads to it: no process of it is seen, and no socket of it is open.
    let seen = first.value("import os; sorted(int(p) for p in os.listdir('/proc') if p.isdigit())[0] > 1")?;
    assert_eq!(seen, "True");
    let sockets = first.value("[n for n in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{n}') and 'socket' in os.readlink(f'/proc/self/fd/{n}')]")?;
    assert_eq!(sockets.matches('\'').count(), 2, "only its control stream: {sockets}");
    Ok(())
}

fn a_child_has_every_layer(caller: &Caller) -> Result<()> {
    let server = with_two(caller, "")?;
    let [first, _second] = two(&server)?;
    let status = first.value("open('/proc/self/status').read()")?;
    for line in [
        "Uid:\\t1000\\t1000\\t1000\\t1000",
        "Groups:\\t1000 ",
        "CapPrm:\\t0000000000000000",
        "CapEff:\\t0000000000000000",
        "CapBnd:\\t0000000000000000",
        "NoNewPrivs:\\t1",
        "Seccomp:\\t2",
    ] {
        ensure!(status.contains(line), "{line} is not in {status}");
    }
    let refused = "import ctypes, os\nl = ctypes.CDLL(None, use_errno=True)\n\
                   def tried(name, *a):\n    r = getattr(l, name)(*a); return (r, ctypes.get_errno())\n\
                   f = os.open('/proc/self/ns/mnt', os.O_RDONLY)\n\
                   [tried('setns', f, 0), tried('unshare', 0x10000000), tried('mount', b'none', b'/tmp', b'tmpfs', 0, None), \
                   tried('ptrace', 16, 1, 0, 0)[0], tried('setuid', 0)[0]]";
    assert_eq!(first.value(refused)?, "[(-1, 1), (-1, 1), (-1, 1), -1, -1]");
    // Its limits are the sandbox's: its memory is counted, and too much ends it.
    let eaten = first.python("x = bytearray(3 << 30)\nfor i in range(0, len(x), 4096): x[i] = 1")?;
    ensure!(eaten["exit_code"] != 0, "{eaten}");
    assert_eq!(first.value("1 + 1")?, "2");
    Ok(())
}

/// Its filter is the zygote's, which knows that directories of the host are there.
fn a_child_makes_no_set_user_id_file_of_the_hosts(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let directory = caller.directory("written")?;
    let policy = format!("write = ['{}:/data']\npreload = ['json']\n", directory.display());
    let policy = caller.file("writes.toml", policy)?;
    let add = [Path::new("template"), Path::new("add"), Path::new("writes"), Path::new("--policy"), &policy];
    server.run(add)?.success()?;
    set(&server, "writes", 1, 2)?;
    let full = filled(&server, "writes", 1)?;
    ensure!(full["zygote"] == "ready", "{full}");
    let inside = Inside::new(&server, "writes")?;
    assert_eq!(pool(&server, "writes")?["hits"], 1);
    let code = "import os\nopen('/data/x', 'w').close()\nos.chmod('/data/x', 0o755)\n\
                try:\n    os.chmod('/data/x', 0o6755); told = 'made'\nexcept PermissionError:\n    told = 'refused'\ntold";
    assert_eq!(inside.value(code)?, "'refused'");
    let mode = std::os::unix::fs::PermissionsExt::mode(&directory.join("x").metadata()?.permissions());
    ensure!(mode & 0o7777 == 0o755, "{mode:o}");
    Ok(())
}

/// The first that the pool says went wrong.
fn told(server: &Server, template: &str) -> Result<String> {
    until(PATIENCE, "an error of the pool", || {
        Some(pool(server, template).ok()?["error"].as_str()?.to_string())
    })
}

fn a_child_that_keeps_its_rights_is_refused(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    for (name, module, word) in [
        ("uid", "import os\nos.setresuid = lambda *a: None\n", "Uid"),
        ("groups", "import os\nos.setgroups = lambda *a: None\n", "Groups"),
        (
            "filter",
            "import gc\nfor o in gc.get_objects():\n    \
            if isinstance(o, dict) and o.get('__name__') == 'paddock_zygote': o['Filter'].put_on = lambda self: None\n",
            "Seccomp_filters",
        ),
        (
            "capabilities",
            "import gc\nfor o in gc.get_objects():\n    \
            if isinstance(o, dict) and o.get('__name__') == 'paddock_zygote': o['Birth'].give_up = lambda self: None\n",
            "look at a process",
        ),
        (
            "memory",
            "import gc, mmap\nm = mmap.mmap(-1, 4096)\nfor o in gc.get_objects():\n    \
            if isinstance(o, dict) and o.get('__name__') == 'paddock_zygote': o['separate'] = lambda *a: None\n",
            "shares memory",
        ),
    ] {
        template(caller, &server, name, module)?;
        set(&server, name, 1, 1)?;
        let error = told(&server, name)?;
        ensure!(error.contains("refused") && error.contains(word), "{name}: {error}");
        assert_eq!(pool(&server, name)?["ready"], 0);
        // A create gets a sandbox whose interpreter is its own.
        let place = Inside::new(&server, name)?;
        assert_eq!(place.value("1 + 1")?, "2", "{name}");
    }
    Ok(())
}

fn a_hostile_template_reaches_nobody_else(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let victim = server.create(&["--name", "victim"])?;
    server.script(&victim, "echo secret > /workspace/secret; sleep 1000 &")?.success()?;
    let module = r#"
import ctypes, json, os, signal, socket
l = ctypes.CDLL(None, use_errno=True)
report = {}
def tried(name, work):
    try:
        report[name] = repr(work())[:200]
    except BaseException as error:
        report[name] = "refused: %r" % error
def call(name, *arguments):
    if getattr(l, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)
    return "done"
tried("unshare", lambda: call("unshare", 0x10000000))
tried("mount", lambda: call("mount", b"none", b"/tmp", b"tmpfs", 0, None))
tried("host root", lambda: os.listdir("/proc/1/root/"))
tried("guest's namespace", lambda: call("setns", os.open("/proc/1/ns/mnt", 0), 0))
tried("become root", lambda: os.setresuid(0, 0, 0))
tried("become a sandbox's id", lambda: os.setresuid(0x70000000 + 65536, 0, 0))
tried("other processes", lambda: [p for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()])
def killed(pid):
    try:
        os.kill(pid, 9)
        return True
    except OSError:
        return False
# PID 1 is told so, and does not heed it: whoever kills a guest would not be here to tell.
tried("kill", lambda: [p for p in range(2, 32768) if p != os.getpid() and killed(p)])
tried("raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
tried("connect", lambda: socket.create_connection(("10.0.0.1", 80), 1))
tried("write the module's place", lambda: open("/modules/mine", "w"))
tried("keys", lambda: call("syscall", 250, 0))
tried("bpf", lambda: call("syscall", 321, 0))
"#;
    template(caller, &server, "hostile", module)?;
    set(&server, "hostile", 1, 1)?;
    filled(&server, "hostile", 1)?;
    let place = Inside::new(&server, "hostile")?;
    let report: Value = {
        let answer = place.python("import loaded, json; print(json.dumps(loaded.report))")?;
        serde_json::from_str(answer["stdout"].as_str().context("no report")?)?
    };
    for (name, outcome) in report.as_object().context("no report")? {
        let outcome = outcome.as_str().unwrap_or_default();
        let harmless = outcome.starts_with("refused")
            || (["other processes", "kill"].contains(&name.as_str()) && outcome == "[]");
        ensure!(harmless, "{name}: {outcome}");
    }
    assert_eq!(server.script(&victim, "cat /workspace/secret; pgrep -c sleep")?.success()?, "secret\n1\n");
    Ok(())
}

fn a_template_that_does_not_let_its_children_end_ends_itself(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    // On a processor without machine code of ours there are two forks; the process between stays, and is not collected
    // when it is killed.
    let module = "import os, platform, signal, time\nplatform.machine = lambda: 'another'\n\
                  signal.signal = lambda *a, s=signal.signal: s(signal.SIGCHLD, signal.SIG_DFL) if a[0] == signal.SIGCHLD else s(*a)\n\
                  def stay(code):\n    time.sleep(1000)\nos._exit = stay\n";
    template(caller, &server, "sticky", module)?;
    set(&server, "sticky", 1, 1)?;
    let error = told(&server, "sticky")?;
    ensure!(!error.is_empty(), "nobody tells");
    let place = Inside::new(&server, "sticky")?;
    assert_eq!(place.value("1 + 1")?, "2");
    server.run(["pool", "rm", "sticky"])?.success()?;
    Ok(())
}

fn a_killed_zygote_is_replaced(caller: &Caller) -> Result<()> {
    let server = with_two(caller, "")?;
    let [first, second] = two(&server)?;
    first.python("x = 1")?;
    let zygote = zygote_of(server.process()?).context("no zygote is found")?;
    rustix::process::kill_process(zygote, rustix::process::Signal::KILL)?;
    assert_eq!(first.value("x")?, "1", "who was forked from it goes on");
    assert_eq!(second.value("1 + 1")?, "2");
    filled(&server, "two", 2)?;
    let place = Inside::new(&server, "two")?;
    assert_eq!(place.value("1 + 1")?, "2");
    Ok(())
}

/// The zygote of this server's: the child of a guest that is the server's child.
fn zygote_of(server: u32) -> Option<rustix::process::Pid> {
    let parent = |pid: i32| -> Option<i32> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    };
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let mut numbers = processes.filter_map(|process| process.file_name().to_str()?.parse::<i32>().ok());
    let found = numbers.find(|pid| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let loads = words.windows(14).any(|window| window == b"PADDOCK_ZYGOTE");
        loads && parent(*pid).and_then(parent) == Some(server as i32)
    })?;
    rustix::process::Pid::from_raw(found)
}
