//! Volumes, their files, and their versions.

use super::table::Table;
use super::time;
use paddock_model::api::{Volume, VolumeFile, VolumeMode, VolumeVersion};
use paddock_model::format_bytes;

pub fn list(volumes: &[Volume], now_ms: u64, colour: bool) -> String {
    let header = ["NAME", "TENANT", "VERSION", "FILES", "SIZE", "STORED", "CREATED", "WRITER", "SHARED WITH"];
    let mut table = Table::with_header(&header);
    for volume in volumes {
        let shared = volume.shared.iter().map(|(tenant, mode)| match mode {
            VolumeMode::Ro => tenant.clone(),
            VolumeMode::Rw => format!("{tenant} (rw)"),
        });
        let shared: Vec<String> = shared.collect();
        let cells = [
            volume.name.clone(),
            volume.tenant.clone(),
            volume.version.map_or_else(|| "-".into(), |version| version.to_string()),
            volume.files.to_string(),
            format_bytes(volume.bytes),
            format_bytes(volume.stored_bytes),
            time::relative(volume.created_at_ms, now_ms),
            volume.writer.clone().unwrap_or_else(|| "-".into()),
            if shared.is_empty() { "-".into() } else { shared.join(" ") },
        ];
        table.row(cells.iter().map(|cell| cell.as_str().into()));
    }
    table.render(colour)
}

pub fn files(files: &[VolumeFile], now_ms: u64, colour: bool) -> String {
    let mut table = Table::with_header(&["MODE", "SIZE", "CHANGED", "PATH"]);
    for file in files {
        let kind = match file.kind.as_str() {
            "directory" => 'd',
            "symlink" => 'l',
            _ => '-',
        };
        let path = match &file.target {
            Some(target) => format!("{} -> {target}", file.path),
            None => file.path.clone(),
        };
        let changed = time::relative(u64::try_from(file.modified_at_ms).unwrap_or(0), now_ms);
        let cells = [format!("{kind}{:04o}", file.mode), format_bytes(file.size), changed, path];
        table.row(cells.iter().map(|cell| cell.as_str().into()));
    }
    table.render(colour)
}

pub fn history(versions: &[VolumeVersion], now_ms: u64, colour: bool) -> String {
    let header = ["VERSION", "KIND", "MADE", "BY", "FROM", "FILES", "SIZE", "ADDED"];
    let mut table = Table::with_header(&header);
    for version in versions {
        let cells = [
            format!("{}{}", version.version, if version.current { " *" } else { "" }),
            version.kind.clone(),
            time::relative(version.at_ms, now_ms),
            version.by.clone(),
            version.from.map_or_else(|| "-".into(), |from| from.to_string()),
            version.files.to_string(),
            format_bytes(version.bytes),
            format_bytes(version.stored_bytes),
        ];
        table.row(cells.iter().map(|cell| cell.as_str().into()));
    }
    table.render(colour)
}
