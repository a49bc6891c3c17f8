//! What is said at the end: one table for people, one object for programs.

mod json;
mod markdown;

use crate::footprint::Guest;
use crate::leftovers::Leftovers;
use crate::machine::Machine;
use crate::measure::Race;
use crate::targets::Target;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

pub struct Report {
    pub machine: Machine,
    pub races: Vec<Race>,
    pub guest: Guest,
    pub leftovers: Leftovers,
    pub targets: Vec<Target>,
}

impl Report {
    pub fn markdown(&self) -> String {
        markdown::render(self)
    }

    pub fn write(&self, directory: &Path) -> Result<[PathBuf; 2]> {
        std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        let written = [directory.join("run.json"), directory.join("run.md")];
        let json = format!("{}\n", serde_json::to_string_pretty(&json::render(self))?);
        for (path, text) in written.iter().zip([json, self.markdown()]) {
            std::fs::write(path, text).with_context(|| path.display().to_string())?;
        }
        Ok(written)
    }
}
