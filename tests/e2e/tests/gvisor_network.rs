//! Network rules and secrets behind a kernel in user space: the same tests as with the process backend, with the same verdicts
//! by the same gate.

use crate::gvisor::behind_gvisor;
use crate::{certificates, gate, secrets};
use anyhow::{Result, ensure};
use paddock_e2e::{Caller, Outside, Server};

behind_gvisor!(
    gate::programs_work_unchanged_for_allowed_names,
    gate::every_other_way_is_refused,
    gate::the_host_and_other_sandboxes_are_out_of_reach,
    gate::a_run_says_what_was_refused_and_how_to_allow_it,
    gate::what_a_run_needs_is_learnt,
    gate::rules_change_while_a_sandbox_lives,
    gate::a_gate_comes_back_with_the_next_server,
    gate::nothing_leaves_while_there_is_no_gate,
    gate::a_limit_of_bytes_is_for_life,
    secrets::the_value_goes_where_it_is_bound_to_and_nowhere_else,
    secrets::programs_work_unchanged_where_tls_is_ended,
    secrets::a_value_that_comes_back_is_masked,
    secrets::a_sandbox_keeps_its_secrets_and_shows_them_to_nobody,
    secrets::a_fork_has_none_unless_it_is_asked_for,
    certificates::clients_inside_trust_what_the_host_trusts,
    certificates::a_sandbox_keeps_them,
    certificates::together_with_secrets,
    own::it_says_that_memory_is_not_kept,
    own::a_sentry_has_no_right_over_the_network_that_it_uses,
);

mod own {
    use super::*;
    use std::path::{Path, PathBuf};

    /// The sentry of any sandbox with rules, of this test or of another: in the network namespace of the fence's PID 1, and
    /// in a user namespace below the one that it belongs to.
    pub fn a_sentry_has_no_right_over_the_network_that_it_uses(caller: &Caller) -> Result<()> {
        let outside = Outside::start(caller)?;
        let server = Server::start(caller)?;
        let rules = outside.rules(&["web.test"]);
        server.create(&rules.iter().map(String::as_str).collect::<Vec<_>>())?;
        let mut found = 0;
        for process in std::fs::read_dir("/proc")?.flatten() {
            // A process that ends meanwhile does not matter.
            let Some((same_network, same_rights)) = shares_with_its_parent(&process.path()) else { continue };
            ensure!(!(same_network && same_rights), "{:?}", process.path());
            found += usize::from(same_network);
        }
        ensure!(found > 0, "no sentry was found");
        Ok(())
    }

    fn shares_with_its_parent(process: &Path) -> Option<(bool, bool)> {
        let name = std::fs::read(process.join("cmdline")).ok()?;
        let status = std::fs::read_to_string(process.join("status")).ok()?;
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        let parent = PathBuf::from("/proc").join(parent.trim());
        let same = |kind: &str| {
            let of = |place: &Path| std::fs::read_link(place.join("ns").join(kind)).ok();
            Some(of(process)? == of(&parent)?)
        };
        name.starts_with(b"runsc-sandbox").then_some(())?;
        Some((same("net")?, same("user")?))
    }

    /// Sockets of the fence are not in the sentry's memory: with rules a snapshot has the files, and says so.
    pub fn it_says_that_memory_is_not_kept(caller: &Caller) -> Result<()> {
        let outside = Outside::start(caller)?;
        let server = Server::start(caller)?;
        let rules = outside.rules(&["web.test"]);
        let id = server.create(&rules.iter().map(String::as_str).collect::<Vec<_>>())?;
        let shown = server.run(["inspect", &id])?.json()?;
        assert_eq!(shown["guarantees"]["backend"], "gvisor");
        assert_eq!(shown["guarantees"]["network"], "gate");
        assert_ne!(shown["guarantees"]["snapshot"], "memory");
        assert_eq!(shown["guarantees"]["survives_hibernate"], serde_json::json!(["files"]));
        server.script(&id, "echo mine > /workspace/file; (sleep 600 &)")?.success()?;
        let child = server.run(["fork", &id])?.success()?;
        assert_eq!(server.script(child.trim(), "cat file; pgrep -c sleep")?.out(), "mine\n0\n");
        Ok(())
    }
}
