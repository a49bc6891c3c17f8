//! Sandboxes whose root may install packages and manage users: what that root can do, and what it still cannot.

use crate::forks::{changes_of, made};
use anyhow::{Context, Result, ensure};
use paddock_e2e::http::over_tcp;
use paddock_e2e::{Caller, Server, as_root, for_both_callers, images, skip_rest};
use serde_json::{Value, json};
use std::os::unix::fs::{PermissionsExt, chown};

for_both_callers!(
    it_is_given_or_refused_in_words,
    without_the_option_root_has_no_capability,
    what_makes_no_sense_is_refused
);

#[test]
fn root_has_six_capabilities_and_nothing_more() -> Result<()> {
    as_root("root_has_six_capabilities_and_nothing_more", six_capabilities)
}

#[test]
fn users_and_their_files_live_as_long_as_the_sandbox() -> Result<()> {
    as_root("users_and_their_files_live_as_long_as_the_sandbox", users_and_files)
}

#[test]
fn root_of_an_image_gives_files_away() -> Result<()> {
    as_root("root_of_an_image_gives_files_away", files_of_an_image)
}

#[test]
fn a_set_user_id_file_gives_nothing_inside_or_outside() -> Result<()> {
    as_root("a_set_user_id_file_gives_nothing_inside_or_outside", set_user_id)
}

#[test]
fn files_of_other_users_of_the_host_stay_out_of_reach() -> Result<()> {
    as_root("files_of_other_users_of_the_host_stay_out_of_reach", host_files)
}

#[test]
fn the_owner_says_whose_sandboxes_may_have_it() -> Result<()> {
    as_root("the_owner_says_whose_sandboxes_may_have_it", whose)
}

const NAMES: [&str; 6] =
    ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_SETGID", "CAP_SETUID"];
/// Their bits.
const SIX: &str = "00000000000000db";
const NONE: &str = "0000000000000000";

fn option() -> Value {
    json!({ "root_may_install": true, "backend": "process" })
}

/// The output of a command as this user, and its exit code.
fn told(server: &Server<'_>, id: &str, user: &str, command: &str) -> Result<(String, i64)> {
    let body = json!({ "command": command, "user": user });
    let done = server.api("POST", &format!("/v1/sandboxes/{id}/execs"), Some(&body))?.expect(200)?;
    let text = |field: &str| done[field].as_str().unwrap_or_default().to_string();
    Ok((text("stdout") + &text("stderr"), done["exit_code"].as_i64().unwrap_or(-1)))
}

fn done(server: &Server<'_>, id: &str, user: &str, command: &str) -> Result<String> {
    let (output, code) = told(server, id, user, command)?;
    ensure!(code == 0, "{user}: {command}: {code}: {output}");
    Ok(output)
}

/// The sets of capabilities of a process of that user: inheritable, permitted, effective, bounding, ambient.
fn sets(server: &Server<'_>, id: &str, user: &str) -> Result<Vec<String>> {
    let status = done(server, id, user, "cat /proc/self/status")?;
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(|value| value.trim().to_string()).unwrap_or_default()
    };
    ensure!((value("NoNewPrivs"), value("Seccomp")) == ("1".into(), "2".into()), "{status}");
    Ok(["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"].map(value).into())
}

fn guarantees(server: &Server<'_>, id: &str) -> Result<Value> {
    Ok(server.api("GET", &format!("/v1/sandboxes/{id}"), None)?.expect(200)?["guarantees"].clone())
}

/// An ordinary user has too few ids for it.
fn it_is_given_or_refused_in_words(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let answer = server.api("POST", "/v1/sandboxes", Some(&option()))?;
    let as_command =
        ["--root-may-install", "--user", "root", "--", "sh", "-c", "chown 7:8 /tmp && echo given"];
    if !caller.is_root {
        let refused = answer.refused(422, "requirement_not_met")?.text();
        ensure!(refused.contains("root-may-install") && refused.contains("runs as root"), "{refused}");
        return caller.run(as_command)?.refused(&["root-may-install"]);
    }
    let sandbox = answer.expect(201)?;
    ensure!(sandbox["guarantees"]["root_capabilities"] == json!(NAMES), "{sandbox}");
    let weaknesses = sandbox["guarantees"]["weaknesses"].to_string();
    ensure!(weaknesses.contains("root inside may install packages"), "{weaknesses}");
    assert_eq!(caller.run(as_command)?.success()?, "given\n");
    // In a template's or a policy's words it is the same.
    let policy = caller.file("policy.toml", "root_may_install = true\nuser = \"root\"\n")?;
    let policy = policy.display().to_string();
    caller.run(["--policy", &policy, "--", "chown", "7:8", "/tmp"])?.success()?;
    // The flag counts before the file.
    let without = ["--policy", &policy, "--root-may-install=false", "--", "chown", "7:8", "/tmp"];
    caller.run(without)?.exited(1).map(drop)
}

fn without_the_option_root_has_no_capability(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let plain = made(&server, &json!({ "backend": "process", "user": "root" }))?;
    assert_eq!(sets(&server, &plain, "root")?, [NONE; 5]);
    ensure!(guarantees(&server, &plain)?["root_capabilities"].is_null(), "{plain}");
    let (output, code) = told(&server, &plain, "root", "touch /tmp/x && chown 7:8 /tmp/x")?;
    ensure!(code != 0, "{output}");
    if !caller.is_root {
        skip_rest("an ordinary user's sandboxes have no such root at all");
        return Ok(());
    }
    // One that has it changes nothing for the others.
    let other = made(&server, &option())?;
    assert_eq!(sets(&server, &other, "root")?[1], SIX);
    assert_eq!(sets(&server, &plain, "root")?, [NONE; 5]);
    Ok(())
}

fn what_makes_no_sense_is_refused(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    for wrong in [json!("yes"), json!(1), json!([])] {
        let body = json!({ "root_may_install": wrong });
        server.api("POST", "/v1/sandboxes", Some(&body))?.refused(400, "invalid_request")?;
    }
    for live in [json!({ "live_forks": true }), json!({ "require": ["live-forks"] })] {
        let mut body = option();
        body.as_object_mut().context("an object")?.extend(live.as_object().cloned().unwrap_or_default());
        let refused = server.api("POST", "/v1/sandboxes", Some(&body))?;
        let refused = refused.refused(400, "invalid_request")?.text();
        ensure!(refused.contains("exclude each other"), "{refused}");
    }
    // The demand alone does not turn it on.
    let demand = json!({ "require": ["root-may-install"], "backend": "process" });
    server.api("POST", "/v1/sandboxes", Some(&demand))?.refused(422, "requirement_not_met")?;
    for backend in ["gvisor", "microvm"] {
        let other = json!({ "root_may_install": true, "backend": backend });
        server.api("POST", "/v1/sandboxes", Some(&other))?.refused(422, "requirement_not_met")?;
    }
    caller.run(["--root-may-install=perhaps", "--", "true"])?.exited(125).map(drop)
}

/// Each line is tried as root, and prints its name only if it succeeds.
const ATTACKS: &str = r#"
import ctypes, os, socket, stat
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, action):
    try: succeeded = action() is not False
    except (OSError, ValueError): return
    if succeeded: print(name)
def call(function, *arguments):
    return lambda: None if getattr(libc, function)(*arguments) == 0 else False
def reads(path):
    return lambda: len(open(path, 'rb').read(1)) > 0
def writes(path, text=b'1'):
    def write():
        with open(path, 'wb', buffering=0) as file: file.write(text)
    return write
os.makedirs('/tmp/place', exist_ok=True)
attempt('mount', call('mount', b'none', b'/tmp/place', b'tmpfs', 0, None))
attempt('bind', call('mount', b'/usr', b'/tmp/place', None, 4096, None))
attempt('remount', call('mount', b'none', b'/usr', None, 32 | 4096, None))
attempt('umount', call('umount2', b'/usr', 2))
attempt('unshare user', call('unshare', 0x10000000))
attempt('unshare mount', call('unshare', 0x00020000))
attempt('chroot', call('chroot', b'/tmp'))
attempt('sethostname', call('sethostname', b'x', 1))
attempt('device', lambda: os.mknod('/tmp/disk', 0o600 | stat.S_IFBLK, os.makedev(8, 0)))
attempt('zero', lambda: os.mknod('/tmp/zero', 0o600 | stat.S_IFCHR, os.makedev(1, 5)))
attempt('raw socket', lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1) and None)
attempt('packet socket', lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3) and None)
attempt('low port', lambda: open('/proc/sys/net/ipv4/ip_unprivileged_port_start', 'w').write('0'))
attempt('kernel setting', writes('/proc/sys/kernel/core_pattern', b'|/tmp/x'))
attempt('host name', writes('/proc/sys/kernel/hostname'))
attempt('memory of init', reads('/proc/1/mem'))
attempt('environment of init', reads('/proc/1/environ'))
attempt('descriptors of init', lambda: os.listdir('/proc/1/fd') and None)
attempt('root of init', lambda: os.listdir('/proc/1/root') and None)
attempt('kcore', reads('/proc/kcore'))
attempt('kmsg', reads('/proc/kmsg'))
attempt('id map', writes('/proc/self/uid_map', b'0 0 1'))
attempt('usr', writes('/usr/bin/new'))
attempt('certificates', writes('/etc/ssl/certs/new'))
attempt('nice', lambda: os.setpriority(os.PRIO_PROCESS, 0, -5))
attempt('limit', lambda: __import__('resource').setrlimit(7, (1 << 20, 1 << 20)))
attempt('trace init', call('ptrace', 16, 1, 0, 0))
def as_the_guest(name, action):
    child = os.fork()
    if child: return os.waitpid(child, 0)
    try:
        # Keep the capabilities when the id changes.
        libc.prctl(8, 1, 0, 0, 0)
        os.setgroups([]); os.setresgid(65535, 65535, 65535); os.setresuid(65535, 65535, 65535)
        attempt('as the guest: ' + name, action)
    except OSError: pass
    os._exit(0)
as_the_guest('memory of init', reads('/proc/1/mem'))
as_the_guest('descriptors of init', lambda: os.listdir('/proc/1/fd') and None)
as_the_guest('trace init', call('ptrace', 16, 1, 0, 0))
def kill():
    os.kill(1, 9); os.kill(1, 15); os.kill(1, 19)
    return False
as_the_guest('kill init', kill)
print('done', flush=True)
"#;

fn six_capabilities(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = made(&server, &option())?;
    assert_eq!(sets(&server, &id, "root")?, [NONE, SIX, SIX, SIX, NONE]);
    for user in ["agent", "33", "1000:0"] {
        assert_eq!(sets(&server, &id, user)?, [NONE; 5], "{user}");
    }
    // Root that becomes another user has none left, and cannot get them back.
    let becomes = "python3 -c 'import os; os.setgid(33); os.setuid(33)\nprint(open(\"/proc/self/status\").read())\ntry: os.setuid(0)\nexcept OSError: print(\"stays\")'";
    let after = done(&server, &id, "root", becomes)?;
    ensure!(after.contains(&format!("CapEff:\t{NONE}")) && after.contains("stays"), "{after}");
    let script = json!({ "argv": ["python3", "-c", ATTACKS], "user": "root" });
    let answer = server.api("POST", &format!("/v1/sandboxes/{id}/execs"), Some(&script))?.expect(200)?;
    assert_eq!(answer["stdout"], "done\n", "{answer}");
    // It lives, and answers.
    assert_eq!(done(&server, &id, "agent", "echo alive")?, "alive\n");
    // None of its contexts is forked as it stands, nor does it begin with an interpreter of a zygote.
    assert_eq!(guarantees(&server, &id)?["fork"], "filesystem");
    Ok(())
}

fn users_and_files(caller: &Caller) -> Result<()> {
    let mut server = Server::start(caller)?;
    let id = made(&server, &option())?;
    let path = |rest: &str| format!("/v1/sandboxes/{id}{rest}");
    let prepare = "useradd --create-home ada && echo secret > /home/ada/note && chown -R ada: /home/ada \
                   && chmod 0700 /home/ada && chmod 0600 /home/ada/note && groupadd team && usermod -aG team ada";
    done(&server, &id, "root", prepare)?;
    assert_eq!(done(&server, &id, "ada", "id -un; echo $HOME; cat ~/note")?, "ada\n/home/ada\nsecret\n");
    let (denied, code) = told(&server, &id, "agent", "cat /home/ada/note")?;
    ensure!(code != 0 && !denied.contains("secret"), "{denied}");
    // Files of another id are told, fetched and kept.
    let changes = changes_of(&server, &id)?;
    ensure!(changes.iter().any(|change| change == "added /home/ada/note"), "{changes:?}");
    let content = server.api("GET", &path("/files/content?path=/home/ada/note&user=root"), None)?;
    assert_eq!(content.ok()?.text(), "secret\n");
    let asked_as_agent = server.api("GET", &path("/files/content?path=/home/ada/note"), None)?;
    ensure!(asked_as_agent.status >= 400, "{}", asked_as_agent.text());
    server.api("GET", &path("/changes/archive"), None)?.ok()?;
    let snapshot = server.api("POST", &path("/snapshots"), Some(&json!({})))?.expect(201)?;
    let from = made(
        &server,
        &json!({ "snapshot": snapshot["id"], "root_may_install": true, "backend": "process" }),
    )?;
    let plain = made(&server, &json!({ "snapshot": snapshot["id"], "backend": "process" }))?;
    let forked = server.api("POST", &path("/fork"), Some(&json!({})))?.expect(201)?;
    ensure!(forked["kind"] == "filesystem", "{forked}");
    let child = forked["sandboxes"][0]["id"].as_str().unwrap_or_default().to_string();
    for (place, has) in [(&from, SIX), (&plain, NONE), (&child, SIX)] {
        assert_eq!(done(&server, place, "ada", "cat ~/note")?, "secret\n");
        assert_eq!(sets(&server, place, "root")?[2], has);
    }
    ensure!(guarantees(&server, &child)?["root_capabilities"] == json!(NAMES), "{child}");
    // It is the same after a pause, after hibernation, and for the next server.
    server.api("POST", &path("/pause"), None)?.expect(200)?;
    server.api("POST", &path("/resume"), None)?.expect(200)?;
    assert_eq!(sets(&server, &id, "root")?[2], SIX);
    server.api("POST", &path("/hibernate"), None)?.expect(200)?;
    assert_eq!(sets(&server, &id, "root")?[2], SIX);
    assert_eq!(done(&server, &id, "ada", "cat ~/note")?, "secret\n");
    server.kill()?;
    server.start_again()?;
    assert_eq!(sets(&server, &id, "root")?[2], SIX);
    done(&server, &id, "root", "userdel --remove ada 2>/dev/null; test ! -e /home/ada")?;
    for one in [&id, &from, &plain, &child] {
        server.api("DELETE", &format!("/v1/sandboxes/{one}"), None)?.expect(200)?;
    }
    Ok(())
}

/// The calls that dpkg makes for its files, and adduser for its tables.
const INSTALL: &str = r#"
import os
os.makedirs('/usr/lib/x'); os.makedirs('/var/spool/x'); os.makedirs('/home/ada')
open('/usr/lib/x/tool', 'w').write('#!/bin/x\n')
os.chown('/usr/lib/x/tool', 0, 42); os.chmod('/usr/lib/x/tool', 0o2755)
os.chown('/var/spool/x', 100, 65534); os.chmod('/var/spool/x', 0o700)
open('/var/spool/x/job', 'w').close()
os.utime('/var/spool/x', (1, 1))
open('/etc/passwd', 'a').write('ada:x:1717:1717::/home/ada:/bin/sh\n')
os.rename('/etc/passwd', '/etc/passwd.new'); os.rename('/etc/passwd.new', '/etc/passwd')
os.chown('/home/ada', 1717, 1717)
for path in ['/usr/lib/x/tool', '/var/spool/x', '/home/ada']:
    seen = os.stat(path); print(f'{seen.st_uid}:{seen.st_gid} {seen.st_mode & 0o7777:o}')
"#;

fn files_of_an_image(caller: &Caller) -> Result<()> {
    let image = caller.directory("image")?;
    images::python(&image)?;
    let server = Server::start(caller)?;
    let body = json!({
        "image": image.display().to_string(), "root_may_install": true, "backend": "process", "user": "root",
    });
    let id = made(&server, &body)?;
    let run = |user: &str, code: &str| -> Result<Value> {
        let body = json!({ "argv": ["python3", "-c", code], "user": user });
        server.api("POST", &format!("/v1/sandboxes/{id}/execs"), Some(&body))?.expect(200)
    };
    let installed = run("root", INSTALL)?;
    assert_eq!(installed["stdout"], "0:42 2755\n100:65534 700\n1717:1717 755\n", "{installed}");
    let own = run(
        "ada",
        "import os; open('/home/ada/x', 'w').close(); print(os.getuid(), os.path.expanduser('~'))",
    )?;
    assert_eq!(own["stdout"], "1717 /home/ada\n", "{own}");
    let changes = changes_of(&server, &id)?;
    ensure!(changes.iter().any(|change| change == "added /var/spool/x/job"), "{changes:?}");
    Ok(())
}

fn set_user_id(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = made(&server, &option())?;
    let name = "root-that-installs-probe";
    let plant = format!("cp /usr/bin/id /home/{name} && chown root: /home/{name} && chmod 6755 /home/{name}");
    done(&server, &id, "root", &plant)?;
    // Inside it gives nothing: no other id, and no capability.
    let user = done(&server, &id, "agent", &format!("/home/{name} -u; stat -c '%u %a' /home/{name}"))?;
    assert_eq!(user, "1000\n0 6755\n");
    // Outside its owner is nobody of the host's, and its file system gives nothing to anybody.
    let state = caller.state().display().to_string();
    let find = format!("find {state} -name {name} -printf '%U %p\\n'");
    let found = caller.shell(&caller.home(), &find)?;
    for line in found.success()?.lines() {
        let (owner, path) = line.split_once(' ').context("an owner and a path")?;
        ensure!(owner.parse::<u32>()? >= 0x6f00_0000, "{line}");
        let directory = std::path::Path::new(path);
        let hidden = directory
            .ancestors()
            .skip(1)
            .any(|above| std::fs::metadata(above).is_ok_and(|found| found.permissions().mode() & 0o077 == 0));
        ensure!(hidden, "others of the host can go to {path}");
    }
    Ok(())
}

fn host_files(caller: &Caller) -> Result<()> {
    let workspace = caller.directory("workspace")?;
    let own = caller.file("workspace/own", "of the owner\n")?;
    let of_another = caller.file("workspace/of-another", "of another\n")?;
    std::fs::set_permissions(&of_another, std::fs::Permissions::from_mode(0o600))?;
    let others = 54_321;
    chown(&of_another, Some(others), Some(others))?;
    let server = Server::start(caller)?;
    let body = json!({
        "workspace": workspace.display().to_string(), "root_may_install": true, "backend": "process", "user": "root",
    });
    let id = made(&server, &body)?;
    for attempt in [
        "cat /workspace/of-another",
        "echo changed > /workspace/of-another",
        "chmod 0666 /workspace/of-another",
        "chown root: /workspace/of-another",
        "chown 33:33 /workspace/own",
        "chown 65535 /workspace/own",
        "cp /usr/bin/id /workspace/x && chown 7 /workspace/x",
    ] {
        let (output, code) = told(&server, &id, "root", attempt)?;
        ensure!(code != 0 && !output.contains("of another\n"), "{attempt}: {output}");
    }
    assert_eq!(std::fs::read_to_string(&of_another)?, "of another\n");
    let found = std::fs::metadata(&own)?;
    ensure!(std::os::unix::fs::MetadataExt::uid(&found) == 0, "{found:?}");
    Ok(())
}

fn whose(caller: &Caller) -> Result<()> {
    let address = ["--listen", "127.0.0.1:0"];
    let mut server = Server::start_with(caller, &address)?;
    let token = json!({ "tenant": "team", "role": "user" });
    let token = server.api("POST", "/v1/tokens", Some(&token))?.expect(201)?;
    let bearer = format!("Authorization: Bearer {}\r\n", token["secret"].as_str().unwrap_or_default());
    let headers = format!("{bearer}Content-Type: application/json\r\n");
    let as_tenant = |server: &Server<'_>, path: &str, body: &Value| {
        over_tcp(&server.url()?, "POST", path, &headers, body.to_string().as_bytes())
    };
    let template = caller.state().join("templates/installs.toml");
    std::fs::create_dir_all(template.parent().context("a directory")?)?;
    std::fs::write(&template, "root_may_install = true\nbackend = \"process\"\n")?;
    let of_template = json!({ "template": "installs" });
    let not_with_it = json!({ "template": "installs", "root_may_install": false });

    let early = as_tenant(&server, "/v1/sandboxes", &option())?.expect(201)?;
    let fork = format!("/v1/sandboxes/{}/fork", early["id"].as_str().unwrap_or_default());

    server.stop()?;
    server.start_again_with(&[&address[..], &["--root-may-install", "owner"]].concat())?;
    let refused = as_tenant(&server, "/v1/sandboxes", &option())?;
    let refused = refused.refused(403, "forbidden")?.text();
    ensure!(refused.contains("owner") && refused.contains("hint"), "{refused}");
    server.api("POST", "/v1/sandboxes", Some(&option()))?.expect(201)?;
    let of_owner = as_tenant(&server, "/v1/sandboxes", &of_template)?.expect(201)?;
    ensure!(of_owner["guarantees"]["root_capabilities"] == json!(NAMES), "{of_owner}");
    as_tenant(&server, &fork, &json!({}))?.expect(201)?;

    server.stop()?;
    server.start_again_with(&[&address[..], &["--root-may-install", "nobody"]].concat())?;
    for body in [&option(), &of_template] {
        as_tenant(&server, "/v1/sandboxes", body)?.refused(403, "forbidden")?;
        server.api("POST", "/v1/sandboxes", Some(body))?.refused(403, "forbidden")?;
    }
    as_tenant(&server, &fork, &json!({}))?.refused(403, "forbidden")?;
    let without = as_tenant(&server, "/v1/sandboxes", &not_with_it)?.expect(201)?;
    ensure!(without["guarantees"]["root_capabilities"].is_null(), "{without}");
    // Those that have it keep it.
    let id = early["id"].as_str().unwrap_or_default();
    assert_eq!(sets(&server, id, "root")?[2], SIX);
    Ok(())
}
