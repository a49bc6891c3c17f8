//! The scan's settings: findings to look for in code before it runs.

use paddock_model::{ScanMode, ScanRules, UnknownScanMode};

const MOST_IMPORTS: usize = 1000;
const LONGEST_IMPORT: usize = 200;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    #[error(transparent)]
    Mode(#[from] UnknownScanMode),
    #[error("allowed_imports is given, and nobody looks: scan is off")]
    NobodyLooks,
    #[error("allowed_imports has {0} entries, more than {MOST_IMPORTS}")]
    TooMany(usize),
    #[error("allowed import `{}` is not the name of a module", .0.escape_debug())]
    Name(String),
}

impl ScanError {
    pub fn hint(&self) -> Option<String> {
        match self {
            ScanError::NobodyLooks => Some("set scan to `warn` or `deny`, or leave allowed_imports out".into()),
            ScanError::Name(_) => Some(
                "write names such as numpy, os.path, lodash or `.` for files beside the code, one in each entry"
                    .into(),
            ),
            _ => None,
        }
    }
}

pub fn resolve(mode: Option<&str>, allowed_imports: Option<Vec<String>>) -> Result<ScanRules, ScanError> {
    let mode = mode.map_or(Ok(ScanMode::Off), str::parse)?;
    let Some(names) = &allowed_imports else { return Ok(ScanRules { mode, allowed_imports }) };
    if mode == ScanMode::Off {
        return Err(ScanError::NobodyLooks);
    }
    if names.len() > MOST_IMPORTS {
        return Err(ScanError::TooMany(names.len()));
    }
    let wrong = |name: &&String| {
        name.is_empty()
            || name.len() > LONGEST_IMPORT
            || name.contains(|c: char| c.is_whitespace() || c.is_control() || c == ',')
    };
    match names.iter().find(wrong) {
        Some(name) => Err(ScanError::Name(name.chars().take(80).collect())),
        None => Ok(ScanRules { mode, allowed_imports }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Option<Vec<String>> {
        Some(names.iter().map(|name| name.to_string()).collect())
    }

    #[test]
    fn what_nobody_would_look_at_is_refused() {
        assert_eq!(resolve(None, None).unwrap(), ScanRules::default());
        assert_eq!(resolve(Some("deny"), names(&[])).unwrap().allowed_imports, Some(vec![]));
        assert_eq!(resolve(None, names(&["json"])).unwrap_err(), ScanError::NobodyLooks);
        assert_eq!(resolve(Some("off"), names(&["json"])).unwrap_err(), ScanError::NobodyLooks);
        let refused = |mode, imports| resolve(Some(mode), imports).unwrap_err().to_string();
        assert_eq!(refused("strict", None), "scan `strict` is not known; known are off, warn and deny");
        assert_eq!(refused("warn", names(&["a, b"])), "allowed import `a, b` is not the name of a module");
        assert_eq!(refused("warn", names(&[""])), "allowed import `` is not the name of a module");
        assert!(refused("warn", Some(vec!["a".into(); 1001])).contains("1001 entries"));
    }
}
