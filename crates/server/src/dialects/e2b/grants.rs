//! Tokens that open one sandbox or one volume: E2B's SDKs show one with every request to it.
//!
//! A token names the API key that it was given to and is sealed with the server's own key. Nothing is stored: it is valid as long
//! as that API key is, and only for that sandbox or volume.

use crate::app::App;
use paddock_fleet::{Actor, Admitted, FleetError, same_secret};

const VOLUME_PURPOSE: &str = "e2b volume content";

/// The purpose of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grant {
    /// Commands and files: header `X-Access-Token`.
    Envd,
    /// Ports inside, the code interpreter among them: header `E2B-Traffic-Access-Token`.
    Traffic,
}

impl Grant {
    fn purpose(self) -> &'static str {
        match self {
            Grant::Envd => "e2b envd access",
            Grant::Traffic => "e2b traffic access",
        }
    }

    /// The token of this sandbox for the API key of this id.
    pub fn token(self, app: &App, sandbox: &str, key: &str) -> String {
        format!("{key}.{}", app.fleet().derived_secret(self.purpose(), &[sandbox, key]))
    }

    /// The holder of the API key that the token was sealed for. The sandbox is not looked up: a token that is not sealed for it
    /// learns nothing of whether it exists.
    ///
    /// `named`: the holder of that API key, where a gateway says so.
    pub async fn admit(
        self,
        app: &App,
        sandbox: &str,
        token: &str,
        named: Option<&Actor>,
    ) -> Result<Option<Admitted>, FleetError> {
        match sealed_key(token, |key| self.token(app, sandbox, key)) {
            Some(key) => app.fleet().admit_named(key, named).await,
            None => Ok(None),
        }
    }
}

/// The token of a volume for the API key of this id: the key, the volume's own id, and the seal over both and the name.
pub fn volume_token(app: &App, name: &str, id: &str, key: &str) -> String {
    format!("{key}.{id}.{}", app.fleet().derived_secret(VOLUME_PURPOSE, &[name, id, key]))
}

/// The holder of the API key that the token was sealed for, and the id of the volume. The volume is not looked up.
pub async fn admit_to_volume(
    app: &App,
    name: &str,
    token: &str,
) -> Result<Option<(Admitted, String)>, FleetError> {
    let sealed = sealed_key_and_id(token, |key, id| volume_token(app, name, id, key));
    let Some((key, id)) = sealed else { return Ok(None) };
    Ok(app.fleet().admit_token(key).await?.map(|admitted| (admitted, id.to_string())))
}

/// The key that a token names, where the whole token is the one that was sealed for this key.
pub(super) fn sealed_key(token: &str, sealed: impl Fn(&str) -> String) -> Option<&str> {
    let (key, _) = token.split_once('.')?;
    same_secret(&sealed(key), token).then_some(key)
}

/// The same with an id behind the key.
pub(super) fn sealed_key_and_id(token: &str, sealed: impl Fn(&str, &str) -> String) -> Option<(&str, &str)> {
    let mut parts = token.split('.');
    let (key, id) = (parts.next()?, parts.next()?);
    same_secret(&sealed(key, id), token).then_some((key, id))
}
