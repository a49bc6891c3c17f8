//! The paths that count as the sandbox's own: the workspace, /tmp, and the mounts of its policy.

use paddock_model::WORKSPACE_TARGET;

/// Harmless devices, whatever the places are.
const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/urandom"];
/// Addresses that readers of paths fetch from the network.
const REMOTE: [&str; 7] = ["http://", "https://", "ftp://", "ftps://", "s3://", "gs://", "sftp://"];

pub struct Places {
    cwd: Vec<String>,
    inside: Vec<Vec<String>>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Place {
    Inside,
    Outside,
    /// The text is an address, not a path.
    Network,
}

impl Places {
    pub fn new(cwd: Option<&str>, more: &[String]) -> Places {
        let cwd = cwd.filter(|cwd| cwd.starts_with('/')).unwrap_or(WORKSPACE_TARGET);
        let named = [WORKSPACE_TARGET, "/tmp", cwd].into_iter();
        let inside = named.chain(more.iter().map(String::as_str)).map(|path| walked(&[], path)).collect();
        Places { cwd: walked(&[], cwd), inside }
    }

    /// Judges by the text alone: the links inside are not known here.
    pub fn of(&self, path: &str) -> Place {
        let lower: String = path.chars().take(8).collect::<String>().to_ascii_lowercase();
        if REMOTE.iter().any(|start| lower.starts_with(start)) {
            return Place::Network;
        }
        let path = path.strip_prefix("file://").unwrap_or(path);
        if DEVICES.contains(&path) {
            return Place::Inside;
        }
        let parts = walked(if path.starts_with('/') { &[] } else { &self.cwd }, path);
        match self.inside.iter().any(|place| parts.starts_with(place)) {
            true => Place::Inside,
            false => Place::Outside,
        }
    }
}

fn walked(from: &[String], path: &str) -> Vec<String> {
    let mut parts = from.to_vec();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name.to_string()),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_inside_by_where_it_ends() {
        let places = Places::new(None, &["/data".to_string()]);
        for path in [
            "a.txt",
            "/workspace",
            "/workspace/a/../b",
            "/tmp/x",
            "a/../../workspace/x",
            "/dev/null",
            "/data/x",
        ] {
            assert_eq!(places.of(path), Place::Inside, "{path}");
        }
        for path in [
            "/etc/passwd",
            "/",
            "../x",
            "/workspace/../etc",
            "/workspaces",
            "//etc//passwd",
            "file:///etc/x",
            "/dev/sda",
        ] {
            assert_eq!(places.of(path), Place::Outside, "{path}");
        }
        assert_eq!(places.of("HTTPS://example.org/x.csv"), Place::Network);
        let deeper = Places::new(Some("/srv/app"), &[]);
        assert_eq!(deeper.of("x/y"), Place::Inside);
        assert_eq!(deeper.of("../x"), Place::Outside);
    }
}
