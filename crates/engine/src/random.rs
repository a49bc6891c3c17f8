//! Random numbers of the system, and the ids that are made of them.

use crate::error::EngineError;
use paddock_model::SandboxId;

pub fn new_id() -> Result<SandboxId, EngineError> {
    Ok(SandboxId::from_random(random()?))
}

pub fn random() -> Result<u64, EngineError> {
    let mut bytes = [0; 8];
    let drawn = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    drawn.map_err(|errno| EngineError::Random { source: errno.into() })?;
    Ok(u64::from_ne_bytes(bytes))
}
