//! Builds the guest as one small static executable and hands its path to the crate, which carries it inside.
//! A nested cargo is used because cargo cannot yet depend on another package's binary on stable.

mod tables;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::process::Command;

/// The guest aborts when it panics, so it needs no index of unwind tables: that index is 27 KB.
const FLAGS: [&str; 3] =
    ["-Ctarget-feature=+crt-static", "-Crelocation-model=static", "-Clink-arg=-Wl,--no-eh-frame-hdr"];

/// The largest guest executable that SPECIFICATION.md promises, in bytes.
const MOST: usize = (2 << 20) + (128 << 10);
/// Allowance for the unwind tables: a linker other than that of the pinned toolchain may put them elsewhere.
const TABLES: usize = 256 << 10;

fn main() {
    if let Err(reason) = build_guest() {
        println!("cargo::error={reason}");
    }
}

fn build_guest() -> Result<(), String> {
    let variable = |name: &str| std::env::var(name).map_err(|_| format!("cargo did not set {name}"));
    let manifest = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let crates = manifest.parent().ok_or("the manifest has no parent")?;
    for watched in ["guest", "guest_system", "guest_tools", "protocol"] {
        println!("cargo::rerun-if-changed={}", crates.join(watched).join("src").display());
        println!("cargo::rerun-if-changed={}", crates.join(watched).join("Cargo.toml").display());
    }
    println!("cargo::rerun-if-changed=build");

    // target/<profile>/build/<package>/out: one guest build for all profiles.
    let out = PathBuf::from(variable("OUT_DIR")?);
    // A guest whose layers can be taken away lies apart: it must never be taken for the other.
    let weaken = std::env::var_os("CARGO_FEATURE_WEAKEN").is_some();
    let name = if weaken { "guest-weakened" } else { "guest" };
    let target_directory = out.ancestors().nth(4).ok_or("OUT_DIR is too short")?.join(name);
    let target = variable("TARGET")?;
    let status = Command::new(variable("CARGO")?)
        .args(["build", "--quiet", "--profile", "guest", "--bin", "paddock-guest", "--locked"])
        .args(["--target", &target])
        .args(if weaken { &["--features", "weaken"][..] } else { &[] })
        .arg("--manifest-path")
        .arg(crates.join("guest/Cargo.toml"))
        .arg("--target-dir")
        .arg(&target_directory)
        // Linters and coverage tools must not change the guest, which goes into every sandbox.
        .env_remove("RUSTC_WRAPPER")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CLIPPY_ARGS")
        .env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f"))
        .status()
        .map_err(|error| format!("cargo could not be started for the guest: {error}"))?;
    if !status.success() {
        return Err(
            "the guest did not build; a static libc is needed (Debian: libc6-dev, Fedora: glibc-static)"
                .into(),
        );
    }
    let built = target_directory.join(&target).join("guest/paddock-guest");
    let guest = std::fs::read(&built).map_err(|error| format!("{}: {error}", built.display()))?;
    let (guest, most) = match tables::take_out(&guest) {
        Some(smaller) => (smaller, MOST),
        None => (guest, MOST + TABLES),
    };
    let digest = check_and_digest(&guest, most)?;
    let carried = out.join("paddock-guest");
    std::fs::write(&carried, guest).map_err(|error| format!("{}: {error}", carried.display()))?;
    println!("cargo::rustc-env=PADDOCK_GUEST_DIGEST={digest:016x}");
    println!("cargo::rustc-env=PADDOCK_GUEST_EXECUTABLE={}", carried.display());
    Ok(())
}

/// The size is a promise of SPECIFICATION.md; the digest names the unpacked file.
fn check_and_digest(guest: &[u8], most: usize) -> Result<u64, String> {
    if guest.len() > most {
        return Err(format!("the guest has grown to {} bytes; at most {most} are promised", guest.len()));
    }
    let mut hasher = DefaultHasher::new();
    guest.hash(&mut hasher);
    Ok(hasher.finish())
}
