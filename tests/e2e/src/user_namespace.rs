//! A user namespace of the test's own, in which limits of the host can be set without any effect on others.

use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

pub struct UserNamespace {
    /// Keeps the namespace; ends when its input is closed, so also when the tests are killed.
    holder: Mutex<Child>,
    process: u32,
}

impl UserNamespace {
    /// With all ids of the host, each as itself. Only root can.
    pub fn make() -> Result<UserNamespace> {
        let mut holder = Command::new("unshare")
            .args(["--user", "sh", "-c", "echo ready && read end"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("unshare")?;
        let mut said = String::new();
        BufReader::new(holder.stdout.take().context("no output")?).read_line(&mut said)?;
        let process = holder.id();
        let made = UserNamespace { holder: Mutex::new(holder), process };
        ensure!(said == "ready\n", "the user namespace could not be made: {said:?}");
        for map in ["uid_map", "gid_map"] {
            let path = format!("/proc/{process}/{map}");
            std::fs::write(&path, "0 0 4294967295\n").with_context(|| path.clone())?;
        }
        Ok(made)
    }

    /// For `nsenter --user=`.
    pub fn path(&self) -> String {
        format!("/proc/{}/ns/user", self.process)
    }

    /// A number of `/proc/sys/user`, as processes in the namespace see it. It holds for all of them together.
    pub fn set(&self, limit: &str, value: u64) -> Result<()> {
        let script = format!("echo {value} > /proc/sys/user/{limit}");
        let set = Command::new("nsenter")
            .args([&format!("--user={}", self.path()), "--preserve-credentials", "sh", "-c", &script])
            .output()
            .context("nsenter")?;
        ensure!(set.status.success(), "{script}: {}", String::from_utf8_lossy(&set.stderr));
        Ok(())
    }
}

impl Drop for UserNamespace {
    fn drop(&mut self) {
        let mut holder = self.holder.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = holder.kill();
        let _ = holder.wait();
    }
}
