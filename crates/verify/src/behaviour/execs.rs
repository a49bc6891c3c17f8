//! Commands: their output, input, terminals, signals, ends.

use super::Check;
use super::http::wait_for;
use super::place::Place;
use anyhow::{Result, ensure};
use serde_json::{Value, json};

pub const CHECKS: &[Check] = &[
    Check { operations: &["start_exec"], title: "a command's output and exit code", run: started },
    Check {
        operations: &[
            "exec_stdin",
            "wait_exec",
            "exec_stdout",
            "exec_stderr",
            "exec_output",
            "get_exec",
            "list_execs",
        ],
        title: "a command in the background: input, output with offsets, end",
        run: followed,
    },
    Check { operations: &["signal_exec"], title: "a signal reaches the command", run: signalled },
    Check { operations: &["kill_exec"], title: "a command is ended with its children", run: killed },
    Check { operations: &["resize_exec"], title: "a terminal gets another size", run: resized },
    Check { operations: &["follow_events"], title: "what happens is told as it happens", run: events },
];

fn background(place: &Place, mut request: Value) -> Result<String> {
    request["background"] = json!(true);
    let started = place.post(&place.of("/execs"), 201, request)?;
    Ok(place.of(&format!("/execs/{}", started["exec"])))
}

fn ended(place: &Place, exec: &str) -> Result<Value> {
    let end = place.get(&format!("{exec}/wait?timeout_seconds=20"))?;
    ensure!(end["state"] == "ended", "{end}");
    Ok(end)
}

fn started(place: &Place) -> Result<()> {
    let request = json!({"argv": ["sh", "-c", "echo out; echo err >&2; exit 3"]});
    let done = place.post(&place.of("/execs"), 200, request)?;
    ensure!(done["exit_code"] == 3 && done["stdout"] == "out\n" && done["stderr"] == "err\n", "{done}");
    let missing = place.post(&place.of("/execs"), 200, json!({"argv": ["/no/such/program"]}))?;
    ensure!(missing["cause"]["kind"] == "not_started", "{missing}");
    let slow = json!({"argv": ["sleep", "60"], "timeout_seconds": 0.3});
    let late = place.post(&place.of("/execs"), 200, slow)?;
    ensure!(late["timed_out"] == true && late["cause"]["kind"] == "time_limit", "{late}");
    Ok(())
}

fn followed(place: &Place) -> Result<()> {
    let exec = background(place, json!({"argv": ["sh", "-c", "cat; echo end >&2"], "open_stdin": true}))?;
    let received =
        place.send("POST", &format!("{exec}/stdin?offset=0&close=true"), b"hello")?.expect(200)?.json()?;
    ensure!(received["offset"] == 5, "{received}");
    let end = ended(place, &exec)?;
    ensure!(end["exit_code"] == 0, "{end}");
    ensure!(place.call("GET", &format!("{exec}/stdout"), 200)?.body == b"hello", "stdout");
    ensure!(place.call("GET", &format!("{exec}/stdout?offset=2"), 200)?.body == b"llo", "stdout from 2");
    ensure!(place.call("GET", &format!("{exec}/stderr"), 200)?.body == b"end\n", "stderr");
    let output = place.call("GET", &format!("{exec}/output"), 200)?.text();
    ensure!(output.contains("aGVsbG8=") && output.contains("\"ended\""), "{output}");
    ensure!(place.get(&exec)?["state"] == "ended", "get");
    let all = place.call("GET", &place.of("/execs"), 200)?.text();
    ensure!(all.contains("echo end"), "{all}");
    Ok(())
}

fn signalled(place: &Place) -> Result<()> {
    let exec = background(place, json!({"argv": ["sleep", "60"]}))?;
    place.post(&format!("{exec}/signal"), 204, json!({"signal": "TERM"}))?;
    let end = ended(place, &exec)?;
    ensure!(end["cause"]["kind"] == "signaled" && end["cause"]["signal"] == 15, "{end}");
    Ok(())
}

fn killed(place: &Place) -> Result<()> {
    let exec = background(place, json!({"argv": ["sh", "-c", "trap '' TERM; sleep 61 & sleep 62"]}))?;
    let killed = place.call("DELETE", &exec, 200)?.json()?;
    ensure!(killed["exec"].is_u64(), "{killed}");
    let end = ended(place, &exec)?;
    ensure!(end["cause"]["kind"] == "killed", "{end}");
    place.until("its children are gone", |place| {
        let left = place.run(
            &place.id,
            "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c 'sleep 6[12] ' || true",
        )?;
        Ok(left.trim() == "0")
    })
}

fn resized(place: &Place) -> Result<()> {
    let terminal = json!({"rows": 24, "columns": 80});
    let line = json!(["sh", "-c", "read line; stty size"]);
    let exec = background(place, json!({"argv": line, "terminal": terminal, "open_stdin": true}))?;
    place.post(&format!("{exec}/resize"), 204, json!({"rows": 30, "columns": 100}))?;
    place.send("POST", &format!("{exec}/stdin?offset=0"), b"\n")?.expect(200)?;
    ended(place, &exec)?;
    let said = place.call("GET", &format!("{exec}/stdout"), 200)?.text();
    ensure!(said.contains("30 100"), "{said:?}");
    Ok(())
}

fn events(place: &Place) -> Result<()> {
    let mut stream = place.stream("/v1/events")?;
    wait_for(&mut stream, "\r\n\r\n")?;
    let id = place.create(json!({}))?;
    wait_for(&mut stream, &id)?;
    place.call("DELETE", &format!("/v1/sandboxes/{id}"), 200).map(drop)
}
