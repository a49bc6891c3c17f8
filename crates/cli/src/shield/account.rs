//! The account of a shield: the changed files, and the hosts that were connected to. Names come from programs inside:
//! none reaches a terminal unescaped.

use crate::render::escape;
use crate::render::style::Style;
use crate::render::table::{Cell, Table};
use crate::session::ledger::Host;
use crate::shield::changes::Change;
use crate::shield::watch::Account;
use paddock_model::api::{ChangeKind, FileKind};
use paddock_model::format_bytes;
use paddock_settings::agents::Agent;
use serde::Serialize;

/// Lines of changes that a person reads; --json has all.
const SHOWN: usize = 60;

/// Changes in one object; a program that makes more is not worth more memory.
const MOST_CHANGES: usize = 100_000;

/// The same for `--json`.
#[derive(Serialize)]
pub struct Told {
    changes: Vec<Change>,
    /// Beyond those.
    changes_missing: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
    hosts: Vec<Host>,
    /// Decisions about hosts beyond those.
    other_decisions: u64,
}

impl Told {
    pub fn new(account: Account, hosts: Vec<Host>, other_decisions: u64) -> Told {
        let changes_missing = account.changes.len().saturating_sub(MOST_CHANGES);
        let mut changes = account.changes;
        changes.truncate(MOST_CHANGES);
        Told { changes, changes_missing, notes: account.notes, patch: account.patch, hosts, other_decisions }
    }
}

pub fn changes(account: &Account, colour: bool) -> String {
    let marked = account.changes.partition_point(|change| change.runs_code.is_some());
    let (marked, plain) = account.changes.split_at(marked);
    let mut text = match account.changes.len() {
        0 => "paddock: nothing was changed\n".to_string(),
        1 => "paddock: 1 path was changed\n".to_string(),
        count => format!("paddock: {count} paths were changed\n"),
    };
    if !marked.is_empty() {
        let warning = format!("paddock: {} of them can make a tool run code on this host:", marked.len());
        text.push_str(&format!("{}\n", Style::Bad.paint(&warning, colour)));
        text.push_str(&listed(marked, colour));
        if !plain.is_empty() {
            text.push_str("paddock: the others:\n");
        }
    }
    text.push_str(&listed(plain, colour));
    for note in &account.notes {
        text.push_str(&format!("paddock: {}\n", escape::line(note)));
    }
    if let Some(patch) = &account.patch {
        text.push_str(&escape::lines(&patch.replace('\t', "    ")));
    }
    text
}

fn listed(changes: &[Change], colour: bool) -> String {
    let lines = collapsed(changes);
    let mut table = Table::new(0);
    for line in lines.iter().take(SHOWN) {
        let (mark, style) = match line.change.kind {
            ChangeKind::Added => ("+", Style::Good),
            ChangeKind::Modified => ("~", Style::Warning),
            ChangeKind::Deleted => ("-", Style::Bad),
        };
        let is_directory = line.change.is == FileKind::Directory || line.is_objects();
        let slash = if is_directory { "/" } else { "" };
        let path = format!("{}{slash}", line.path);
        match line.change.runs_code {
            Some(reason) => table.row([
                Cell::new(&format!("!{mark}"), Style::Bad),
                path.as_str().into(),
                line.size().as_str().into(),
                reason.into(),
            ]),
            None => table.row([Cell::new(mark, style), path.as_str().into(), line.size().as_str().into()]),
        }
    }
    let mut text = table.render(colour);
    if lines.len() > SHOWN {
        text.push_str(&format!("  and {} more; --json has all\n", lines.len() - SHOWN));
    }
    text
}

/// A directory that came or went whole is one line, and so are git's objects.
struct Line<'a> {
    change: &'a Change,
    path: &'a str,
    files: u64,
    bytes: u64,
}

impl Line<'_> {
    fn add(&mut self, change: &Change) {
        if change.is != FileKind::Directory {
            self.files += 1;
            self.bytes += change.after_bytes.or(change.before_bytes).unwrap_or(0);
        }
    }

    fn is_objects(&self) -> bool {
        self.path.len() < self.change.path.len()
    }

    fn size(&self) -> String {
        let bytes = |count: u64| if count == 0 { "0 B".to_string() } else { format_bytes(count) };
        let is = if self.is_objects() { FileKind::Directory } else { self.change.is };
        match (is, self.change.before_bytes, self.change.after_bytes) {
            (FileKind::Directory, _, _) if self.files == 0 => String::new(),
            (FileKind::Directory, _, _) => {
                format!(
                    "{} file{}, {}",
                    self.files,
                    if self.files == 1 { "" } else { "s" },
                    bytes(self.bytes)
                )
            }
            (FileKind::Link, _, _) => "link".to_string(),
            (_, Some(before), Some(after)) => format!("{} -> {}", bytes(before), bytes(after)),
            (_, Some(size), None) | (_, None, Some(size)) => bytes(size),
            (_, None, None) => String::new(),
        }
    }
}

/// Precondition: sorted by path.
fn collapsed(changes: &[Change]) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    for change in changes {
        let objects = objects(&change.path);
        // Between `a` and the paths below it, `a-b` may stand.
        let whole = lines.iter_mut().rev().take(SHOWN).find(|line| {
            let above = line.change;
            let in_it = above.is == FileKind::Directory
                && above.kind == change.kind
                && above.kind != ChangeKind::Modified
                && change.path.strip_prefix(&above.path).is_some_and(|rest| rest.starts_with('/'));
            in_it || objects == Some(line.path)
        });
        match whole {
            Some(line) => line.add(change),
            None => {
                let path = objects.unwrap_or(&change.path);
                let mut line = Line { change, path, files: 0, bytes: 0 };
                if objects.is_some() {
                    line.add(change);
                }
                lines.push(line);
            }
        }
    }
    lines
}

/// The directory of git's objects that something lies in.
fn objects(path: &str) -> Option<&str> {
    const NAME: &str = ".git/objects";
    let at = path.find(".git/objects/").filter(|at| *at == 0 || path[..*at].ends_with('/'))?;
    path.get(..at + NAME.len())
}

pub fn network(hosts: &[Host], others: u64, colour: bool) -> String {
    if hosts.is_empty() {
        return "paddock: nothing went out\n".to_string();
    }
    let mut table = Table::new(0);
    for host in hosts {
        let times = if host.times == 1 { String::new() } else { format!("{} times", host.times) };
        let (word, style, rest) = match host.allowed {
            true => {
                let sizes = format!("{} B sent, {} B received", host.sent_bytes, host.received_bytes);
                ("allowed", Style::Good, [times, sizes])
            }
            false => {
                let advice = host.advice.as_ref().map(|advice| format!("; {advice}")).unwrap_or_default();
                ("refused", Style::Bad, [times, format!("{}{advice}", host.reason)])
            }
        };
        let rest = rest.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
        table.row([Cell::new(word, style), host.target.as_str().into(), rest.as_str().into()]);
    }
    let mut text = format!("paddock: network\n{}", table.render(colour));
    if others > 0 {
        text.push_str(&format!("  and {others} decisions about other hosts\n"));
    }
    text
}

/// `has`: tells if the caller has a variable.
pub fn agents(agents: &[Agent], has: impl Fn(&str) -> bool, colour: bool) -> String {
    let mut table = Table::with_header(&["NAME", "WHAT", "HOSTS", "KEYS"]);
    for agent in agents {
        let key = |name: &String| if has(name) { format!("{name} (set)") } else { name.clone() };
        let keys = agent.secrets.keys().map(key).collect::<Vec<_>>().join(", ");
        let hosts = agent.hosts.join(", ");
        table.row([&agent.name, &agent.description, &hosts, &keys].map(|text| text.as_str().into()));
    }
    table.render(colour)
}

/// Above the explanation of the fence.
pub fn agent(agent: Option<&Agent>, colour: bool) -> String {
    let Some(agent) = agent else { return String::new() };
    let mut table = Table::new(2);
    let mut row = |name: &str, value: &str| table.row([name.into(), value.into()]);
    row("name", &agent.name);
    row("what", &agent.description);
    row("installed by", &agent.install.join(" "));
    row(
        "keeps its state in",
        &agent.state.iter().map(|path| format!("~/{path}")).collect::<Vec<_>>().join(", "),
    );
    format!("{}\n{}\n", Style::Bold.paint("Agent", colour), table.render(colour))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(kind: ChangeKind, path: &str, is: FileKind, before: Option<u64>, after: Option<u64>) -> Change {
        let raw = path.as_bytes().to_vec();
        Change {
            kind,
            path: path.into(),
            is,
            before_bytes: before,
            after_bytes: after,
            runs_code: paddock_model::protected::reason(path),
            raw,
            before: None,
            after: None,
        }
    }

    #[test]
    fn a_new_directory_is_one_line_and_names_are_harmless() {
        let account = Account {
            changes: vec![
                change(ChangeKind::Modified, "a.py", FileKind::File, Some(10), Some(2048)),
                change(ChangeKind::Added, "modules", FileKind::Directory, None, None),
                change(ChangeKind::Added, "modules-x", FileKind::File, None, Some(3)),
                change(ChangeKind::Added, "modules/a", FileKind::Directory, None, None),
                change(ChangeKind::Added, "modules/a/f", FileKind::File, None, Some(1000)),
                change(ChangeKind::Added, "modules/g", FileKind::File, None, Some(24)),
                change(ChangeKind::Deleted, "x\u{1b}[2J", FileKind::File, Some(0), None),
            ],
            patch: Some("+\tx\u{1b}\n".into()),
            notes: Vec::new(),
        };
        let expected = "paddock: 7 paths were changed\n\
                        ~  a.py        10 B -> 2 KiB\n\
                        +  modules/    2 files, 1 KiB\n\
                        +  modules-x   3 B\n\
                        -  x\\u{1b}[2J  0 B\n\
                        +    x\\u{1b}\n";
        assert_eq!(changes(&account, false), expected);
        assert_eq!(changes(&Account::default(), false), "paddock: nothing was changed\n");
    }

    #[test]
    fn what_can_run_code_is_first_and_marked_and_objects_are_one_line() {
        let added = |path: &str| change(ChangeKind::Added, path, FileKind::File, None, Some(12));
        let account = Account {
            changes: vec![
                added(".git/hooks/pre-commit"),
                change(ChangeKind::Added, "new/.git", FileKind::Directory, None, None),
                added("new/.git/config"),
                change(ChangeKind::Modified, ".git/index", FileKind::File, Some(1), Some(2)),
                change(ChangeKind::Added, ".git/objects/ab", FileKind::Directory, None, None),
                added(".git/objects/ab/cd"),
                added(".git/objects/ef/01"),
                change(ChangeKind::Added, "new", FileKind::Directory, None, None),
                added("new/.git/HEAD"),
            ],
            ..Account::default()
        };
        let expected = "paddock: 9 paths were changed\n\
                        paddock: 3 of them can make a tool run code on this host:\n\
                        !+  .git/hooks/pre-commit  12 B          programs that git runs\n\
                        !+  new/.git/              1 file, 12 B  a repository: git runs what its settings and hooks name\n\
                        paddock: the others:\n\
                        ~  .git/index     1 B -> 2 B\n\
                        +  .git/objects/  2 files, 24 B\n\
                        +  new/           1 file, 12 B\n";
        assert_eq!(changes(&account, false), expected);
    }

    #[test]
    fn hosts_say_what_became_of_them() {
        let host =
            |target: &str, allowed| Host { target: target.into(), allowed, times: 2, ..Host::default() };
        let refused = Host {
            reason: "no rule allows it".into(),
            advice: Some("to allow it: --allow-net b.example:443".into()),
            times: 1,
            ..host("b.example:443", false)
        };
        let expected = "paddock: network\n\
                        allowed  a.example:443  2 times, 0 B sent, 0 B received\n\
                        refused  b.example:443  no rule allows it; to allow it: --allow-net b.example:443\n";
        assert_eq!(network(&[host("a.example:443", true), refused], 0, false), expected);
        assert_eq!(network(&[], 0, false), "paddock: nothing went out\n");
    }
}
