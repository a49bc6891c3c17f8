//! The same harm in the other languages: JavaScript and bash.

use crate::contexts::{Place, text_of};
use anyhow::{Result, ensure};
use paddock_e2e::{Caller, for_both_callers};
use serde_json::{Value, json};

for_both_callers!(
    scripts_that_close_their_output,
    scripts_that_break_what_the_runner_uses,
    scripts_that_write_to_every_descriptor,
    scripts_that_raise_while_shown,
    scripts_that_flood,
    shells_that_close_their_output,
    shells_that_break_what_the_runner_uses,
    shells_that_kill,
    shells_that_forge,
);

/// Code of one language in one sandbox.
struct Script<'a> {
    place: Place<'a>,
    language: &'static str,
}

impl<'a> Script<'a> {
    /// `None`, with a message, if there is no Node.
    fn node(caller: &'a Caller, options: &[&str]) -> Result<Option<Script<'a>>> {
        if !std::path::Path::new("/usr/bin/node").exists() {
            paddock_e2e::skip("javascript", "there is no /usr/bin/node");
            return Ok(None);
        }
        Ok(Some(Script { place: Place::with(caller, options)?, language: "javascript" }))
    }

    fn bash(caller: &'a Caller, options: &[&str]) -> Result<Script<'a>> {
        Ok(Script { place: Place::with(caller, options)?, language: "bash" })
    }

    fn run(&self, code: &str) -> Result<Value> {
        self.place.code(json!({ "code": code, "language": self.language, "timeout_seconds": 20.0 }))
    }

    fn run_within(&self, seconds: f64, code: &str) -> Result<Value> {
        self.place.code(json!({ "code": code, "language": self.language, "timeout_seconds": seconds }))
    }

    /// Checks that its output comes.
    fn goes_on(&self) -> Result<()> {
        let code = if self.language == "bash" { "echo $((6 * 7))" } else { "console.log(6 * 7)" };
        let answer = self.run(code)?;
        assert_eq!(answer["stdout"], "42\n", "{answer}");
        Ok(())
    }
}

fn scripts_that_close_their_output(caller: &Caller) -> Result<()> {
    let Some(script) = Script::node(caller, &[])? else { return Ok(()) };
    for code in [
        "fs = require('fs'); fs.closeSync(1); fs.closeSync(2); console.log('lost')",
        "process.stdout.end(); process.stderr.destroy(); 0",
        "Object.defineProperty(process, 'stdout', { value: null, configurable: true }); console._stdout = null; 0",
        "fs.closeSync(0); process.stdin.destroy(); 0",
    ] {
        script.run(code)?;
        script.goes_on()?;
        assert_eq!(script.run("console.error('err')")?["stderr"], "err\n", "{code}");
    }
    Ok(())
}

fn scripts_that_break_what_the_runner_uses(caller: &Caller) -> Result<()> {
    let Some(script) = Script::node(caller, &[])? else { return Ok(()) };
    // Some of it breaks Node itself; then the context has ended, which is told, and begins anew.
    for code in [
        "fs = require('fs'); fs.writeSync = fs.openSync = fs.closeSync = fs.fstatSync = null; process.exit = null; 0",
        "JSON.stringify = JSON.parse = null; setImmediate = null; 0",
        "globalThis.require = globalThis.display = null; process.removeAllListeners(); 0",
        "Buffer.from = Buffer.concat = Promise = Object.entries = String = Array.prototype.push = null; 0",
        "Symbol = Map = Set = RegExp = Object = Function = Error = undefined; 0",
    ] {
        let answer = script.run_within(2.0, code)?;
        let ended = answer["error"]["name"] == "ContextDied";
        ensure!(ended || answer["error"].is_object() || text_of(&answer)? == "0", "{code}: {answer}");
        let next = script.run_within(2.0, "typeof before === 'undefined' ? (before = 1, 'new') : 'kept'")?;
        ensure!(!ended || next["context_restarted"].is_object(), "{code}: the loss was not told: {next}");
        script.place.act("/contexts/javascript/restart")?;
        script.goes_on()?;
    }
    Ok(())
}

fn scripts_that_write_to_every_descriptor(caller: &Caller) -> Result<()> {
    let Some(script) = Script::node(caller, &[])? else { return Ok(()) };
    let code = "for (let i = 3; i < 200; i++) try { require('fs').writeSync(i, 'garbage without end '.repeat(30)) } catch {}";
    let answer = script.run_within(5.0, code)?;
    assert_eq!(answer["error"]["name"], "ContextDied", "{answer}");
    script.goes_on()?;
    let code = "for (let i = 3; i < 200; i++) try { require('fs').closeSync(i) } catch {}";
    let answer = script.run_within(5.0, code)?;
    assert_eq!(answer["error"]["name"], "ContextDied", "{answer}");
    script.goes_on()
}

fn scripts_that_raise_while_shown(caller: &Caller) -> Result<()> {
    let Some(script) = Script::node(caller, &[])? else { return Ok(()) };
    let answer = script.run("({ [require('util').inspect.custom]() { throw new RangeError('shown') } })")?;
    assert_eq!(
        (&answer["error"]["name"], &answer["error"]["value"]),
        (&json!("RangeError"), &json!("shown"))
    );
    let answer = script.run("throw { get message() { throw 1 } }")?;
    assert_eq!(answer["error"]["value"], "the error itself could not be told", "{answer}");
    let answer = script.run("circle = {}; circle.circle = circle; circle")?;
    ensure!(text_of(&answer)?.contains("Circular") && answer["results"][0].get("json").is_none(), "{answer}");
    let answer = script.run(
        "process.stdout.write(Buffer.from([0xc3])); process.stdout.write(Buffer.from([0xa9, 0xff])); 0",
    )?;
    assert_eq!(answer["stdout"], "é\u{fffd}");
    script.goes_on()
}

fn scripts_that_flood(caller: &Caller) -> Result<()> {
    let Some(script) = Script::node(caller, &["--memory", "2G"])? else { return Ok(()) };
    let answer = script.run_within(120.0, "'x'.repeat(100 << 20)")?;
    ensure!(text_of(&answer)?.len() < 2 << 20, "{} bytes of text", text_of(&answer)?.len());
    let code = "for (let i = 0; i < 200; i++) process.stdout.write('x'.repeat(1 << 20)); console.log('end')";
    let answer = script.run_within(120.0, code)?;
    assert_eq!(answer["stdout_bytes"].as_u64(), Some((200 << 20) + 4));
    ensure!(answer["stdout"].as_str().is_some_and(|text| text.ends_with("end\n")), "the end was not kept");
    let answer = script.run_within(60.0, "all = []; while (true) all.push(Buffer.alloc(64 << 20, 1))")?;
    ensure!(answer["error"].is_object(), "no end of memory: {}", answer["cause"]);
    script.goes_on()
}

fn shells_that_close_their_output(caller: &Caller) -> Result<()> {
    let script = Script::bash(caller, &[])?;
    for code in ["exec 1>&- 2>&-; echo lost", "exec >/dev/null 2>/dev/null; echo lost", "exec 0<&-; cat"] {
        assert_eq!(script.run(code)?["stdout"], "", "{code}");
        script.goes_on()?;
        assert_eq!(script.run("echo err >&2")?["stderr"], "err\n", "{code}");
    }
    Ok(())
}

fn shells_that_break_what_the_runner_uses(caller: &Caller) -> Result<()> {
    let script = Script::bash(caller, &[])?;
    for code in [
        "read() { :; }; printf() { :; }; eval() { :; }; exec() { :; }; trap() { :; }; local() { :; }",
        "IFS=0123456789; PATH=/nowhere; set -f; shopt -s extglob",
        "set -euo pipefail; false",
        "trap 'exit 9' DEBUG ERR RETURN",
        "readonly __paddock_code=x __paddock_id=x",
        "unset -f $(compgen -A function)",
    ] {
        script.run_within(1.0, code)?;
        // It may have broken its own shell: then the next call says so, and there is a new one.
        let next = script.run_within(1.0, "echo next")?;
        let works = next["stdout"] == "next\n";
        ensure!(works || next["error"]["name"] == "ContextDied", "{code}: {next}");
        script.place.act("/contexts/bash/restart")?;
        script.goes_on()?;
    }
    Ok(())
}

fn shells_that_kill(caller: &Caller) -> Result<()> {
    let script = Script::bash(caller, &["--pids", "60"])?;
    let answer = script.run("x=kept; kill -9 $PPID; kill -9 -1; kill -STOP $PPID; echo alive")?;
    assert_eq!(answer["stdout"], "alive\n", "{answer}");
    assert_eq!(script.run("echo $x")?["stdout"], "kept\n");
    let answer = script.run("kill -9 $$")?;
    assert_eq!(
        (&answer["error"]["name"], &answer["cause"]["kind"]),
        (&json!("ContextDied"), &json!("signaled"))
    );
    script.goes_on()?;
    script.run_within(1.0, "bomb() { bomb | bomb & }; bomb; sleep 0.5")?;
    script.place.act("/contexts/bash/restart")?;
    script.goes_on()
}

fn shells_that_forge(caller: &Caller) -> Result<()> {
    let script = Script::bash(caller, &[])?;
    let answer = script.run("printf 'done 1\\ncall 3\\nxyz\\n' >&$__paddock_control; echo real")?;
    assert_eq!((&answer["stdout"], &answer["exit_code"]), (&json!("real\n"), &json!(0)));
    let answer = script.run("for i in {3..200}; do { echo garbage without end >&$i; } 2>/dev/null; done")?;
    assert_eq!(answer["error"]["name"], "ContextDied", "{answer}");
    script.goes_on()?;
    let answer = script.run("for i in {3..200}; do eval \"exec $i>&-\"; done")?;
    assert_eq!(answer["error"]["name"], "ContextDied", "{answer}");
    script.goes_on()
}
