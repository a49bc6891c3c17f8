//! Code in interpreters that remember.

use super::place::Place;
use super::{Check, Lacking};
use anyhow::{Result, ensure};
use serde_json::{Value, json};

pub const CHECKS: &[Check] = &[
    Check { operations: &["run_code"], title: "code remembers what code before it set", run: remembered },
    Check {
        operations: &[
            "create_context",
            "list_contexts",
            "get_context",
            "interrupt_context",
            "restart_context",
            "delete_context",
        ],
        title: "a context of its own, interrupted, begun anew, ended",
        run: contexts,
    },
];

pub fn needs_python(place: &Place) -> Result<()> {
    if place.run(&place.id, "command -v python3 || true")?.is_empty() {
        return Err(Lacking("this host's /usr has no python3".to_string()).into());
    }
    Ok(())
}

fn code(place: &Place, request: Value) -> Result<Value> {
    place.post(&place.of("/code"), 200, request)
}

fn remembered(place: &Place) -> Result<()> {
    needs_python(place)?;
    code(place, json!({"code": "x = 20 + 1"}))?;
    let done = code(place, json!({"code": "print('said'); x * 2"}))?;
    ensure!(done["results"][0]["text"] == "42" && done["stdout"] == "said\n", "{done}");
    let wrong = code(place, json!({"code": "1 / 0"}))?;
    ensure!(wrong["error"]["name"] == "ZeroDivisionError", "{wrong}");
    Ok(())
}

fn contexts(place: &Place) -> Result<()> {
    needs_python(place)?;
    let made = place.post(&place.of("/contexts"), 201, json!({"id": "verify", "language": "python"}))?;
    ensure!(made["id"] == "verify", "{made}");
    let all = place.call("GET", &place.of("/contexts"), 200)?.text();
    ensure!(all.contains("\"verify\""), "{all}");
    code(place, json!({"code": "y = 1", "context": "verify"}))?;
    let busy = "print('begun', flush=True)\nimport time\ntime.sleep(60)";
    let request = json!({"code": busy, "context": "verify", "background": true});
    let running = place.post(&place.of("/code"), 201, request)?;
    let stdout = place.of(&format!("/execs/{}/stdout", running["exec"]));
    // Before it runs there is nothing to interrupt.
    place.until("it has begun", |place| Ok(place.call("GET", &stdout, 200)?.text().contains("begun")))?;
    ensure!(place.get(&place.of("/contexts/verify"))?["state"] == "busy", "it runs, and is not busy");
    place.call("POST", &place.of("/contexts/verify/interrupt"), 200)?;
    let ended = place.get(&place.of(&format!("/execs/{}/wait?timeout_seconds=20", running["exec"])))?;
    ensure!(ended["error"]["name"] == "KeyboardInterrupt", "{ended}");
    let kept = code(place, json!({"code": "y", "context": "verify"}))?;
    ensure!(kept["results"][0]["text"] == "1", "an interrupt lost what was there: {kept}");
    place.call("POST", &place.of("/contexts/verify/restart"), 200)?;
    let lost = code(place, json!({"code": "y", "context": "verify"}))?;
    ensure!(lost["error"]["name"] == "NameError", "{lost}");
    place.call("DELETE", &place.of("/contexts/verify"), 204)?;
    let gone = place.ask("GET", &place.of("/contexts/verify"), None)?;
    ensure!(gone.status == 404, "an ended context: {}", gone.status);
    Ok(())
}
