//! Placeholders in the head of a request: put in place of, or refused.

use super::{Secret, Secrets};
use crate::wire::host::Host;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{AUTHORIZATION, HeaderValue, PROXY_AUTHORIZATION};
use hyper::http::request::Parts;
use paddock_model::net::{Denial, DomainName};
use zeroize::Zeroizing;

impl Secrets {
    /// For a host that some secrets are bound to, by TLS that is ended here: their values take their placeholders' places.
    /// The placeholder of another secret is refused, and so is one in a header that carries no value.
    pub fn put_into(&self, parts: &mut Parts, host: &DomainName, port: u16) -> Result<(), Denial> {
        let (bound, others): (Vec<&Secret>, Vec<&Secret>) =
            self.list.iter().partition(|secret| secret.is_for(host, port));
        if let Some(secret) = others.iter().find(|secret| carries(parts, secret)) {
            return Err(Denial::Placeholder(secret.name.clone()));
        }
        for (name, value) in &parts.headers {
            let strays = |secret: &&&Secret| !secret.carriers.have(name) && is_in(value, secret);
            if let Some(secret) = bound.iter().find(strays) {
                let (secret, header) = (secret.name.clone(), name.to_string());
                return Err(Denial::SecretHeader { secret, header });
            }
        }
        for (name, value) in parts.headers.iter_mut() {
            for secret in bound.iter().filter(|secret| secret.carriers.have(name)) {
                let replaced = replaced(value, secret, name == AUTHORIZATION || name == PROXY_AUTHORIZATION);
                if let Some(mut with) = replaced {
                    with.set_sensitive(true);
                    *value = with;
                }
            }
        }
        for secret in bound {
            for (name, text) in &secret.inject {
                let text = Zeroizing::new(text.replacen("{}", &secret.value, 1));
                let mut value = HeaderValue::from_str(&text).map_err(|_| Denial::Malformed)?;
                value.set_sensitive(true);
                // In the place of all that the program sent under this name.
                parts.headers.insert(name, value);
            }
        }
        Ok(())
    }

    /// For any other host, or in the clear: no secret may be in the request.
    pub fn refuse_in(&self, parts: &Parts, host: &Host) -> Result<(), Denial> {
        match self.list.iter().find(|secret| carries(parts, secret)) {
            Some(secret) => Err(self.refusal_in_clear(&secret.name, host)),
            None => Ok(()),
        }
    }

    /// For a request in the clear: a secret in it that would be put in if it came over TLS, or would be set there.
    pub fn refuse_clear(&self, parts: &Parts, host: &Host) -> Result<(), Denial> {
        let would_be = |secret: &&Secret| {
            secret.is_bound_to(host) && (!secret.inject.is_empty() || carries(parts, secret))
        };
        match self.list.iter().find(would_be) {
            Some(secret) => Err(Denial::ClearSecret(secret.name.clone())),
            None => Ok(()),
        }
    }
}

fn carries(parts: &Parts, secret: &Secret) -> bool {
    parts.uri.to_string().contains(&secret.placeholder)
        || parts.headers.values().any(|value| is_in(value, secret))
}

fn is_in(value: &HeaderValue, secret: &Secret) -> bool {
    let wanted = secret.placeholder.as_bytes();
    super::search::contains(value.as_bytes(), wanted)
        || basic(value).is_some_and(|text| super::search::contains(&text, wanted))
}

fn replaced(value: &HeaderValue, secret: &Secret, may_be_basic: bool) -> Option<HeaderValue> {
    if let Some(text) = substituted(value.as_bytes(), secret) {
        return HeaderValue::from_bytes(&text).ok();
    }
    let text = basic(value).filter(|_| may_be_basic)?;
    let encoded = Zeroizing::new(STANDARD.encode(substituted(&text, secret)?.as_slice()));
    HeaderValue::from_str(&Zeroizing::new(format!("Basic {}", encoded.as_str()))).ok()
}

/// `None`: there is nothing to put the value in place of.
fn substituted(bytes: &[u8], secret: &Secret) -> Option<Zeroizing<Vec<u8>>> {
    let wanted = secret.placeholder.as_bytes();
    let mut rest = bytes;
    let mut made = Zeroizing::new(Vec::with_capacity(bytes.len() + secret.value.len()));
    let mut found = false;
    while let Some(at) = memchr::memmem::find(rest, wanted) {
        made.extend_from_slice(&rest[..at]);
        made.extend_from_slice(secret.value.as_bytes());
        rest = &rest[at + wanted.len()..];
        found = true;
    }
    made.extend_from_slice(rest);
    found.then_some(made)
}

/// User and password of basic authentication.
fn basic(value: &HeaderValue) -> Option<Vec<u8>> {
    let text = value.as_bytes();
    let (scheme, rest) = text.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    STANDARD.decode(rest.trim_ascii()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::Carriers;
    use crate::secrets::tests::{PLACE, VALUE, secrets};
    use hyper::Request;
    use hyper::header::HeaderName;

    fn parts(uri: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn host(name: &str) -> DomainName {
        DomainName::parse(name).unwrap()
    }

    #[test]
    fn the_value_goes_to_bound_hosts_only() {
        let bearer = format!("Bearer {PLACE}");
        let basic = format!("Basic {}", STANDARD.encode(format!("user:{PLACE}")));
        for (name, given, wanted) in [
            ("authorization", &bearer, format!("Bearer {VALUE}")),
            ("authorization", &basic, format!("Basic {}", STANDARD.encode(format!("user:{VALUE}")))),
            ("x-api-key", &PLACE.to_string(), VALUE.to_string()),
        ] {
            let mut parts = parts("/x", &[(name, given)]);
            secrets().put_into(&mut parts, &host("api.test"), 443).unwrap();
            assert_eq!(parts.headers[name], wanted.as_str());
            assert!(parts.headers[name].is_sensitive());
            let denied =
                secrets().put_into(&mut self::parts("/x", &[(name, given)]), &host("evil.test"), 443);
            assert_eq!(denied, Err(Denial::Placeholder("KEY".into())));
            let to = |name: &str| {
                secrets().refuse_in(&self::parts("/x", &[("x-api-key", PLACE)]), &Host::Name(host(name)))
            };
            assert_eq!(to("evil.test"), Err(Denial::Placeholder("KEY".into())));
            assert_eq!(to("api.test"), Err(Denial::ClearSecret("KEY".into())));
        }
        let in_path = parts(&format!("/?key={PLACE}"), &[]);
        let api = Host::Name(host("api.test"));
        assert!(secrets().refuse_in(&in_path, &api).is_err());
        assert!(secrets().refuse_in(&parts("/", &[("a", "b")]), &api).is_ok());
    }

    #[test]
    fn another_port_is_another_host() {
        let mut parts = parts("/", &[("x-api-key", PLACE)]);
        assert!(secrets().put_into(&mut parts, &host("api.test"), 8443).is_err());
    }

    #[test]
    fn a_value_is_put_into_the_headers_of_its_secret_only() {
        let put = |carriers: Carriers, name: &str| {
            let mut own = secrets();
            own.list[0].carriers = carriers;
            let mut parts = parts("/", &[(name, PLACE)]);
            own.put_into(&mut parts, &host("api.test"), 443).map(|()| parts.headers[name].clone())
        };
        let mine = HeaderName::from_static("x-mine");
        for name in ["authorization", "x-api-key"] {
            assert_eq!(put(Carriers::default(), name).unwrap(), VALUE);
            assert_eq!(put(Carriers::UsualAnd(vec![mine.clone()]), name).unwrap(), VALUE);
        }
        assert_eq!(put(Carriers::UsualAnd(vec![mine.clone()]), "x-mine").unwrap(), VALUE);
        assert_eq!(put(Carriers::Only(mine.clone()), "x-mine").unwrap(), VALUE);
        for (carriers, name) in [
            (Carriers::default(), "origin"),
            (Carriers::default(), "x-request-id"),
            (Carriers::default(), "x-mine"),
            (Carriers::Only(mine), "authorization"),
        ] {
            let denied = Denial::SecretHeader { secret: "KEY".into(), header: name.into() };
            assert_eq!(put(carriers, name), Err(denied), "{name}");
        }
    }

    #[test]
    fn a_header_is_set_over_what_the_program_sent_and_for_bound_hosts_only() {
        let mut secrets = secrets();
        secrets.list[0].inject = vec![(AUTHORIZATION, "Bearer {}".to_string())];
        let sent = [("authorization", "Bearer own"), ("authorization", "Bearer second"), ("x-other", "kept")];
        let mut to_api = parts("/x", &sent);
        secrets.put_into(&mut to_api, &host("api.test"), 443).unwrap();
        let set: Vec<_> = to_api.headers.get_all(AUTHORIZATION).iter().collect();
        assert_eq!((set.len(), set[0].to_str().unwrap()), (1, format!("Bearer {VALUE}").as_str()));
        assert!(set[0].is_sensitive());
        assert_eq!(to_api.headers["x-other"], "kept");
        let mut to_other = parts("/x", &sent);
        secrets.put_into(&mut to_other, &host("evil.test"), 443).unwrap();
        assert_eq!(to_other.headers.get_all(AUTHORIZATION).iter().count(), 2);
        let clear = |name: &str| secrets.refuse_clear(&parts("/x", &[("a", "b")]), &Host::Name(host(name)));
        assert_eq!(clear("api.test"), Err(Denial::ClearSecret("KEY".into())));
        assert_eq!(clear("evil.test"), Ok(()));
    }
}
