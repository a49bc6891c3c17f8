//! The address of a model: from a person's words to a URL, a wire format and a key.

use reqwest::Url;

/// The wire format, by its provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Anthropic,
    OpenAi,
}

impl Dialect {
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Anthropic => "anthropic",
            Dialect::OpenAi => "openai",
        }
    }

    /// The end of the path that requests go to.
    fn path(self) -> &'static str {
        match self {
            Dialect::Anthropic => "messages",
            Dialect::OpenAi => "chat/completions",
        }
    }
}

/// Never printed.
#[derive(Clone)]
pub struct Key(pub String);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(not shown)")
    }
}

#[derive(Debug, Clone)]
pub struct Endpoint {
    pub url: Url,
    pub dialect: Dialect,
    /// The provider's name for the model.
    pub model: String,
    pub key: Option<Key>,
    /// The most tokens of one reply.
    pub max_tokens: u32,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    #[error("model URL `{}` is not one", .0.escape_debug())]
    Malformed(String),
    #[error("model URL `{}` has a user or a password in it", .0.escape_debug())]
    Credentials(String),
    #[error("the key would go to `{0}` in the clear")]
    Clear(String),
    #[error("the key holds characters that no header can carry")]
    Key,
}

impl EndpointError {
    pub fn hint(&self) -> Option<String> {
        match self {
            EndpointError::Malformed(_) => Some(
                "write http:// or https:// and a host, as in https://api.anthropic.com or http://127.0.0.1:8000/v1"
                    .into(),
            ),
            EndpointError::Credentials(_) => Some("name the variable of the key with --key-env".into()),
            EndpointError::Clear(_) => {
                Some("write https://; or --key-env none, where that endpoint needs no key".into())
            }
            EndpointError::Key => Some("look at the variable: a line break at its end is not part of a key".into()),
        }
    }
}

impl Endpoint {
    /// `text`: a host, a base such as `.../v1`, or the whole path. Without `dialect` the URL says which it is.
    pub fn new(
        text: &str,
        dialect: Option<Dialect>,
        model: String,
        key: Option<Key>,
        max_tokens: u32,
    ) -> Result<Endpoint, EndpointError> {
        let malformed = || EndpointError::Malformed(text.chars().take(200).collect());
        let mut url = Url::parse(text).map_err(|_| malformed())?;
        let host = url.host_str().ok_or_else(malformed)?.to_string();
        if !matches!(url.scheme(), "http" | "https") {
            return Err(malformed());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(EndpointError::Credentials(host));
        }
        if key.is_some() && url.scheme() == "http" && !is_this_machine(&host) {
            return Err(EndpointError::Clear(host));
        }
        if key.as_ref().is_some_and(|key| !key.0.bytes().all(|byte| (0x21..0x7f).contains(&byte))) {
            return Err(EndpointError::Key);
        }
        let dialect = dialect.unwrap_or_else(|| dialect_of(&url));
        let path = url.path().trim_end_matches('/').to_string();
        let path = match path.as_str() {
            _ if path.ends_with(dialect.path()) => path,
            "" => format!("/v1/{}", dialect.path()),
            // Anthropic's own bases are without the version.
            _ if dialect == Dialect::Anthropic && !path.ends_with("/v1") => format!("{path}/v1/messages"),
            _ => format!("{path}/{}", dialect.path()),
        };
        url.set_path(&path);
        url.set_fragment(None);
        Ok(Endpoint { url, dialect, model, key, max_tokens })
    }
}

fn dialect_of(url: &Url) -> Dialect {
    let named = url.host_str().is_some_and(|host| host.contains("anthropic"));
    let by_path =
        url.path().trim_end_matches('/').ends_with("/messages") || url.path().contains("/anthropic");
    if named || by_path { Dialect::Anthropic } else { Dialect::OpenAi }
}

fn is_this_machine(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str, dialect: Option<Dialect>) -> Result<(String, Dialect), EndpointError> {
        let endpoint = Endpoint::new(text, dialect, "m".into(), None, 100)?;
        Ok((endpoint.url.to_string(), endpoint.dialect))
    }

    #[test]
    fn hosts_bases_and_whole_paths() {
        for (text, expected, dialect) in [
            ("https://api.anthropic.com", "https://api.anthropic.com/v1/messages", Dialect::Anthropic),
            ("https://api.openai.com/v1", "https://api.openai.com/v1/chat/completions", Dialect::OpenAi),
            ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1/chat/completions", Dialect::OpenAi),
            ("http://h/x/v1/messages", "http://h/x/v1/messages", Dialect::Anthropic),
            ("http://h/api/v1/", "http://h/api/v1/chat/completions", Dialect::OpenAi),
            ("http://h/api/anthropic", "http://h/api/anthropic/v1/messages", Dialect::Anthropic),
        ] {
            assert_eq!(url(text, None), Ok((expected.to_string(), dialect)), "{text}");
        }
        let (text, _) = url("http://h", Some(Dialect::Anthropic)).unwrap();
        assert_eq!(text, "http://h/v1/messages");
    }

    #[test]
    fn a_key_does_not_go_out_in_the_clear() {
        let with_key =
            |text: &str| Endpoint::new(text, None, "m".into(), Some(Key("sk-x".into())), 1).map(drop);
        assert_eq!(with_key("http://models.example"), Err(EndpointError::Clear("models.example".into())));
        for fine in ["https://models.example", "http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1"] {
            with_key(fine).unwrap();
        }
        assert_eq!(format!("{:?}", Key("sk-x".into())), "(not shown)");
    }

    #[test]
    fn what_is_no_url_is_said() {
        for bad in ["", "api.openai.com", "ftp://h", "http://", "claude"] {
            assert!(matches!(url(bad, None), Err(EndpointError::Malformed(_))), "{bad}");
        }
        assert!(matches!(url("http://a:b@h", None), Err(EndpointError::Credentials(_))));
        let key = Some(Key("sk\n".into()));
        assert_eq!(Endpoint::new("https://h", None, "m".into(), key, 1).map(drop), Err(EndpointError::Key));
    }
}
