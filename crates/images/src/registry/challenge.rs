/// A registry's demand before it answers: the content of `WWW-Authenticate`.
#[derive(Debug, PartialEq, Eq)]
pub enum Challenge {
    Basic,
    /// The registry wants a token from another server.
    Bearer {
        realm: String,
        service: Option<String>,
    },
}

impl Challenge {
    pub fn parse(header: &str) -> Option<Self> {
        let (scheme, parameters) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let mut realm = None;
        let mut service = None;
        let mut rest = parameters;
        while let Some((name, after)) = rest.split_once('=') {
            let (value, after) = match after.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"')?,
                None => after.split_at(after.find(',').unwrap_or(after.len())),
            };
            match name.trim_matches([' ', ',']).to_ascii_lowercase().as_str() {
                "realm" => realm = Some(value.to_owned()),
                "service" => service = Some(value.to_owned()),
                _ => {}
            }
            rest = after;
        }
        Some(Self::Bearer { realm: realm?, service })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_registries_send() {
        let bearer = |realm: &str, service: Option<&str>| {
            Some(Challenge::Bearer { realm: realm.into(), service: service.map(str::to_owned) })
        };
        let header = r#"Bearer realm="https://a.example/token",service="a",scope="repository:x:pull,push""#;
        assert_eq!(Challenge::parse(header), bearer("https://a.example/token", Some("a")));
        assert_eq!(Challenge::parse(r#"bearer service=a, realm="r""#), bearer("r", Some("a")));
        assert_eq!(Challenge::parse(r#"Basic realm="x""#), Some(Challenge::Basic));
        for bad in ["", "Bearer", "Bearer service=x", "Bearer realm=\"x", "Digest realm=x", "Bearer =,=,="] {
            assert_eq!(Challenge::parse(bad), None, "{bad}");
        }
    }
}
