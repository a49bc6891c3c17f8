//! Where the server is: `PADDOCK_URL`, else the user's own socket.

use super::{Address, ClientError};
use paddock_terminal::caller::Environment;
use paddock_terminal::{env_vars, state};
use rustix::process::geteuid;
use std::path::{Path, PathBuf};

/// The address that the caller's environment names.
pub fn configured(environment: &Environment) -> Result<Option<Address>, ClientError> {
    let Some(text) = environment.get(env_vars::PADDOCK_URL) else { return Ok(None) };
    let refused = |reason| ClientError::Address { value: text.to_string_lossy().into_owned(), reason };
    let text = text.to_str().ok_or_else(|| refused("it is not UTF-8 text"))?;
    Address::parse(text).map(Some).map_err(refused)
}

/// The socket of the server of this state directory. No two state directories share one: another state directory has
/// another server.
pub fn own_socket(environment: &Environment, state_dir: &Path) -> PathBuf {
    let inside = || state_dir.join("run/api.sock");
    if !state::is_usual(environment, state_dir) {
        return inside();
    }
    if geteuid().is_root() {
        return PathBuf::from("/run/paddock/api.sock");
    }
    let runtime = environment.get(env_vars::XDG_RUNTIME_DIR).map(Path::new).filter(|path| path.is_absolute());
    runtime.map_or_else(inside, |runtime| runtime.join("paddock/api.sock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_directory_has_a_socket_of_its_own() {
        let runtime = || ("XDG_RUNTIME_DIR".into(), "/run/user/7".into());
        let home = || ("HOME".into(), "/nonexistent/home".into());
        let environment = |more: &[(&str, &str)]| -> Environment {
            more.iter().map(|(name, value)| (name.into(), value.into())).chain([runtime(), home()]).collect()
        };
        let socket = |more: &[(&str, &str)]| {
            let environment = environment(more);
            own_socket(&environment, &state::locate(&environment).unwrap())
        };
        let usual = socket(&[]);
        let expected = match geteuid().is_root() {
            true => "/run/paddock/api.sock",
            false => "/run/user/7/paddock/api.sock",
        };
        assert_eq!(usual, Path::new(expected));
        assert_eq!(
            socket(&[("PADDOCK_STATE_DIR", "/nonexistent/a")]),
            Path::new("/nonexistent/a/run/api.sock")
        );
        if !geteuid().is_root() {
            let elsewhere = socket(&[("XDG_STATE_HOME", "/nonexistent/b")]);
            assert_eq!(elsewhere, Path::new("/nonexistent/b/paddock/run/api.sock"));
        }
        // A variable with the usual path means the usual server.
        let usual_state = state::locate(&environment(&[])).unwrap();
        assert_eq!(socket(&[("PADDOCK_STATE_DIR", usual_state.to_str().unwrap())]), usual);
    }
}
