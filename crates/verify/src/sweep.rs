//! The remains of the suite's sandboxes on the host. Other people's sandboxes may run beside: only remains with the
//! name of the suite's own directory or of one of its sandboxes count.

use std::fs;
use std::path::Path;

/// Processes that see a mount out of the suite's directory, or run a program from it.
pub fn processes(folder: &Path) -> Vec<String> {
    let token = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut left = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let path = entry.path();
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let text = |file: &str| {
            let bytes = fs::read(path.join(file)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).replace('\0', " ")
        };
        let command = text("cmdline");
        let ours = text("mountinfo").contains(&token) || command.contains(&format!("{token}/bin/paddock"));
        if ours && pid != std::process::id() && !command.contains(crate::host::VICTIM_NAME) {
            left.push(format!("{pid} {} {}", text("comm").trim(), command.trim()));
        }
    }
    left
}

/// Ids of the suite's sandboxes that run now, from the names of their cgroups: a killed engine reports none.
pub fn sandboxes(folder: &Path) -> Vec<String> {
    let mut ids = Vec::new();
    for process in processes(folder) {
        let pid = process.split(' ').next().unwrap_or_default();
        let cgroups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        for start in cgroups.match_indices("sb-").map(|(at, _)| at) {
            let id: String = cgroups[start..].chars().take("sb-".len() + 16).collect();
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
    }
    ids
}

/// Mounts, cgroups and directories; the words of each find.
pub fn leftovers(folder: &Path, sandboxes: &[String]) -> Vec<String> {
    let mut left: Vec<String> = processes(folder).into_iter().map(|p| format!("process {p}")).collect();
    let token = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let ours = |text: &str| text.contains(&token) || sandboxes.iter().any(|id| text.contains(id.as_str()));

    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    left.extend(mounts.lines().filter(|line| ours(line)).map(|line| format!("mount {line}")));

    let named = |name: &str| sandboxes.iter().any(|id| name.contains(id.as_str()));
    for (place, depth) in [
        (Path::new("/sys/fs/cgroup"), 6),
        (Path::new("/run"), 3),
        (Path::new("/tmp"), 1),
        (Path::new("/var/tmp"), 1),
        (Path::new("/dev/shm"), 1),
        (Path::new("/var/lib"), 3),
        (Path::new("/var/cache"), 3),
        (folder, 5),
    ] {
        search(place, depth, &named, &mut left);
    }
    left
}

fn search(place: &Path, depth: usize, named: &impl Fn(&str) -> bool, left: &mut Vec<String>) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        if named(&entry.file_name().to_string_lossy()) {
            left.push(format!("path {}", entry.path().display()));
        } else if depth > 1 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            search(&entry.path(), depth - 1, named, left);
        }
    }
}
