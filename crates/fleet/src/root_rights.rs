//! Whose sandboxes may have a root that installs packages, and a user who becomes root: the choice of the host's owner.

use super::{Actor, FleetError, Kind};
use paddock_model::Spec;
use paddock_model::api::CreateSandbox;

/// The default gives tenants no new right: a step of a template that they build has the same root.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RootMayInstall {
    #[default]
    Everyone,
    /// Those of the host's owner, and of templates that the owner made.
    Owner,
    Nobody,
}

impl RootMayInstall {
    /// Refuses settings with rights that this caller may not have. `request`: what the caller asks for, and not a template of the owner's
    /// alone.
    pub fn check(self, actor: &Actor, spec: &Spec, request: &CreateSandbox) -> Result<(), FleetError> {
        let installs = (
            spec.root_may_install,
            request.root_may_install,
            "`root_may_install` lets root inside install packages",
        );
        let becomes =
            (spec.become_root, request.become_root, "`become_root` lets the user inside become root");
        for (on, asked, what) in [installs, becomes] {
            if on {
                self.allow(actor, asked == Some(true), what)?;
            }
        }
        Ok(())
    }

    fn allow(self, actor: &Actor, asked: bool, what: &str) -> Result<(), FleetError> {
        let refused = |why: &str| FleetError::new(Kind::Forbidden, "forbidden", format!("{what}, and {why}"));
        match self {
            RootMayInstall::Everyone => Ok(()),
            RootMayInstall::Owner if actor.owner || !asked => Ok(()),
            RootMayInstall::Owner => Err(refused("only the owner of this host may ask for it")
                .hint("ask through the server's unix socket, or let its owner make a template with it")),
            RootMayInstall::Nobody => Err(refused("the owner of this host forbids it")
                .hint("install what is needed in a template (`paddock template build`), or leave it out")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_model::api::Role;

    #[test]
    fn the_owner_decides_who_may_ask() {
        let tenant = Actor { tenant: "a".into(), role: Role::Admin, owner: false, token: "tk-1".into() };
        let (everyone, owner, nobody) =
            (RootMayInstall::Everyone, RootMayInstall::Owner, RootMayInstall::Nobody);
        for (who, actor, asked, may) in [
            (everyone, &tenant, true, true),
            (owner, &tenant, true, false),
            (owner, &tenant, false, true),
            (owner, &Actor::owner(), true, true),
            (nobody, &tenant, false, false),
            (nobody, &Actor::owner(), true, false),
        ] {
            assert_eq!(who.allow(actor, asked, "it").is_ok(), may, "{who:?} {asked}");
        }
    }
}
