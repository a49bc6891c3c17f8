//! The role of a token, as a person types it.

use clap::ValueEnum;
use paddock_model::api::Role;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RoleName {
    /// Everything of its tenant, and its tokens
    Admin,
    /// Everything of its tenant but tokens
    User,
    /// Looks, and changes nothing
    ReadOnly,
}

impl From<RoleName> for Role {
    fn from(name: RoleName) -> Role {
        match name {
            RoleName::Admin => Role::Admin,
            RoleName::User => Role::User,
            RoleName::ReadOnly => Role::ReadOnly,
        }
    }
}
