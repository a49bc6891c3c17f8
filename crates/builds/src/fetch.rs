//! The loans of the host to a step that fetches. The step has them only while it runs, and none of them is in the
//! image.
//!
//! - the sources of packages ([`apt`]), as files at /run/paddock
//! - the host's certificates, so that the step trusts the servers that the host trusts
//! - variables: proxies; pip's index and npm's registry, from the caller's variables or, if they are not set, from the
//!   files that pip and npm read. No tokens: the install scripts of a package could read them.

use super::apt::{self, Origin};
use super::error::BuildError;
use paddock_engine::certificates;
use paddock_images::directories::Temporary;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The directory of the loans inside.
pub const LENT: &str = "/run/paddock";
const LARGEST: u64 = 16 << 20;

/// The caller's variables that a build reads.
pub type Variables = BTreeMap<String, String>;

pub struct Lent {
    /// The directory that is mounted at [`LENT`].
    pub directory: PathBuf,
    pub env: BTreeMap<String, String>,
    _work: Temporary,
}

/// `origins`: empty if the base has sources of its own. `caller`: none for the build of a tenant, to whom the host's proxies
/// and indexes are not lent. `asked`: certificates that the caller insists on; without them the step gets those at the
/// host's usual places, if there are any.
pub fn lend(
    work: Temporary,
    origins: &[Origin],
    caller: Option<&Variables>,
    asked: Option<Vec<u8>>,
) -> Result<Lent, BuildError> {
    let directory = work.make("lent")?;
    let mut env = BTreeMap::new();
    let mut conf = vec!["APT::Sandbox::User \"root\";".to_string(), "Acquire::Retries \"3\";".into()];
    conf.extend(["APT::Install-Recommends \"false\";", "Acquire::Languages \"none\";"].map(String::from));
    conf.push("Dpkg::Options { \"--force-unsafe-io\"; \"--force-confnew\"; };".into());
    if caller.is_some() {
        conf.extend(apt::host_proxies());
    }
    let nothing = Variables::new();
    if let Some(bundle) = asked.or_else(|| usual_certificates(caller.unwrap_or(&nothing))) {
        write(&directory, "certificates.crt", &bundle)?;
        let path = format!("{LENT}/certificates.crt");
        conf.push(format!("Acquire::https::CaInfo \"{path}\";"));
        env.extend(certificates::environment_at(&path));
    }
    for (number, origin) in origins.iter().enumerate() {
        let key = read(&origin.keyring)
            .map_err(|source| BuildError::Io { path: origin.keyring.clone(), source })?;
        write(&directory, &apt::keyring_name(number, &origin.keyring), &key)?;
    }
    if !origins.is_empty() {
        write(&directory, "sources.list", apt::list(origins, Path::new(LENT)).as_bytes())?;
        conf.push(format!("Dir::Etc::SourceList \"{LENT}/sources.list\";"));
        conf.push("Dir::Etc::SourceParts \"-\";".into());
    }
    write(&directory, "apt.conf", format!("{}\n", conf.join("\n")).as_bytes())?;
    env.insert("APT_CONFIG".into(), format!("{LENT}/apt.conf"));
    env.extend(caller.map(proxies).unwrap_or_default());
    env.extend(caller.map(indexes).unwrap_or_default());
    Ok(Lent { directory, env, _work: work })
}

fn write(directory: &Path, name: &str, bytes: &[u8]) -> Result<(), BuildError> {
    let path = directory.join(name);
    let written =
        fs::write(&path, bytes).and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o644)));
    written.map_err(|source| BuildError::Io { path, source })
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    if fs::metadata(path)?.len() > LARGEST {
        return Err(std::io::ErrorKind::FileTooLarge.into());
    }
    fs::read(path)
}

fn usual_certificates(caller: &Variables) -> Option<Vec<u8>> {
    let named = caller.get("SSL_CERT_FILE").map(String::as_str);
    let usual =
        ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
    named.into_iter().chain(usual).find_map(|path| read(Path::new(path)).ok())
}

fn proxies(caller: &Variables) -> BTreeMap<String, String> {
    let names = ["http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];
    names.iter().filter_map(|name| Some((name.to_string(), caller.get(*name)?.clone()))).collect()
}

/// The settings of pip and npm: the name of the variable, and the key in pip's or npm's file.
const PIP: [(&str, &str); 5] = [
    ("PIP_INDEX_URL", "index-url"),
    ("PIP_EXTRA_INDEX_URL", "extra-index-url"),
    ("PIP_TRUSTED_HOST", "trusted-host"),
    ("PIP_DEFAULT_TIMEOUT", "timeout"),
    ("PIP_PROXY", "proxy"),
];
const NPM: [(&str, &str); 3] = [
    ("npm_config_registry", "registry"),
    ("npm_config_proxy", "proxy"),
    ("npm_config_https_proxy", "https-proxy"),
];

fn indexes(caller: &Variables) -> BTreeMap<String, String> {
    let home = caller.get("HOME").map(PathBuf::from);
    let of_home = |name: &str| home.as_ref().map(|home| home.join(name));
    let text =
        |path: Option<PathBuf>| path.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
    let pip =
        [Some("/etc/pip.conf".into()), of_home(".pip/pip.conf"), of_home(".config/pip/pip.conf")].map(text);
    let npm = [Some("/etc/npmrc".into()), of_home(".npmrc")].map(text);
    let mut found = settings(&PIP, &pip, caller);
    found.extend(settings(&NPM, &npm, caller));
    found
}

/// The later file wins over the earlier one, and the caller's variable over both.
fn settings(known: &[(&str, &str)], files: &[String], caller: &Variables) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (variable, key) in known {
        let in_files = files.iter().rev().find_map(|text| value_of(text, key));
        let upper = variable.to_uppercase();
        let value = caller.get(*variable).or_else(|| caller.get(&upper)).cloned().or(in_files);
        found.extend(value.map(|value| (variable.to_string(), value)));
    }
    found
}

/// The value of a plain line `key = value`.
fn value_of(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        (name.trim() == key && !value.trim().is_empty()).then(|| value.trim().to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_taken_from_the_caller_or_its_files_and_no_token() {
        let files =
            ["[global]\nindex-url = http://far/\n".to_string(), "index-url=http://near/\n".to_string()];
        assert_eq!(settings(&PIP, &files, &Variables::new())["PIP_INDEX_URL"], "http://near/");
        let caller = Variables::from([("PIP_INDEX_URL".to_string(), "http://own/".to_string())]);
        assert_eq!(settings(&PIP, &files, &caller)["PIP_INDEX_URL"], "http://own/");
        let npm = ["registry=http://r/\n//r/:_authToken=secret\n_password=secret\n".to_string()];
        let found = settings(&NPM, &npm, &Variables::new());
        assert_eq!(found, BTreeMap::from([("npm_config_registry".to_string(), "http://r/".to_string())]));
    }

    #[test]
    fn what_is_lent_can_be_read_by_all() {
        let state = tempfile::tempdir().unwrap();
        let directories = paddock_images::directories::Directories::open(state.path()).unwrap();
        let keyring = state.path().join("key.gpg");
        fs::write(&keyring, "key").unwrap();
        let origin = Origin { uri: "http://m".into(), suite: "s".into(), components: "main".into(), keyring };
        let caller = Variables::from([("https_proxy".to_string(), "http://p".to_string())]);
        let lent = lend(directories.temporary().unwrap(), &[origin], Some(&caller), Some(b"asked".to_vec()))
            .unwrap();
        let list = fs::read_to_string(lent.directory.join("sources.list")).unwrap();
        assert_eq!(list, "deb [signed-by=/run/paddock/keyring-0.gpg] http://m s main\n");
        assert_eq!(fs::read_to_string(lent.directory.join("keyring-0.gpg")).unwrap(), "key");
        assert_eq!(lent.env["https_proxy"], "http://p");
        assert_eq!(fs::read_to_string(lent.directory.join("certificates.crt")).unwrap(), "asked");
        assert_eq!(lent.env["CARGO_HTTP_CAINFO"], "/run/paddock/certificates.crt");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&lent.directory), mode(&lent.directory.join("apt.conf"))), (0o755, 0o644));
        let directory = lent.directory.clone();
        drop(lent);
        assert!(!directory.exists());
    }
}
