//! Ports that answer everybody who knows the id of their sandbox, without a token. It takes the word of two: the owner of the host allows
//! it to the server, and a caller opens them by name. They stay open for as long as the token of that caller is valid.

use crate::live::Live;
use crate::record::Record;
use crate::{Actor, Admitted, Fleet, FleetError, Kind};
use paddock_model::PortSettings;
use paddock_model::api::{Role, Sandbox, SandboxState};
use paddock_records::access::Revoked;

/// As whom a visitor uses a port. The sandbox is as it was found: a visitor is no reason to wake it.
pub struct Visit {
    pub admitted: Admitted,
    pub sandbox: Sandbox,
}

impl Fleet {
    /// The host that the program at a port is asked as.
    pub fn request_host(&self, actor: &Actor, id: &str, port: u16) -> String {
        let found = self.living(actor, id).map(|live| live.record().ports.clone());
        found.unwrap_or_default().host_of(port)
    }

    /// A visitor without a token at this port, by the id of its sandbox: a name is another tenant's to choose. `None`: the port is not public,
    /// or is not there.
    pub async fn admit_visitor(&self, sandbox: &str, port: u16) -> Result<Option<Visit>, FleetError> {
        let owner = Actor::owner();
        if !self.0.options.public_ports {
            return Ok(None);
        }
        let Some(live) = self.living(&owner, sandbox) else {
            // The address of one that has ended says so, and opens nothing.
            let ended = self.ended(&owner, sandbox)?.map(|record| record.to_api(0));
            let ended = ended.filter(|found| found.id == sandbox && found.ports.is_public(port));
            return Ok(ended.map(|sandbox| Visit::of(sandbox, Revoked::never())));
        };
        // Watched before the look at the settings: whoever closes the port after that ends this visit.
        let sent_off = live.visitors.watch();
        let is_open = live.id == sandbox && live.record().ports.is_public(port);
        let Some(revoked) = (if is_open { self.opener(&live).await? } else { None }) else { return Ok(None) };
        Ok(Some(Visit::of(live.to_api(), revoked.ending_with(sent_off))))
    }

    /// Puts settings of a request into a record.
    pub(crate) async fn set_ports(
        &self,
        actor: &Actor,
        record: &mut Record,
        settings: PortSettings,
    ) -> Result<(), FleetError> {
        if settings.opens_any() {
            self.check_opening_ports(actor).await?;
        }
        if settings.public.is_some() {
            record.ports_opened_by = settings.opens_any().then(|| actor.token.clone());
        }
        record.ports = std::mem::take(&mut record.ports).overlaid_by(settings);
        Ok(())
    }

    /// A fork is asked as its source. Its ports are public where those of its source are at this moment, for the token that forks.
    pub(crate) async fn inherit_ports(
        &self,
        actor: &Actor,
        source: &Live,
        child: &mut Record,
    ) -> Result<(), FleetError> {
        let ports = source.record().ports.clone();
        let stay_open = ports.opens_any()
            && self.check_opening_ports(actor).await.is_ok()
            && self.opener(source).await?.is_some();
        if stay_open {
            child.ports_opened_by = Some(actor.token.clone());
            child.ports = ports;
        }
        Ok(())
    }

    /// For as long as this is not ready, the token that opened the ports of a sandbox is valid and has a right to it.
    async fn opener(&self, live: &Live) -> Result<Option<Revoked>, FleetError> {
        let Some(token) = live.record().ports_opened_by.clone() else { return Ok(None) };
        if token == Actor::owner().token {
            return Ok(Some(Revoked::never()));
        }
        let admitted = self.admit_token(&token).await?;
        let may = |opener: &Admitted| opener.actor.tenant == live.tenant && !opener.actor.only_reads();
        Ok(admitted.filter(may).map(|opener| opener.revoked))
    }

    /// Refuses a caller who may not open ports to everybody.
    pub async fn check_opening_ports(&self, actor: &Actor) -> Result<(), FleetError> {
        let refused = |why: &str| {
            FleetError::new(
                Kind::Forbidden,
                "forbidden",
                format!("`ports.public` opens ports to everybody, and {why}"),
            )
        };
        if !self.0.options.public_ports {
            return Err(refused("this server opens none").hint(
                "its owner starts it with `paddock serve --domain NAME --public-ports`; a right to one port is \
                 `POST /v1/sandboxes/{id}/ports/sign` (`paddock port`)",
            ));
        }
        // They end with the token that opens them, so it has to be one whose end this server is told.
        if actor.token != Actor::owner().token && self.admit_token(&actor.token).await?.is_none() {
            return Err(refused(
                "this server does not know the token of a caller who comes through a gateway",
            )
            .hint("ask the node itself, with a token of its own"));
        }
        Ok(())
    }
}

impl Visit {
    fn of(sandbox: Sandbox, revoked: Revoked) -> Visit {
        let (tenant, token) = (sandbox.tenant.clone(), "public-port".into());
        let actor = Actor { tenant, role: Role::User, owner: false, token };
        Visit { admitted: Admitted { actor, revoked }, sandbox }
    }

    /// True if the sandbox sleeps, so that only a caller with a token wakes it.
    pub fn finds_it_asleep(&self) -> bool {
        matches!(self.sandbox.state, SandboxState::Paused | SandboxState::Hibernated)
    }
}
