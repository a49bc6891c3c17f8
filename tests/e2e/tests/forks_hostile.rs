//! Code that resists the fork of its interpreter. In all cases the engine goes on, the source goes on as far as its own
//! code lets it, and no fork has more than a fork may have.

use crate::attacks::with_token;
use crate::contexts::{Place, text_of};
use crate::forks::{FILES_ALONE, child, fork};
use crate::forks_outlive::runs;
use anyhow::{Result, ensure};
use paddock_e2e::{Caller, PATIENCE, Server, for_both_callers, skip_rest, until};
use serde_json::{Value, json};

for_both_callers!(
    a_second_thread_rewrites_the_instruction,
    a_process_with_its_memory_rewrites_the_instruction,
    the_vdso_is_gone,
    streams_are_closed,
    a_filter_of_its_own,
    it_waits_elsewhere,
    it_forks_all_the_time,
    memory_is_shared_with_a_child,
    what_it_could_not_open_is_not_opened_for_it,
    what_it_has_replaced_is_not_called_before_its_next_call,
    a_source_looks_into_no_command_of_its_fork,
    what_another_token_made_is_forked_without_its_contexts,
);

const LIBC: &str =
    "import ctypes, os, mmap, threading, time, signal\nl = ctypes.CDLL(None, use_errno=True)\n";

fn attacked(caller: &Caller, code: &str) -> Result<Option<(bool, String, String)>> {
    let place = Place::new(caller)?;
    place.python(&format!("{LIBC}{code}"))?;
    forked_from(caller, &place)
}

/// Forks, and tells the fate of the context. The server answers afterwards, and so does another sandbox.
fn forked_from(caller: &Caller, place: &Place<'_>) -> Result<Option<(bool, String, String)>> {
    let forked = fork(place, json!({}))?;
    if !caller.is_root {
        ensure!(forked["kind"] == "filesystem" && forked["reason"].is_string(), "{forked}");
        skip_rest(FILES_ALONE);
        return Ok(None);
    }
    let id = forked["sandboxes"][0]["id"].as_str().unwrap_or_default().to_string();
    let fate = &forked["contexts"][0];
    let carried = fate["carried"] == true;
    let reason = fate["reason"].as_str().unwrap_or_default().to_string();
    // A carried process has the rights of all work, and no others.
    let look = "[line.split()[1] for line in open('/proc/self/status') if line[:4] in ('CapE', 'CapB', 'CapP', 'NoNe', 'Secc')][:5]";
    let status =
        place.server.api("POST", &format!("/v1/sandboxes/{id}/code"), Some(&json!({ "code": look })))?;
    let status = status.expect(200)?.to_string();
    let other = place.server.create(&[])?;
    ensure!(place.server.script(&other, "echo alive")?.success()? == "alive\n", "the server does not go on");
    Ok(Some((carried, reason, status)))
}

fn is_confined(status: &str) -> bool {
    status.contains("0000000000000000', '0000000000000000', '0000000000000000', '1', '2'")
}

/// It finds where the interpreter waits, and writes over that again and again.
fn a_second_thread_rewrites_the_instruction(caller: &Caller) -> Result<()> {
    let code = "def rewrite():\n\
        \x20 while True:\n\
        \x20   call = open('/proc/self/task/%d/syscall' % os.getpid()).read().split()\n\
        \x20   if call[0] in ('0', '45'): break\n\
        \x20   time.sleep(0.01)\n\
        \x20 place = int(call[-1], 16) - 2\n\
        \x20 page = ctypes.c_void_p(place & ~4095)\n\
        \x20 assert ctypes.string_at(place, 2) == b'\\x0f\\x05' and l.mprotect(page, ctypes.c_size_t(8192), 7) == 0\n\
        \x20 ctypes.memmove(place, b'\\x90\\x90', 2)\n\
        \x20 open('/tmp/rewritten', 'w').close()\n\
        \x20 while True:\n\
        \x20   for two in (b'\\x0f\\x05', b'\\x90\\x90'): ctypes.memmove(place, two, 2)\n\
        threading.Thread(target=rewrite, daemon=True).start()";
    let ready = "for i in $(seq 600); do test -e /tmp/rewritten && exit 0; sleep 0.1; done; exit 1";
    let place = Place::new(caller)?;
    place.python(&format!("{LIBC}{code}"))?;
    place.server.script(&place.id, ready)?.success()?;
    let Some((carried, reason, _)) = forked_from(caller, &place)? else { return Ok(()) };
    ensure!(!carried && reason.contains("threads"), "{reason}");
    Ok(())
}

fn a_process_with_its_memory_rewrites_the_instruction(caller: &Caller) -> Result<()> {
    // No thread, but a process that has the memory of the interpreter: it fills the place where the next mapping will be with
    // random bytes, again and again (`getrandom` in a loop, in code of its own).
    let code = "m = mmap.mmap(-1, 8192, prot=7, flags=0x22)\n\
        code = ctypes.addressof(ctypes.c_char.from_buffer(m))\n\
        l.mmap.restype = ctypes.c_void_p\n\
        l.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]\n\
        place = l.mmap(None, 8192, 7, 0x22, -1, 0)\n\
        l.munmap(ctypes.c_void_p(place), ctypes.c_size_t(8192))\n\
        b = bytes.fromhex('b83e01000048bf') + place.to_bytes(8, 'little') + bytes.fromhex('be0200000031d20f05ebe6')\n\
        m[:len(b)] = b\n\
        l.clone.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]\n\
        assert l.clone(code, code + 8192, 0x100 | 17, None) > 0, ctypes.get_errno()";
    let Some((carried, reason, _)) = attacked(caller, code)? else { return Ok(()) };
    ensure!(!carried && reason.contains("memory"), "{reason}");
    Ok(())
}

fn the_vdso_is_gone(caller: &Caller) -> Result<()> {
    let code = "v = [m.split() for m in open('/proc/self/maps') if '[vvar' in m or '[vdso]' in m]\n\
                for m in v:\n  a, b = (int(x, 16) for x in m[0].split('-')); l.munmap(ctypes.c_void_p(a), ctypes.c_size_t(b - a))";
    let Some((carried, reason, status)) = attacked(caller, code)? else { return Ok(()) };
    // A program that asks for the time there crashes, as in its source; that is told, and nothing worse happens.
    let crashed = status.contains("the interpreter crashed: signal 11");
    ensure!(!carried || crashed || is_confined(&status), "{reason} {status}");
    Ok(())
}

fn streams_are_closed(caller: &Caller) -> Result<()> {
    let code = "for n in (0, 1, 2, 100, 101):\n  try: os.close(n)\n  except OSError: pass";
    let Some((_, reason, status)) = attacked(caller, code)? else { return Ok(()) };
    ensure!(reason.is_empty() || !status.is_empty(), "{reason} {status}");
    Ok(())
}

fn a_filter_of_its_own(caller: &Caller) -> Result<()> {
    // Every clone, mmap and setns is refused: by a filter that our own calls do not meet, and the copy has.
    let code = "import struct\n\
        f = b''.join(struct.pack('HBBI', *i) for i in ((0x20,0,0,0),(0x15,0,1,56),(6,0,0,0x50001),(0x15,0,1,308),(6,0,0,0x50001),(6,0,0,0x7fff0000)))\n\
        m = ctypes.create_string_buffer(f, len(f))\n\
        p = ctypes.create_string_buffer(struct.pack('HxxxxxxP', len(f)//8, ctypes.addressof(m)), 16)\n\
        assert l.prctl(22, 2, p, 0, 0) == 0";
    let Some((carried, reason, status)) = attacked(caller, code)? else { return Ok(()) };
    ensure!(carried && is_confined(&status), "{reason} {status}");
    Ok(())
}

fn it_waits_elsewhere(caller: &Caller) -> Result<()> {
    // A child that keeps the stream gives its answer; it sleeps itself.
    let code =
        "signal.signal(signal.SIGALRM, lambda *_: time.sleep(30))\nsignal.setitimer(signal.ITIMER_REAL, 0.2)";
    let place = Place::new(caller)?;
    place.python(&format!("{LIBC}{code}"))?;
    std::thread::sleep(std::time::Duration::from_millis(600));
    let forked = fork(&place, json!({}))?;
    if !caller.is_root {
        ensure!(forked["kind"] == "filesystem" && forked["reason"].is_string(), "{forked}");
        skip_rest(FILES_ALONE);
        return Ok(());
    }
    let fate = &forked["contexts"][0];
    ensure!(fate["carried"] == false && fate["reason"].is_string(), "{forked}");
    Ok(())
}

fn it_forks_all_the_time(caller: &Caller) -> Result<()> {
    let code = "if os.fork() == 0:\n  while True:\n    if os.fork() == 0: os._exit(0)\n    os.wait()";
    let Some((carried, reason, status)) = attacked(caller, code)? else { return Ok(()) };
    ensure!(!carried || is_confined(&status), "{reason} {status}");
    Ok(())
}

fn memory_is_shared_with_a_child(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    place.python(&format!("{LIBC}shared = mmap.mmap(-1, 4096)\nshared[0] = 7"))?;
    let forked = fork(&place, json!({}))?;
    if !crate::forks::is_live(caller, &forked)? {
        return Ok(());
    }
    let id = forked["sandboxes"][0]["id"].as_str().unwrap_or_default().to_string();
    place.python("shared[0] = 9")?;
    let seen = place.server.api(
        "POST",
        &format!("/v1/sandboxes/{id}/code"),
        Some(&json!({ "code": "shared[0]" })),
    )?;
    let seen = crate::contexts::text_of(&seen.expect(200)?)?;
    ensure!(seen == "7", "{seen}");
    Ok(())
}

/// The engine opens its files again, and has every right to; the code that had them open has not.
fn what_it_could_not_open_is_not_opened_for_it(caller: &Caller) -> Result<()> {
    let code = "f = open('/tmp/mine', 'w+'); os.chmod('/tmp/mine', 0)";
    let Some((carried, reason, _)) = attacked(caller, code)? else { return Ok(()) };
    ensure!(!carried && reason.contains("/tmp/mine") && reason.contains("Permission denied"), "{reason}");
    Ok(())
}

fn what_it_has_replaced_is_not_called_before_its_next_call(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    let replace = "import ast, builtins, os\n\
        def gone(*_, **__):\n\
        \x20 open('/tmp/called', 'w').close()\n\
        \x20 raise SystemExit(3)\n\
        ast.parse = ast.Expression = builtins.len = builtins.repr = builtins.compile = os.dup2 = gone";
    place.python(replace)?;
    let forked = fork(&place, json!({}))?;
    if !caller.is_root {
        skip_rest(FILES_ALONE);
        return Ok(());
    }
    ensure!(forked["contexts"][0]["carried"] == true, "{forked}");
    let id = forked["sandboxes"][0]["id"].as_str().unwrap_or_default().to_string();
    let call = |id: &str| -> Result<(Value, Value)> {
        let body = json!({ "code": "1" });
        let answer =
            place.server.api("POST", &format!("/v1/sandboxes/{id}/code"), Some(&body))?.expect(200)?;
        Ok((answer["exit_code"].clone(), answer["error"]["name"].clone()))
    };
    // Its own next call is the first that meets it, in the fork as in the source.
    let looked = place.server.script(&id, "test -e /tmp/called; echo $?")?.success()?;
    assert_eq!(looked, "1\n");
    assert_eq!(call(&id)?, call(&place.id)?);
    Ok(())
}

/// Commands of a fork are started by its own guest: Landlock keeps those of the source from them. A command of the source's own is
/// the control.
fn a_source_looks_into_no_command_of_its_fork(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    place.python("import os")?;
    let forked = fork(&place, json!({}))?;
    if !caller.is_root {
        skip_rest(FILES_ALONE);
        return Ok(());
    }
    let id = child(&forked, 0);
    let (own, other) = (format!("{}1", std::process::id()), format!("{}2", std::process::id()));
    for (id, mark) in [(&place.id, &own), (&id, &other)] {
        place.server.script(id, "echo secret > /workspace/secret")?.success()?;
        let body = json!({ "command": format!("exec sleep {mark}"), "background": true });
        place.server.api("POST", &format!("/v1/sandboxes/{id}/execs"), Some(&body))?.expect(201)?;
        until(PATIENCE, "a command that runs", || runs(mark).then_some(()))?;
    }
    let look = |mark: &str| {
        format!(
            "def found():\n\
             \x20 for n in filter(str.isdigit, os.listdir('/proc')):\n\
             \x20   try:\n\
             \x20     if '{mark}' in open(f'/proc/{{n}}/cmdline').read().split(chr(0)): return n\n\
             \x20   except OSError: pass\n\
             def tried(work):\n\
             \x20 try: return work() if pid else 'hidden'\n\
             \x20 except OSError as e: return type(e).__name__\n\
             pid = found()\n\
             tried(lambda: open(f'/proc/{{pid}}/root/workspace/secret').read()), \
             tried(lambda: open(f'/proc/{{pid}}/mem', 'r+b').close() or 'opened')"
        )
    };
    assert_eq!(place.value(&look(&own))?, r"('secret\n', 'opened')");
    // If /proc shows only traceable processes, it is not even seen.
    let seen = place.value(&look(&other))?;
    ensure!(
        ["('hidden', 'hidden')", "('PermissionError', 'PermissionError')"].contains(&seen.as_str()),
        "{seen}"
    );
    let told = place.server.api("GET", &format!("/v1/sandboxes/{id}"), None)?.expect(200)?;
    ensure!(told["guarantees"]["weaknesses"].to_string().contains("read and write the memory"), "{told}");
    Ok(())
}

/// By default no caller gets a fork that its source can look into.
fn what_another_token_made_is_forked_without_its_contexts(caller: &Caller) -> Result<()> {
    if !caller.is_root {
        skip_rest(FILES_ALONE);
        return Ok(());
    }
    let server = Server::start_with(caller, &["--listen", "127.0.0.1:0"])?;
    let url = server.url()?;
    let token = || -> Result<String> {
        let made = server.run(["token", "create", "--tenant", "team", "--role", "user"])?.success()?;
        Ok(made.trim().to_string())
    };
    let (maker, other) = (token()?, token()?);
    let ask = |token: &str, target: &str, body: Value| {
        let answer = with_token(&url, token, "POST", target, Some(&body))?;
        ensure!(answer.status < 300, "{target}: {}", answer.text());
        answer.json()
    };
    let made = ask(&maker, "/v1/sandboxes", json!({}))?;
    let id = made["id"].as_str().unwrap_or_default().to_string();
    let code = json!({ "code": "x = 7; x" });
    ask(&maker, &format!("/v1/sandboxes/{id}/code"), code)?;
    let path = format!("/v1/sandboxes/{id}/fork");
    ensure!(ask(&maker, &path, json!({}))?["kind"] == "interpreter");
    let files = ask(&other, &path, json!({}))?;
    ensure!(
        files["kind"] == "filesystem" && files["reason"].to_string().contains("another token"),
        "{files}"
    );
    ensure!(ask(&other, &path, json!({ "live": true }))?["kind"] == "interpreter");
    let snapshot = ask(&maker, &format!("/v1/sandboxes/{id}/snapshots"), json!({ "live": true }))?;
    let knows = |token: &str, live: Value| -> Result<String> {
        let body = json!({ "snapshot": snapshot["id"], "live": live });
        let made = ask(token, "/v1/sandboxes", body)?;
        let path = format!("/v1/sandboxes/{}/code", made["id"].as_str().unwrap_or_default());
        text_of(&ask(token, &path, json!({ "code": "'x' in globals()" }))?)
    };
    ensure!(knows(&maker, Value::Null)? == "True" && knows(&maker, json!(false))? == "False");
    ensure!(knows(&other, Value::Null)? == "False" && knows(&other, json!(true))? == "True");
    server.run(["snapshot", "rm", snapshot["id"].as_str().unwrap_or_default()])?.success()?;
    Ok(())
}
