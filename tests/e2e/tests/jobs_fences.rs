//! The same job file behind every fence that the host has.

use crate::jobs::{ended, submit, tasks};
use crate::{gvisor, microvm};
use anyhow::{Result, ensure};
use paddock_e2e::{Caller, Server, as_root, as_root_behind, for_both_callers};
use serde_json::json;

for_both_callers!(the_same_file_behind_the_process_fence,);

const FILE: &str = "\
command = 'cat in.txt; mkdir -p out; echo $1 > out/$1.txt; [ $PADDOCK_JOB_ATTEMPT = 2 ]'
args = ['{index}']
array = 3
outputs = ['out/*.txt']
timeout_seconds = 120
[limits]
memory_bytes = 268435456
[retries]
attempts = 1
backoff_seconds = 0.01
[[inputs]]
path = 'in.txt'
text = 'in'
";

fn runs_behind(caller: &Caller, backend: &str) -> Result<()> {
    let file = caller.file("job.toml", FILE)?.display().to_string();
    let server = Server::start(caller)?;
    let done = server.run(["job", "run", &file, "--backend", backend, "--json"])?;
    let found = done.exited(0)?.json()?;
    ensure!(found["job"]["tasks"]["succeeded"] == 3 && found["job"]["cost"]["attempts"] == 6, "{found}");
    for (index, task) in found["tasks"].as_array().into_iter().flatten().enumerate() {
        ensure!(
            task["stdout"] == "in" && task["artifacts"][0]["path"] == format!("out/{index}.txt"),
            "{task}"
        );
    }
    let code =
        json!({"code": "print(sum(range(101)))", "backend": backend, "array": 2, "timeout_seconds": 120});
    let id = submit(&server, &code)?;
    ensure!(ended(&server, &id)?["state"] == "succeeded", "{:?}", tasks(&server, &id)?);
    ensure!(tasks(&server, &id)?.iter().all(|task| task["stdout"] == "5050\n"), "{:?}", tasks(&server, &id)?);
    Ok(())
}

fn the_same_file_behind_the_process_fence(caller: &Caller) -> Result<()> {
    runs_behind(caller, "process")
}

#[test]
fn the_same_file_behind_gvisor() -> Result<()> {
    if gvisor::is_missing() {
        return Ok(());
    }
    as_root(concat!(module_path!(), "::the_same_file_behind_gvisor"), |caller| runs_behind(caller, "gvisor"))
}

#[test]
fn the_same_file_behind_a_kernel_of_its_own() -> Result<()> {
    if microvm::is_missing() {
        return Ok(());
    }
    let name = concat!(module_path!(), "::the_same_file_behind_a_kernel_of_its_own");
    as_root_behind("microvm", name, |caller| runs_behind(caller, "microvm"))
}
