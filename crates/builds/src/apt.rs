//! The sources of Debian's packages. The rule: the build file's `mirror`; else the host's own sources, if the host is a
//! Debian; else Debian's public mirror. Of the host's sources only those of its release are taken, with the release
//! changed to the one that is built, and the key that signs them; no other source and no password file.

use std::fs;
use std::path::{Path, PathBuf};

const PUBLIC: &str = "http://deb.debian.org/debian";
const PUBLIC_SECURITY: &str = "http://deb.debian.org/debian-security";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// One line of a sources.list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub uri: String,
    pub suite: String,
    pub components: String,
    pub keyring: PathBuf,
}

/// The sources for packages of the release `suite`.
pub fn origins(suite: &str, mirror: Option<&str>) -> Vec<Origin> {
    let origin = |uri: &str, suite: String| Origin {
        uri: uri.into(),
        suite,
        components: "main".into(),
        keyring: KEYRING.into(),
    };
    if let Some(mirror) = mirror {
        return vec![origin(mirror, suite.into())];
    }
    let from_host = host_release().map(|release| of_release(&host_sources(), &release, suite));
    match from_host {
        Some(found) if !found.is_empty() => found,
        _ if ["sid", "unstable"].contains(&suite) => vec![origin(PUBLIC, suite.into())],
        _ => vec![
            origin(PUBLIC, suite.into()),
            origin(PUBLIC, format!("{suite}-updates")),
            origin(PUBLIC_SECURITY, format!("{suite}-security")),
        ],
    }
}

/// The sources.list that every image has after its build: Debian's public mirror, never the host's sources.
pub fn public_list(suite: &str) -> String {
    let updates = match suite {
        "sid" | "unstable" => String::new(),
        _ => format!("deb {PUBLIC} {suite}-updates main\ndeb {PUBLIC_SECURITY} {suite}-security main\n"),
    };
    format!("deb {PUBLIC} {suite} main\n{updates}")
}

/// The code name of this host's release, if the host is a Debian.
fn host_release() -> Option<String> {
    release_of(&fs::read_to_string("/etc/os-release").ok()?)
}

fn release_of(text: &str) -> Option<String> {
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.map(|value| value.trim_matches('"').to_string())
    };
    value("ID").filter(|id| id == "debian").and_then(|_| value("VERSION_CODENAME"))
}

fn host_sources() -> Vec<(String, bool)> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    let parts = fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten();
    files.extend(parts.map(|entry| entry.path()));
    files.sort();
    let read = files.into_iter().filter_map(|path| {
        let blocks = match path.extension()?.to_str()? {
            "list" => false,
            "sources" => true,
            _ => return None,
        };
        Some((fs::read_to_string(&path).ok()?, blocks))
    });
    read.collect()
}

/// `files`: the text of each file, and true if it is written in blocks (`.sources`), false for lines (`.list`).
fn of_release(files: &[(String, bool)], release: &str, wanted: &str) -> Vec<Origin> {
    let all = files.iter().flat_map(|(text, blocks)| if *blocks { blocks_of(text) } else { lines_of(text) });
    let mut found: Vec<Origin> = Vec::new();
    for mut origin in all {
        let kind = match origin.suite.strip_prefix(release) {
            Some(kind @ ("" | "-updates" | "-security")) => kind.to_string(),
            _ => continue,
        };
        let web = origin.uri.starts_with("http://") || origin.uri.starts_with("https://");
        let sid = ["sid", "unstable"].contains(&wanted) && !kind.is_empty();
        origin.suite = format!("{wanted}{kind}");
        if web && !sid && !found.contains(&origin) {
            found.push(origin);
        }
    }
    found
}

fn lines_of(text: &str) -> Vec<Origin> {
    let line = |line: &str| {
        let rest = line.trim().strip_prefix("deb ")?.trim_start();
        let (options, rest) = match rest.strip_prefix('[') {
            Some(rest) => rest.split_once(']')?,
            None => ("", rest),
        };
        let mut words = rest.split_whitespace();
        let (uri, suite) = (words.next()?.to_string(), words.next()?.to_string());
        let components = words.collect::<Vec<_>>().join(" ");
        let keyring = options.split_whitespace().find_map(|option| option.strip_prefix("signed-by="));
        Some(Origin { uri, suite, components, keyring: keyring.unwrap_or(KEYRING).into() })
    };
    text.lines().filter_map(line).filter(|origin| !origin.components.is_empty()).collect()
}

fn blocks_of(text: &str) -> Vec<Origin> {
    let mut found = Vec::new();
    let without_comments: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for block in without_comments.split(|line| line.trim().is_empty()) {
        let field = |name: &str| {
            block.iter().find_map(|line| {
                let (key, value) = line.split_once(':')?;
                key.eq_ignore_ascii_case(name).then(|| value.trim())
            })
        };
        let words = |name: &str| field(name).unwrap_or("").split_whitespace();
        if !words("Types").any(|kind| kind == "deb") || field("Enabled") == Some("no") {
            continue;
        }
        let components = words("Components").collect::<Vec<_>>().join(" ");
        // A key in the file itself spans lines of its own; Debian's keyring is as good for Debian's releases.
        let keyring = field("Signed-By").filter(|path| path.starts_with('/')).unwrap_or(KEYRING);
        for uri in words("URIs") {
            found.extend(words("Suites").filter(|_| !components.is_empty()).map(|suite| Origin {
                uri: uri.into(),
                suite: suite.into(),
                components: components.clone(),
                keyring: keyring.into(),
            }));
        }
    }
    found
}

/// The host's settings `Acquire::http::Proxy` and the like, if each is on one line.
pub fn host_proxies() -> Vec<String> {
    let mut files = vec![PathBuf::from("/etc/apt/apt.conf")];
    let parts = fs::read_dir("/etc/apt/apt.conf.d").into_iter().flatten().flatten();
    files.extend(parts.map(|entry| entry.path()));
    files.sort();
    files.iter().filter_map(|path| fs::read_to_string(path).ok()).flat_map(|text| proxies_of(&text)).collect()
}

fn proxies_of(text: &str) -> Vec<String> {
    let known = ["Acquire::http::Proxy ", "Acquire::https::Proxy "];
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| known.iter().any(|key| line.starts_with(key)) && line.ends_with("\";"))
        .map(String::from)
        .collect()
}

/// The text of a sources.list. Its keyrings have the names of [`keyring_name`] in the directory `keyrings`.
pub fn list(origins: &[Origin], keyrings: &Path) -> String {
    let line = |(number, origin): (usize, &Origin)| {
        let keyring = keyrings.join(keyring_name(number, &origin.keyring));
        let Origin { uri, suite, components, .. } = origin;
        format!("deb [signed-by={}] {uri} {suite} {components}\n", keyring.display())
    };
    origins.iter().enumerate().map(line).collect()
}

/// The name of a key's copy. apt tells the form of a key by the end of its file's name.
pub fn keyring_name(number: usize, keyring: &Path) -> String {
    let armoured = keyring.extension().is_some_and(|extension| extension == "asc");
    format!("keyring-{number}.{}", if armoured { "asc" } else { "gpg" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sources_of_the_release_are_taken_and_moved_to_the_one_wanted() {
        let blocks = "Types: deb\n# a comment\nURIs: http://mirror/debian\nSuites: old old-updates old-backports\n\
                      Components: main contrib\nSigned-By: /keys/a.gpg\n\nTypes: deb-src\nURIs: http://mirror/debian\n\
                      Suites: old\nComponents: main\n\nTypes: deb\nEnabled: no\nURIs: http://off\nSuites: old\nComponents: main\n";
        let lines = "deb [arch=amd64 signed-by=/keys/b.asc] https://mirror/security old-security main\n\
                     deb https://elsewhere stable main\ndeb cdrom:[x] old main\ndeb file:/x old main\n# deb http://c old main\n";
        let found = of_release(&[(blocks.into(), true), (lines.into(), false)], "old", "new");
        let list = list(&found, Path::new("/k"));
        assert_eq!(
            list,
            "deb [signed-by=/k/keyring-0.gpg] http://mirror/debian new main contrib\n\
             deb [signed-by=/k/keyring-1.gpg] http://mirror/debian new-updates main contrib\n\
             deb [signed-by=/k/keyring-2.asc] https://mirror/security new-security main\n"
        );
        assert_eq!(of_release(&[(blocks.into(), true)], "old", "sid").len(), 1);
    }

    #[test]
    fn a_mirror_of_the_file_stands_for_all() {
        let found = origins("bookworm", Some("http://m/debian"));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].uri.as_str(), found[0].suite.as_str()), ("http://m/debian", "bookworm"));
    }

    #[test]
    fn the_host_is_asked_what_it_is() {
        assert_eq!(release_of("ID=debian\nVERSION_CODENAME=bookworm\n").as_deref(), Some("bookworm"));
        assert_eq!(release_of("ID=\"ubuntu\"\nVERSION_CODENAME=noble\n"), None);
        assert_eq!(
            proxies_of("// Acquire::http::Proxy \"x\";\n Acquire::http::Proxy \"http://p:1\";\n").len(),
            1
        );
    }
}
