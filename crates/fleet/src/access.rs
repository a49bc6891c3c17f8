//! Tokens and tenants, and their quotas.

use super::record::now_ms;
use super::request::invalid;
use super::{Actor, Admitted, Fleet, FleetError, Kind};
use paddock_model::api::{CreateToken, CreatedToken, Quota, Role, Tenant, Token};
use paddock_records::access::{AccessError, authenticate, check_tenant_name, create_token};

impl Fleet {
    /// The holder of this secret. Everything that is opened on its behalf ends when [`Admitted::revoked`] is ready.
    pub async fn authenticate(&self, secret: &str) -> Option<Admitted> {
        loop {
            let count = self.0.revocations.count();
            let token = authenticate(&self.0.store, secret).ok().flatten()?;
            let Some(revoked) = self.0.revocations.watch(&token.id, count) else { continue };
            let actor = Actor { tenant: token.tenant, role: token.role, owner: false, token: token.id };
            return Some(Admitted { actor, revoked });
        }
    }

    /// The actor of the token with this id, for a right that was derived from the token and that ends with it.
    pub async fn admit_token(&self, id: &str) -> Result<Option<Admitted>, FleetError> {
        loop {
            let count = self.0.revocations.count();
            let Some(token) = self.0.store.token(id)? else { return Ok(None) };
            let Some(revoked) = self.0.revocations.watch(&token.id, count) else { continue };
            let actor = Actor { tenant: token.tenant, role: token.role, owner: false, token: token.id };
            return Ok(Some(Admitted { actor, revoked }));
        }
    }

    /// A secret that only this server can make again, for one purpose and for what `about` names. It outlives a restart.
    pub fn derived_secret(&self, purpose: &str, about: &[&str]) -> String {
        self.0.signer.derive(purpose, about)
    }

    pub async fn create_token(
        &self,
        actor: &Actor,
        request: CreateToken,
    ) -> Result<CreatedToken, FleetError> {
        check_admin(actor)?;
        let tenant = request.tenant.unwrap_or_else(|| actor.tenant.clone());
        if !actor.owner && tenant != actor.tenant {
            return Err(forbidden("tokens of other tenants are for the owner of the machine"));
        }
        if request.label.as_ref().is_some_and(|label| label.chars().any(char::is_control)) {
            return Err(invalid("the label holds control characters"));
        }
        create_token(&self.0.store, &tenant, request.role, request.label, now_ms()).map_err(|error| {
            match error {
                AccessError::Tenant(_) | AccessError::Label(_) => invalid(error.to_string()),
                AccessError::Store(error) => error.into(),
                AccessError::Random(_) => FleetError::internal(&error),
            }
        })
    }

    pub async fn tokens(&self, actor: &Actor) -> Result<Vec<Token>, FleetError> {
        check_admin(actor)?;
        Ok(self.0.store.tokens((!actor.owner).then_some(actor.tenant.as_str()))?)
    }

    pub async fn revoke_token(&self, actor: &Actor, id: &str) -> Result<Token, FleetError> {
        check_admin(actor)?;
        let removed = self.0.store.delete_token(id, (!actor.owner).then_some(actor.tenant.as_str()))?;
        if let Some(token) = &removed {
            self.0.revocations.revoke(&token.id);
        }
        removed.ok_or_else(|| {
            let shown: String = id.chars().take(80).collect();
            FleetError::new(
                Kind::NotFound,
                "token_not_found",
                format!("there is no token `{}`", shown.escape_debug()),
            )
            .hint("`paddock token ls` lists those there are")
        })
    }

    pub async fn tenants(&self, actor: &Actor) -> Result<Vec<Tenant>, FleetError> {
        let mut tenants = Vec::new();
        for (name, quota) in self.0.store.tenants()? {
            if actor.owner || name == actor.tenant {
                tenants.push(self.tenant(name, quota));
            }
        }
        Ok(tenants)
    }

    pub async fn set_quota(&self, actor: &Actor, tenant: &str, quota: Quota) -> Result<Tenant, FleetError> {
        if !actor.owner {
            return Err(forbidden("quotas are set by the owner of the machine"));
        }
        check_tenant_name(tenant).map_err(|error| invalid(error.to_string()))?;
        if quota.cpus.is_some_and(|cpus| !(cpus.is_finite() && cpus > 0.0)) {
            return Err(invalid("a quota of cpus is a number above 0"));
        }
        self.0.store.set_quota(tenant, &quota)?;
        self.0.admission.set_quota(tenant, &quota);
        Ok(self.tenant(tenant.into(), quota))
    }

    /// The names that `template` of a create may have.
    pub async fn templates(&self, _actor: &Actor) -> Result<Vec<String>, FleetError> {
        let listed = paddock_settings::templates::list(&self.0.options.state);
        let listed = listed.map_err(|error| FleetError::storage(&error))?;
        Ok(listed.into_iter().map(|template| template.name).collect())
    }

    fn tenant(&self, name: String, quota: Quota) -> Tenant {
        let usage = self.0.admission.usage(&name);
        Tenant { name, quota, usage }
    }
}

fn check_admin(actor: &Actor) -> Result<(), FleetError> {
    if actor.role == Role::Admin { Ok(()) } else { Err(forbidden("tokens are managed by an admin")) }
}

fn forbidden(message: &str) -> FleetError {
    FleetError::new(Kind::Forbidden, "forbidden", message)
}
