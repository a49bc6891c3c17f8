//! Ports inside as requests from outside reach them: those that answer everybody, and the host that programs are asked as.

use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;

/// The word for every port.
const ALL: &str = "all";
/// Stands for the number of the port in a host.
const PORT: &str = "${PORT}";
/// A name in the DNS has no more, and a number follows it.
const LONGEST_HOST: usize = 253 + ":${PORT}".len();
const MOST_PUBLIC: usize = 64;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct PortSettings {
    /// Ports that answer everybody who knows the sandbox's id, without a token, at `{port}-{id}.{domain}`: `all`, or their numbers. By
    /// default, and with an empty list, none does. Only where the server has `--public-ports`. They stay open until the token that
    /// opened them is revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public: Option<PublicPorts>,
    /// The `Host` of requests that reach a program inside: NAME, NAME:NUMBER or NAME:${PORT}, where `${PORT}` is the number of the port.
    /// Default: `localhost:${PORT}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_host: Option<String>,
}

/// `all`, or numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum PublicPorts {
    Word(String),
    Numbers(Vec<u32>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortError {
    Number(u32),
    Word(String),
    TooMany(usize),
    Host(String),
}

impl PortSettings {
    pub const KEYS: [&'static str; 2] = ["public", "request_host"];

    pub fn is_default(&self) -> bool {
        *self == PortSettings::default()
    }

    /// `self` below, `above` over it.
    #[must_use]
    pub fn overlaid_by(self, above: PortSettings) -> PortSettings {
        PortSettings {
            public: above.public.or(self.public),
            request_host: above.request_host.or(self.request_host),
        }
    }

    pub fn check(&self) -> Result<(), PortError> {
        self.public.as_ref().map_or(Ok(()), PublicPorts::check)?;
        match self.request_host.as_ref().filter(|host| !is_host(host)) {
            Some(host) => Err(PortError::Host(host.chars().take(80).collect())),
            None => Ok(()),
        }
    }

    /// True if the port answers without a token.
    pub fn is_public(&self, port: u16) -> bool {
        self.public.as_ref().is_some_and(|public| public.holds(port))
    }

    /// True if a port answers without a token.
    pub fn opens_any(&self) -> bool {
        self.public.as_ref().is_some_and(|public| *public != PublicPorts::none())
    }

    /// True if a port that is public here is not with `next`.
    pub fn closes_any(&self, next: &PortSettings) -> bool {
        match &self.public {
            None => false,
            Some(PublicPorts::Word(_)) => next.public != self.public,
            Some(PublicPorts::Numbers(numbers)) => numbers
                .iter()
                .any(|number| u16::try_from(*number).is_ok_and(|number| !next.is_public(number))),
        }
    }

    /// For people: what is weaker than a token for every request.
    pub fn weakness(&self) -> Option<String> {
        let which = match self.public.as_ref().filter(|_| self.opens_any())? {
            PublicPorts::Word(_) => "every port answers".to_string(),
            PublicPorts::Numbers(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
                format!("port {} answers", numbers.join(", "))
            }
        };
        Some(format!("{which} everybody who knows the sandbox's id, without a token"))
    }

    /// The host that a program at this port is asked as.
    pub fn host_of(&self, port: u16) -> String {
        let host = self.request_host.as_deref().unwrap_or("localhost:${PORT}");
        host.replace(PORT, &port.to_string())
    }
}

impl PublicPorts {
    pub fn all() -> PublicPorts {
        PublicPorts::Word(ALL.into())
    }

    pub fn none() -> PublicPorts {
        PublicPorts::Numbers(Vec::new())
    }

    /// Of words as a command line has them: `all`, `none`, or numbers.
    pub fn of_words(words: &[String]) -> Result<PublicPorts, PortError> {
        match words {
            [word] if word == ALL => Ok(PublicPorts::all()),
            [word] if word == "none" => Ok(PublicPorts::none()),
            words => {
                let number = |word: &String| word.parse().map_err(|_| PortError::Word(shown(word)));
                Ok(PublicPorts::Numbers(words.iter().map(number).collect::<Result<_, _>>()?))
            }
        }
    }

    pub fn is_all(&self) -> bool {
        matches!(self, PublicPorts::Word(word) if word == ALL)
    }

    fn holds(&self, port: u16) -> bool {
        match self {
            PublicPorts::Word(_) => self.is_all(),
            PublicPorts::Numbers(numbers) => numbers.contains(&port.into()),
        }
    }

    fn check(&self) -> Result<(), PortError> {
        match self {
            PublicPorts::Word(word) if word != ALL => Err(PortError::Word(shown(word))),
            PublicPorts::Word(_) => Ok(()),
            PublicPorts::Numbers(numbers) if numbers.len() > MOST_PUBLIC => {
                Err(PortError::TooMany(numbers.len()))
            }
            PublicPorts::Numbers(numbers) => {
                let wrong = |number: &&u32| u16::try_from(**number).map_or(true, |number| number == 0);
                numbers.iter().find(wrong).map_or(Ok(()), |number| Err(PortError::Number(*number)))
            }
        }
    }
}

impl<'de> Deserialize<'de> for PublicPorts {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = PublicPorts;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("`all` or a list of numbers of ports")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<PublicPorts, E> {
                Ok(PublicPorts::Word(text.to_string()))
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<PublicPorts, A::Error> {
                let mut numbers = Vec::new();
                while let Some(number) = list.next_element()? {
                    numbers.push(number);
                }
                Ok(PublicPorts::Numbers(numbers))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A name or an address, with or without a number: nothing that ends a header or begins another part of an address.
fn is_host(text: &str) -> bool {
    let whole = text.replace(PORT, "65535");
    let is_short = text.len() <= LONGEST_HOST;
    let (name, port) = match whole.strip_prefix('[').map(|rest| rest.split_once(']')) {
        Some(Some((address, rest))) if address.parse::<Ipv6Addr>().is_ok() => ("ipv6", rest),
        Some(_) => return false,
        None => whole.split_at(whole.find(':').unwrap_or(whole.len())),
    };
    let is_name = !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'));
    is_short && is_name && (port.is_empty() || port.strip_prefix(':').is_some_and(is_number))
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok_and(|number| number != 0)
}

fn shown(text: &str) -> String {
    text.chars().take(80).collect()
}

impl std::fmt::Display for PortError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PortError::Number(number) => write!(f, "public port {number} is not 1 to 65535"),
            PortError::Word(word) => {
                write!(f, "public port `{}` is neither `all` nor a number", word.escape_debug())
            }
            PortError::TooMany(count) => {
                write!(f, "{count} public ports are named, and {MOST_PUBLIC} are the most")
            }
            PortError::Host(host) => {
                write!(f, "request host `{}` is not NAME, NAME:NUMBER or NAME:{PORT}", host.escape_debug())
            }
        }
    }
}

impl std::error::Error for PortError {}

impl PortError {
    pub fn hint(&self) -> &'static str {
        match self {
            PortError::Number(_) | PortError::Word(_) => {
                "name the ports that everybody may use, such as [3000], or write `all`"
            }
            PortError::TooMany(_) => "name fewer, or write `all`",
            PortError::Host(_) => {
                "write a name or an address without a scheme and a path, such as app.example:${PORT}"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    fn host(text: &str) -> Result<(), PortError> {
        PortSettings { public: None, request_host: Some(text.into()) }.check()
    }

    #[test]
    fn a_host_is_a_name_with_or_without_a_port() {
        for good in [
            "localhost:${PORT}",
            "app.example",
            "app.example:8080",
            "10.0.0.1",
            "[::1]",
            "[::1]:${PORT}",
            "${PORT}.example",
            "${PORT}-a_b.example:${PORT}",
        ] {
            assert_eq!(host(good), Ok(()), "{good}");
        }
        let long = "x".repeat(300);
        for bad in [
            "",
            ":80",
            "a b",
            "a/b",
            "a?b",
            "user@app.example",
            "a:",
            "a:0",
            "a:+8",
            "a:99999",
            "a:1:2",
            "a:${PORT",
            "${port}",
            "$PORT",
            "a\r\nb: c",
            "a\nb",
            "a\0",
            "a\t",
            "ü.example",
            "a,b",
            "[::1",
            "[a]",
            "[::1]x",
            "[::1]:",
            "::1",
            &long,
        ] {
            let error = host(bad).expect_err(bad);
            assert!(
                error.to_string().contains("request host") && !error.to_string().contains('\n'),
                "{error}"
            );
            assert!(error.hint().contains("${PORT}"));
        }
    }

    #[test]
    fn the_number_of_the_port_stands_in_the_host() {
        let settings = |host: Option<&str>| PortSettings { public: None, request_host: host.map(Into::into) };
        for (host, asked) in [
            (None, "localhost:3000"),
            (Some("app.example"), "app.example"),
            (Some("${PORT}.app.example:${PORT}"), "3000.app.example:3000"),
        ] {
            assert_eq!(settings(host).host_of(3000), asked);
        }
    }

    #[test]
    fn ports_are_public_by_number_or_all_of_them() {
        let public =
            |value| from_value::<PortSettings>(json!({ "public": value })).expect("a list or a word");
        let [some, all, none] = [json!([3000, 8080]), json!("all"), json!([])].map(public);
        for settings in [&some, &all, &none] {
            assert_eq!(settings.check(), Ok(()));
            let text = serde_json::to_string(settings).expect("JSON");
            assert_eq!(&serde_json::from_str::<PortSettings>(&text).expect("the same"), settings);
        }
        assert!(some.is_public(3000) && !some.is_public(3001) && some.opens_any());
        assert!(all.is_public(1) && all.is_public(65535) && all.opens_any());
        assert!(!none.is_public(3000) && !none.opens_any() && !none.is_default());
        assert_eq!(none.weakness(), None);
        assert!(some.weakness().is_some_and(|text| text.starts_with("port 3000, 8080 answers everybody")));
        assert!(all.weakness().is_some_and(|text| text.starts_with("every port answers everybody")));
        assert!(!PortSettings::default().opens_any() && PortSettings::default().is_default());
        assert_eq!(serde_json::to_value(PortSettings::default()).expect("JSON"), json!({}));
        for (wrong, word) in [
            (json!([0]), "port 0 is"),
            (json!([80, 65536]), "port 65536 is"),
            (json!("some"), "`some`"),
            (json!(""), "``"),
            (json!((1..=65).collect::<Vec<u32>>()), "65 public ports"),
        ] {
            let error = public(wrong.clone()).check().expect_err("refused");
            assert!(error.to_string().contains(word) && error.hint().contains("all"), "{wrong}: {error}");
        }
        for wrong in [json!(true), json!([-1]), json!(["80"]), json!([1.5]), json!({})] {
            assert!(from_value::<PortSettings>(json!({ "public": wrong })).is_err());
        }
    }

    #[test]
    fn what_is_taken_back_closes_a_port() {
        let public =
            |value| from_value::<PortSettings>(json!({ "public": value })).expect("a list or a word");
        for (before, after, closes) in [
            (json!(null), json!([80]), false),
            (json!([80]), json!([80, 443]), false),
            (json!([80]), json!("all"), false),
            (json!([80, 443]), json!([443]), true),
            (json!("all"), json!("all"), false),
            (json!("all"), json!([80]), true),
            (json!([80]), json!([]), true),
            (json!([80]), json!(null), true),
            (json!([]), json!([80]), false),
        ] {
            assert_eq!(public(before.clone()).closes_any(&public(after.clone())), closes, "{before} {after}");
        }
    }

    #[test]
    fn words_of_a_command_line_are_ports() {
        let words = |words: &[&str]| {
            PublicPorts::of_words(&words.iter().map(|word| word.to_string()).collect::<Vec<_>>())
        };
        assert_eq!(words(&["all"]), Ok(PublicPorts::all()));
        assert_eq!(words(&["none"]), Ok(PublicPorts::none()));
        assert_eq!(words(&["80", "443"]), Ok(PublicPorts::Numbers(vec![80, 443])));
        for wrong in [&["http"][..], &["all", "80"], &["-1"], &[""]] {
            assert!(matches!(words(wrong), Err(PortError::Word(_))), "{wrong:?}");
        }
    }

    #[test]
    fn the_layer_above_wins_for_each_setting() {
        let below = PortSettings { public: Some(PublicPorts::all()), request_host: Some("a.example".into()) };
        let above = PortSettings { public: Some(PublicPorts::none()), request_host: None };
        let both = below.clone().overlaid_by(above);
        assert_eq!((both.opens_any(), both.request_host.as_deref()), (false, Some("a.example")));
        assert_eq!(below.clone().overlaid_by(PortSettings::default()), below);
    }
}
