//! The users and groups of the sandbox, as its own tables have them.

use std::io::Read;

/// A table may come from an image of a stranger; more than this is not read.
const LARGEST_TABLE: u64 = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
    pub home: String,
    pub shell: String,
}

/// A name, or `#` and an id; empty is root, who needs no line.
pub fn find(wanted: &str) -> Result<Account, String> {
    let wanted = if wanted.is_empty() { "root" } else { wanted };
    find_in(&table("/etc/passwd"), wanted).ok_or_else(|| format!("unknown user {wanted}"))
}

pub fn name_of(uid: u32) -> String {
    find_in(&table("/etc/passwd"), &format!("#{uid}"))
        .map_or_else(|| format!("#{uid}"), |account| account.name)
}

/// The id of a group, by its name or by `#` and its id.
pub fn group(wanted: &str) -> Result<u32, String> {
    let number = wanted.strip_prefix('#').and_then(|number| number.parse().ok());
    let groups = table("/etc/group");
    let named = || fields(&groups).find(|line| line[0] == wanted)?.get(2)?.parse().ok();
    number.or_else(named).ok_or_else(|| format!("unknown group {wanted}"))
}

/// The groups in whose lines the user stands.
pub fn groups_of(name: &str) -> Vec<u32> {
    groups_in(&table("/etc/group"), name)
}

fn find_in(table: &str, wanted: &str) -> Option<Account> {
    let id: Option<u32> = wanted.strip_prefix('#').and_then(|id| id.parse().ok());
    let found = fields(table).find_map(|line| {
        let uid: u32 = line.get(2)?.parse().ok()?;
        let fits = id.map_or(line[0] == wanted, |id| id == uid);
        fits.then(|| Account {
            name: line[0].to_string(),
            uid,
            gid: line.get(3).and_then(|gid| gid.parse().ok()).unwrap_or(uid),
            home: line.get(5).filter(|home| home.starts_with('/')).unwrap_or(&"/").to_string(),
            shell: line.get(6).filter(|shell| shell.starts_with('/')).unwrap_or(&"/bin/sh").to_string(),
        })
    });
    let root =
        || Account { name: "root".into(), uid: 0, gid: 0, home: "/root".into(), shell: "/bin/sh".into() };
    found.or_else(|| (wanted == "root" || id == Some(0)).then(root))
}

fn groups_in(table: &str, name: &str) -> Vec<u32> {
    let member =
        |line: &Vec<&str>| line.get(3).is_some_and(|members| members.split(',').any(|one| one == name));
    fields(table).filter(member).filter_map(|line| line.get(2)?.parse().ok()).collect()
}

fn fields(table: &str) -> impl Iterator<Item = Vec<&str>> {
    table.lines().map(|line| line.split(':').collect())
}

fn table(path: &str) -> String {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).map(|file| file.take(LARGEST_TABLE).read_to_end(&mut bytes));
    if read.is_err() {
        bytes.clear();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_by_id() {
        let table = "root:x:0:0:root:/root:/bin/bash\nbroken\nweb:x:33:44::relative:\n";
        let found = |wanted| find_in(table, wanted);
        assert_eq!(found("root").unwrap().shell, "/bin/bash");
        let web = found("#33").unwrap();
        assert_eq!(
            (web.name.as_str(), web.gid, web.home.as_str(), web.shell.as_str()),
            ("web", 44, "/", "/bin/sh")
        );
        assert_eq!((found("nobody"), found("#7"), found("#x")), (None, None, None));
        assert_eq!(find_in("", "root").unwrap().home, "/root");
        assert_eq!(groups_in("a:x:1:web\nb:x:2:x,web\nc:x:3:webb\nd:x:4\n", "web"), [1, 2]);
    }
}
