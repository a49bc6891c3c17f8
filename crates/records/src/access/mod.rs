//! The rights of callers, and their quotas.

mod admission;
mod queue;
mod rate;
mod revocations;
mod tokens;
mod visitors;

#[cfg(test)]
mod tests;

pub use admission::{Admission, AdmissionError, AdmissionOptions, Need, Permit};
pub use revocations::{Revocations, Revoked};
pub use tokens::{AccessError, authenticate, check_tenant_name, create_token};
pub use visitors::Visitors;

use paddock_model::api::Role;

/// The right that a request needs of its caller's role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    Look,
    Change,
    /// To manage the tokens of the caller's own tenant.
    Tokens,
}

pub fn allows(role: Role, right: Right) -> bool {
    match right {
        Right::Look => true,
        Right::Change => matches!(role, Role::Admin | Role::User),
        Right::Tokens => role == Role::Admin,
    }
}

pub fn random_bytes<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    // The kernel never gives fewer bytes: requests up to 256 bytes are not interrupted.
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes)
}
