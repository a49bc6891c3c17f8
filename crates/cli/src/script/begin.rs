//! `paddock script new`: a script to begin with, and how it is run.

use super::ScriptCommandError;
use crate::args::script::ScriptNewArgs;
use crate::caller::Caller;
use crate::commands::{CommandError, print};
use paddock_scripts::{STARTERS, Starter};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

pub fn write(args: &ScriptNewArgs, caller: &mut Caller) -> Result<(), CommandError> {
    let Some(name) = &args.name else { return print(&listed(), caller) };
    let starter = STARTERS.iter().find(|starter| starter.name == name);
    let starter = starter.ok_or_else(|| ScriptCommandError::NoStarter(name.chars().take(80).collect()))?;
    let path = args.file.as_ref().map_or_else(|| PathBuf::from(starter.file), PathBuf::from);
    if path.as_os_str() == "-" {
        return print(starter.text, caller);
    }
    let shown = path.display().to_string();
    let written = OpenOptions::new().write(true).create_new(true).open(&path);
    let written = written.and_then(|mut file| file.write_all(starter.text.as_bytes()));
    written.map_err(|source| match source.kind() {
        std::io::ErrorKind::AlreadyExists => ScriptCommandError::Exists(path),
        _ => ScriptCommandError::Unwritable { path, source },
    })?;
    print(&format!("{shown}\n"), caller)?;
    let _ = writeln!(caller.stderr, "run it: paddock script run {shown} {}", starter.arguments);
    Ok(())
}

fn listed() -> String {
    let line = |starter: &Starter| format!("{:<11} {:<15} {}\n", starter.name, starter.file, starter.about);
    STARTERS.iter().map(line).collect()
}
