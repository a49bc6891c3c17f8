//! The certificates of this host: its store, or the files that SSL_CERT_FILE and SSL_CERT_DIR name instead, and the
//! files that the variables of single programs name. A network that inspects TLS has an authority of its own, which the
//! host knows by one of these; sometimes only by the variable of one program.

use super::{Certificates, CertificatesError, Unreadable, read};
use paddock_settings::certificate_variables::VARIABLES;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const STORE_FILE: &str = "SSL_CERT_FILE";
const STORE_DIRECTORIES: &str = "SSL_CERT_DIR";
/// A store is hundreds of files, and many sandboxes are made at once. So the result is kept for 5 seconds; a new
/// authority is seen after that.
const STORE_KEPT_FOR: Duration = Duration::from_secs(5);

type Variables = BTreeMap<&'static str, OsString>;

/// All certificates, at least one; or an error that names an unreadable file.
pub fn certificates() -> Result<Certificates, CertificatesError> {
    static LAST: Mutex<Option<(Instant, Variables, Arc<Certificates>)>> = Mutex::new(None);
    let set = variables(|name| std::env::var_os(name));
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((at, of, kept)) = &*last
        && at.elapsed() < STORE_KEPT_FOR
        && *of == set
    {
        return Ok(kept.to_vec());
    }
    let found = named(&set)?;
    *last = Some((Instant::now(), set, Arc::new(found.clone())));
    Ok(found)
}

/// The variables that are set. An empty one counts as not set.
fn variables(of_process: impl Fn(&str) -> Option<OsString>) -> Variables {
    let names = VARIABLES.into_iter().chain([STORE_DIRECTORIES]);
    let set = names.filter_map(|name| Some((name, of_process(name)?)));
    set.filter(|(_, value)| !value.is_empty()).collect()
}

fn named(set: &Variables) -> Result<Certificates, CertificatesError> {
    let mut all = Vec::new();
    if !set.contains_key(STORE_FILE) && !set.contains_key(STORE_DIRECTORIES) {
        all.extend(whole(paddock_gate::host_store()).map_err(CertificatesError::Store)?);
    }
    for (variable, value) in set {
        let directories = std::env::split_paths(value).filter(|path| !path.as_os_str().is_empty());
        let paths = match *variable == STORE_DIRECTORIES {
            true => directories.collect(),
            false => vec![value.into()],
        };
        for path in paths {
            let unusable = |detail| {
                let path = path.display().to_string();
                CertificatesError::Named { variable, path, detail }
            };
            all.extend(in_file_or_directory(&path).map_err(unusable)?);
        }
    }
    match all.is_empty() {
        true => Err(CertificatesError::None),
        false => Ok(all),
    }
}

/// Clients of Python take a directory too.
fn in_file_or_directory(path: &Path) -> Result<Certificates, String> {
    if path.is_dir() {
        return whole(paddock_gate::certificates_below(path));
    }
    read(path).map_err(|error| match error {
        Unreadable::Missing => "there is no such file".to_string(),
        Unreadable::Wrong(detail) => detail,
    })
}

/// One unreadable certificate is an error: it may be the one that matters.
fn whole((certificates, errors): paddock_gate::Found) -> Result<Certificates, String> {
    match errors.into_iter().next() {
        Some(error) => Err(error),
        None => Ok(certificates),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_gate::Authority;

    fn set(of: &[(&str, &Path)]) -> Variables {
        variables(|name| of.iter().find(|(set, _)| *set == name).map(|(_, path)| path.into()))
    }

    #[test]
    fn the_variables_of_programs_add_to_the_store_or_to_what_takes_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, Authority::new().unwrap().pem()).unwrap();
            path
        };
        let (store, node, pip) = (file("store.pem"), file("node.pem"), file("pip.pem"));
        let count = |of: &[(&str, &Path)]| named(&set(of)).unwrap().len();
        assert_eq!(count(&[("SSL_CERT_FILE", &store)]), 1);
        assert_eq!(
            count(&[("SSL_CERT_FILE", &store), ("NODE_EXTRA_CA_CERTS", &node), ("PIP_CERT", &pip)]),
            3
        );
        assert_eq!(count(&[("SSL_CERT_DIR", directory.path())]), 3);
        assert_eq!(count(&[("SSL_CERT_FILE", &store), ("REQUESTS_CA_BUNDLE", directory.path())]), 4);
        assert_eq!(set(&[("PIP_CERT", Path::new(""))]), Variables::new());
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named_with_its_variable() {
        let directory = tempfile::tempdir().unwrap();
        let (empty, missing) = (directory.path().join("empty.pem"), directory.path().join("missing.pem"));
        std::fs::write(&empty, "").unwrap();
        for (variable, path, said) in [
            ("NODE_EXTRA_CA_CERTS", missing.as_path(), "no such file"),
            ("PIP_CERT", empty.as_path(), "no certificate in it"),
            ("SSL_CERT_FILE", Path::new("/dev/zero"), "not a file"),
        ] {
            let error = named(&set(&[(variable, path)])).unwrap_err();
            let text = error.to_string();
            let path = path.display().to_string();
            assert!([variable, &path, said].iter().all(|part| text.contains(part)), "{text}");
            assert!(error.hint().is_some());
        }
        std::fs::remove_file(&empty).unwrap();
        let none = named(&set(&[("SSL_CERT_DIR", directory.path())])).unwrap_err();
        assert!(matches!(none, CertificatesError::None), "{none}");
    }
}
