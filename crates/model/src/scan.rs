//! Scan before run: how strict it is, the allowed imports, and the findings.

use serde::{Deserialize, Serialize};

/// The later one is the stricter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ScanMode {
    /// The code is not looked at.
    #[default]
    Off,
    /// The code runs, and what was found is told beside its result.
    Warn,
    /// Code in which anything was found does not run.
    Deny,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownScanMode(pub String);

impl std::fmt::Display for UnknownScanMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "scan `{}` is not known; known are off, warn and deny", self.0.escape_debug())
    }
}

impl std::error::Error for UnknownScanMode {}

impl ScanMode {
    pub fn name(self) -> &'static str {
        match self {
            ScanMode::Off => "off",
            ScanMode::Warn => "warn",
            ScanMode::Deny => "deny",
        }
    }
}

impl std::str::FromStr for ScanMode {
    type Err = UnknownScanMode;

    fn from_str(text: &str) -> Result<ScanMode, UnknownScanMode> {
        match text {
            "off" => Ok(ScanMode::Off),
            "warn" => Ok(ScanMode::Warn),
            "deny" => Ok(ScanMode::Deny),
            other => Err(UnknownScanMode(other.chars().take(80).collect())),
        }
    }
}

/// The rules for the code of one sandbox, for as long as it lives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct ScanRules {
    pub mode: ScanMode,
    /// Absent: no rule about imports. Empty: nothing may be imported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_imports: Option<Vec<String>>,
}

impl ScanRules {
    /// As strict as both: the stricter mode, and only those imports that both allow.
    pub fn joined(self, other: ScanRules) -> ScanRules {
        ScanRules {
            mode: self.mode.max(other.mode),
            allowed_imports: common_imports(self.allowed_imports, other.allowed_imports),
        }
    }
}

/// True if an entry of `allowed_imports` stands for `name`: the same name, or one below it (behind `.` or `/`).
pub fn import_covers(entry: &str, name: &str) -> bool {
    let Some(rest) = name.strip_prefix(entry) else { return false };
    // `.` and `..` are places of files, not packages.
    let places_only = entry.bytes().all(|byte| byte == b'.');
    rest.is_empty() || rest.starts_with('/') || (!places_only && rest.starts_with('.'))
}

/// The imports that both lists allow; if there is only one list, that one.
pub fn common_imports(one: Option<Vec<String>>, other: Option<Vec<String>>) -> Option<Vec<String>> {
    let (one, other) = match (one, other) {
        (Some(one), Some(other)) => (one, other),
        (one, other) => return one.or(other),
    };
    let mut common: Vec<String> = Vec::new();
    let narrower = |from: &[String], within: &[String]| {
        from.iter().filter(|name| within.iter().any(|entry| import_covers(entry, name))).cloned().collect()
    };
    let both: [Vec<String>; 2] = [narrower(&one, &other), narrower(&other, &one)];
    for name in both.into_iter().flatten() {
        if !common.contains(&name) {
            common.push(name);
        }
    }
    Some(common)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// A module that `allowed_imports` does not have.
    ImportNotAllowed,
    /// Starts other programs.
    Subprocess,
    /// Speaks to the network.
    Socket,
    /// Runs text or data as code.
    EvalExec,
    /// Names a path outside the workspace and /tmp.
    FileOutsideWorkspace,
    /// Imports what only the run decides.
    DynamicImport,
    /// The parser could not make sense of it, so nobody knows what it does.
    NotParsed,
    /// There is no parser for the language.
    NotScanned,
}

impl FindingKind {
    pub fn name(self) -> &'static str {
        match self {
            FindingKind::ImportNotAllowed => "import_not_allowed",
            FindingKind::Subprocess => "subprocess",
            FindingKind::Socket => "socket",
            FindingKind::EvalExec => "eval_exec",
            FindingKind::FileOutsideWorkspace => "file_outside_workspace",
            FindingKind::DynamicImport => "dynamic_import",
            FindingKind::NotParsed => "not_parsed",
            FindingKind::NotScanned => "not_scanned",
        }
    }
}

/// One thing in the code that its sandbox's rules object to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Finding {
    pub kind: FindingKind,
    /// From one.
    pub line: u32,
    /// In characters, from one.
    pub column: u32,
    /// The code in question, or in words what hindered the parser.
    pub text: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}, column {}: {}: {}", self.line, self.column, self.kind.name(), self.text)
    }
}

/// The result of a scan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct ScanReport {
    /// In the order of the code, at most 100.
    pub findings: Vec<Finding>,
    /// Findings beyond those.
    pub findings_missing: u64,
}

impl ScanReport {
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty() && self.findings_missing == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[&str]) -> Option<Vec<String>> {
        Some(names.iter().map(|name| name.to_string()).collect())
    }

    #[test]
    fn an_entry_stands_for_itself_and_what_is_below_it() {
        for (entry, name, covered) in [
            ("numpy", "numpy", true),
            ("numpy", "numpy.linalg", true),
            ("numpy.linalg", "numpy", false),
            ("num", "numpy", false),
            ("lodash", "lodash/fp", true),
            (".", "./tools.js", true),
            (".", "../tools.js", false),
            (".", "..", false),
            ("..", "../tools.js", true),
        ] {
            assert_eq!(import_covers(entry, name), covered, "{entry} {name}");
        }
    }

    #[test]
    fn the_stricter_of_two_rules_wins_whichever_comes_first() {
        let rules = |mode, imports: Option<Vec<String>>| ScanRules { mode, allowed_imports: imports };
        let one = rules(ScanMode::Deny, list(&["numpy", "json", "os"]));
        let other = rules(ScanMode::Off, list(&["numpy.linalg", "json", "re"]));
        let both = one.clone().joined(other.clone());
        assert_eq!(both, rules(ScanMode::Deny, list(&["json", "numpy.linalg"])));
        let reversed = other.joined(one);
        assert_eq!(reversed.mode, ScanMode::Deny);
        assert_eq!(reversed.allowed_imports.map(|names| names.len()), Some(2));
        assert_eq!(common_imports(None, None), None);
        assert_eq!(common_imports(list(&["a"]), None), list(&["a"]));
        // Nothing in common is nothing allowed, not everything.
        assert_eq!(common_imports(list(&["a"]), list(&["b"])), Some(vec![]));
        assert_eq!(common_imports(Some(vec![]), list(&["b"])), Some(vec![]));
    }
}
