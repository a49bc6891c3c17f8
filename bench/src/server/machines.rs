//! Sandboxes with a kernel of their own: the first boots a VM, the second is made from that, the others are copies of a
//! running one; forks and sleep with their memory.

use super::calls::{Caller, text, timed};
use super::code::pool;
use super::memory;
use super::part::{Findings, Part};
use super::process::Server;
use super::promises::{Limit, Promise, Source, promise};
use crate::command::{self, CommandLine, Environment};
use crate::contestants::{Contestant, Field, Workload};
use crate::measure::Timing;
use crate::peers::rootfs;
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

const MEBIBYTE: f64 = 1_048_576.0;
/// The memory of the work; the VM's kernel has 128 MiB more.
const MEMORY: u64 = 192 << 20;
const DISK: u64 = 256 << 20;
const ROUNDS: usize = 20;
const FORKS: usize = 5;
const CHILDREN: usize = 20;
const WEIGHED_COPIES: usize = 8;
/// Two are a habit, and two more requests then cause a parent VM with an interpreter.
const HABIT: usize = 4;
/// Ten milliseconds apart.
const REFILL_TRIES: usize = 3_000;
const STANDING_TRIES: usize = 12_000;
const PEERS: [(&str, Workload, &str); 4] = [
    ("docker", Workload::True, "docker run, true"),
    ("docker", Workload::Python, "docker run, python"),
    ("runsc", Workload::True, "runsc run, true"),
    ("runsc", Workload::Python, "runsc run, python"),
];
const BUSYBOX: [&str; 2] = ["/bin/busybox", "/usr/bin/busybox"];

const fn most(name: &'static str, target: &'static str, timing: &'static str, bound: f64) -> Promise {
    promise(Part::Machines, name, target, Source::Percentile(timing, 50), Limit::AtMost(bound))
}

/// The template whose sandboxes begin with its imports done.
const TEMPLATE: &str = "bench-preloads";
const POOL: (usize, usize) = (2, 4);

pub const PROMISES: [Promise; 11] = [
    most("create and first exec, p50", "<= 200 ms", "create and first exec", 200.0),
    most("create and run_code, p50", "<= 300 ms", "create and run_code", 300.0),
    most("create and run_code, preloaded, p50", "<= 300 ms", "create and run_code, preloaded", 300.0),
    most("create from a pool and first exec, p50", "<= 30 ms", "create from a pool and first exec", 30.0),
    most("fork with memory, one child, p50", "<= 250 ms", "fork with memory, one child", 250.0),
    most("fork with memory, 20 children", "<= 4 s", "fork with memory, 20 children", 4_000.0),
    most("snapshot with memory, p50", "<= 150 ms", "snapshot with memory", 150.0),
    most("pause, p50", "<= 10 ms", "pause", 10.0),
    most("resume, p50", "<= 10 ms", "resume", 10.0),
    most("wake with memory, p50", "<= 500 ms", "wake with memory", 500.0),
    promise(
        Part::Machines,
        "memory of a fresh copy beyond what is shared",
        "<= 48 MiB",
        Source::Fact("each copy: its own"),
        Limit::AtMost(48.0),
    ),
];

pub async fn measure(server: &Server, beside: Option<&Field>) -> Result<Findings> {
    let mut findings = Findings::default();
    let peers = peers(beside, &mut findings);
    let mut caller = server.caller().await?;
    let cold = boot(&mut caller).await?;
    findings.add("first sandbox of a size, with the boot", cold.as_secs_f64() * 1e3, "ms");
    let (anew, sandbox) = timed(create(&mut caller, json!({}))).await?;
    caller.kill(&sandbox).await?;
    findings.add("second sandbox of a size, from the boot", anew.as_secs_f64() * 1e3, "ms");
    stands(&mut caller, 1).await?;
    copies(&mut caller, peers, &mut findings).await?;
    sizes(server, &mut caller, &mut findings).await?;
    coded(&mut caller, &mut findings).await?;
    preloaded(server, &mut caller, &mut findings).await?;
    let image = server.paddock.temporary.join("image");
    match small_image(&image) {
        Ok(()) => with_memory(&mut caller, &image, &mut findings).await?,
        Err(error) => findings.notes.push(format!("Forks and sleep were not measured: {error:#}.")),
    }
    findings.notes.push(
        "Machines of 192 MiB for the work and one processor. Whoever asks twice for the same finds a machine that stands from then on, of \
         which the next sandboxes are copies: each was waited for before it was measured. Create, run_code and exec with the host's /usr, which is shared by 9p, \
         and run_code once an interpreter waits in the next one, because the last ones began with code; \
         `preloaded` and the pool with a template that has an image with Python, and whose interpreter is in the memory that its sandboxes \
         begin with; forks, snapshots and sleep of a sandbox with busybox for its image and a process that counts. Memory: of eight idle copies, \
         after one command each: QEMU and what keeps it. `its own` are pages that no other process has (private, of smaps_rollup), which is \
         what one more copy takes; `proportional` divides each page by who has it (Pss), those of the machine that stands among them."
            .into(),
    );
    Ok(findings)
}

fn body(more: Value) -> Value {
    let mut body = json!({
        "backend": "microvm", "ttl_seconds": 900,
        "limits": { "memory_bytes": MEMORY, "cpus": 1.0, "disk_bytes": DISK },
    });
    if let (Some(body), Value::Object(more)) = (body.as_object_mut(), more) {
        body.extend(more);
    }
    body
}

async fn create(caller: &mut Caller, more: Value) -> Result<String> {
    text(&caller.post("/v1/sandboxes", &body(more)).await?, "id")
}

/// Tries the processor, and boots and keeps the VM.
async fn boot(caller: &mut Caller) -> Result<Duration> {
    let (elapsed, sandbox) =
        timed(create(caller, json!({}))).await.context("is the microvm backend usable?")?;
    caller.exec(&sandbox, &["true"]).await?;
    caller.kill(&sandbox).await?;
    Ok(elapsed)
}

/// Waits until this many VMs stand for others to be copied from.
async fn stands(caller: &mut Caller, count: usize) -> Result<()> {
    for _ in 0..STANDING_TRIES {
        if standing(caller).await? == count {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bail!("no machine stands to be copied")
}

pub async fn standing(caller: &mut Caller) -> Result<usize> {
    let text = caller.client.call(hyper::Method::GET, "/metrics", "").await?;
    let text = String::from_utf8_lossy(&text);
    let standing = text.lines().find_map(|line| line.strip_prefix("paddock_parent_vms "));
    standing.and_then(|number| number.trim().parse().ok()).context("the server does not count what stands")
}

/// A peer that is measured in turns.
struct Peer<'a> {
    name: &'static str,
    contestant: &'a dyn Contestant,
    command: std::process::Command,
    samples: Vec<Duration>,
}

/// The alternatives for the same two tasks; a peer that cannot take part is named with the reason.
fn peers<'a>(beside: Option<&'a Field>, findings: &mut Findings) -> Vec<Peer<'a>> {
    let Some(field) = beside else { return Vec::new() };
    let mut peers = Vec::new();
    for (whose, workload, name) in PEERS {
        let Some(contestant) = field.race().find(|contestant| contestant.name() == whose) else { continue };
        let line = contestant.command(workload);
        match line.output() {
            Ok(output) if output == workload.expected_output() => {
                peers.push(Peer { name, contestant, command: line.quiet(), samples: Vec::new() });
            }
            Ok(output) => findings.notes.push(format!("{name}: missing: it printed {output:?}")),
            Err(error) => findings.notes.push(format!("{name}: missing: {error:#}")),
        }
    }
    let asked = |name: &str| PEERS.iter().any(|(whose, ..)| *whose == name);
    for missing in field.missing.iter().filter(|missing| asked(missing.name)) {
        findings.notes.push(format!("{}: missing: {}", missing.name, missing.reason));
    }
    peers
}

async fn copies(caller: &mut Caller, mut peers: Vec<Peer<'_>>, findings: &mut Findings) -> Result<()> {
    let mut first = Vec::new();
    for _ in 0..ROUNDS {
        let (elapsed, sandbox) = timed(async {
            let sandbox = create(caller, json!({})).await?;
            caller.exec(&sandbox, &["true"]).await?;
            Ok(sandbox)
        })
        .await?;
        first.push(elapsed);
        caller.kill(&sandbox).await?;
        for peer in &mut peers {
            let (elapsed, status) = command::time(&mut peer.command)?;
            ensure!(status.success(), "{}: {status}", peer.name);
            peer.samples.push(elapsed);
            tokio::time::sleep(peer.contestant.settle()).await;
        }
    }
    findings.timings.push(named("create and first exec", first));
    for Peer { name, contestant, samples, .. } in peers {
        let version = contestant.version();
        findings.notes.push(format!("{name}: {version}"));
        findings.timings.push(Timing::new(name, version, samples));
    }
    Ok(())
}

/// If sandboxes begin with code, an interpreter waits in the next ones: the time before that, and from then on.
async fn coded(caller: &mut Caller, findings: &mut Findings) -> Result<()> {
    for round in 0..HABIT {
        let elapsed = create_and_run(caller).await?;
        if round == 0 {
            findings.add("create and run_code, once", elapsed.as_secs_f64() * 1e3, "ms");
        }
    }
    stands(caller, 2).await?;
    let mut coded = Vec::new();
    for _ in 0..ROUNDS {
        coded.push(create_and_run(caller).await?);
    }
    findings.timings.push(named("create and run_code", coded));
    Ok(())
}

async fn create_and_run(caller: &mut Caller) -> Result<Duration> {
    let (elapsed, sandbox) = timed(async {
        let sandbox = create(caller, json!({})).await?;
        caller.run_code(&sandbox, "print(1)", "1\n").await?;
        Ok(sandbox)
    })
    .await?;
    caller.kill(&sandbox).await?;
    Ok(elapsed)
}

/// A template with an image: its interpreter is there when a sandbox begins.
async fn preloaded(server: &Server, caller: &mut Caller, findings: &mut Findings) -> Result<()> {
    add_template(server)?;
    let (elapsed, sandbox) = timed(caller.create_from(TEMPLATE)).await?;
    findings.add("first sandbox of a template that preloads", elapsed.as_secs_f64() * 1e3, "ms");
    caller.kill(&sandbox).await?;
    let second = caller.create_from(TEMPLATE).await?;
    caller.kill(&second).await?;
    stands(caller, 3).await?;
    let (mut coded, mut ready) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (elapsed, sandbox) = timed(async {
            let sandbox = caller.create_from(TEMPLATE).await?;
            caller.run_code(&sandbox, "print(1)", "1\n").await?;
            Ok(sandbox)
        })
        .await?;
        coded.push(elapsed);
        caller.kill(&sandbox).await?;
    }
    pool::set(caller, findings, TEMPLATE, POOL.0, POOL.1).await?;
    for _ in 0..ROUNDS {
        let (elapsed, sandbox) = timed(async {
            let sandbox = caller.create_from(TEMPLATE).await?;
            caller.exec(&sandbox, &["true"]).await?;
            Ok(sandbox)
        })
        .await?;
        ready.push(elapsed);
        caller.kill(&sandbox).await?;
        refilled(caller).await?;
    }
    pool::count(caller, findings, TEMPLATE).await;
    caller.client.call(hyper::Method::DELETE, &format!("/v1/pools/{TEMPLATE}"), "").await?;
    findings.timings.extend([
        named("create and run_code, preloaded", coded),
        named("create from a pool and first exec", ready),
    ]);
    Ok(())
}

/// The next round does not pay for the last.
async fn refilled(caller: &mut Caller) -> Result<()> {
    for _ in 0..REFILL_TRIES {
        let pool = caller.get(&format!("/v1/pools/{TEMPLATE}")).await?;
        if pool["ready"].as_u64() >= pool["wanted"].as_u64() && pool["making"] == 0 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bail!("the pool was not filled again")
}

/// Adds it as a person does: the Python of this host in a root of its own, and a few modules of its library.
fn add_template(server: &Server) -> Result<()> {
    let image = server.paddock.temporary.join("python");
    std::fs::create_dir_all(&image)?;
    let script = include_str!("../../../scripts/python-root.sh");
    CommandLine::new("/bin/sh")
        .args(["-c", script, "sh"])
        .arg(&image)
        .output()
        .context("a root with Python")?;
    // Its own `true` is the first exec.
    rootfs::add_busybox(&image, static_busybox()?)?;
    let policy = server.paddock.temporary.join("preloads.toml");
    let (memory, disk) = (MEMORY >> 20, DISK >> 20);
    let limits = format!("limits = {{ memory = \"{memory}MiB\", cpus = 1, disk = \"{disk}MiB\" }}");
    let preload = "preload = [\"json\", \"decimal\", \"asyncio\", \"urllib.request\", \"random\"]";
    let text = format!("image = \"{}\"\nbackend = \"microvm\"\n{limits}\n{preload}\n", image.display());
    std::fs::write(&policy, text)?;
    let mut line = CommandLine::new(&server.paddock.program);
    line = line.args(["template", "add", TEMPLATE, "--policy"]).arg(&policy);
    let state = server.paddock.state.clone().into();
    line.environment = Environment::Inherited(vec![("PADDOCK_STATE_DIR", state)]);
    line.output().map(drop)
}

async fn sizes(server: &Server, caller: &mut Caller, findings: &mut Findings) -> Result<()> {
    let mut live = Vec::new();
    for _ in 0..WEIGHED_COPIES {
        let sandbox = create(caller, json!({})).await?;
        caller.exec(&sandbox, &["true"]).await?;
        live.push(sandbox);
    }
    let (count, inside, _) = memory::proportional_of_sandboxes(&server.paddock.state, server.id(), &live)?;
    ensure!(count >= WEIGHED_COPIES, "{count} processes are those of {WEIGHED_COPIES} machines");
    let (_, own, _) = memory::of_sandboxes(&server.paddock.state, server.id(), &live, memory::private)?;
    findings.add("each copy: its own", own as f64 / WEIGHED_COPIES as f64 / MEBIBYTE, "MiB");
    findings.add("each copy: proportional", inside as f64 / WEIGHED_COPIES as f64 / MEBIBYTE, "MiB");
    for sandbox in live {
        caller.kill(&sandbox).await?;
    }
    Ok(())
}

async fn with_memory(caller: &mut Caller, image: &Path, findings: &mut Findings) -> Result<()> {
    let sandbox = create(caller, json!({ "image": image })).await?;
    let path = format!("/v1/sandboxes/{sandbox}");
    let kind = text(&caller.get(&path).await?["guarantees"], "snapshot")?;
    if kind != "memory" {
        findings.notes.push(format!("Forks and sleep were not measured: snapshots are `{kind}` here."));
        return Ok(());
    }
    let count = "i=0; while true; do i=$((i+1)); echo $i > /tmp/count; sleep 1; done";
    let background = json!({ "argv": ["sh", "-c", count], "background": true });
    caller.post(&format!("{path}/execs"), &background).await?;
    caller.exec(&sandbox, &["sh", "-c", "until test -e /tmp/count; do sleep 0.1; done"]).await?;
    let (mut one, mut many, mut kept) = (vec![], vec![], vec![]);
    let (mut paused, mut resumed, mut woken) = (vec![], vec![], vec![]);
    for _ in 0..FORKS {
        one.push(fork(caller, &sandbox, 1).await?);
        let (elapsed, snapshot) = timed(caller.post(&format!("{path}/snapshots"), &json!({}))).await?;
        kept.push(elapsed);
        let snapshot = text(&snapshot, "id")?;
        caller.client.call(hyper::Method::DELETE, &format!("/v1/snapshots/{snapshot}"), "").await?;
        paused.push(timed(caller.post(&format!("{path}/pause"), &json!({}))).await?.0);
        resumed.push(timed(caller.post(&format!("{path}/resume"), &json!({}))).await?.0);
        caller.post(&format!("{path}/hibernate"), &json!({})).await?;
        woken.push(timed(caller.exec(&sandbox, &["test", "-e", "/tmp/count"])).await?.0);
    }
    many.push(fork(caller, &sandbox, CHILDREN).await?);
    caller.kill(&sandbox).await?;
    findings.timings.extend([
        named("fork with memory, one child", one),
        named("fork with memory, 20 children", many),
        named("snapshot with memory", kept),
        named("pause", paused),
        named("resume", resumed),
        named("wake with memory", woken),
    ]);
    Ok(())
}

/// Until the last child has answered.
async fn fork(caller: &mut Caller, parent: &str, count: usize) -> Result<Duration> {
    let (elapsed, children) = timed(async {
        let forked = caller.post(&format!("/v1/sandboxes/{parent}/fork"), &json!({ "count": count })).await?;
        let children = forked["sandboxes"].as_array().context("the answer has no sandboxes")?;
        let children = children.iter().map(|child| text(child, "id")).collect::<Result<Vec<_>>>()?;
        let last = children.last().context("no child")?;
        caller.exec(last, &["test", "-e", "/tmp/count"]).await?;
        Ok(children)
    })
    .await?;
    ensure!(children.len() == count, "{} children came of {count}", children.len());
    for child in children {
        caller.kill(&child).await?;
    }
    Ok(elapsed)
}

fn static_busybox() -> Result<&'static Path> {
    let found = BUSYBOX.iter().map(Path::new).find(|path| path.exists() && rootfs::is_static(path));
    found.context("there is no static busybox")
}

fn small_image(place: &Path) -> Result<()> {
    std::fs::create_dir_all(place)?;
    rootfs::build(place)?;
    rootfs::add_busybox(place, static_busybox()?)?;
    for name in ["sh", "sleep", "test", "cat"] {
        std::os::unix::fs::symlink("busybox", place.join("usr/bin").join(name))?;
    }
    Ok(())
}

fn named(name: &'static str, samples: Vec<Duration>) -> Timing {
    Timing::new(name, String::new(), samples)
}
