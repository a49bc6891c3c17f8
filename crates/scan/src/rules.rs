//! The names that are objected to, and when. A name is a path from a module down: `os.system`.

use paddock_model::{FindingKind, import_covers};
use std::collections::BTreeMap;
use std::ops::Bound;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Every mention is a finding: code that has it under another name could call it there.
    Mention(FindingKind),
    /// Only a call is a finding.
    Call(FindingKind),
    /// A call with text as its first argument is a finding.
    CallWithText(FindingKind),
    /// The arguments are paths.
    TakesPaths,
}

pub struct Rules(BTreeMap<&'static str, Rule>);

/// The relation of a path to the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// A rule stands on this very path, or above it.
    Ruled(&'static str, Rule),
    /// Rules are below it; the gravest kind of them.
    Above(FindingKind),
    Plain,
}

impl Rules {
    pub fn new(tables: &[(Rule, &[&'static str])]) -> Rules {
        let rows = tables.iter().flat_map(|(rule, names)| names.iter().map(|name| (*name, *rule)));
        Rules(rows.collect())
    }

    pub fn standing(&self, path: &str) -> Standing {
        // The longest rule that is the path, or a whole beginning of it.
        let mut end = path.len();
        loop {
            if let Some((name, rule)) = self.0.get_key_value(&path[..end]) {
                return Standing::Ruled(name, *rule);
            }
            match path[..end].rfind('.') {
                Some(dot) => end = dot,
                None => break,
            }
        }
        let below = format!("{path}.");
        let range = (Bound::Included(below.as_str()), Bound::Unbounded);
        let under = self.0.range::<str, _>(range).take_while(|(name, _)| name.starts_with(&below));
        let kinds = under.map(|(_, rule)| match rule {
            Rule::Mention(kind) | Rule::Call(kind) | Rule::CallWithText(kind) => *kind,
            Rule::TakesPaths => FindingKind::FileOutsideWorkspace,
        });
        let strongest = kinds.min_by_key(|kind| match kind {
            FindingKind::EvalExec => 0,
            FindingKind::Subprocess => 1,
            FindingKind::FileOutsideWorkspace => 3,
            _ => 2,
        });
        strongest.map_or(Standing::Plain, Standing::Above)
    }

    /// True if a name without a binding may be a module that an earlier call imported.
    pub fn has_root(&self, name: &str) -> bool {
        !name.contains('.') && self.standing(name) != Standing::Plain
    }
}

/// True if the list of imports names this very path. `os` does not excuse `os.system`, `os.system` does.
pub fn excused(allowed: Option<&[String]>, path: &str, ruled: &str) -> bool {
    let entries = allowed.unwrap_or_default().iter().map(|entry| entry.replace('/', "."));
    entries.into_iter().any(|entry| import_covers(&entry, path) && import_covers(ruled, &entry))
}

#[cfg(test)]
mod tests {
    use super::*;
    use FindingKind::{Socket, Subprocess};

    fn rules() -> Rules {
        Rules::new(&[
            (Rule::Mention(Subprocess), &["os.system", "subprocess"]),
            (Rule::Mention(Socket), &["urllib.request"]),
            (Rule::TakesPaths, &["os.open"]),
        ])
    }

    #[test]
    fn a_path_stands_on_above_or_beside_the_rules() {
        let rules = rules();
        let subprocess = Rule::Mention(Subprocess);
        assert_eq!(rules.standing("subprocess.run.x"), Standing::Ruled("subprocess", subprocess));
        assert_eq!(rules.standing("os.system"), Standing::Ruled("os.system", subprocess));
        assert_eq!(rules.standing("os"), Standing::Above(Subprocess));
        assert_eq!(rules.standing("urllib"), Standing::Above(Socket));
        for plain in ["os.path", "subprocesses", "o", "", "urllib.parse"] {
            assert_eq!(rules.standing(plain), Standing::Plain, "{plain}");
        }
    }

    #[test]
    fn only_a_name_as_long_as_the_rule_excuses() {
        let allowed = ["os", "subprocess", "urllib.request.Request"].map(String::from);
        let allowed = Some(allowed.as_slice());
        assert!(excused(allowed, "subprocess.run", "subprocess"));
        assert!(!excused(allowed, "os.system", "os.system"));
        assert!(excused(allowed, "urllib.request.Request", "urllib.request"));
        assert!(!excused(allowed, "urllib.request.urlopen", "urllib.request"));
        assert!(!excused(None, "subprocess", "subprocess"));
    }
}
