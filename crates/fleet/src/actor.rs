//! The caller of a request.

use paddock_model::api::Role;
use paddock_records::access::Revoked;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    pub tenant: String,
    pub role: Role,
    /// True for the owner of the host, who came through the unix socket: sees every tenant, and may name host paths.
    pub owner: bool,
    /// The id of the token that was shown; `owner` for the socket.
    pub token: String,
}

impl Actor {
    /// The tenant of sandboxes that the owner makes.
    pub const OWNER_TENANT: &'static str = "owner";

    pub fn owner() -> Actor {
        Actor { tenant: Actor::OWNER_TENANT.into(), role: Role::Admin, owner: true, token: "owner".into() }
    }

    /// True for those who may see numbers of the whole server, which would tell one tenant about the others.
    pub fn sees_server(&self) -> bool {
        self.owner || (self.tenant == Actor::OWNER_TENANT && self.role == Role::Admin)
    }

    /// True for the holder of a read-only token: no request of it may change anything.
    pub fn only_reads(&self) -> bool {
        self.role == Role::ReadOnly && !self.owner
    }
}

/// The holder of a token, and the revocation of that token.
#[derive(Debug, Clone)]
pub struct Admitted {
    pub actor: Actor,
    pub revoked: Revoked,
}
