//! Ended sandboxes: how many of them a server remembers.

use anyhow::{Result, ensure};
use paddock_e2e::{Caller, PATIENCE, Server, for_both_callers, until};

for_both_callers!(the_newest_are_remembered_and_the_others_go_with_their_output,);

fn the_newest_are_remembered_and_the_others_go_with_their_output(caller: &Caller) -> Result<()> {
    let mut server = Server::start(caller)?;
    let mut ended = Vec::new();
    for number in 0..5 {
        let id = server.create(&[])?;
        ensure!(server.script(&id, &format!("echo {number}"))?.success()? == format!("{number}\n"));
        server.run(["kill", &id])?.success()?;
        ended.push(id);
    }
    server.stop()?;
    server.start_again_with(&["--keep-ended", "2"])?;
    let status =
        |id: &str| server.api("GET", &format!("/v1/sandboxes/{id}"), None).map(|answer| answer.status);
    // The one behind the newest goes with those that ended before it.
    until(PATIENCE, "the oldest to be forgotten", || {
        ended[..2].iter().all(|id| status(id).is_ok_and(|status| status == 404)).then_some(())
    })?;
    for (number, id) in ended.iter().enumerate().skip(3) {
        ensure!(status(id)? == 200, "{number}");
        let exec = server.api("GET", &format!("/v1/sandboxes/{id}/execs/1"), None)?.expect(200)?;
        ensure!(exec["stdout"] == format!("{number}\n"), "{exec}");
    }
    let directories = caller.state().join("sandboxes");
    until(PATIENCE, "their output to be removed", || {
        ended[..2].iter().all(|id| !directories.join(id).exists()).then_some(())
    })?;
    ensure!(directories.join(&ended[4]).exists());
    Ok(())
}
