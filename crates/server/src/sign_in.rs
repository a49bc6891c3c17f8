//! How a browser gets a token without anybody typing one: a code that `paddock ui` prints is exchanged, once, within two minutes.
//!
//! The code stands in the fragment of an address, which no browser sends to a server, and the page forgets it before it asks.

use crate::app::App;
use crate::auth::{self, Caller};
use crate::errors::Failure;
use crate::extract::{Json, NoQuery};
use axum::Json as Answer;
use axum::extract::State;
use axum::http::{Extensions, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use paddock_fleet::{Actor, same_secret};
use paddock_model::api::{ApiError, CreateSignInCode, CreateToken, CreatedToken, Role, SignIn, SignInCode};
use ring::rand::SecureRandom;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

const CODE_LASTS: Duration = Duration::from_secs(120);
const TOKEN_SECONDS: f64 = 8.0 * 3600.0;
const LONGEST_TOKEN_SECONDS: f64 = 7.0 * 86_400.0;
/// Codes at one time. The oldest goes for a new one.
const MOST_CODES: usize = 64;
const LABEL: &str = "dashboard";

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(create_sign_in_code))
}

/// The caller has no token yet.
pub fn open_routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(sign_in))
}

/// Codes that were not exchanged yet. They are in memory only: a server that starts anew knows none.
#[derive(Default)]
pub struct Codes(Mutex<Vec<Code>>);

struct Code {
    secret: String,
    made_by: Actor,
    token: CreateToken,
    ends: Instant,
}

impl Codes {
    fn add(&self, code: Code) {
        let mut codes = self.lock();
        let now = Instant::now();
        codes.retain(|code| code.ends > now);
        if codes.len() == MOST_CODES {
            codes.remove(0);
        }
        codes.push(code);
    }

    /// Takes the code away: no second exchange finds it.
    fn take(&self, secret: &str) -> Option<Code> {
        let mut codes = self.lock();
        let now = Instant::now();
        codes.retain(|code| code.ends > now);
        let found = codes.iter().position(|code| same_secret(&code.secret, secret))?;
        Some(codes.remove(found))
    }

    /// Drops the codes for tokens of a tenant.
    pub fn forget(&self, tenant: &str) {
        self.lock().retain(|code| code.token.tenant.as_deref() != Some(tenant));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Code>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Make a code that a browser exchanges for a token, once and within two minutes
#[utoipa::path(post, path = "/v1/sign-in-codes", tag = "access", request_body = CreateSignInCode,
    responses((status = 201, body = SignInCode), (status = 403, body = ApiError)))]
async fn create_sign_in_code(
    State(app): State<App>,
    Caller(actor): Caller,
    _: NoQuery,
    Json(request): Json<CreateSignInCode>,
) -> Result<(StatusCode, Answer<SignInCode>), Failure> {
    if actor.role != Role::Admin {
        return Err(Failure::forbidden("only an admin of the tenant makes codes for its tokens"));
    }
    let tenant = request.tenant.unwrap_or_else(|| actor.tenant.clone());
    if !actor.owner && tenant != actor.tenant {
        return Err(Failure::forbidden("tokens of other tenants are for the owner of the host"));
    }
    let seconds = request.token_seconds.unwrap_or(TOKEN_SECONDS);
    if !(seconds > 0.0 && seconds <= LONGEST_TOKEN_SECONDS) {
        return Err(Failure::invalid(format!(
            "`token_seconds`: {seconds} is not above 0 and at most {LONGEST_TOKEN_SECONDS}"
        )));
    }
    app.fleet().check_tenant(&tenant)?;
    let mut bytes = [0; 32];
    ring::rand::SystemRandom::new().fill(&mut bytes).map_err(|_| Failure::internal())?;
    let secret = URL_SAFE_NO_PAD.encode(bytes);
    let token = CreateToken {
        tenant: Some(tenant),
        role: request.role,
        label: Some(LABEL.into()),
        ttl_seconds: Some(seconds),
    };
    let ends = Instant::now() + CODE_LASTS;
    app.sign_in_codes().add(Code { secret: secret.clone(), made_by: actor, token, ends });
    let expires_at_ms = now_ms() + u64::try_from(CODE_LASTS.as_millis()).unwrap_or_default();
    Ok((StatusCode::CREATED, Answer(SignInCode { code: secret, expires_at_ms })))
}

/// Exchange a code for a token that expires
///
/// The rights of the code's maker are looked at again: a code of a token that was revoked meanwhile is worth nothing.
#[utoipa::path(post, path = "/v1/sign-in", tag = "access", security(()), request_body = SignIn,
    responses((status = 201, body = CreatedToken), (status = 401, body = ApiError)))]
async fn sign_in(
    State(app): State<App>,
    extensions: Extensions,
    _: NoQuery,
    Json(request): Json<SignIn>,
) -> Result<(StatusCode, Answer<CreatedToken>), Failure> {
    let code = app.sign_in_codes().take(&request.code).ok_or_else(|| used("it was used, or is too old"))?;
    if !code.made_by.owner {
        let still = app.fleet().admit_token(&code.made_by.token).await?;
        if still.is_none_or(|still| still.actor != code.made_by) {
            return Err(used("the token that made it was revoked"));
        }
    }
    let created = app.fleet().create_token(&code.made_by, code.token).await?;
    auth::is_known(&extensions);
    Ok((StatusCode::CREATED, Answer(created)))
}

fn used(why: &str) -> Failure {
    Failure::unauthorized(format!("this sign-in code is not valid: {why}"))
        .hint("Ask for a new link with `paddock ui`, or sign in with a token.")
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(secret: &str, lasts: Duration) -> Code {
        let token = CreateToken { tenant: None, role: Role::User, label: None, ttl_seconds: Some(1.0) };
        Code { secret: secret.into(), made_by: Actor::owner(), token, ends: Instant::now() + lasts }
    }

    #[tokio::test(start_paused = true)]
    async fn a_code_is_good_once_and_for_a_while() {
        let codes = Codes::default();
        codes.add(code("one", CODE_LASTS));
        codes.add(code("two", CODE_LASTS));
        assert!(codes.take("on").is_none() && codes.take("").is_none());
        assert!(codes.take("one").is_some() && codes.take("one").is_none());
        tokio::time::advance(CODE_LASTS).await;
        assert!(codes.take("two").is_none());
        for number in 0..=MOST_CODES {
            codes.add(code(&number.to_string(), CODE_LASTS));
        }
        assert!(codes.take("0").is_none() && codes.take("1").is_some());
    }
}
