//! A Debian from its packages, if no container registry can be reached. It takes two sandboxes. The first sees the
//! host's /usr: the host's apt fetches the packages there, checks their signatures and lays their files out. The second
//! has these files as its root, and dpkg installs the packages there properly. The host itself runs and unpacks nothing
//! of it.

use super::apt;
use super::error::BuildError;
use super::fetch::{LENT, Lent};
use super::records::{LayerRecord, Records};
use super::run::{Failed, Ground, Work};
use super::step::Key;
use paddock_images::built;
use paddock_images::digest::Digest;
use paddock_images::share::Sharing;
use paddock_model::{Root, User};
use std::collections::BTreeMap;
use std::path::Path;

/// The packages beside those that Debian calls essential.
const PACKAGES: &str = "apt adduser passwd debconf ca-certificates tzdata netbase";
/// The host's programs that the first sandbox runs.
const PROGRAMS: [&str; 3] = ["apt-get", "dpkg-deb", "tar"];

/// The script of the first sandbox. It needs no right that an ordinary sandbox does not have.
const FETCH: &str = r#"set -eu
root=/workspace/root
mkdir -p /workspace/state/lists/partial /workspace/state/etc/preferences.d $root/var/cache/apt/archives/partial $root/var/lib/dpkg
: > /workspace/state/status
architecture=$(dpkg --print-architecture)
set -- -q -o Dir::Etc=/workspace/state/etc -o Dir::State=/workspace/state -o Dir::State::status=/workspace/state/status \
    -o Dir::Cache=$root/var/cache/apt -o Dir::Log=/workspace/state -o APT::Architecture="$architecture" \
    -o APT::Architectures="$architecture" -o Dir::Etc::SourceList=LENT/sources.list -o Dir::Etc::SourceParts=-
apt-get "$@" update
# Without it, releases that have it would take a program that merges /usr, and with it all of Perl.
merged=usr-is-merged
apt-cache "$@" show $merged > /dev/null 2>&1 || merged=
apt-get "$@" -y --download-only install "?and(?essential,?architecture($architecture))" PACKAGES $merged
directories="bin sbin lib"
[ "$architecture" = amd64 ] && directories="$directories lib64"
for name in $directories; do mkdir -p $root/usr/$name; ln -s usr/$name $root/$name; done
for package in $root/var/cache/apt/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x -f - -C $root --keep-directory-symlink --no-same-owner
done
rm -rf $root/var/cache/apt/*.bin $root/var/cache/apt/archives/partial
"#;

/// The script of the second sandbox: the first packages in the order in which they need each other; dpkg configures the
/// rest.
const INSTALL: &str = r#"set -eu
cd /var/cache/apt/archives
mkdir -p /var/lib/dpkg/info /var/lib/dpkg/updates /var/lib/dpkg/triggers
: > /var/lib/dpkg/status
: > /var/lib/dpkg/available
[ -e /usr/bin/awk ] || ln -s mawk /usr/bin/awk
printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
# Their package fills them only where there are none, and Paddock has put a line for root there.
cp /usr/share/base-passwd/passwd.master /etc/passwd
cp /usr/share/base-passwd/group.master /etc/group
install="dpkg --force-depends --force-unsafe-io --force-confnew"
$install --install base-passwd_*.deb
$install --install base-files_*.deb
$install --unpack ./*.deb
dpkg --force-unsafe-io --force-confnew --configure -a
rm -f ./*.deb /var/log/dpkg.log /var/log/alternatives.log /var/cache/debconf/*-old /var/lib/dpkg/*-old
printf '%s' "$SOURCES" > /etc/apt/sources.list
rm -f /etc/apt/sources.list.d/*
"#;

/// The release in `debian:bookworm` and `debian:bookworm-slim`; `None` for a number, which only a registry knows.
pub fn suite(base: &str) -> Option<&str> {
    let tag = base.strip_prefix("debian:")?;
    let suite = tag.strip_suffix("-slim").unwrap_or(tag);
    let named = !suite.is_empty() && suite.len() <= 32 && suite.bytes().all(|b| b.is_ascii_lowercase());
    // These names move from release to release.
    let moves = ["latest", "stable", "testing", "oldstable", "slim"].contains(&suite);
    (named && !moves).then_some(suite)
}

pub fn key(suite: &str, sources: &str) -> Digest {
    let mut key = Key::new("debian");
    key.add(suite).add(sources).add(PACKAGES).add(FETCH).add(INSTALL);
    key.finish()
}

pub fn check_host(base: &str, origins: &[apt::Origin]) -> Result<(), BuildError> {
    let packages = |missing: String, remedy: &str| {
        Err(BuildError::Packages { base: base.into(), missing, remedy: remedy.into() })
    };
    if !rustix::process::geteuid().is_root() {
        return Err(BuildError::NeedsRoot { what: "a base from Debian's packages" });
    }
    let places = ["/usr/bin", "/bin"];
    let has = |program: &&str| places.iter().any(|place| Path::new(place).join(program).is_file());
    if let Some(program) = PROGRAMS.iter().find(|program| !has(program)) {
        let remedy =
            "install it (on Debian and Ubuntu: `apt install apt dpkg tar`), or name a base that is an image";
        return packages(format!("the host has no {program}"), remedy);
    }
    if let Some(origin) = origins.iter().find(|origin| !origin.keyring.is_file()) {
        let missing = format!("the key {} of its packages is not there", origin.keyring.display());
        return packages(missing, "`apt install debian-archive-keyring`");
    }
    Ok(())
}

/// Makes the whole root, as `root`. Returns its size in bytes.
pub async fn make(
    ground: &Ground<'_>,
    records: &Records,
    suite: &str,
    lent: &Lent,
    root: &Digest,
) -> Result<u64, Failed> {
    let nothing = BTreeMap::new();
    let fetch = FETCH.replace("LENT", LENT).replace("PACKAGES", PACKAGES);
    let fetched = ground
        .perform(Work {
            root: Root::HostUsr,
            programs: vec![vec!["/bin/sh".into(), "-c".into(), fetch]],
            env: &nothing,
            lent: Some(lent),
            scratch: &[],
            copied: None,
            user: User::Root,
            cwd: "/",
        })
        .await?;
    let mut laid_out = Key::new("debian-laid-out");
    laid_out.add(root.hex());
    let laid_out = laid_out.finish();
    // A build that was killed here may have left this root.
    built::remove(ground.store.shared(), &laid_out)?;
    let step = format!("the packages of {suite}, laid out");
    records.note_layer(&laid_out, &LayerRecord { step, made_ms: 0, bytes: 0 })?;
    let installed = match fetched.publish_directory(ground, &laid_out, "/workspace/root").await {
        Ok(_) => install(ground, suite, &laid_out, root).await,
        Err(error) => Err(error.into()),
    };
    // Its files are in the root by now, or it is of no use.
    built::remove(ground.store.shared(), &laid_out)?;
    records.forget_layer(&laid_out)?;
    installed
}

async fn install(ground: &Ground<'_>, suite: &str, below: &Digest, root: &Digest) -> Result<u64, Failed> {
    let directories = &ground.store.shared().directories;
    let path = directories.root(below)?.map(|root| root.path).ok_or(paddock_images::ImageError::Cancelled)?;
    let env = BTreeMap::from([("SOURCES".to_string(), apt::public_list(suite))]);
    let installed = ground
        .perform(Work {
            root: Root::Directory { path: path.clone() },
            programs: vec![vec!["/bin/sh".into(), "-c".into(), INSTALL.into()]],
            env: &env,
            lent: None,
            scratch: &[],
            copied: None,
            user: User::Installer,
            cwd: "/",
        })
        .await?;
    Ok(installed.publish(ground, root, Some((path, Sharing::Links))).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_told_by_its_name() {
        assert_eq!(suite("debian:bookworm"), Some("bookworm"));
        assert_eq!(suite("debian:bookworm-slim"), Some("bookworm"));
        for other in
            ["debian", "debian:12", "debian:latest", "debian:stable", "python:3.12", "debian:a/b", "debian:"]
        {
            assert_eq!(suite(other), None, "{other}");
        }
    }

    #[test]
    fn the_key_knows_release_and_sources() {
        assert_ne!(key("bookworm", "a"), key("bookworm", "b"));
        assert_ne!(key("bookworm", "a"), key("trixie", "a"));
        assert_eq!(key("bookworm", "a"), key("bookworm", "a"));
    }
}
