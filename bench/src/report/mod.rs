//! The report at the end of each part: one table for people, one object for programs.

mod code;
mod json;
mod lines;
mod markdown;
mod marked_part;
mod plot;
mod server;

use crate::footprint::Guest;
use crate::leftovers::Leftovers;
use crate::machine::Machine;
use crate::measure::Race;
use crate::server::Measured;
use crate::targets::Target;
use anyhow::{Context, Result};
use serde_json::Value;
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
        write(directory, "run", &json::render(self), &self.markdown())
    }
}

pub struct ServerReport {
    /// Its file.
    pub group: &'static str,
    pub title: &'static str,
    pub machine: Machine,
    pub measured: Vec<Measured>,
    pub targets: Vec<Target>,
}

impl ServerReport {
    pub fn markdown(&self) -> String {
        server::markdown(self)
    }

    /// With a picture of each curve.
    pub fn write(&self, directory: &Path) -> Result<Vec<PathBuf>> {
        let mut written = write(directory, self.group, &server::json(self), &self.markdown())?.to_vec();
        for (name, picture) in server::pictures(self) {
            let path = directory.join(name);
            std::fs::write(&path, picture).with_context(|| path.display().to_string())?;
            written.push(path);
        }
        Ok(written)
    }
}

pub struct CodeReport {
    pub machine: Machine,
    pub measured: Vec<Measured>,
    pub targets: Vec<Target>,
    /// A trial only: such numbers go nowhere but into the results.
    pub quick: bool,
}

impl CodeReport {
    pub fn markdown(&self) -> String {
        code::markdown(self)
    }

    /// Into the repository, where there is one: the plot, and the table of docs/speed.md.
    pub fn write(&self, directory: &Path, repository: Option<&Path>) -> Result<Vec<PathBuf>> {
        let mut written = write(directory, "code", &code::json(self), &self.markdown())?.to_vec();
        let plotted = repository.filter(|_| !self.quick).map(|repository| repository.join("docs/images"));
        let images = plotted.clone().unwrap_or_else(|| directory.to_owned());
        if let Some(plot) = code::plot(self) {
            std::fs::create_dir_all(&images).with_context(|| images.display().to_string())?;
            written.push(images.join("code-speed.svg"));
            std::fs::write(images.join("code-speed.svg"), plot)?;
        }
        if let Some(repository) = repository.filter(|_| plotted.is_some()) {
            let path = repository.join("docs/speed.md");
            marked_part::put(&path, &code::summary(self)).context("docs/speed.md")?;
            written.push(path);
        }
        Ok(written)
    }
}

fn write(directory: &Path, name: &str, json: &Value, markdown: &str) -> Result<[PathBuf; 2]> {
    std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    let written = [directory.join(format!("{name}.json")), directory.join(format!("{name}.md"))];
    let json = format!("{}\n", serde_json::to_string_pretty(json)?);
    for (path, text) in written.iter().zip([json.as_str(), markdown]) {
        std::fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    Ok(written)
}
