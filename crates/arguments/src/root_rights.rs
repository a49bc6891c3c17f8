//! Whose sandboxes may have a root that installs packages, as a person types it.

use clap::ValueEnum;
use paddock_fleet::RootMayInstall;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RootMayInstallName {
    /// Every tenant's
    Everyone,
    /// Those of the owner of the host, and of templates that the owner made with it
    Owner,
    /// None's
    Nobody,
}

impl From<RootMayInstallName> for RootMayInstall {
    fn from(name: RootMayInstallName) -> RootMayInstall {
        match name {
            RootMayInstallName::Everyone => RootMayInstall::Everyone,
            RootMayInstallName::Owner => RootMayInstall::Owner,
            RootMayInstallName::Nobody => RootMayInstall::Nobody,
        }
    }
}
