//! Tokens that open one sandbox: E2B's SDKs show one with every request to a sandbox.
//!
//! A token names the API key that it was given to and is sealed with the server's own key. Nothing is stored: it is valid as long
//! as that API key is, and only for that sandbox.

use crate::app::App;
use paddock_fleet::{Admitted, FleetError};

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
    pub async fn admit(self, app: &App, sandbox: &str, token: &str) -> Result<Option<Admitted>, FleetError> {
        let Some((key, _)) = token.split_once('.') else { return Ok(None) };
        if !same(self.token(app, sandbox, key).as_bytes(), token.as_bytes()) {
            return Ok(None);
        }
        app.fleet().admit_token(key).await
    }
}

/// In a time that does not depend on where they differ.
pub fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_bytes_are_the_same() {
        assert!(same(b"", b"") && same(b"abc", b"abc"));
        assert!(!same(b"abc", b"abd") && !same(b"abc", b"ab") && !same(b"", b"a"));
    }
}
