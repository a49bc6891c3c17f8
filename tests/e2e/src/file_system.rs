//! A small file system of the test's own for a caller's state directory: in a mount namespace that ends with the test,
//! so that it can be filled and made read-only without any effect on others.

use crate::wait::{PATIENCE, until};
use anyhow::{Context, Result, ensure};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

pub struct FileSystem {
    /// Keeps the namespace; ends when its input is closed, so also when the tests are killed.
    holder: Mutex<Child>,
    process: u32,
    at: PathBuf,
}

impl FileSystem {
    /// A file system of that kind in a file beside `at`, of that many mebibytes. Only root can.
    pub fn mount(at: &Path, kind: &str, mebibytes: u64, owner: u32) -> Result<FileSystem> {
        let image = at.with_extension(kind);
        let (make, options) = match kind {
            "ext4" => ("mkfs.ext4 -q -F -m 0", "loop,errors=remount-ro"),
            "xfs" => ("mkfs.xfs -q -f", "loop"),
            "btrfs" => ("mkfs.btrfs -q -f", "loop"),
            other => anyhow::bail!("no test knows how to make {other}"),
        };
        let script = format!(
            "truncate -s {mebibytes}M {image} && {make} {image} >/dev/null && mount -o {options} {image} {at} \
             && chown {owner}:{owner} {at} && chmod 700 {at} && echo ready && read end",
            image = image.display(),
            at = at.display()
        );
        std::fs::create_dir_all(at)?;
        let mut holder = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", &script])
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("unshare")?;
        let mut said = String::new();
        BufReader::new(holder.stdout.take().context("no output")?).read_line(&mut said)?;
        let process = holder.id();
        let mounted = FileSystem { holder: Mutex::new(holder), process, at: at.into() };
        ensure!(said == "ready\n", "the file system could not be made: {said:?}");
        Ok(mounted)
    }

    /// For `nsenter --mount=`.
    pub fn namespace(&self) -> String {
        format!("/proc/{}/ns/mnt", self.process)
    }

    /// A path of the namespace, from outside.
    pub fn path(&self, path: &Path) -> PathBuf {
        let below = path.strip_prefix("/").unwrap_or(path);
        Path::new("/proc").join(self.process.to_string()).join("root").join(below)
    }

    /// To the last block.
    pub fn fill(&self) -> Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(self.filling())?;
        let mut step = 64 << 20;
        while step >= 4096 {
            let length = file.metadata()?.len();
            match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), length, step) {
                Ok(()) => {}
                Err(rustix::io::Errno::NOSPC) => {
                    file.set_len(length)?;
                    step /= 2;
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        // Small pieces fill the rest that the allocation ahead left.
        while file.write_all(&[0; 1024]).is_ok() {}
        Ok(())
    }

    pub fn free(&self) -> Result<()> {
        std::fs::remove_file(self.filling())?;
        // Btrfs counts it as free when this is written.
        Ok(rustix::fs::syncfs(File::open(self.path(&self.at))?)?)
    }

    /// From now on every file below it can only be opened for reading. [`FileSystem::make_writable`] takes it back.
    pub fn make_read_only(&self) -> Result<()> {
        let at = self.at.display();
        self.run(&format!("mount --bind {at} {at} && mount -o remount,bind,ro {at}"))
    }

    pub fn make_writable(&self) -> Result<()> {
        self.run(&format!("umount -l {}", self.at.display()))
    }

    /// As after an error of the disk: ext4 takes no more writes, not even through open files.
    pub fn fail(&self) -> Result<()> {
        let device = rustix::fs::stat(self.path(&self.at))?.st_dev;
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let name = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}"))?;
        let name = name.file_name().context("no device")?.to_string_lossy().into_owned();
        std::fs::write(format!("/sys/fs/ext4/{name}/trigger_fs_error"), "1")
            .context("no error can be made")?;
        until(PATIENCE, "a file system that fails", || {
            let made = File::create(self.path(&self.at).join("probe"));
            made.is_err_and(|error| error.raw_os_error() == Some(libc::EROFS)).then_some(())
        })
    }

    /// The file system is gone when its last user is.
    pub fn end(&self) {
        let mut holder = self.holder.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = holder.kill();
        let _ = holder.wait();
    }

    fn filling(&self) -> PathBuf {
        self.path(&self.at).join("filling")
    }

    /// A script of root's, in the namespace.
    pub fn run(&self, script: &str) -> Result<()> {
        let status = Command::new("nsenter")
            .arg(format!("--mount={}", self.namespace()))
            .args(["sh", "-c", script])
            .status()?;
        ensure!(status.success(), "`{script}` failed");
        Ok(())
    }
}

impl Drop for FileSystem {
    fn drop(&mut self) {
        self.end();
    }
}
