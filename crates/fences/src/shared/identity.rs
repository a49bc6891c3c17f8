//! Host ids for one sandbox. Root gives each a range of its own; an ordinary user gives subordinate ids where
//! the system lends them, else the only id there is.

use super::slot::SLOTS;
use super::user_namespace::{Line, user_namespace_to, write_maps};
use crate::error::{CreateError, HostStep};
use paddock_model::{Access, HIGHEST_ID, Identity as Kind, Root, Spec, User};
use paddock_protocol::Ids;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Ids per sandbox of root's.
pub const RANGE: u32 = 65_536;
/// Host ids that no distribution, container manager or directory service assigns: 0x70000000 to 0x7fffffff for the first 4,096 slots, then
/// the upper half of all ids, which only old programs cannot write (they take an id for a signed number).
const FIRST_HOST_ID: u32 = 0x7000_0000;
/// The owner, in storage, of files that belong to root inside.
///
/// Host ids that no distribution, container manager or directory service assigns, below those of the slots.
pub const NEUTRAL_ID: u32 = 0x6F00_0000;
/// The guest's id inside; no work may have it.
const GUEST: u32 = HIGHEST_ID + 1;
const AGENT: u32 = 1000;

pub struct Identity {
    pub ids: Ids,
    /// Inside and host id of the work's user, for mounts whose owner it shall appear to be.
    pub work_host: (u32, u32),
    method: Method,
    users: Vec<Line>,
    groups: Vec<Line>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// As root: the whole range, written by ourselves.
    Range,
    /// As an ordinary user: through newuidmap and newgidmap.
    Helpers,
    /// One id, written by ourselves.
    Single,
}

/// The method, of the three, that this host and user have.
pub fn method() -> Method {
    static FOUND: OnceLock<Method> = OnceLock::new();
    *FOUND.get_or_init(find_method)
}

fn find_method() -> Method {
    if rustix::process::geteuid().is_root() && own_map_covers(FIRST_HOST_ID, SLOTS * RANGE) {
        return Method::Range;
    }
    if helpers().is_some() && subordinate("/etc/subuid").is_some() && subordinate("/etc/subgid").is_some() {
        return Method::Helpers;
    }
    Method::Single
}

/// Tells if the code inside has the caller's host id or ids of its own.
pub fn kind(method: Method, spec: &Spec) -> Kind {
    match method {
        Method::Range => Kind::Own,
        Method::Helpers if !shares_files(spec) => Kind::Own,
        _ => Kind::Caller,
    }
}

impl Identity {
    pub fn choose(slot: u32, spec: &Spec) -> Result<Identity, CreateError> {
        let method = method();
        let (uid, gid) = work_ids(spec, method)?;
        let ids = Ids {
            guest: GUEST,
            root: 0,
            root_group: 0,
            work: uid,
            work_group: gid,
            highest: HIGHEST_ID,
            single: false,
        };
        let caller = caller();
        match method {
            Method::Range => Ok(Identity::of_range(ids, range(slot))),
            Method::Helpers => {
                let (users, user) = lines(uid, caller.0, slot, spec, subordinate("/etc/subuid"));
                let (groups, group) = lines(gid, caller.1, slot, spec, subordinate("/etc/subgid"));
                Ok(Identity { ids, work_host: (user, group), method, users, groups })
            }
            Method::Single => Identity::of_caller(spec),
        }
    }

    /// One id: the caller's own.
    pub fn of_caller(spec: &Spec) -> Result<Identity, CreateError> {
        let (method, caller) = (Method::Single, caller());
        let (uid, gid) = work_ids(spec, method)?;
        let ids = Ids {
            guest: uid,
            root: uid,
            root_group: gid,
            work: uid,
            work_group: gid,
            highest: HIGHEST_ID,
            single: true,
        };
        let (users, groups) = (vec![Line(uid, caller.0, 1)], vec![Line(gid, caller.1, 1)]);
        Ok(Identity { ids, work_host: caller, method, users, groups })
    }

    fn of_range(ids: Ids, range: Line) -> Identity {
        let map = vec![range];
        let work_host = (range.1 + ids.work, range.1 + ids.work_group);
        Identity { ids, work_host, method: Method::Range, users: map.clone(), groups: map }
    }

    /// The ids of a sandbox that nests in the one of this guest, and has the same ids: no others are mapped in the user
    /// namespace of an ordinary sandbox.
    ///
    /// Precondition: the method is [`Method::Range`].
    pub fn of_a_source(self, guest: u32) -> Result<Identity, CreateError> {
        let range = range_of_guest(guest).host(|| "look at the ids of the source".into())?;
        Ok(Identity::of_range(self.ids, range))
    }

    /// The lines for users and for groups of a sandbox that nests in one with the same ids, by the numbers in there.
    pub fn same_ids() -> [Line; 1] {
        [Line(0, 0, RANGE)]
    }

    /// The host ids of the inside's root.
    /// Precondition: as root, who gives whole ranges.
    pub fn root_host(&self) -> (u32, u32) {
        let first = |lines: &[Line]| lines.first().map_or(0, |line| line.1);
        (first(&self.users), first(&self.groups))
    }

    /// The lines of a sandbox that has a whole range of ids, for users and groups.
    pub fn whole_range(&self) -> Option<(Line, Line)> {
        match (self.method, &self.users[..], &self.groups[..]) {
            (Method::Range, [users], [groups]) => Some((*users, *groups)),
            _ => None,
        }
    }

    /// Writes the maps of a process that waits in its new user namespace.
    pub fn write_maps(&self, pid: u32) -> Result<(), CreateError> {
        if self.method == Method::Helpers {
            return self.run_helpers(pid);
        }
        if self.method == Method::Single {
            std::fs::write(format!("/proc/{pid}/setgroups"), "deny").host(|| "forbid setgroups".into())?;
        }
        write_maps(pid, &self.users, &self.groups).host(|| "write the id maps".into())
    }

    /// The same for a sandbox that shelters others: sandboxes with ids of their own nest in its user namespace, so the ids of every slot are
    /// mapped there, under the host's numbers. No process in it but its guest can become one of them.
    ///
    /// Precondition: the method is [`Method::Range`].
    pub fn write_maps_of_a_shelter(&self, pid: u32, slot: u32) -> Result<(), CreateError> {
        let own = range(slot);
        let (first, end) = (FIRST_HOST_ID, FIRST_HOST_ID + SLOTS * RANGE);
        let others = [(first, own.1), (own.1 + RANGE, end)];
        let mut map = vec![own];
        map.extend(
            others.iter().filter(|(from, to)| from < to).map(|(from, to)| Line(*from, *from, to - from)),
        );
        write_maps(pid, &map, &map).host(|| "write the id maps".into())
    }

    /// The lines for users and groups.
    pub fn maps(&self) -> (&[Line], &[Line]) {
        (&self.users, &self.groups)
    }

    /// A namespace with the sandbox's own maps, for mounts made before the sandbox's has any.
    pub fn own_namespace(&self) -> Result<OwnedFd, CreateError> {
        user_namespace_to("make a user namespace for the image", &self.users, &self.groups)
    }

    fn run_helpers(&self, pid: u32) -> Result<(), CreateError> {
        let start = |name: &str, lines: &[Line]| {
            Command::new(name)
                .arg(pid.to_string())
                .args(lines.iter().flat_map(|l| [l.0.to_string(), l.1.to_string(), l.2.to_string()]))
                .env_clear()
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .host(|| format!("start {name}"))
        };
        let (user_helper, group_helper) =
            helpers().ok_or_else(|| CreateError::Guest { reason: "newuidmap has gone".into() })?;
        // Both at once: each is a process of its own, and neither waits for the other.
        let running = [start(&user_helper, &self.users)?, start(&group_helper, &self.groups)?];
        for helper in running {
            let output = helper.wait_with_output().host(|| "wait for newuidmap".into())?;
            if !output.status.success() {
                let reason = String::from_utf8_lossy(&output.stderr).trim().escape_debug().to_string();
                return Err(CreateError::Guest { reason: format!("newuidmap refused: {reason}") });
            }
        }
        Ok(())
    }
}

fn caller() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

/// The ids that root gives to the sandbox in this slot, for any purpose.
fn range(slot: u32) -> Line {
    if super::weaken::without("own-ids") {
        return Line(0, 0, RANGE);
    }
    Line(0, FIRST_HOST_ID + slot * RANGE, RANGE)
}

/// The host ids of the root of the sandbox in this place, where each has a range of its own.
pub fn root_of(slot: u32) -> Option<(u32, u32)> {
    (method() == Method::Range).then(|| (range(slot).1, range(slot).1))
}

/// Writes the maps of a process that waits in its new user namespace.
///
/// Precondition: the method is [`Method::Range`].
pub fn write_range(slot: u32, pid: u32) -> std::io::Result<()> {
    let map = [range(slot)];
    write_maps(pid, &map, &map)
}

/// The id of the work, inside.
pub fn work_of(spec: &Spec) -> Result<u32, CreateError> {
    work_ids(spec, method()).map(|(uid, _)| uid)
}

/// True if ids of other sandboxes are in the user namespace of a guest, as in that of a zygote's sandbox or a parent VM.
pub fn has_those_of_others(guest: u32) -> std::io::Result<bool> {
    let text = std::fs::read_to_string(format!("/proc/{guest}/uid_map"))?;
    Ok(text.lines().count() > 1)
}

/// The ids that a sandbox of root's has, by its guest.
fn range_of_guest(guest: u32) -> std::io::Result<Line> {
    let text = std::fs::read_to_string(format!("/proc/{guest}/uid_map"))?;
    range_in(&text).ok_or_else(|| std::io::Error::other("it has no range of ids"))
}

fn range_in(map: &str) -> Option<Line> {
    map.lines().find_map(|line| {
        let numbers: Vec<u32> = line.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        match numbers[..] {
            [0, host, RANGE] => Some(Line(0, host, RANGE)),
            _ => None,
        }
    })
}

fn work_ids(spec: &Spec, method: Method) -> Result<(u32, u32), CreateError> {
    match &spec.user {
        User::Agent => Ok((AGENT, AGENT)),
        User::Root | User::Installer => Ok((0, 0)),
        User::Ids { uid, gid } => Ok((*uid, *gid)),
        User::Name(_) if method == Method::Range => Ok((AGENT, AGENT)),
        User::Name(name) => Err(CreateError::Unavailable {
            missing: format!(
                "user `{name}` has an id that only the image knows, and this user has too few host ids"
            ),
            remedy: Some("give the number (`--user 33`), or run paddock as root".into()),
        }),
    }
}

/// Files of the caller's that the work shall read or write as its own. An image that an ordinary user builds on is one.
fn shares_files(spec: &Spec) -> bool {
    spec.user == User::Installer
        || spec.workspace.is_some()
        || spec.mounts.iter().any(|m| m.access != Access::Tmpfs)
}

/// Three ids of this slot's own; the caller's where its files have to be reached. Returns the host id of the
/// work's user too.
fn lines(work: u32, caller: u32, slot: u32, spec: &Spec, range: Option<(u32, u32)>) -> (Vec<Line>, u32) {
    let (first, count) = range.unwrap_or((0, 3));
    let own = first + (slot % (count / 3).max(1)) * 3;
    let host = if shares_files(spec) { caller } else { own + 1 };
    let mut lines = vec![Line(GUEST, own, 1), Line(work, host, 1)];
    if work != 0 {
        // An image that this user unpacked belongs to this user: inside, to root.
        let image = matches!(spec.root, Root::Directory { .. }) && host != caller;
        lines.push(Line(0, if image { caller } else { own + 2 }, 1));
    }
    (lines, host)
}

fn helpers() -> Option<(String, String)> {
    let find = |name: &str| {
        let places = ["/usr/bin", "/bin", "/usr/local/bin", "/sbin", "/usr/sbin"];
        places
            .iter()
            .map(|d| PathBuf::from(d).join(name))
            .find(|p| p.is_file())
            .map(|p| p.display().to_string())
    };
    Some((find("newuidmap")?, find("newgidmap")?))
}

/// First id and count that the system lends to this user.
fn subordinate(table: &str) -> Option<(u32, u32)> {
    let uid = rustix::process::getuid().as_raw();
    let name = user_name(uid);
    let text = std::fs::read_to_string(table).ok()?;
    range_of(&text, uid, name.as_deref())
}

fn range_of(table: &str, uid: u32, name: Option<&str>) -> Option<(u32, u32)> {
    table.lines().find_map(|line| {
        let mut fields = line.split(':');
        let owner = fields.next()?;
        if owner != uid.to_string() && Some(owner) != name {
            return None;
        }
        let (first, count): (u32, u32) = (fields.next()?.parse().ok()?, fields.next()?.trim().parse().ok()?);
        (first > 0 && count >= 3 && first.checked_add(count).is_some()).then_some((first, count))
    })
}

fn user_name(uid: u32) -> Option<String> {
    let text = std::fs::read_to_string("/etc/passwd").ok()?;
    let wanted = uid.to_string();
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == wanted).then(|| name.to_string())
    })
}

/// Root inside a container may lack the ids that it would hand out.
fn own_map_covers(first: u32, at_least: u32) -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.lines().any(|line| {
        let fields: Vec<u64> = line.split_whitespace().filter_map(|f| f.parse().ok()).collect();
        matches!(fields[..], [inside, _, count]
            if inside <= u64::from(first) && u64::from(first) + u64::from(at_least) <= inside + count)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subordinate_ranges_by_name_and_number() {
        let table = "alice:100000:65536\n1001:200000:65536\nbroken\nbob:0:65536\ncarol:5:1\n";
        assert_eq!(range_of(table, 1000, Some("alice")), Some((100_000, 65_536)));
        assert_eq!(range_of(table, 1001, None), Some((200_000, 65_536)));
        assert_eq!(range_of(table, 1002, Some("bob")), None, "the host's root is nobody's subordinate");
        assert_eq!(range_of(table, 1003, Some("carol")), None);
    }

    #[test]
    fn the_range_of_a_sandbox_is_read_from_its_map() {
        assert_eq!(range_in("         0 1879048192      65536\n"), Some(Line(0, 1_879_048_192, RANGE)));
        for none in ["", "0 1000 1\n", "nonsense\n1 2\n", "1 1879048192 65536\n"] {
            assert_eq!(range_in(none), None, "{none}");
        }
    }

    #[test]
    fn no_range_holds_the_two_ids_that_mean_nobody() {
        let end = u64::from(FIRST_HOST_ID) + u64::from(SLOTS) * u64::from(RANGE);
        assert_eq!(end, 0xffff_0000, "0xfffffffe and 0xffffffff lie behind");
    }
}
