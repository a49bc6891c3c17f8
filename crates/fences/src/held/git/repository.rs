//! Where a repository's settings, hooks and index are. A stranger may have written `.git`: it may lead anywhere, and
//! its target is only read, up to a bound.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const LARGEST_LINK: u64 = 8 << 10;

#[derive(Debug)]
pub struct Repository {
    /// The directory in which git starts the programs of its settings; a bare repository's is its own.
    pub working_tree: PathBuf,
    pub git_directory: PathBuf,
    /// The directory of settings and hooks: another one in a linked working tree.
    pub common_directory: PathBuf,
}

impl Repository {
    /// The repository of a directory's `.git`; the result may be no valid repository.
    pub fn of_working_tree(working_tree: &Path) -> Repository {
        let dot_git = working_tree.join(".git");
        let leads_to = || {
            let text = read_bounded(&dot_git, LARGEST_LINK)?;
            let text = String::from_utf8(text).ok()?;
            Some(working_tree.join(text.strip_prefix("gitdir:")?.trim()))
        };
        let git_directory = if dot_git.is_dir() { dot_git } else { leads_to().unwrap_or(dot_git) };
        Repository::at(working_tree.to_path_buf(), git_directory)
    }

    pub fn bare(directory: &Path) -> Repository {
        Repository::at(directory.to_path_buf(), directory.to_path_buf())
    }

    fn at(working_tree: PathBuf, git_directory: PathBuf) -> Repository {
        let common = read_bounded(&git_directory.join("commondir"), LARGEST_LINK);
        let common = common.and_then(|text| String::from_utf8(text).ok());
        let common_directory = match common {
            Some(text) => git_directory.join(text.trim_end()),
            None => git_directory.clone(),
        };
        Repository { working_tree, git_directory, common_directory }
    }

    /// True if git takes this directory for a repository.
    pub fn is_valid(&self) -> bool {
        let common = &self.common_directory;
        self.git_directory.join("HEAD").symlink_metadata().is_ok()
            && common.join("objects").is_dir()
            && common.join("refs").is_dir()
    }

    /// True if the repository's data lies elsewhere than in the working tree's own `.git`.
    pub fn is_linked(&self) -> bool {
        let own = self.working_tree.join(".git");
        ![&own, &self.working_tree].contains(&&self.git_directory)
            || self.common_directory != self.git_directory
    }
}

/// `None` if the path is no file, or a file larger than `most`. A pipe in its place does not block.
pub fn read_bounded(path: &Path, most: u64) -> Option<Vec<u8>> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= most).then_some(bytes)
}
