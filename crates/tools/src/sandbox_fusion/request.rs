//! Bodies of requests, as SandboxFusion's clients send them. Fields that are not known are left alone, as SandboxFusion does.

use super::{Problem, Result, shorten};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Component, Path};

const LONGEST_SECONDS: f64 = 3600.0;
const MOST_FILES: usize = 1000;
const MOST_CELLS: usize = 1000;
const LONGEST_PATH: usize = 1024;
const MEBIBYTE: u64 = 1 << 20;

#[derive(Debug, Deserialize)]
pub struct RunCode {
    #[serde(default = "ten_seconds")]
    pub compile_timeout: f64,
    #[serde(default = "ten_seconds")]
    pub run_timeout: f64,
    #[serde(default, rename = "memory_limit_MB")]
    memory_limit_mb: i64,
    pub code: String,
    #[serde(default)]
    pub stdin: Option<String>,
    pub language: String,
    #[serde(default)]
    files: BTreeMap<String, Option<String>>,
    #[serde(default)]
    pub fetch_files: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub struct RunJupyter {
    pub cells: Vec<String>,
    /// 0 is no limit but the one of all cells.
    #[serde(default)]
    pub cell_timeout: f64,
    #[serde(default = "of_all_cells")]
    pub total_timeout: f64,
    #[serde(default, rename = "memory_limit_MB")]
    memory_limit_mb: i64,
    #[serde(default)]
    kernel: Option<String>,
    #[serde(default)]
    files: BTreeMap<String, Option<String>>,
    #[serde(default)]
    pub fetch_files: Vec<String>,
}

fn ten_seconds() -> f64 {
    10.0
}

fn of_all_cells() -> f64 {
    45.0
}

impl RunCode {
    /// The content of its files.
    pub fn check(&self) -> Result<BTreeMap<String, Vec<u8>>> {
        seconds("compile_timeout", self.compile_timeout)?;
        seconds("run_timeout", self.run_timeout)?;
        check_fetched(&self.fetch_files)?;
        contents(&self.files)
    }

    /// Bytes; `None` for the template's own limit.
    pub fn memory(&self) -> Option<u64> {
        memory(self.memory_limit_mb)
    }
}

impl RunJupyter {
    pub fn check(&self) -> Result<BTreeMap<String, Vec<u8>>> {
        seconds("total_timeout", self.total_timeout)?;
        if self.cell_timeout != 0.0 {
            seconds("cell_timeout", self.cell_timeout)?;
        }
        if let Some(kernel) = self.kernel.as_deref().filter(|kernel| *kernel != "python3") {
            let kernel = shorten(kernel);
            return Err(Problem::field(&["kernel"], format!("the kernel {kernel:?} is not python3")));
        }
        if self.cells.len() > MOST_CELLS {
            let message = format!("{} cells are more than {MOST_CELLS}", self.cells.len());
            return Err(Problem::field(&["cells"], message));
        }
        check_fetched(&self.fetch_files)?;
        contents(&self.files)
    }

    pub fn memory(&self) -> Option<u64> {
        memory(self.memory_limit_mb)
    }
}

fn seconds(name: &str, value: f64) -> Result<()> {
    let good = value > 0.0 && value <= LONGEST_SECONDS;
    let wrong =
        || Problem::field(&[name], format!("{value} is not a time of up to {LONGEST_SECONDS} seconds"));
    good.then_some(()).ok_or_else(wrong)
}

/// As with SandboxFusion, what is not positive is no limit.
fn memory(megabytes: i64) -> Option<u64> {
    let megabytes = u64::try_from(megabytes).ok().filter(|megabytes| *megabytes > 0);
    megabytes.map(|megabytes| megabytes.saturating_mul(MEBIBYTE))
}

fn check_fetched(names: &[String]) -> Result<()> {
    let bad = names.iter().find(|name| name.is_empty() || name.contains('\0') || name.len() > LONGEST_PATH);
    match bad {
        Some(name) => {
            Err(Problem::field(&["fetch_files"], format!("{:?} is not a path of a file", shorten(name))))
        }
        None if names.len() > MOST_FILES => {
            Err(Problem::field(&["fetch_files"], format!("{} files are more than {MOST_FILES}", names.len())))
        }
        None => Ok(()),
    }
}

fn contents(files: &BTreeMap<String, Option<String>>) -> Result<BTreeMap<String, Vec<u8>>> {
    if files.len() > MOST_FILES {
        let message = format!("{} files are more than {MOST_FILES}", files.len());
        return Err(Problem::field(&["files"], message));
    }
    let given = files.iter().filter_map(|(name, content)| Some((name, content.as_ref()?)));
    given.map(|(name, content)| Ok((below(name)?, decoded(name, content)?))).collect()
}

/// A path that stays below the directory of the code.
fn below(name: &str) -> Result<String> {
    let plain = |part: Component<'_>| match part {
        Component::Normal(part) => Some(Some(part.to_string_lossy().into_owned())),
        Component::CurDir => Some(None),
        Component::Prefix(_) | Component::RootDir | Component::ParentDir => None,
    };
    let parts: Option<Vec<Option<String>>> = Path::new(name).components().map(plain).collect();
    let parts: Vec<String> = parts.unwrap_or_default().into_iter().flatten().collect();
    if parts.is_empty() || name.ends_with('/') || name.contains('\0') || name.len() > LONGEST_PATH {
        return Err(Problem::field(
            &["files", &shorten(name)],
            "the name is to be a path below the directory of the code, without `..` and not from the root",
        ));
    }
    Ok(parts.join("/"))
}

/// Line ends, which `base64` of a shell writes, are left out.
fn decoded(name: &str, content: &str) -> Result<Vec<u8>> {
    let text: Vec<u8> = content.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let wrong =
        |error| Problem::field(&["files", &shorten(name)], format!("the content is not base64: {error}"));
    STANDARD.decode(text).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    fn checked(more: serde_json::Value) -> Result<BTreeMap<String, Vec<u8>>> {
        let mut body = json!({ "code": "x", "language": "python" });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        from_value::<RunCode>(body).expect("well formed").check()
    }

    #[test]
    fn files_stay_below_the_directory_of_the_code() {
        let files = checked(json!({ "files": { "./a/b.txt": "eA==\n", "none": null } })).expect("good");
        assert_eq!(files, BTreeMap::from([("a/b.txt".to_string(), b"x".to_vec())]));
        for name in ["/etc/passwd", "../up", "a/../../b", "", ".", "a/", "nul\0"] {
            assert!(checked(json!({ "files": { name: "eA==" } })).is_err(), "{name:?}");
        }
        for content in ["not base64!", "eA", "eA=", "\u{e4}"] {
            assert!(checked(json!({ "files": { "a": content } })).is_err(), "{content:?}");
        }
    }

    #[test]
    fn times_and_memory_are_bounded() {
        for seconds in [0.0, -1.0, 3600.1, 1e300] {
            assert!(checked(json!({ "run_timeout": seconds })).is_err(), "{seconds}");
            assert!(checked(json!({ "compile_timeout": seconds })).is_err(), "{seconds}");
        }
        assert!(checked(json!({ "run_timeout": 0.01 })).is_ok());
        assert_eq!([memory(-1), memory(0), memory(1024)], [None, None, Some(1 << 30)]);
        assert_eq!(memory(i64::MAX), Some(u64::MAX));
    }
}
