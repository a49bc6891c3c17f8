//! The file of certificates that a sandbox may get, and the variables by which its clients find it.

use std::collections::BTreeMap;

/// The path of the file inside. Every user can write there, in every image and with one id alone; a process that
/// changes the file harms only its own sandbox.
pub const FILE: &str = "/tmp/.paddock/certificates.pem";
/// Variables by which clients find the file. Node adds it to its own certificates, the others replace theirs.
pub const VARIABLES: [&str; 10] = [
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "CARGO_HTTP_CAINFO",
    "AWS_CA_BUNDLE",
    "DENO_CERT",
    // A file of settings in the host's /usr may name a certificate file that does not exist inside.
    "npm_config_cafile",
];

/// The variables by which the clients of every exec find the file.
pub fn environment() -> BTreeMap<String, String> {
    environment_at(FILE)
}

/// The same for a file elsewhere.
pub fn environment_at(path: &str) -> BTreeMap<String, String> {
    VARIABLES.map(|name| (name.to_string(), path.to_string())).into()
}

/// Removes the variables that [`environment`] gave.
pub fn remove_environment(env: &mut BTreeMap<String, String>) {
    env.retain(|name, value| !(value == FILE && is_variable(name)));
}

pub fn is_variable(name: &str) -> bool {
    VARIABLES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_taken_away_only_where_they_name_the_file() {
        let mut env = environment();
        env.insert("PIP_CERT".into(), "/mine".into());
        env.insert("SSL_CERT_DIR".into(), FILE.into());
        remove_environment(&mut env);
        assert_eq!(env.into_keys().collect::<Vec<_>>(), ["PIP_CERT", "SSL_CERT_DIR"]);
    }
}
