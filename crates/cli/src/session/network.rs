//! The decisions of a run's gate, for the caller.

use super::ledger::Ledger;
use paddock_engine::Sandbox;
use paddock_engine::certificates::Trust;
use paddock_engine::secrets::SandboxSecrets;
use paddock_model::Network;
use paddock_model::api::NetworkDecision;
use paddock_model::net::{Learned, Mode, NetEvent, NetOutcome};
use std::sync::{Arc, Mutex, PoisonError};

/// Different decisions that are shown; a program that tries more is not worth more lines.
const SHOWN: usize = 100;

#[derive(Default)]
pub struct Decisions {
    pub ledger: Ledger,
    events: Vec<NetEvent>,
    learned: Learned,
    learns: bool,
}

/// Opens the gate, if the sandbox has one, and notes its decisions.
///
/// Precondition: the sandbox is ready.
pub async fn watch(
    sandbox: &Sandbox,
    network: &Network,
    secrets: Option<&SandboxSecrets>,
    trust: Trust<'_>,
) -> Result<Arc<Mutex<Decisions>>, paddock_engine::EngineError> {
    let decisions = Arc::new(Mutex::new(Decisions::default()));
    let Network::Gate(rules) = network else { return Ok(decisions) };
    lock(&decisions).learns = rules.mode != Mode::Enforce;
    let mut events = sandbox.open_gate(rules.clone(), Arc::default(), secrets, trust).await?;
    let noted = decisions.clone();
    tokio::spawn(async move {
        while let Some(event) = events.recv().await {
            let mut decisions = lock(&noted);
            decisions.learned.note(&event);
            decisions.ledger.note(&event);
            if decisions.events.len() < SHOWN {
                decisions.events.push(event);
            }
        }
    });
    Ok(decisions)
}

pub fn lock(decisions: &Mutex<Decisions>) -> std::sync::MutexGuard<'_, Decisions> {
    decisions.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Decisions {
    /// One line for each host that was refused, and how to allow it.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for event in &self.events {
            let NetOutcome::Denied(why) = &event.outcome else { continue };
            let advice = event.advice().map(|advice| format!("; {advice}")).unwrap_or_default();
            let line = format!("network: {} was refused: {why}{advice}", event.target());
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        if self.learns {
            lines.push(format!(
                "network: what this run needed, for a policy file:\n{}",
                policy(&self.learned.layer().allow)
            ));
        }
        lines
    }

    pub fn to_api(&self) -> Vec<NetworkDecision> {
        self.events.iter().zip(1..).map(|(event, number)| NetworkDecision::new(number, event)).collect()
    }
}

/// Rules as a policy file has them.
pub fn policy(allow: &[String]) -> String {
    let rules: String = allow.iter().map(|rule| format!("    {},\n", toml_string(rule))).collect();
    format!("[net]\nallow = [\n{rules}]\n")
}

/// A rule has no character that a string of TOML would need more for.
fn toml_string(rule: &str) -> String {
    format!("\"{}\"", rule.escape_default())
}
