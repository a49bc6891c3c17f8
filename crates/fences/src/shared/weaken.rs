//! Layers that a test takes away, one by one, to show the attack that each of them stops
//! (tests/conformance/tests/layers.rs).
//!
//! Only a build with the feature `weaken` listens to the variable. Such a build is for tests: it does not compile
//! without debug assertions, and nothing turns the feature on but that test.

#[cfg(all(feature = "weaken", not(debug_assertions)))]
compile_error!("a build whose layers can be taken away is for tests only, never for a release");

#[cfg(feature = "weaken")]
pub use on::{environment, namespaces, plan, without};

/// Every layer is always there.
#[cfg(not(feature = "weaken"))]
#[inline(always)]
pub const fn without(_layer: &str) -> bool {
    false
}

#[cfg(feature = "weaken")]
mod on {
    use paddock_protocol::{DiskPlan, Plan, Step};
    use serde_bytes::ByteBuf;
    use std::ffi::{CString, c_char};
    use std::sync::OnceLock;

    const VARIABLE: &str = "PADDOCK_TEST_WITHOUT";

    /// True if `layer` is among those that the variable names, separated by commas.
    pub fn without(layer: &str) -> bool {
        std::env::var(VARIABLE).is_ok_and(|names| names.split(',').any(|name| name == layer))
    }

    /// The guest's environment with these names. Made once before any guest is cloned, so that later calls allocate
    /// nothing.
    pub fn environment() -> [*const c_char; 2] {
        static TEXT: OnceLock<CString> = OnceLock::new();
        let text = TEXT.get_or_init(|| {
            let names = std::env::var(VARIABLE).unwrap_or_default();
            CString::new(format!("{VARIABLE}={names}")).unwrap_or_default()
        });
        [text.as_ptr(), std::ptr::null()]
    }

    pub fn namespaces(all: i32) -> i32 {
        let kinds = [
            ("network-namespace", libc::CLONE_NEWNET),
            ("ipc-namespace", libc::CLONE_NEWIPC),
            ("uts-namespace", libc::CLONE_NEWUTS),
            ("cgroup-namespace", libc::CLONE_NEWCGROUP),
        ];
        kinds.iter().filter(|(layer, _)| without(layer)).fold(all, |left, (_, kind)| left & !kind)
    }

    /// Weakens the plan that the backend gives the guest.
    pub fn plan(plan: &mut Plan) {
        if without("seccomp") {
            let allow_everything = [0x06u8, 0, 0, 0, 0, 0, 0xff, 0x7f];
            plan.seccomp = ByteBuf::from(allow_everything.to_vec());
        }
        if without("network-namespace") {
            plan.own_network = false;
        }
        if without("memory-watch") {
            plan.watch_memory = None;
        }
        if without("resource-limits") {
            (plan.limit_pids, plan.limit_files) = (1 << 20, 1 << 20);
        }
        if let (true, DiskPlan::Memory { bytes, inodes }) = (without("disk-bound"), &mut plan.disk) {
            (*bytes, *inodes) = (1 << 40, 1 << 30);
        }
        if without("protected-names") {
            plan.steps.retain(|step| !matches!(step, Step::Protect { .. }));
        }
        for step in &mut plan.steps {
            match step {
                // Only the mount that the caller named: the system's own directories stay read-only in every test.
                Step::Bind { target, read_only, .. }
                    if target == "/readonly" && without("read-only-mounts") =>
                {
                    *read_only = false;
                }
                Step::Kernel(kernel) => {
                    if without("proc-masks") {
                        kernel.hide_files.clear();
                        kernel.hide_directories.clear();
                    }
                    if without("proc-sys") {
                        kernel.read_only.clear();
                    }
                }
                _ => {}
            }
        }
    }
}
