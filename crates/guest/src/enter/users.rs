//! The users that the inside knows.

use crate::enter::steps::{open_inside, write};
use crate::failure::{During, Outcome};
use rustix::fs::OFlags;
use std::io::Read;
use std::os::fd::OwnedFd;

/// An image's user table is hostile input; more than this is not read.
const LARGEST_TABLE: u64 = 1 << 20;

/// Adds a line for the work's user, unless the image already names the id. Returns the written files, with their paths.
pub fn add(
    root: &OwnedFd,
    passwd_line: &str,
    group_line: &str,
    uid: u32,
    gid: u32,
) -> Outcome<Vec<(&'static str, String)>> {
    let mut written = Vec::new();
    for (path, line, id) in [("/etc/passwd", passwd_line, uid), ("/etc/group", group_line, gid)] {
        let mut table = read_table(root, path);
        if fields_of(&table, 2, &id.to_string()).is_some() {
            continue;
        }
        if !table.is_empty() && !table.ends_with('\n') {
            table.push('\n');
        }
        table.push_str(line);
        table.push('\n');
        write(root, path, 0o644, table.as_bytes()).during(|| format!("write {path}"))?;
        written.push((path, table));
    }
    Ok(written)
}

pub struct KnownUser {
    pub uid: u32,
    pub gid: u32,
    pub home: String,
}

/// Looks into the sandbox's own /etc/passwd.
pub fn find_by_name(name: &str) -> Option<KnownUser> {
    find(0, name)
}

pub fn find_by_id(uid: u32) -> Option<KnownUser> {
    find(2, &uid.to_string())
}

fn find(column: usize, wanted: &str) -> Option<KnownUser> {
    let file = std::fs::File::open("/etc/passwd").ok()?;
    let table = read_bounded(file);
    let fields = fields_of(&table, column, wanted)?;
    let home = fields.get(5).filter(|home| home.starts_with('/')).unwrap_or(&"/");
    Some(KnownUser {
        uid: fields.get(2)?.parse().ok()?,
        gid: fields.get(3)?.parse().ok()?,
        home: home.to_string(),
    })
}

fn fields_of<'a>(table: &'a str, column: usize, wanted: &str) -> Option<Vec<&'a str>> {
    table.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|f| f.get(column) == Some(&wanted))
}

fn read_table(root: &OwnedFd, path: &str) -> String {
    match open_inside(root, path, OFlags::RDONLY | OFlags::NONBLOCK) {
        Ok(file) => read_bounded(file.into()),
        Err(_) => String::new(),
    }
}

fn read_bounded(file: std::fs::File) -> String {
    let mut bytes = Vec::new();
    let _ = file.take(LARGEST_TABLE).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_name_or_id() {
        let table = "root:x:0:0::/root:/bin/sh\nbroken\nweb:x:33:44::/:/bin/false\n";
        assert_eq!(fields_of(table, 0, "web").unwrap()[2], "33");
        assert!(fields_of(table, 2, "33").is_some());
        assert!(fields_of(table, 0, "nobody").is_none());
    }
}
