//! From settings to the files that they make git execute or include.

use super::config::{self, Setting};
use super::repository::{Repository, read_bounded};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const LARGEST_FILE: u64 = 1 << 20;
/// Files of settings that are followed; git itself ends at ten levels of includes.
const MOST_FILES: usize = 64;

/// The last part of a setting whose value is a command line.
const COMMANDS: [&str; 31] = [
    "alternaterefscommand",
    "askpass",
    "browser",
    "cccmd",
    "clean",
    "cmd",
    "command",
    "defaultkeycommand",
    "difffilter",
    "driver",
    "editor",
    "external",
    "fsmonitor",
    "gitproxy",
    "headercmd",
    "helper",
    "httpd",
    "packobjectshook",
    "pager",
    "path",
    "process",
    "program",
    "receivepack",
    "sendmailcmd",
    "smtpserver",
    "smudge",
    "sshcommand",
    "textconv",
    "tocmd",
    "tunnel",
    "update",
];

/// Absolute paths, as the settings write them.
#[derive(Debug, Default)]
pub struct Settings {
    pub includes: BTreeSet<PathBuf>,
    pub programs: BTreeSet<PathBuf>,
    pub hooks: BTreeSet<PathBuf>,
    pub templates: BTreeSet<PathBuf>,
    pub working_trees: BTreeSet<PathBuf>,
}

pub fn read(repository: &Repository) -> Settings {
    let mut settings = Settings::default();
    settings.working_trees.insert(repository.working_tree.clone());
    let own = [
        repository.common_directory.join("config"),
        repository.common_directory.join("config.worktree"),
        repository.git_directory.join("config.worktree"),
    ];
    let mut waiting: Vec<PathBuf> = own.into_iter().chain(files_of_the_caller()).collect();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    while let Some(file) = waiting.pop() {
        if seen.len() >= MOST_FILES || !seen.insert(file.clone()) {
            continue;
        }
        let Some(text) = read_bounded(&file, LARGEST_FILE) else { continue };
        for setting in config::parse(&text) {
            if let Some(included) = included(&setting, &file) {
                settings.includes.insert(included.clone());
                waiting.push(included);
            } else {
                found.push(setting);
            }
        }
    }
    // First, because others are relative to it.
    for setting in found.iter().filter(|setting| setting.section == "core" && setting.key == "worktree") {
        settings.working_trees.insert(repository.git_directory.join(&setting.value));
    }
    for setting in &found {
        settings.add(setting);
    }
    settings
}

/// One setting of one file, without the files that it includes.
pub fn setting(file: &Path, section: &str, key: &str) -> Option<String> {
    let found = config::parse(&read_bounded(file, LARGEST_FILE)?);
    let is_asked = |setting: &Setting| (setting.section.as_str(), setting.key.as_str()) == (section, key);
    found.into_iter().rfind(is_asked).map(|setting| setting.value)
}

impl Settings {
    fn add(&mut self, setting: &Setting) {
        let key = setting.key.as_str();
        let is_command = match setting.section.as_str() {
            // Others are commands of git.
            "alias" => setting.value.starts_with('!'),
            "pager" => true,
            _ => COMMANDS.contains(&key),
        };
        for tree in self.working_trees.clone() {
            match (setting.section.as_str(), key) {
                ("core", "hookspath") => self.hooks.extend(resolve(&setting.value, &tree)),
                ("init", "templatedir") => self.templates.extend(resolve(&setting.value, &tree)),
                _ if is_command => self.programs.extend(files_of_a_command(&setting.value, &tree)),
                _ => {}
            }
        }
    }
}

/// `include.path`, and that of every condition: code inside may be able to bring it about.
fn included(setting: &Setting, file: &Path) -> Option<PathBuf> {
    let is_include = matches!(setting.section.as_str(), "include" | "includeif") && setting.key == "path";
    is_include.then(|| resolve(&setting.value, file.parent()?)).flatten()
}

/// The git settings of the user and of the host.
fn files_of_the_caller() -> Vec<PathBuf> {
    let mut files = vec![PathBuf::from("/etc/gitconfig")];
    files.extend(std::env::var_os("GIT_CONFIG_GLOBAL").map(PathBuf::from));
    files.extend(std::env::var_os("XDG_CONFIG_HOME").map(|place| PathBuf::from(place).join("git/config")));
    if let Some(home) = home() {
        files.extend([home.join(".gitconfig"), home.join(".config/git/config")]);
    }
    files.retain(|file| file.is_absolute());
    files
}

fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute())
}

fn resolve(value: &str, base: &Path) -> Option<PathBuf> {
    let value = value.strip_prefix(":(optional)").unwrap_or(value);
    match value.strip_prefix("~/") {
        _ if value.is_empty() || value.contains('\0') => None,
        Some(rest) => Some(home()?.join(rest)),
        None => Some(base.join(value)),
    }
}

/// The program, and every other word that names a file that exists. A word without a slash is looked up on the search path, and is a
/// file of the working tree only as an argument.
pub fn files_of_a_command(command: &str, working_tree: &Path) -> Vec<PathBuf> {
    let command = command.strip_prefix('!').unwrap_or(command);
    let between = |character: char| character.is_whitespace() || "'\"`;|&()<>=,${}".contains(character);
    let words = command.split(between).filter(|word| !word.is_empty());
    let mut files = Vec::new();
    for (number, word) in words.enumerate().take(64) {
        let Some(path) = resolve(word, working_tree) else { continue };
        let is_path = word.contains('/') && !word.contains(['*', '%', '^', '~', '@', ':', '\\']);
        let program = number == 0 && is_path && !path.is_dir();
        if program || (number > 0 && path.is_file()) {
            files.push(path);
        }
    }
    files
}
