//! Which headers carry the value of a secret. Many hosts repeat headers of a request in their answer, such as `Origin` or
//! `X-Request-Id`; few repeat those that carry credentials.

use hyper::header::HeaderName;

/// Headers in which interfaces take credentials, in lower case.
pub const USUAL_HEADERS: [&str; 32] = [
    "authorization",
    "proxy-authorization",
    "x-api-key",
    "api-key",
    "apikey",
    "x-apikey",
    "x-api-token",
    "x-auth-token",
    "x-auth-key",
    "x-access-token",
    "x-token",
    "x-goog-api-key",
    "x-functions-key",
    "ocp-apim-subscription-key",
    "x-amz-security-token",
    "private-token",
    "job-token",
    "deploy-token",
    "x-github-token",
    "circle-token",
    "x-vault-token",
    "x-consul-token",
    "x-figma-token",
    "x-shopify-access-token",
    "x-subscription-token",
    "x-rapidapi-key",
    "x-algolia-api-key",
    "x-typesense-api-key",
    "xi-api-key",
    "dd-api-key",
    "dd-application-key",
    "x-honeycomb-team",
];

/// The headers that may carry one secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Carriers {
    /// [`USUAL_HEADERS`], and these.
    UsualAnd(Vec<HeaderName>),
    Only(HeaderName),
}

impl Default for Carriers {
    fn default() -> Carriers {
        Carriers::UsualAnd(Vec::new())
    }
}

impl Carriers {
    pub fn have(&self, name: &HeaderName) -> bool {
        match self {
            Carriers::Only(own) => own == name,
            Carriers::UsualAnd(more) => USUAL_HEADERS.contains(&name.as_str()) || more.contains(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_ones_and_those_that_were_named() {
        let more = Carriers::UsualAnd(vec![HeaderName::from_static("x-mine")]);
        for name in USUAL_HEADERS.iter().chain(&["x-mine"]) {
            assert!(more.have(&HeaderName::from_static(name)), "{name}");
        }
        for name in
            ["origin", "x-request-id", "referer", "user-agent", "cookie", "idempotency-key", "traceparent"]
        {
            assert!(!more.have(&HeaderName::from_static(name)), "{name}");
        }
        let only = Carriers::Only(HeaderName::from_static("x-mine"));
        assert!(only.have(&HeaderName::from_static("x-mine")) && !only.have(&hyper::header::AUTHORIZATION));
    }
}
