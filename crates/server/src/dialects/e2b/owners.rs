//! The names of owners, as the sandbox's own `/etc/passwd` and `/etc/group` have them.

use super::inside::Inside;
use paddock_model::api::FileEntry;
use std::collections::BTreeMap;

/// Of each of the two files. What is written below this is not looked for, and such an owner has its number.
const MOST_BYTES: u64 = 256 << 10;
const LONGEST_NAME: usize = 256;
/// E2B's user, and that of the built-in environment, which has another name there.
const USER: (u32, &str) = (1000, "user");

#[derive(Debug, Default)]
pub struct Owners {
    users: BTreeMap<u32, String>,
    groups: BTreeMap<u32, String>,
}

impl Owners {
    /// Reads the files only for entries whose owners are not known without them.
    pub async fn of(inside: &Inside, user: Option<&str>, entries: &[FileEntry]) -> Owners {
        let mut owners = match inside.is_built_in() || inside.template_user().is_some() {
            true => Owners::of_e2b(),
            false => Owners::default(),
        };
        if entries.iter().any(|entry| !is_known(&owners.users, entry.uid)) {
            add_names(&mut owners.users, &content(inside, user, "/etc/passwd").await);
        }
        if entries.iter().any(|entry| !is_known(&owners.groups, entry.gid)) {
            add_names(&mut owners.groups, &content(inside, user, "/etc/group").await);
        }
        owners
    }

    pub fn of_e2b() -> Owners {
        let known = || BTreeMap::from([(USER.0, USER.1.to_string())]);
        Owners { users: known(), groups: known() }
    }

    pub fn user(&self, id: u32) -> String {
        name(&self.users, id)
    }

    pub fn group(&self, id: u32) -> String {
        name(&self.groups, id)
    }
}

fn is_known(names: &BTreeMap<u32, String>, id: u32) -> bool {
    id == 0 || names.contains_key(&id)
}

fn name(names: &BTreeMap<u32, String>, id: u32) -> String {
    match (id, names.get(&id)) {
        (0, _) => "root".into(),
        (_, Some(name)) => name.clone(),
        (id, None) => id.to_string(),
    }
}

/// Names that are known already stay, and so does the first of several names.
fn add_names(names: &mut BTreeMap<u32, String>, content: &[u8]) {
    for line in String::from_utf8_lossy(content).lines() {
        let mut fields = line.split(':');
        let (Some(name), Some(_), Some(id)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let is_name =
            !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(|c| c.is_ascii_graphic());
        if let (true, Ok(id)) = (is_name, id.parse()) {
            names.entry(id).or_insert_with(|| name.to_string());
        }
    }
}

/// As much of a file as is looked at; nothing where it cannot be read.
async fn content(inside: &Inside, user: Option<&str>, path: &str) -> Vec<u8> {
    let opened = inside.fleet().read_file(&inside.actor, inside.id(), path, 0, Some(MOST_BYTES), user).await;
    let Ok(mut file) = opened else { return Vec::new() };
    let mut content = Vec::new();
    while let Some(Ok(piece)) = file.next().await {
        content.extend_from_slice(&piece);
        if content.len() as u64 >= MOST_BYTES {
            break;
        }
    }
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_file() {
        let mut owners = Owners::of_e2b();
        let file = b"root:x:0:0::/root:/bin/sh\nagent:x:1000:1000::/:/bin/sh\nwww-data:x:33:33\nodd\n:x:5\na b:x:6\ntwo:x:33:1\nbad:x:-1\n";
        add_names(&mut owners.users, file);
        let shown = [0, 1000, 33, 5, 6, 7].map(|id| owners.user(id));
        assert_eq!(shown, ["root", "user", "www-data", "5", "6", "7"]);
        assert_eq!(owners.group(33), "33");
        assert_eq!(Owners::default().user(1000), "1000");
    }
}
