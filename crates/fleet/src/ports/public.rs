//! Ports that answer everybody who knows the id of their sandbox, without a token. It takes the word of two: the owner of the host allows
//! it to the server, and a caller opens them by name. They stay open for as long as the token of that caller is valid.

use crate::{Actor, Admitted, Fleet, FleetError, Kind};
use paddock_model::PortSettings;
use paddock_model::api::{Role, Sandbox, SandboxState};
use paddock_records::access::Revoked;
use serde::{Deserialize, Serialize};

/// The ports of one sandbox, as its record has them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ports {
    pub settings: PortSettings,
    /// The token that its public ports are open for.
    #[serde(skip_serializing_if = "Option::is_none")]
    opened_by: Option<String>,
}

/// As whom a visitor uses a port. The sandbox is as it was found: a visitor is no reason to wake it.
pub struct Visit {
    pub admitted: Admitted,
    pub sandbox: Sandbox,
}

impl Fleet {
    /// The host that the program at a port is asked as.
    pub fn request_host(&self, actor: &Actor, id: &str, port: u16) -> String {
        let found = self.living(actor, id).map(|live| live.record().ports.settings.host_of(port));
        found.unwrap_or_else(|| PortSettings::default().host_of(port))
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
        let ports = live.record().ports.clone();
        if live.id != sandbox || !ports.settings.is_public(port) {
            return Ok(None);
        }
        let revoked = opener(self, &live.tenant, &ports).await?;
        Ok(revoked.map(|revoked| Visit::of(live.to_api(), revoked.ending_with(sent_off))))
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

/// Puts settings of a request into those of a sandbox.
pub async fn set(
    fleet: &Fleet,
    actor: &Actor,
    ports: &mut Ports,
    settings: PortSettings,
) -> Result<(), FleetError> {
    if settings.opens_any() {
        fleet.check_opening_ports(actor).await?;
    }
    if settings.public.is_some() {
        ports.opened_by = settings.opens_any().then(|| actor.token.clone());
    }
    ports.settings = std::mem::take(&mut ports.settings).overlaid_by(settings);
    Ok(())
}

/// Those of a fork, whose ports are public where those of its source are at this moment, for the token that forks.
pub async fn inherited(
    fleet: &Fleet,
    actor: &Actor,
    tenant: &str,
    source: Ports,
) -> Result<Ports, FleetError> {
    let stay_open = source.settings.opens_any()
        && fleet.check_opening_ports(actor).await.is_ok()
        && opener(fleet, tenant, &source).await?.is_some();
    match stay_open {
        true => Ok(Ports { opened_by: Some(actor.token.clone()), ..source }),
        false => Ok(source.closed()),
    }
}

/// For as long as this is not ready, the token that opened the ports of a sandbox is valid and has a right to it.
async fn opener(fleet: &Fleet, tenant: &str, ports: &Ports) -> Result<Option<Revoked>, FleetError> {
    let Some(token) = &ports.opened_by else { return Ok(None) };
    if *token == Actor::owner().token {
        return Ok(Some(Revoked::never()));
    }
    let admitted = fleet.admit_token(token).await?;
    let may = |opener: &Admitted| opener.actor.tenant == tenant && !opener.actor.only_reads();
    Ok(admitted.filter(may).map(|opener| opener.revoked))
}

impl Ports {
    pub fn is_default(&self) -> bool {
        *self == Ports::default()
    }

    /// The same with no port that is public.
    #[must_use]
    pub fn closed(self) -> Ports {
        Ports { settings: PortSettings { public: None, ..self.settings }, opened_by: None }
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
