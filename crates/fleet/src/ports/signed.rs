//! Rights to one port of one sandbox, for programs and people who get no token of the tenant.

use crate::request::{invalid, seconds};
use crate::{Actor, Admitted, Fleet, FleetError, Kind, now_ms};
use paddock_model::api::{Role, SignPort, SignedPort};
use paddock_records::access::Revoked;
use paddock_records::signing::PortClaim;
use std::time::Duration;

/// An address with a right in it lands in histories and logs: it ends within a day.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// The wall clock may have been set back a little since.
const CLOCK_SLACK: Duration = Duration::from_secs(3600);

impl Fleet {
    /// `domain`: the name below which ports have names of their own.
    pub async fn sign_port(
        &self,
        actor: &Actor,
        id: &str,
        request: SignPort,
        domain: Option<&str>,
    ) -> Result<SignedPort, FleetError> {
        let live = self.find(actor, id)?;
        let port = request.port;
        if port == 0 {
            return Err(invalid("the port 0 is not 1 to 65535"));
        }
        let lifetime = seconds("expires_seconds", request.expires_seconds)?;
        if lifetime > LONGEST {
            let message = format!("expires_seconds {} is more than a day", request.expires_seconds);
            return Err(invalid(message).hint(format!("at most {}", LONGEST.as_secs())));
        }
        let expires_at_ms = now_ms() + lifetime.as_millis() as u64;
        let token = self.0.signer.sign_port(&PortClaim {
            sandbox: live.id.clone(),
            created_ms: live.record().created_at_ms,
            port,
            expires_ms: expires_at_ms,
            token: actor.token.clone(),
        });
        Ok(SignedPort {
            url: format!("/v1/sandboxes/{}/ports/{port}/?paddock_token={token}", live.id),
            host: domain.map(|domain| format!("{port}-{}.{domain}", live.id)),
            token,
            expires_at_ms,
        })
    }

    /// The holder of a right to this port, by the id of its sandbox: a name can become another sandbox's. All refusals are alike.
    /// `named`: the holder of the token that asked for it, where a gateway says so.
    pub async fn admit_port_right(
        &self,
        right: &str,
        sandbox: &str,
        port: u16,
        named: Option<&Actor>,
    ) -> Result<Admitted, FleetError> {
        let now = now_ms();
        let claim = self.0.signer.verify_port(right, now).map_err(|_| refused())?;
        // Where the clock was set back, an old right is not good for longer.
        let left = Duration::from_millis(claim.expires_ms.saturating_sub(now));
        if claim.sandbox != sandbox || claim.port != port || left > LONGEST + CLOCK_SLACK {
            return Err(refused());
        }
        let owner = Actor::owner();
        let (signer, revoked) = match claim.token == owner.token {
            true => (owner, Revoked::never()),
            false => {
                let signer = self.admit_named(&claim.token, named).await?.ok_or_else(refused)?;
                (signer.actor, signer.revoked)
            }
        };
        let live = self.find(&signer, &claim.sandbox).map_err(|_| refused())?;
        if signer.only_reads() || live.record().created_at_ms != claim.created_ms {
            return Err(refused());
        }
        let actor = Actor {
            tenant: live.tenant.clone(),
            role: Role::User,
            owner: false,
            token: "signed-port".into(),
        };
        Ok(Admitted { actor, revoked: revoked.expiring_within(left) })
    }

    /// True for every right that this server signed, whether or not it still opens anything.
    pub fn has_signed_port(&self, text: &str) -> bool {
        self.0.signer.has_signed_port(text)
    }
}

fn refused() -> FleetError {
    let message = "this right to a port is for another port or another sandbox, has expired, or ended with its sandbox or with the \
                   token that asked for it";
    FleetError::new(Kind::Forbidden, "forbidden", message)
        .hint("ask for a new one; it goes with the id of its sandbox, not with a name")
}
