//! Tokens and tenants, and their quotas.

use super::record::now_ms;
use super::request::invalid;
use super::{Actor, Admitted, Fleet, FleetError, Kind};
use paddock_model::api::{CreateToken, CreatedToken, Quota, Role, Tenant, Token};
use paddock_records::access::{AccessError, Revoked, authenticate, check_tenant_name, create_token};
use paddock_records::store::Store;
use std::time::Duration;
use subtle::ConstantTimeEq;

/// Compares secrets in a time that does not depend on where they differ.
pub fn same_secret(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

impl Fleet {
    /// The holder of this secret. Everything that is opened on its behalf ends when [`Admitted::revoked`] is ready.
    pub async fn authenticate(&self, secret: &str) -> Option<Admitted> {
        self.admitted(|store| authenticate(store, secret).ok().flatten())
    }

    /// The actor of the token with this id, for a right that was derived from the token and that ends with it.
    pub async fn admit_token(&self, id: &str) -> Result<Option<Admitted>, FleetError> {
        let mut failed = None;
        let admitted = self.admitted(|store| {
            store.token(id).unwrap_or_else(|error| {
                failed = Some(error);
                None
            })
        });
        failed.map_or(Ok(admitted), |error| Err(error.into()))
    }

    /// The same for a request of a gateway: its word counts for the holder of the token that it names. The revocation of that token is
    /// the gateway's to watch.
    pub async fn admit_named(&self, id: &str, named: Option<&Actor>) -> Result<Option<Admitted>, FleetError> {
        match named.filter(|actor| actor.token == id && !actor.owner) {
            Some(actor) => Ok(Some(Admitted { actor: actor.clone(), revoked: Revoked::never() })),
            None => self.admit_token(id).await,
        }
    }

    /// The holder of a token, and the watch for its revocation. A token that is revoked between the look and the watch is looked
    /// for again.
    fn admitted(&self, mut look: impl FnMut(&Store) -> Option<Token>) -> Option<Admitted> {
        loop {
            let count = self.0.revocations.count();
            let token = look(&self.0.store)?;
            let now = now_ms();
            if token.has_expired(now) {
                return None;
            }
            let Some(revoked) = self.0.revocations.watch(&token.id, count) else { continue };
            let revoked = match token.expires_at_ms {
                Some(end) => revoked.expiring_in(Duration::from_millis(end - now)),
                None => revoked,
            };
            let actor = Actor { tenant: token.tenant, role: token.role, owner: false, token: token.id };
            return Some(Admitted { actor, revoked });
        }
    }

    /// A secret that only this server can make again, for one purpose and for what `about` names. It outlives a restart.
    pub fn derived_secret(&self, purpose: &str, about: &[&str]) -> String {
        self.0.signer.derive(purpose, about)
    }

    pub fn check_tenant(&self, name: &str) -> Result<(), FleetError> {
        check_tenant_name(name).map_err(|error| invalid(error.to_string()))
    }

    pub async fn create_token(
        &self,
        actor: &Actor,
        request: CreateToken,
    ) -> Result<CreatedToken, FleetError> {
        check_admin(actor)?;
        let tenant = request.tenant.unwrap_or_else(|| actor.tenant.clone());
        if !actor.owner && tenant != actor.tenant {
            return Err(forbidden("tokens of other tenants are for the owner of the host"));
        }
        if request.label.as_ref().is_some_and(|label| label.chars().any(char::is_control)) {
            return Err(invalid("the label holds control characters"));
        }
        let now = now_ms();
        let expires = request.ttl_seconds.map(|seconds| end_of_token(now, seconds)).transpose()?;
        self.forget_expired_tokens(now)?;
        create_token(&self.0.store, &tenant, request.role, request.label, now, expires).map_err(|error| {
            match error {
                AccessError::Tenant(_) | AccessError::Label(_) => invalid(error.to_string()),
                AccessError::Store(error) => error.into(),
                AccessError::Random(_) => FleetError::internal(&error),
            }
        })
    }

    /// Expired tokens are refused wherever they are used; their records go when tokens are next made or listed.
    fn forget_expired_tokens(&self, now: u64) -> Result<(), FleetError> {
        for token in self.0.store.tokens(None)? {
            if token.has_expired(now) {
                self.0.store.delete_token(&token.id, None)?;
                self.0.revocations.revoke(&token.id);
            }
        }
        Ok(())
    }

    pub async fn tokens(&self, actor: &Actor) -> Result<Vec<Token>, FleetError> {
        check_admin(actor)?;
        self.forget_expired_tokens(now_ms())?;
        Ok(self.0.store.tokens((!actor.owner).then_some(actor.tenant.as_str()))?)
    }

    pub async fn revoke_token(&self, actor: &Actor, id: &str) -> Result<Token, FleetError> {
        check_admin(actor)?;
        let removed = self.0.store.delete_token(id, (!actor.owner).then_some(actor.tenant.as_str()))?;
        if let Some(token) = &removed {
            self.0.revocations.revoke(&token.id);
        }
        removed.ok_or_else(|| no_token(id))
    }

    /// The streams that the token opened end, as if it had been revoked: they were opened with other rights.
    pub async fn set_token_role(&self, actor: &Actor, id: &str, role: Role) -> Result<Token, FleetError> {
        check_admin(actor)?;
        let tenant = (!actor.owner).then_some(actor.tenant.as_str());
        let changed = self.0.store.set_role_of_token(id, tenant, role)?.ok_or_else(|| no_token(id))?;
        self.0.revocations.revoke(&changed.id);
        Ok(changed)
    }

    /// Revokes all tokens of a tenant, and returns them. Its sandboxes, snapshots and volumes stay.
    pub async fn revoke_tokens_of(&self, actor: &Actor, tenant: &str) -> Result<Vec<Token>, FleetError> {
        check_admin(actor)?;
        if !actor.owner && tenant != actor.tenant {
            return Err(forbidden("tokens of other tenants are for the owner of the host"));
        }
        check_tenant_name(tenant).map_err(|error| invalid(error.to_string()))?;
        let removed = self.0.store.delete_tokens_of(tenant)?;
        for token in &removed {
            self.0.revocations.revoke(&token.id);
        }
        Ok(removed)
    }

    pub async fn tenants(&self, actor: &Actor) -> Result<Vec<Tenant>, FleetError> {
        let mut tenants = Vec::new();
        for (name, quota) in self.0.store.tenants()? {
            if actor.sees_server() || name == actor.tenant {
                tenants.push(self.tenant(name, quota));
            }
        }
        Ok(tenants)
    }

    pub async fn set_quota(&self, actor: &Actor, tenant: &str, quota: Quota) -> Result<Tenant, FleetError> {
        if !actor.sees_server() {
            return Err(forbidden(
                "quotas are set by the owner of the host, or by an admin of the tenant `owner`",
            ));
        }
        check_tenant_name(tenant).map_err(|error| invalid(error.to_string()))?;
        if quota.cpus.is_some_and(|cpus| !(cpus.is_finite() && cpus > 0.0)) {
            return Err(invalid("a quota of cpus is a number above 0"));
        }
        self.0.store.set_quota(tenant, &quota)?;
        self.0.admission.set_quota(tenant, &quota);
        Ok(self.tenant(tenant.into(), quota))
    }

    fn tenant(&self, name: String, quota: Quota) -> Tenant {
        let usage = self.0.admission.usage(&name);
        Tenant { name, quota, usage }
    }
}

fn no_token(id: &str) -> FleetError {
    let shown: String = id.chars().take(80).collect();
    let message = format!("there is no token `{}`", shown.escape_debug());
    FleetError::new(Kind::NotFound, "token_not_found", message)
        .hint("`paddock token ls` lists those there are")
}

fn check_admin(actor: &Actor) -> Result<(), FleetError> {
    if actor.role == Role::Admin { Ok(()) } else { Err(forbidden("tokens are managed by an admin")) }
}

fn end_of_token(now_ms: u64, seconds: f64) -> Result<u64, FleetError> {
    const LONGEST: f64 = 366.0 * 86_400.0;
    if !(seconds > 0.0 && seconds <= LONGEST) {
        return Err(invalid(format!("`ttl_seconds`: {seconds} is not above 0 and at most {LONGEST}")));
    }
    let ttl = Duration::from_secs_f64(seconds).as_millis();
    Ok(now_ms.saturating_add(u64::try_from(ttl).unwrap_or(u64::MAX)))
}

fn forbidden(message: &str) -> FleetError {
    FleetError::new(Kind::Forbidden, "forbidden", message)
}

#[cfg(test)]
mod tests {
    use super::same_secret;

    #[test]
    fn only_the_same_bytes_are_the_same() {
        assert!(same_secret("", "") && same_secret("abc", "abc"));
        assert!(!same_secret("abc", "abd") && !same_secret("abc", "ab") && !same_secret("", "a"));
    }
}
