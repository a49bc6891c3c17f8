//! Who asks.

use paddock_model::api::Role;
use paddock_records::access::Revoked;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    pub tenant: String,
    pub role: Role,
    /// The owner of the machine, who came through the unix socket: sees every tenant, and may name host paths.
    pub owner: bool,
    /// The token that was shown; `owner` for the socket.
    pub token: String,
}

impl Actor {
    /// The tenant of sandboxes that the owner makes.
    pub const OWNER_TENANT: &'static str = "owner";

    pub fn owner() -> Actor {
        Actor { tenant: Actor::OWNER_TENANT.into(), role: Role::Admin, owner: true, token: "owner".into() }
    }

    /// Holds a read-only token: nothing is to change on its behalf.
    pub fn only_reads(&self) -> bool {
        self.role == Role::ReadOnly && !self.owner
    }
}

/// Who holds a token, and when the token is revoked.
#[derive(Debug, Clone)]
pub struct Admitted {
    pub actor: Actor,
    pub revoked: Revoked,
}
