//! The gate of one sandbox: opened when its inside is built, closed with it.

use crate::certificates::Trust;
use crate::error::EngineError;
use crate::sandbox::Sandbox;
use crate::secrets::SandboxSecrets;
use paddock_gate::{Ends, Gate, Meter, Resolver, Secrets, Settings};
use paddock_model::net::{DomainName, NetEvent, NetRules};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// The guest sends the ends of its network before it says that it is ready.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(10);
const LARGEST_TABLE: usize = 1 << 20;

impl Sandbox {
    /// Lets out the connections that the rules allow. Until then, and without it, none leaves. Returns the gate's
    /// decisions from now on.
    ///
    /// Precondition: its guest is ready, and no exec has a way to a value of `secrets` yet.
    pub async fn open_gate(
        &self,
        rules: NetRules,
        meter: Arc<Meter>,
        secrets: Option<&SandboxSecrets>,
        trust: Trust<'_>,
    ) -> Result<mpsc::Receiver<NetEvent>, EngineError> {
        let failed = |source| EngineError::Gate { source };
        let handover = self.door.locked().handover.take();
        let handover = handover.ok_or_else(|| failed(io::Error::other("it has no link")))?;
        let table = names_of(trust.state).map_err(failed)?;
        let values = secrets.map(|secrets| secrets.gate(trust)).transpose()?.unwrap_or_default();
        if let Some(secrets) = secrets {
            self.link.set_mask(secrets.mask());
        }
        let ends = tokio::task::spawn_blocking(move || handover.wait(HANDOVER_TIMEOUT)).await;
        let ends = ends.map_err(|error| failed(io::Error::other(error)))?.map_err(failed)?;
        let held = ends.link.try_clone().map_err(failed)?;
        let ends = Ends { link: ends.link, proxy: TcpListener::from(ends.proxy) };
        let settings = Settings {
            rules,
            resolver: Arc::new(Resolver::system_and(table)),
            meter,
            secrets: Arc::new(values),
        };
        let (gate, events) = Gate::start(ends, settings).map_err(|error| failed(io::Error::other(error)))?;
        let mut state = self.door.locked();
        (state.gate, state.held) = (Some(gate), Some(held));
        Ok(events)
    }

    /// Sets other rules, for open connections too. `false`: it has no gate.
    pub fn change_rules(&self, rules: NetRules) -> bool {
        self.door.locked().gate.as_ref().map(|gate| gate.update(rules)).is_some()
    }

    /// Sets other secrets, for the next requests of open connections too. `false`: it has no gate.
    pub fn change_secrets(&self, secrets: Secrets) -> bool {
        let door = self.door.locked();
        let Some(gate) = &door.gate else { return false };
        self.link.set_mask(gate.update_secrets(secrets));
        true
    }

    /// The number of open connections.
    pub fn connections(&self) -> usize {
        self.door.locked().gate.as_ref().map_or(0, Gate::connections)
    }

    /// Closes the gate: no connection leaves any more.
    pub fn close_gate(&self) {
        let gate = self.door.locked().gate.take();
        drop(gate);
    }

    /// The same, and closes its link in the background.
    ///
    /// Precondition: its guest has ended, or has no part in the link: the close would wait for the guest.
    pub fn end_gate(&self) {
        self.close_gate();
        if let Some(held) = self.door.locked().held.take() {
            paddock_gate::close_link(held);
        }
    }
}

/// `net/hosts` of the state directory: names with fixed addresses, in the form of /etc/hosts.
fn names_of(state: &Path) -> io::Result<HashMap<DomainName, Vec<IpAddr>>> {
    let path = state.join("net").join("hosts");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) if text.len() <= LARGEST_TABLE => text,
        Ok(_) => return Err(io::Error::other(format!("{} is larger than 1 MiB", path.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HashMap::new()),
        Err(error) => return Err(io::Error::other(format!("{}: {error}", path.display()))),
    };
    let mut table: HashMap<DomainName, Vec<IpAddr>> = HashMap::new();
    for (index, line) in text.lines().enumerate() {
        let wrong = |what: &str| {
            io::Error::other(format!("{} line {}: `{}`", path.display(), index + 1, what.escape_debug()))
        };
        let mut words = line.split('#').next().unwrap_or("").split_whitespace();
        let Some(address) = words.next() else { continue };
        let address: IpAddr = address.parse().map_err(|_| wrong(address))?;
        for word in words {
            let name = DomainName::parse(word).map_err(|_| wrong(word))?;
            table.entry(name).or_default().push(address);
        }
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_owner() {
        let state = tempfile::tempdir().unwrap();
        assert!(names_of(state.path()).unwrap().is_empty());
        std::fs::create_dir(state.path().join("net")).unwrap();
        let write = |text: &str| std::fs::write(state.path().join("net/hosts"), text).unwrap();
        write("# ours\n10.0.0.1 Db.test db # the base\n\n::1 db\n");
        let table = names_of(state.path()).unwrap();
        assert_eq!(table[&DomainName::parse("db").unwrap()].len(), 2);
        assert_eq!(table[&DomainName::parse("db.test").unwrap()], ["10.0.0.1".parse::<IpAddr>().unwrap()]);
        for bad in ["db 10.0.0.1", "10.0.0.1 a_-"] {
            write(bad);
            assert!(names_of(state.path()).unwrap_err().to_string().contains("line 1"));
        }
    }
}
