//! A policy file: the same settings as the flags, in TOML. Templates are kept in the same form.

use paddock_model::net::NetLayer;
use paddock_model::{LimitsLayer, Policy, PortSettings, PublicPorts, SecretLayer};
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

/// 1 MiB is more than any person writes; a larger file is not a policy.
pub const LARGEST_FILE: usize = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    #[error("the file is larger than 1 MiB")]
    TooLarge,
    #[error("the file is not UTF-8 text")]
    NotText,
    #[error("line {line}, column {column}: {message}")]
    Syntax { line: usize, column: usize, message: String },
    #[error("line {line}: `{key}` is not a setting; {suggestion}")]
    UnknownKey { line: usize, key: String, suggestion: String },
    #[error("line {line}: `{key}` has to be {expected}, but is {found}")]
    WrongType { line: usize, key: String, expected: &'static str, found: &'static str },
}

/// Text to settings. Never panics, and does work in proportion to the text's length.
pub fn parse(text: &str) -> Result<Policy, PolicyError> {
    if text.len() > LARGEST_FILE {
        return Err(PolicyError::TooLarge);
    }
    read_policy(text, document(text)?.get_ref())
}

pub fn document(text: &str) -> Result<Spanned<DeTable<'_>>, PolicyError> {
    DeTable::parse(text).map_err(|error| {
        let (line, column) = position(text, error.span().map_or(0, |span| span.start));
        PolicyError::Syntax { line, column, message: error.message().to_string() }
    })
}

pub fn parse_bytes(bytes: &[u8]) -> Result<Policy, PolicyError> {
    parse(std::str::from_utf8(bytes).map_err(|_| PolicyError::NotText)?)
}

pub fn read_policy(text: &str, table: &DeTable) -> Result<Policy, PolicyError> {
    let mut policy = Policy::default();
    for entry in entries(text, "", table) {
        match entry.key {
            "backend" => policy.backend = Some(entry.string()?),
            "image" => policy.image = Some(entry.string()?),
            "workspace" => policy.workspace = Some(entry.string()?),
            "read" => policy.read = entry.strings()?,
            "write" => policy.write = entry.strings()?,
            "tmpfs" => policy.tmpfs = entry.strings()?,
            "protect" => policy.protect = entry.strings()?,
            "unprotect" => policy.unprotect = entry.strings()?,
            "net" => policy.net = Some(crate::policy_net::read(text, &entry)?),
            "ports" => policy.ports = read_ports(text, &entry)?,
            "require" => policy.require = entry.strings()?,
            "user" => policy.user = Some(entry.string()?),
            "hostname" => policy.hostname = Some(entry.string()?),
            "cwd" => policy.cwd = Some(entry.string()?),
            "env" => policy.env = read_env(text, entry.table("a table of strings")?)?,
            "command" => policy.command = entry.strings()?,
            "ready" => policy.ready = Some(entry.string()?),
            "preload" => policy.preload = entry.strings()?,
            "scan" => policy.scan = Some(entry.string()?),
            "live_forks" => policy.live_forks = Some(entry.boolean()?),
            "root_may_install" => policy.root_may_install = Some(entry.boolean()?),
            "become_root" => policy.become_root = Some(entry.boolean()?),
            "audit_outputs" => policy.audit_outputs = Some(entry.boolean()?),
            "host_certs" => policy.host_certs = Some(entry.boolean()?),
            "allowed_imports" => policy.allowed_imports = Some(entry.strings()?),
            "secrets" => policy.secrets = crate::policy_secrets::read(text, &entry)?,
            "limits" => policy.limits = read_limits(text, entry.table("a table of limits")?)?,
            _ => return Err(entry.unknown()),
        }
    }
    Ok(policy)
}

pub fn read_env(text: &str, table: &DeTable) -> Result<BTreeMap<String, String>, PolicyError> {
    entries(text, "env.", table)
        .into_iter()
        .map(|entry| Ok((entry.key.to_string(), entry.string()?)))
        .collect()
}

pub fn read_limits(text: &str, table: &DeTable) -> Result<LimitsLayer, PolicyError> {
    let mut limits = LimitsLayer::default();
    for entry in entries(text, "limits.", table) {
        let field = match entry.key {
            "memory" => &mut limits.memory,
            "cpus" => &mut limits.cpus,
            "pids" => &mut limits.pids,
            "disk" => &mut limits.disk,
            "files" => &mut limits.files,
            "output" => &mut limits.output,
            "timeout" => &mut limits.timeout,
            _ => return Err(entry.unknown()),
        };
        *field = Some(entry.quantity()?);
    }
    Ok(limits)
}

fn read_ports(text: &str, entry: &Entry<'_>) -> Result<PortSettings, PolicyError> {
    let mut ports = PortSettings::default();
    for entry in entries(text, "ports.", entry.table("a table with `public` and `request_host`")?) {
        match entry.key {
            "public" => ports.public = Some(read_public_ports(&entry)?),
            "request_host" => ports.request_host = Some(entry.string()?),
            _ => return Err(entry.unknown()),
        }
    }
    Ok(ports)
}

fn read_public_ports(entry: &Entry<'_>) -> Result<PublicPorts, PolicyError> {
    let expected = "`all` or a list of numbers of ports";
    let items = match entry.value.get_ref() {
        DeValue::String(word) => return Ok(PublicPorts::Word(word.to_string())),
        DeValue::Array(items) => items,
        other => return Err(entry.wrong_type(expected, other, entry.value.span().start)),
    };
    let mut numbers = Vec::new();
    for item in items {
        let number = match item.get_ref() {
            DeValue::Integer(number) => u32::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        numbers.push(number.ok_or_else(|| entry.wrong_type(expected, item.get_ref(), item.span().start))?);
    }
    Ok(PublicPorts::Numbers(numbers))
}

/// One `key = value`, with the facts that its errors need.
pub struct Entry<'a> {
    text: &'a str,
    /// The text before the key in messages: nothing, `env.` or `limits.`.
    prefix: &'static str,
    pub key: &'a str,
    key_start: usize,
    pub value: &'a Spanned<DeValue<'a>>,
}

/// The entries in the order of the file, so that the first mistake is the one reported.
pub fn entries<'a>(text: &'a str, prefix: &'static str, table: &'a DeTable<'a>) -> Vec<Entry<'a>> {
    let mut entries: Vec<Entry> = table
        .iter()
        .map(|(key, value)| Entry { text, prefix, key: key.get_ref(), key_start: key.span().start, value })
        .collect();
    entries.sort_by_key(|entry| entry.key_start);
    entries
}

impl<'a> Entry<'a> {
    /// The line of its key.
    pub fn line(&self) -> usize {
        position(self.text, self.key_start).0
    }

    pub fn string(&self) -> Result<String, PolicyError> {
        match self.value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            other => Err(self.wrong_type("a string", other, self.value.span().start)),
        }
    }

    fn boolean(&self) -> Result<bool, PolicyError> {
        match self.value.get_ref() {
            DeValue::Boolean(value) => Ok(*value),
            other => Err(self.wrong_type("true or false", other, self.value.span().start)),
        }
    }

    pub fn strings(&self) -> Result<Vec<String>, PolicyError> {
        let expected = "a list of strings";
        let DeValue::Array(items) = self.value.get_ref() else {
            return Err(self.wrong_type(expected, self.value.get_ref(), self.value.span().start));
        };
        let string = |item: &Spanned<DeValue>| match item.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            other => Err(self.wrong_type(expected, other, item.span().start)),
        };
        items.iter().map(string).collect()
    }

    pub fn table(&self, expected: &'static str) -> Result<&'a DeTable<'a>, PolicyError> {
        match self.value.get_ref() {
            DeValue::Table(table) => Ok(table),
            other => Err(self.wrong_type(expected, other, self.value.span().start)),
        }
    }

    /// A limit as text; its meaning is checked together with the values of the flags.
    pub fn quantity(&self) -> Result<String, PolicyError> {
        match self.value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Integer(number) => Ok(decimal(number)),
            DeValue::Float(number) => Ok(number.as_str().to_string()),
            other => Err(self.wrong_type("a number or a string", other, self.value.span().start)),
        }
    }

    pub fn wrong_type(&self, expected: &'static str, found: &DeValue, at: usize) -> PolicyError {
        let (line, _) = position(self.text, at);
        let found = match found {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a number",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        PolicyError::WrongType { line, key: self.shown_key(), expected, found }
    }

    pub fn unknown(&self) -> PolicyError {
        let (line, _) = position(self.text, self.key_start);
        let key = self.shown_key();
        let suggestion = suggestion(self.key, self.prefix);
        PolicyError::UnknownKey { line, key, suggestion }
    }

    fn shown_key(&self) -> String {
        format!("{}{}", self.prefix, shortened(self.key).escape_debug())
    }
}

/// A key under the wrong table is found too: `memory` at the top suggests `limits.memory`.
fn suggestion(key: &str, prefix: &str) -> String {
    let key: String = shortened(key).to_lowercase().replace('-', "_");
    let top = Policy::KEYS.iter().map(|name| ("", *name));
    let limits = LimitsLayer::KEYS.iter().map(|name| ("limits.", *name));
    let net = NetLayer::KEYS.iter().map(|name| ("net.", *name));
    let ports = PortSettings::KEYS.iter().map(|name| ("ports.", *name));
    let secrets = SecretLayer::KEYS.iter().map(|name| ("secrets.NAME.", *name));
    let nearest = top
        .chain(limits)
        .chain(net)
        .chain(ports)
        .chain(secrets)
        .map(|(table, name)| (strsim::damerau_levenshtein(&key, name), table != prefix, table, name))
        .min();
    match nearest {
        Some((distance, _, table, name)) if distance <= 2.max(name.len() / 3) => {
            format!("did you mean `{table}{name}`?")
        }
        _ if prefix.is_empty() => format!("known are {}", Policy::KEYS.join(", ")),
        _ if prefix == "secrets.NAME." => format!("known are {}", SecretLayer::KEYS.join(", ")),
        _ if prefix == "ports." => format!("known are {}", PortSettings::KEYS.join(", ")),
        _ if prefix == "net." => format!("known are {}", NetLayer::KEYS.join(", ")),
        _ => format!("known are {}", LimitsLayer::KEYS.join(", ")),
    }
}

fn shortened(key: &str) -> String {
    key.chars().take(64).collect()
}

fn decimal(number: &DeInteger) -> String {
    i64::from_str_radix(number.as_str(), number.radix())
        .map_or_else(|_| number.to_string(), |value| value.to_string())
}

/// Line and column of a byte, both from one.
pub fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn every_key_is_read() {
        let policy = parse(
            r#"
            backend = "process"
            image = "./rootfs"
            workspace = "."
            read = ["/data:/in"]
            write = ["/out"]
            tmpfs = ["/scratch"]
            protect = ["Makefile"]
            unprotect = [".vscode"]
            net = "none"
            ports = { public = "all", request_host = "app.example" }
            require = ["memory-limit"]
            user = "root"
            hostname = "box"
            cwd = "/workspace"
            command = ["make", "test"]
            ready = "test -e done"
            scan = "warn"
            live_forks = false
            root_may_install = true
            become_root = true
            audit_outputs = false
            host_certs = true
            allowed_imports = ["json"]
            preload = ["numpy"]
            env = { A = "1" }
            [secrets.KEY]
            from = "env:KEY"
            hosts = ["a.example"]
            [limits]
            memory = "1GiB"
            cpus = 1.5
            pids = 64
            disk = 1_048_576
            files = 0x100
            output = "1m"
            timeout = "none"
            "#,
        )
        .unwrap();
        let as_json = serde_json::to_value(&policy).unwrap();
        for key in Policy::KEYS {
            assert!(as_json.get(key).is_some(), "{key} was not read");
        }
        for key in LimitsLayer::KEYS {
            assert!(as_json["limits"].get(key).is_some(), "limits.{key} was not read");
        }
        assert_eq!(policy.limits.cpus.as_deref(), Some("1.5"));
        assert_eq!(policy.limits.disk.as_deref(), Some("1048576"));
        assert_eq!(policy.limits.files.as_deref(), Some("256"));
    }

    #[test]
    fn public_ports_are_numbers_or_all() {
        let ports = |text: &str| parse(text).map(|policy| policy.ports).map_err(|error| error.to_string());
        let text = "[ports]\npublic = [3000, 0x50]\nrequest_host = \"app.example:${PORT}\"";
        let both = PortSettings {
            public: Some(PublicPorts::Numbers(vec![3000, 80])),
            request_host: Some("app.example:${PORT}".into()),
        };
        assert_eq!(ports(text).unwrap(), both);
        assert_eq!(ports("ports = { public = \"all\" }").unwrap().public, Some(PublicPorts::all()));
        assert_eq!(ports("ports = { public = [] }").unwrap().public, Some(PublicPorts::none()));
        for (text, said) in [
            (
                "ports = 3",
                "line 1: `ports` has to be a table with `public` and `request_host`, but is a whole number",
            ),
            (
                "ports = { publik = [] }",
                "line 1: `ports.publik` is not a setting; did you mean `ports.public`?",
            ),
            (
                "[ports]\npublic = true",
                "line 2: `ports.public` has to be `all` or a list of numbers of ports, but is true or false",
            ),
            (
                "[ports]\npublic = [80, \"443\"]",
                "line 2: `ports.public` has to be `all` or a list of numbers of ports, but is a string",
            ),
            (
                "[ports]\npublic = [-1]",
                "line 2: `ports.public` has to be `all` or a list of numbers of ports, but is a whole number",
            ),
            (
                "[ports]\nzzzzzzzzzz = 1",
                "line 2: `ports.zzzzzzzzzz` is not a setting; known are public, request_host",
            ),
        ] {
            assert_eq!(ports(text).unwrap_err(), said);
        }
    }

    #[test]
    fn an_unknown_key_names_its_line_and_the_nearest_known_one() {
        assert_eq!(
            refusal("image = 'a'\nwrokspace = '.'\n"),
            "line 2: `wrokspace` is not a setting; did you mean `workspace`?"
        );
        assert_eq!(
            refusal("memory = '1g'"),
            "line 1: `memory` is not a setting; did you mean `limits.memory`?"
        );
        assert_eq!(
            refusal("[limits]\ncpu = 1"),
            "line 2: `limits.cpu` is not a setting; did you mean `limits.cpus`?"
        );
        assert_eq!(
            refusal("[limits]\nhost-name = 1"),
            "line 2: `limits.host-name` is not a setting; did you mean `hostname`?"
        );
        assert!(refusal("zzzzzzzzzzzz = 1").contains("known are backend, image"));
        assert!(refusal("\"\\u001b[31m\" = 1").contains("`\\u{1b}[31m`"));
    }

    #[test]
    fn the_first_mistake_in_the_file_is_reported() {
        assert!(refusal("zap = 1\nactor = 2").starts_with("line 1: `zap`"));
    }

    #[test]
    fn a_wrong_type_says_what_was_expected() {
        assert_eq!(refusal("read = '/data'"), "line 1: `read` has to be a list of strings, but is a string");
        assert_eq!(
            refusal("read = [\n 'a',\n 5]"),
            "line 3: `read` has to be a list of strings, but is a whole number"
        );
        assert_eq!(
            refusal("limits = 5"),
            "line 1: `limits` has to be a table of limits, but is a whole number"
        );
        assert_eq!(
            refusal("[limits]\nmemory = true"),
            "line 2: `limits.memory` has to be a number or a string, but is true or false"
        );
        assert_eq!(
            refusal("[env]\nPORT = 80"),
            "line 2: `env.PORT` has to be a string, but is a whole number"
        );
    }

    #[test]
    fn broken_toml_names_line_and_column() {
        assert!(refusal("image = 'a'\nnet = \n").starts_with("line 2, column "));
        assert!(refusal("image = 'a'\nimage = 'b'\n").starts_with("line 2, column 1: duplicate key"));
        assert_eq!(parse_bytes(b"image = '\xff'"), Err(PolicyError::NotText));
        assert_eq!(parse(&" ".repeat(LARGEST_FILE + 1)), Err(PolicyError::TooLarge));
    }

    /// The largest inputs of the shapes that make parsers slow or deep.
    #[test]
    fn hostile_shapes_end() {
        let shapes = [
            "[".repeat(LARGEST_FILE),
            format!("a = {}", "[".repeat(LARGEST_FILE - 4)),
            format!("a = {}", "{b=".repeat(LARGEST_FILE / 3 - 4)),
            "a.".repeat(LARGEST_FILE / 2),
            format!("{} = 1", "k".repeat(LARGEST_FILE - 8)),
            "\n".repeat(LARGEST_FILE),
            format!("read = [{}]", "'',".repeat(LARGEST_FILE / 3 - 4)),
            (0..80_000).map(|n| format!("k{n} = {n}\n")).collect(),
        ];
        // A parser whose time grows with the square of such a text would take hours; each takes less than a second.
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for text in shapes {
                let _ = done.send(parse(&text).is_ok());
            }
        });
        for shape in 0..8 {
            let parsed = is_done.recv_timeout(std::time::Duration::from_secs(120));
            assert!(parsed.is_ok(), "shape {shape} is still being parsed");
        }
    }

    /// Deterministic short fuzz: valid fragments, cut and joined at random.
    #[test]
    fn random_text_never_panics() {
        const FRAGMENTS: [&str; 24] = [
            "image",
            "limits",
            "env",
            "read",
            "memory",
            " = ",
            "[",
            "]",
            "{",
            "}",
            "\"",
            "'''",
            "\n",
            ".",
            ",",
            "1.5",
            "-1",
            "0x",
            "true",
            "é",
            "\u{202e}",
            "\0",
            "# ",
            "1979-05-27",
        ];
        let mut seed: u64 = 0x5eed;
        let mut next = |bound: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed % bound as u64) as usize
        };
        for _ in 0..20_000 {
            let text: String = (0..next(24)).map(|_| FRAGMENTS[next(FRAGMENTS.len())]).collect();
            if let Err(error) = parse(&text) {
                assert!(!error.to_string().contains('\0'), "{text:?}");
            }
        }
    }
}
