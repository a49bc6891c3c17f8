//! `paddock scan`: finds the actions of code without running it; and the same for `code`.

use super::code::read_source;
use super::{CommandError, print, print_json};
use crate::args::scan::ScanArgs;
use crate::caller::Caller;
use crate::render;
use crate::session::Session;
use paddock_model::{ScanMode, ScanReport};
use paddock_scan::ScanInput;
use paddock_settings::{SettingsError, resolve_scan};

const FOUND: i32 = 1;

pub fn execute(args: ScanArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    let source = read_source(args.source.as_deref(), caller.stdin)?;
    let by_extension = source.extension.as_deref().and_then(language_of);
    let language = args.language.unwrap_or_else(|| by_extension.unwrap_or("python").to_string());
    let allowed = (!args.allow_import.is_empty()).then_some(args.allow_import);
    let rules = resolve_scan(Some(ScanMode::Warn.name()), allowed).map_err(SettingsError::from)?;
    let input = ScanInput { language, allowed_imports: rules.allowed_imports, ..ScanInput::default() };
    let report = paddock_scan::run(&input, &source.text)?;
    match args.json {
        true => print_json(&report, caller)?,
        false => {
            let name = args.source.filter(|_| source.is_file).map(|name| name.to_string_lossy().into_owned());
            print(&render::findings::text(&report, name.as_deref().unwrap_or("-")), caller)?;
        }
    }
    Ok(if report.is_clean() { 0 } else { FOUND })
}

fn language_of(extension: &str) -> Option<&'static str> {
    match extension {
        "py" | "pyw" => Some("python"),
        "js" | "mjs" | "cjs" => Some("javascript"),
        "ts" | "mts" | "cts" => Some("typescript"),
        "sh" | "bash" => Some("bash"),
        _ => None,
    }
}

/// Scans code before a session runs it. Returns the remarks to tell beside the result. Denied code does not pass.
pub fn look_at(
    session: &Session,
    language: &str,
    code: &[u8],
    caller: &mut Caller,
) -> Result<ScanReport, CommandError> {
    let rules = &session.spec.scan;
    if rules.mode == ScanMode::Off {
        return Ok(ScanReport::default());
    }
    let input = ScanInput {
        language: language.into(),
        allowed_imports: rules.allowed_imports.clone(),
        cwd: session.cwd.as_ref().map(|cwd| cwd.display().to_string()),
        places: session.spec.mounts.iter().map(|mount| mount.target.display().to_string()).collect(),
    };
    let report = paddock_scan::run(&input, code)?;
    tell(&report, caller);
    match rules.mode {
        ScanMode::Deny if !report.is_clean() => Err(CommandError::ScanDenied),
        _ => Ok(report),
    }
}

/// On stderr: stdout belongs to the code's own output.
pub fn tell(report: &ScanReport, caller: &mut Caller) {
    let _ = caller.stderr.write_all(render::findings::remarks(report).as_bytes());
}
