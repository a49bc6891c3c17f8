//! Volumes: the bytes that a sync moves, and the time that a sandbox with volumes waits.

use super::calls::{Caller, text, timed};
use super::part::{Findings, Part};
use super::process::Server;
use super::promises::{Limit, Promise, Source, promise};
use super::scripts;
use crate::measure::Timing;
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::time::Duration;

/// 10,240 files of 10 KiB.
const FILL: &str = "cd /data/many && head -c 104857600 /dev/urandom | split -a 3 -b 10240 - f";
/// Changes one file of a hundred.
const CHANGE: &str =
    "cd /data/many && for f in f?aa f?bb f?cc f?dd; do head -c 10240 /dev/urandom > $f; done";
const COPY: &str = "cp -a /data/many /tmp/copy && rm -rf /tmp/copy";
const ALL: usize = 3;
const ROUNDS: usize = 10;
const STARTS: usize = 40;

pub const PROMISES: [Promise; 4] = [
    promise(
        Part::Volumes,
        "1 % of 10,000 files changed, beside copying all of them to the store",
        ">= 20 x",
        Source::Ratio("all files to the store", "1 % changed"),
        Limit::AtLeast(20.0),
    ),
    promise(
        Part::Volumes,
        "nothing changed, slowest",
        "<= 1 s",
        Source::Percentile("nothing changed", 100),
        Limit::AtMost(1_000.0),
    ),
    promise(
        Part::Volumes,
        "start with two warm volumes, later by",
        "<= 30 ms",
        Source::Fact("start with two volumes, later by"),
        Limit::AtMost(30.0),
    ),
    promise(
        Part::Volumes,
        "main of a script with two warm volumes, later by",
        "<= 30 ms",
        Source::Fact("script with two volumes, later by"),
        Limit::AtMost(30.0),
    ),
];

pub async fn measure(server: &Server) -> Result<Findings> {
    let mut caller = server.caller().await?;
    let sandbox = create(&mut caller, &json!([{"name": "many", "path": "/data/many"}])).await?;
    let (mut all, mut some, mut none) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ALL {
        caller.exec(&sandbox, &["sh", "-c", FILL]).await?;
        all.push(checkpoint(&mut caller, &sandbox).await?);
    }
    for _ in 0..ROUNDS {
        caller.exec(&sandbox, &["sh", "-c", CHANGE]).await?;
        some.push(checkpoint(&mut caller, &sandbox).await?);
    }
    let history = caller.get("/v1/volumes/many/history").await?;
    let moved = history["versions"][0]["stored_bytes"].as_f64().unwrap_or(0.0) / 1_048_576.0;
    // A file that was written a moment ago cannot be told from one that is written now, and is read again.
    tokio::time::sleep(Duration::from_millis(200)).await;
    for _ in 0..ROUNDS {
        none.push(checkpoint(&mut caller, &sandbox).await?);
    }
    let copied = {
        let mut copied = Vec::new();
        for _ in 0..ALL {
            copied.push(timed(caller.exec(&sandbox, &["sh", "-c", COPY])).await?.0);
        }
        copied
    };
    caller.kill(&sandbox).await?;
    let (without, with) = starts(&mut caller).await?;
    let (plain, mounted) = scripts::starts(server)?;
    let later = |with: &Timing, without: &Timing| {
        (with.median().as_secs_f64() - without.median().as_secs_f64()) * 1e3
    };
    let (later, script_later) = (later(&with, &without), later(&mounted, &plain));
    let named = |name, samples| Timing::new(name, String::new(), samples);
    let mut findings = Findings {
        timings: vec![
            named("all files to the store", all),
            named("1 % changed", some),
            named("nothing changed", none),
            named("cp -a inside, for comparison", copied),
            without,
            with,
            plain,
            mounted,
        ],
        ..Findings::default()
    };
    findings.add("start with two volumes, later by", later, "ms");
    findings.add("script with two volumes, later by", script_later, "ms");
    findings.add("moved for 1 % changed, with the manifest", moved, "MiB");
    findings.notes.push(
        "10,240 files of 10 KiB of random bytes in a volume on a local directory, which is flushed to its disk; each sync is a \
         checkpoint of a running sandbox, over HTTP. All files: each of them has new content. One of a hundred: 104 files. \
         Started and killed with no volume, and with two of 100 MiB and of nothing that were mounted before, in turn. \
         Scripts: `paddock script run` of a Python script, from the start of the command to the first line of its main."
            .into(),
    );
    Ok(findings)
}

async fn checkpoint(caller: &mut Caller, sandbox: &str) -> Result<Duration> {
    let path = format!("/v1/sandboxes/{sandbox}/volumes/many/checkpoint");
    Ok(timed(caller.post(&path, &json!(null))).await?.0)
}

async fn create(caller: &mut Caller, volumes: &Value) -> Result<String> {
    text(&caller.post("/v1/sandboxes", &json!({ "ttl_seconds": 900, "volumes": volumes })).await?, "id")
}

/// Create and first command, without volumes and with them.
async fn starts(caller: &mut Caller) -> Result<(Timing, Timing)> {
    let both = json!([{"name": "many", "path": "/data/many"}, {"name": "few", "path": "/data/few"}]);
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 0..STARTS {
        for (volumes, samples, look) in
            [(json!([]), &mut without, "true"), (both.clone(), &mut with, "test -e /data/many/faaa")]
        {
            let started = timed(async {
                let sandbox = create(caller, &volumes).await?;
                caller.exec(&sandbox, &["sh", "-c", look]).await?;
                Ok(sandbox)
            });
            let (elapsed, sandbox) = started.await?;
            // The first one writes them out.
            if round > 0 {
                samples.push(elapsed);
            }
            caller.kill(&sandbox).await?;
        }
    }
    ensure!(with.len() == STARTS - 1, "not all were started");
    let named = |name, samples| Timing::new(name, String::new(), samples);
    Ok((named("start without volumes", without), named("start with two volumes", with)))
}
