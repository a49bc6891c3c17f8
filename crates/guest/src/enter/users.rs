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
    for (path, line, id) in [(TABLES[0], passwd_line, uid), (TABLES[1], group_line, gid)] {
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

const TABLES: [&str; 2] = ["/etc/passwd", "/etc/group"];

/// Adds to `own` the lines of the table at `path`, of an earlier life of this disk, whose name and id are not in it. They come from
/// inside, and are looked up inside only. Other files have none.
pub fn keep_added(root: &OwnedFd, path: &str, own: &mut Vec<u8>) {
    if TABLES.contains(&path) {
        add_strangers(&read_table(root, path), own);
    }
}

fn add_strangers(table: &str, own: &mut Vec<u8>) {
    let ours = String::from_utf8_lossy(own).into_owned();
    for line in table.lines() {
        let mut fields = line.split(':');
        let (Some(name), Some(id)) = (fields.next(), fields.nth(1)) else { continue };
        if fields_of(&ours, 0, name).is_none() && fields_of(&ours, 2, id).is_none() {
            own.extend_from_slice(line.as_bytes());
            own.push(b'\n');
        }
    }
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
    fn users_that_were_added_stay_and_take_no_place_of_ours() {
        let own = "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000::/:/bin/sh\n";
        let table = "root:x:7:0::/:/bin/x\nevil:x:0:0::/:/bin/sh\nagent:x:0:0::/:/bin/sh\nbroken\n\n\
                     ada:x:1001:100::/home/ada:/bin/sh\ntwin:x:1000:1::/:/bin/sh\n";
        let kept = |table: &str| {
            let mut bytes = own.as_bytes().to_vec();
            add_strangers(table, &mut bytes);
            String::from_utf8(bytes).unwrap()
        };
        assert_eq!(kept(table), format!("{own}ada:x:1001:100::/home/ada:/bin/sh\n"));
        assert_eq!(kept(""), own);
    }

    #[test]
    fn a_user_is_found_by_name_or_id() {
        let table = "root:x:0:0::/root:/bin/sh\nbroken\nweb:x:33:44::/:/bin/false\n";
        assert_eq!(fields_of(table, 0, "web").unwrap()[2], "33");
        assert!(fields_of(table, 2, "33").is_some());
        assert!(fields_of(table, 0, "nobody").is_none());
    }
}
