//! Secret texts that stand for a tenant and a role. Only their hashes are kept.

use crate::store::{Store, StoreError};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use paddock_model::api::{CreatedToken, Role, Token};
use paddock_model::{NameError, check_template_name};
use sha2::{Digest, Sha256};

#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    #[error(transparent)]
    Tenant(#[from] NameError),
    #[error("the label is {0} bytes long; 200 are allowed")]
    Label(usize),
    #[error("no random numbers from the system")]
    Random(#[source] std::io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

const PREFIX: &str = "pdk_";
const LONGEST_LABEL: usize = 200;

/// Makes a token. Its secret is shown this one time only.
pub fn create_token(
    store: &Store,
    tenant: &str,
    role: Role,
    label: Option<String>,
    now_ms: u64,
    expires_at_ms: Option<u64>,
) -> Result<CreatedToken, AccessError> {
    check_tenant_name(tenant)?;
    if let Some(label) = label.as_ref().filter(|label| label.len() > LONGEST_LABEL) {
        return Err(AccessError::Label(label.len()));
    }
    let secret: [u8; 32] = super::random_bytes().map_err(AccessError::Random)?;
    let secret = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(secret));
    let id = u64::from_ne_bytes(super::random_bytes().map_err(AccessError::Random)?);
    let token = Token {
        id: format!("tk-{id:016x}"),
        tenant: tenant.to_string(),
        role,
        label,
        created_at_ms: now_ms,
        expires_at_ms,
    };
    store.insert_token(&token, &hash(&secret))?;
    Ok(CreatedToken { token, secret })
}

/// The token of a secret. It is looked up by its hash, which a caller cannot steer: the time that it takes says
/// nothing.
pub fn authenticate(store: &Store, secret: &str) -> Result<Option<Token>, StoreError> {
    // A text of another form cannot be a secret, and is not hashed, however long it is.
    if secret.len() != PREFIX.len() + 43 || !secret.starts_with(PREFIX) {
        return Ok(None);
    }
    store.token_by_hash(&hash(secret))
}

/// The same rule as for names of templates.
pub fn check_tenant_name(name: &str) -> Result<(), NameError> {
    check_template_name(name).map_err(|error| NameError { what: "tenant name", ..error })
}

fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}
