//! Sandboxes whose ordinary user may become root by `sudo`: what works as elsewhere, whom it lets in, and what ends with it.

use crate::forks::{changes_of, made};
use anyhow::{Context, Result, ensure};
use paddock_e2e::http::over_tcp;
use paddock_e2e::{Caller, PATIENCE, Server, as_root, for_both_callers, images, until};
use serde_json::{Value, json};

for_both_callers!(it_is_given_or_refused_in_words, without_the_option_there_is_no_door);

#[test]
fn a_command_runs_as_root_with_the_streams_of_its_caller() -> Result<()> {
    as_root("a_command_runs_as_root_with_the_streams_of_its_caller", streams_and_codes)
}

#[test]
fn options_mean_what_they_mean_elsewhere() -> Result<()> {
    as_root("options_mean_what_they_mean_elsewhere", options)
}

#[test]
fn the_fence_of_root_is_that_of_any_root() -> Result<()> {
    as_root("the_fence_of_root_is_that_of_any_root", fence)
}

#[test]
fn no_other_user_comes_through_the_door() -> Result<()> {
    as_root("no_other_user_comes_through_the_door", others)
}

#[test]
fn hostile_callers_hurt_nobody() -> Result<()> {
    as_root("hostile_callers_hurt_nobody", hostile)
}

#[test]
fn a_command_ends_with_its_caller_and_its_exec() -> Result<()> {
    as_root("a_command_ends_with_its_caller_and_its_exec", ends)
}

#[test]
fn a_terminal_goes_through_and_comes_back() -> Result<()> {
    as_root("a_terminal_goes_through_and_comes_back", terminal)
}

#[test]
fn it_lives_through_forks_sleep_and_restarts() -> Result<()> {
    as_root("it_lives_through_forks_sleep_and_restarts", lives)
}

#[test]
fn root_of_an_image_installs_by_sudo() -> Result<()> {
    as_root("root_of_an_image_installs_by_sudo", image)
}

#[test]
fn the_owner_says_whose_user_becomes_root() -> Result<()> {
    as_root("the_owner_says_whose_user_becomes_root", whose)
}

pub fn option() -> Value {
    json!({ "become_root": true, "backend": "process" })
}

fn exec(server: &Server<'_>, id: &str, body: &Value) -> Result<Value> {
    server.api("POST", &format!("/v1/sandboxes/{id}/execs"), Some(body))?.expect(200)
}

/// Output, errors and exit code of a command line of that user.
pub fn told(server: &Server<'_>, id: &str, user: &str, command: &str) -> Result<(String, String, i64)> {
    let done = exec(server, id, &json!({ "command": command, "user": user }))?;
    let text = |field: &str| done[field].as_str().unwrap_or_default().to_string();
    Ok((text("stdout"), text("stderr"), done["exit_code"].as_i64().unwrap_or(-1)))
}

pub fn said(server: &Server<'_>, id: &str, command: &str) -> Result<String> {
    let (output, errors, code) = told(server, id, "agent", command)?;
    ensure!(code == 0, "{command}: {code}: {output}{errors}");
    Ok(output)
}

pub fn python(server: &Server<'_>, id: &str, user: &str, script: &str) -> Result<String> {
    let done = exec(server, id, &json!({ "argv": ["python3", "-c", script], "user": user }))?;
    ensure!(done["exit_code"] == 0, "{done}");
    Ok(done["stdout"].as_str().unwrap_or_default().to_string())
}

/// An ordinary user has too few ids for it, and the other backends do not have it.
fn it_is_given_or_refused_in_words(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let answer = server.api("POST", "/v1/sandboxes", Some(&option()))?;
    let as_command = ["--become-root", "--", "sudo", "id", "-un"];
    if !caller.is_root {
        let refused = answer.refused(422, "requirement_not_met")?.text();
        ensure!(refused.contains("become-root") && refused.contains("runs as root"), "{refused}");
        return caller.run(as_command)?.refused(&["become-root"]);
    }
    let sandbox = answer.expect(201)?;
    let guarantees = &sandbox["guarantees"];
    ensure!(guarantees["become_root"] == true && guarantees["root_capabilities"].is_null(), "{guarantees}");
    ensure!(guarantees["weaknesses"].to_string().contains("becomes root by `sudo`"), "{guarantees}");
    ensure!(guarantees["fork"] == "filesystem", "{guarantees}");
    assert_eq!(caller.run(as_command)?.success()?, "root\n");
    let policy = caller.file("policy.toml", "become_root = true\n")?.display().to_string();
    assert_eq!(caller.run(["--policy", &policy, "--", "sudo", "id", "-u"])?.success()?, "0\n");
    for backend in ["gvisor", "microvm"] {
        let other = json!({ "become_root": true, "backend": backend });
        server.api("POST", "/v1/sandboxes", Some(&other))?.refused(422, "requirement_not_met")?;
    }
    let live = json!({ "become_root": true, "live_forks": true });
    let refused = server.api("POST", "/v1/sandboxes", Some(&live))?;
    ensure!(
        refused.refused(400, "invalid_request")?.text().contains("`become_root` and live forks"),
        "refused"
    );
    Ok(())
}

fn without_the_option_there_is_no_door(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = made(&server, &json!({ "backend": "process" }))?;
    let look = "test ! -e /dev/become-root && ! grep -q sudo /proc/self/mountinfo && echo none";
    assert_eq!(said(&server, &id, look)?, "none\n");
    // The demand alone does not turn it on.
    let demand = json!({ "require": ["become-root"], "backend": "process" });
    server.api("POST", "/v1/sandboxes", Some(&demand))?.refused(422, "requirement_not_met").map(drop)
}

fn streams_and_codes(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = made(&server, &option())?;
    assert_eq!(said(&server, &id, "sudo whoami; id -un")?, "root\nagent\n");
    assert_eq!(
        told(&server, &id, "agent", "sudo sh -c 'echo out; echo err >&2; exit 7'")?,
        ("out\n".into(), "err\n".into(), 7)
    );
    for (command, expected) in [
        ("printf 'b\\na\\n' | sudo sort | tail -n 1", "b\n"),
        ("seq 300000 | sudo cat | wc -l", "300000\n"),
        ("echo hello > /tmp/in; sudo cat < /tmp/in", "hello\n"),
        ("sudo sh -c 'echo root > /root/file; cat /root/file'", "root\n"),
        ("cd /usr/lib && sudo pwd", "/usr/lib\n"),
        ("sudo sudo id -u", "0\n"),
        ("sudo sh -c 'kill -TERM $$'; echo $?", "143\n"),
        ("sudo true && echo yes; sudo false || echo no", "yes\nno\n"),
        (
            "mkfifo /tmp/f; exec 3<>/tmp/f; sudo sh -c 'trap \"echo caught; exit 5\" TERM; echo ready; \
             while :; do sleep 0.05; done' >&3 & pid=$!; read a <&3; kill -TERM $pid; wait $pid; code=$?; read b <&3; \
             echo $a $b $code",
            "ready caught 5\n",
        ),
    ] {
        let (output, errors, _) = told(&server, &id, "agent", command)?;
        assert_eq!(output, expected, "{command}: {errors}");
    }
    let stdin = json!({ "command": "sudo sh -c 'read line; echo got $line'", "stdin": "typed\n" });
    assert_eq!(exec(&server, &id, &stdin)?["stdout"], "got typed\n");
    for (command, words) in [
        ("sudo no-such-program", "no-such-program: command not found"),
        ("sudo -u nobody-here id", "unknown user"),
        ("sudo -Z id", "-Z is not known"),
        ("sudo", "write a command"),
        ("sudo /etc", "unable to execute"),
    ] {
        let (_, errors, code) = told(&server, &id, "agent", command)?;
        ensure!(
            code == 1 && errors.starts_with("sudo: ") && errors.contains(words),
            "{command}: {code}: {errors}"
        );
    }
    // What is left in the background goes on; it does not hold the command's end up.
    said(&server, &id, "sudo sh -c 'sleep 1000 > /dev/null 2>&1 < /dev/null &'")?;
    assert_eq!(said(&server, &id, "sudo pkill -x sleep && echo there")?, "there\n");
    // Nothing of it is told as a change of the disk.
    let changes = changes_of(&server, &id)?;
    ensure!(
        changes.iter().all(|change| !change.contains("sudo") && !change.contains("paddock")),
        "{changes:?}"
    );
    Ok(())
}

fn options(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = made(&server, &option())?;
    for (command, expected) in [
        ("sudo -n -u root -H id -un", "root\n"),
        ("sudo -u '#0' -- id -un", "root\n"),
        ("A=b sudo sh -c 'echo [$A]'", "[]\n"),
        ("A=b sudo -E sh -c 'echo [$A]'", "[b]\n"),
        ("A=b B=c sudo --preserve-env=A sh -c 'echo [$A$B]'", "[b]\n"),
        ("sudo A='b c' sh -c 'echo [$A]'", "[b c]\n"),
        ("sudo sh -c 'echo $HOME $USER $LOGNAME'", "/root root root\n"),
        ("sudo -E sh -c 'echo $HOME'; sudo -EH sh -c 'echo $HOME'", "/home/agent\n/root\n"),
        ("sudo sh -c 'echo $SUDO_USER $SUDO_UID $SUDO_GID'", "agent 1000 1000\n"),
        ("sudo printenv SUDO_COMMAND", "printenv SUDO_COMMAND\n"),
        (
            "PATH=/tmp:$PATH sudo printenv PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n",
        ),
        ("cd /tmp; sudo -i pwd; echo 'echo $0' | sudo -i", "/root\n-bash\n"),
        ("cd /tmp; sudo -s pwd; sudo -s echo 'a  b' '$HOME'", "/tmp\na  b /root\n"),
        ("sudo -D /usr pwd", "/usr\n"),
        ("sudo -v && sudo -k && sudo -K && sudo -n true && echo fine", "fine\n"),
        ("sudo -l | grep -c NOPASSWD", "1\n"),
    ] {
        let (output, errors, _) = told(&server, &id, "agent", command)?;
        assert_eq!(output, expected, "{command}: {errors}");
    }
    // Another user takes a right that this root does not have.
    let (_, errors, code) = told(&server, &id, "agent", "sudo -u agent id -un")?;
    ensure!(code == 1 && errors.contains("root_may_install"), "{errors}");
    Ok(())
}

/// The rights of root are those that a command of root from outside has.
fn fence(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let with = json!({ "become_root": true, "root_may_install": true, "backend": "process" });
    let look = "grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp)' /proc/self/status; cat /proc/self/limits /proc/self/cgroup; \
                ls /proc/self/fd | wc -l; umask";
    for body in [option(), with] {
        let id = made(&server, &body)?;
        let (outside, _, code) = told(&server, &id, "root", look)?;
        let inside = said(&server, &id, &format!("sudo sh -c '{}'", look.replace('\'', "'\\''")))?;
        ensure!(code == 0 && outside.contains("NoNewPrivs:\t1"), "{outside}");
        assert_eq!(inside, outside);
    }
    Ok(())
}

/// Connects, says nothing, and tells how that ends.
const KNOCK: &str = r#"
import socket
door = socket.socket(socket.AF_UNIX)
door.connect('/dev/become-root')
door.settimeout(20)
try: print('closed' if door.recv(1) == b'' else 'spoke')
except ConnectionError: print('closed')
except TimeoutError: print('waits')
"#;

fn others(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let with = json!({ "become_root": true, "root_may_install": true, "backend": "process" });
    for body in [option(), with] {
        let id = made(&server, &body)?;
        for user in ["33", "1001", "33:1000", "33:0"] {
            let (output, errors, code) = told(&server, &id, user, "sudo id")?;
            ensure!(
                code == 1 && output.is_empty() && errors.contains("did not let this user"),
                "{user}: {output}{errors}"
            );
            assert_eq!(python(&server, &id, user, KNOCK)?, "closed\n", "{user}");
        }
        // The control: the same words of the sandbox's user.
        assert_eq!(said(&server, &id, "sudo id -u")?, "0\n");
        assert_eq!(told(&server, &id, "1000:33", "sudo id -u")?.0, "0\n");
    }
    // Another ordinary user may be named, and then it alone is let in.
    let id = made(&server, &json!({ "become_root": true, "backend": "process", "user": "1234:1234" }))?;
    assert_eq!(told(&server, &id, "1234", "sudo id -u")?.0, "0\n");
    assert_eq!(told(&server, &id, "1000", "sudo id -u")?.2, 1);
    Ok(())
}

const HOSTILE: &str = r#"
import array, os, random, socket, struct
random.seed(7)
def door():
    made = socket.socket(socket.AF_UNIX); made.connect('/dev/become-root'); made.settimeout(30); return made
def send(bytes, fds=()):
    made = door()
    try:
        made.sendmsg([bytes], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', fds))] if fds else [])
        return made.recv(64)
    except OSError: return b''
    finally: made.close()
null = os.open('/dev/null', os.O_RDWR)
ends = [send(struct.pack('<I', 0xffffffff)), send(struct.pack('<I', 5 << 20) + b'x' * 100), send(struct.pack('<I', 4) + b'abcd'),
        send(struct.pack('<I', 4) + b'abcd', [null] * 4)]
ends += [send(struct.pack('<I', 36) + bytes(36), [null] * n) for n in (0, 1, 3, 5, 200)]
ends += [send(struct.pack('<I', 200) + random.randbytes(200), [null] * 4) for _ in range(40)]
assert all(b'b' != end[:1] for end in ends), ends
# Descriptors of every kind in the place of streams and of the directory.
kinds = [os.open('/', os.O_PATH), os.open('/dev/become-root', os.O_PATH), os.open('/tmp', os.O_RDONLY), socket.socket(socket.AF_UNIX).fileno()]
for kind in kinds: send(struct.pack('<I', 36) + bytes(36), [kind] * 4)
# Many that come and go, and many that say half and go.
for _ in range(1000): door().close()
for _ in range(200):
    made = door(); made.send(struct.pack('<I', 1000) + b'half'); made.close()
# Many that stay: some are let in, the others wait in the kernel.
held = []
for _ in range(60):
    made = door(); made.send(b'\x01'); held.append(made)
print('done', flush=True)
"#;

/// The guest lives, and answers as before, and its memory has not grown.
fn hostile(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = made(&server, &option())?;
    assert_eq!(said(&server, &id, "sudo id -u")?, "0\n");
    let before = said(&server, &id, "ls /proc | grep -c '^[0-9]'")?;
    assert_eq!(python(&server, &id, "agent", HOSTILE)?, "done\n");
    assert_eq!(said(&server, &id, "sudo id -u")?, "0\n");
    assert_eq!(said(&server, &id, "echo alive")?, "alive\n");
    // Nobody of them is left.
    until(PATIENCE, "the callers are gone", || {
        said(&server, &id, "ls /proc | grep -c '^[0-9]'").ok().filter(|now| *now == before)
    })?;
    // Root in there may do to itself what it likes.
    let (_, _, code) = told(&server, &id, "agent", "sudo sh -c 'kill -9 $PPID; sleep 1000'")?;
    ensure!(code == 1, "{code}");
    assert_eq!(said(&server, &id, "sudo pgrep -x sleep || sudo echo none")?, "none\n");
    assert_eq!(said(&server, &id, "seq 40 | xargs -P 20 -I{} sudo echo {} | wc -l")?, "40\n");
    Ok(())
}

/// The exec begins in the background, and says that its command runs.
fn begun(server: &Server<'_>, id: &str, body: &Value) -> Result<String> {
    let answer = server.api("POST", &format!("/v1/sandboxes/{id}/execs"), Some(body))?;
    ensure!(answer.status < 300, "{}", answer.text());
    let started = answer.json()?["exec"].clone();
    let name = started.as_str().map_or_else(|| started.to_string(), str::to_string);
    until(PATIENCE, "root's sleep runs", || said(server, id, "sudo pgrep -x sleep").ok())?;
    Ok(name)
}

fn ends(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = made(&server, &option())?;
    let gone = || {
        until(PATIENCE, "nothing of root's is left", || {
            let (found, _, code) = told(&server, &id, "root", "pgrep -x sleep").ok()?;
            (code == 1 && found.is_empty()).then_some(())
        })
    };
    let background = |command: &str| json!({ "command": command, "background": true });
    // The client is killed by the code inside.
    begun(&server, &id, &background("sudo sleep 1000"))?;
    said(&server, &id, "pkill -KILL -o -x sudo -u 1000")?;
    gone()?;
    // The exec is killed from outside, with what its command left behind, and with a sudo below it.
    for command in [
        "sudo sh -c 'sleep 1000 & exec sleep 1000'",
        "sudo sh -c 'sleep 1000 > /dev/null 2>&1 &'; exec cat /dev/zero > /dev/null",
        "sudo sudo sh -c 'trap \"\" HUP TERM INT; sleep 1000; true'",
    ] {
        let exec = begun(&server, &id, &background(command))?;
        server.api(
            "POST",
            &format!("/v1/sandboxes/{id}/execs/{exec}/signal"),
            Some(&json!({ "signal": "KILL" })),
        )?;
        gone().with_context(|| command.to_string())?;
    }
    // Its own time limit ends it too.
    let limited = json!({ "command": "sudo sleep 1000", "timeout_seconds": 0.5 });
    server.api("POST", &format!("/v1/sandboxes/{id}/execs"), Some(&limited))?;
    gone()
}

/// A terminal of the test's own inside, in which `sudo` runs.
const TERMINAL: &str = r#"
import os, pty, select, sys, termios, fcntl, struct, signal
pid, master = pty.fork()
if pid == 0:
    os.execvp('sh', ['sh', '-c', 'stty -g; tty; sudo sh -c "tty; stty size; id -u; test -t 0 && test -t 1 && test -t 2 && echo terminals; read x; echo got \\$x; stty size; sleep 1000"; echo code $?; stty -g'])
fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack('HHHH', 31, 87, 0, 0))
seen = b''
def until(word):
    global seen
    while word not in seen:
        ready, _, _ = select.select([master], [], [], 30)
        if not ready: sys.exit(f'no {word!r} in {seen!r}')
        try: piece = os.read(master, 4096)
        except OSError: piece = b''
        if not piece: sys.exit(f'ended without {word!r}: {seen!r}')
        seen += piece
until(b'terminals')
fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack('HHHH', 40, 100, 0, 0))
os.write(master, b'typed\r')
until(b'got typed')
until(b'40 100')
os.write(master, b'\x03')
until(b'code ')
while True:
    try: piece = os.read(master, 4096)
    except OSError: break
    if not piece: break
    seen += piece
lines = [line for line in seen.decode().replace('\r', '').split('\n') if line]
assert lines[0] == lines[-1], ('the terminal was not restored', lines)
assert lines[1] != lines[2] and lines[2].startswith('/dev/pts/'), lines
assert '0' in lines and lines[-2].endswith('code 130'), lines
print('done')
"#;

fn terminal(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = made(&server, &option())?;
    assert_eq!(python(&server, &id, "agent", TERMINAL)?, "done\n");
    // Of an exec with a terminal.
    let body = json!({ "command": "sudo sh -c 'tty; stty size'", "terminal": { "rows": 33, "columns": 77 } });
    let told = exec(&server, &id, &body)?;
    let output = told["stdout"].as_str().unwrap_or_default().replace('\r', "");
    ensure!(output.starts_with("/dev/pts/") && output.ends_with("33 77\n"), "{told}");
    Ok(())
}

fn lives(caller: &Caller) -> Result<()> {
    let mut server = Server::start(caller)?;
    let id = made(&server, &option())?;
    let path = |rest: &str| format!("/v1/sandboxes/{id}{rest}");
    said(&server, &id, "sudo sh -c 'echo kept > /root/note'")?;
    let snapshot = server.api("POST", &path("/snapshots"), Some(&json!({})))?.expect(201)?;
    let mut of_snapshot = option();
    of_snapshot["snapshot"] = snapshot["id"].clone();
    let from = made(&server, &of_snapshot)?;
    let forked = server.api("POST", &path("/fork"), Some(&json!({})))?.expect(201)?;
    let child = forked["sandboxes"][0]["id"].as_str().unwrap_or_default().to_string();
    for one in [&id, &from, &child] {
        assert_eq!(said(&server, one, "sudo cat /root/note")?, "kept\n");
    }
    // A snapshot's sandbox that was made without it has none.
    let plain = made(&server, &json!({ "snapshot": snapshot["id"], "backend": "process" }))?;
    assert_eq!(said(&server, &plain, "test ! -e /dev/become-root && echo none")?, "none\n");
    server.api("POST", &path("/pause"), None)?.expect(200)?;
    server.api("POST", &path("/resume"), None)?.expect(200)?;
    assert_eq!(said(&server, &id, "sudo cat /root/note")?, "kept\n");
    server.api("POST", &path("/hibernate"), None)?.expect(200)?;
    assert_eq!(said(&server, &id, "sudo cat /root/note")?, "kept\n");
    // A command of root goes on while no server is there.
    let begun = json!({ "command": "sudo sh -c 'while [ ! -e /tmp/go ]; do sleep 0.05; done; echo went > /root/went'", "background": true });
    let answer = server.api("POST", &path("/execs"), Some(&begun))?;
    ensure!(answer.status < 300, "{}", answer.text());
    server.kill()?;
    server.start_again()?;
    assert_eq!(said(&server, &id, "sudo cat /root/note; touch /tmp/go")?, "kept\n");
    until(PATIENCE, "it went on", || said(&server, &id, "sudo cat /root/went").ok())?;
    Ok(())
}

/// The calls that a package manager makes, by `sudo` of the image's user.
fn image(caller: &Caller) -> Result<()> {
    let image = caller.directory("image")?;
    images::python(&image)?;
    let server = Server::start(caller)?;
    let body = json!({
        "image": image.display().to_string(), "become_root": true, "root_may_install": true, "backend": "process",
    });
    let id = made(&server, &body)?;
    let script = "import os; os.makedirs('/usr/lib/x'); open('/usr/lib/x/tool', 'w').close(); os.chown('/usr/lib/x/tool', 0, 42)\n\
                  print(os.getuid(), os.stat('/usr/lib/x/tool').st_gid)";
    let run = |argv: &[&str]| -> Result<Value> { exec(&server, &id, &json!({ "argv": argv })) };
    let done = run(&["sudo", "python3", "-c", script])?;
    assert_eq!(done["stdout"], "0 42\n", "{done}");
    // The program is read-only, also for root.
    let write = "import os\nfor path in ['/usr/local/bin/sudo']:\n try: open(path, 'r+b'); print('written')\n except OSError: print('refused')\n try: os.unlink(path); print('removed')\n except OSError: print('stays')";
    assert_eq!(run(&["sudo", "python3", "-c", write])?["stdout"], "refused\nstays\n");
    // A root that installs may become other users.
    let done = run(&["sudo", "-u", "#1717", "python3", "-c", "import os; print(os.getuid())"])?;
    ensure!(done["exit_code"] == 1, "no such user: {done}");
    let add = "open('/etc/passwd', 'a').write('ada:x:1717:1717::/home/ada:/bin/sh\\n')";
    ensure!(run(&["sudo", "python3", "-c", add])?["exit_code"] == 0, "a user is added");
    let ids = "import os; print(os.getresuid(), os.getresgid(), os.getgroups())";
    let done = run(&["sudo", "-u", "ada", "python3", "-c", ids])?;
    assert_eq!(done["stdout"], "(1717, 1717, 1717) (1717, 1717, 1717) [1717]\n", "{done}");
    let changes = changes_of(&server, &id)?;
    ensure!(changes.iter().all(|change| !change.contains("sudo")), "{changes:?}");
    Ok(())
}

fn whose(caller: &Caller) -> Result<()> {
    let address = ["--listen", "127.0.0.1:0"];
    let mut server = Server::start_with(caller, &address)?;
    let token = json!({ "tenant": "team", "role": "user" });
    let token = server.api("POST", "/v1/tokens", Some(&token))?.expect(201)?;
    let bearer = format!("Authorization: Bearer {}\r\n", token["secret"].as_str().unwrap_or_default());
    let headers = format!("{bearer}Content-Type: application/json\r\n");
    let as_tenant = |server: &Server<'_>, body: &Value| {
        over_tcp(&server.url()?, "POST", "/v1/sandboxes", &headers, body.to_string().as_bytes())
    };
    let template = caller.state().join("templates/sudo.toml");
    std::fs::create_dir_all(template.parent().context("a directory")?)?;
    std::fs::write(&template, "become_root = true\nbackend = \"process\"\n")?;
    as_tenant(&server, &option())?.expect(201)?;
    server.stop()?;
    server.start_again_with(&[&address[..], &["--root-may-install", "owner"]].concat())?;
    let refused = as_tenant(&server, &option())?.refused(403, "forbidden")?.text();
    ensure!(refused.contains("become_root") && refused.contains("owner"), "{refused}");
    as_tenant(&server, &json!({ "template": "sudo" }))?.expect(201)?;
    server.stop()?;
    server.start_again_with(&[&address[..], &["--root-may-install", "nobody"]].concat())?;
    for body in [option(), json!({ "template": "sudo" })] {
        as_tenant(&server, &body)?.refused(403, "forbidden")?;
        server.api("POST", "/v1/sandboxes", Some(&body))?.refused(403, "forbidden")?;
    }
    as_tenant(&server, &json!({ "template": "sudo", "become_root": false }))?.expect(201).map(drop)
}
