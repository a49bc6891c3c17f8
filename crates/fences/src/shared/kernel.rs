//! Facts about the host's kernel.

use std::path::Path;
use std::sync::OnceLock;

/// A fact about the kernel: asked once.
pub fn has_time_namespace() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| Path::new("/proc/self/ns/time_for_children").exists())
}
