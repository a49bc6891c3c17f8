//! The rights of the agent, at each point of its life.

use crate::failure::{During, Outcome};
use crate::weaken::without;
use paddock_protocol::Ids;
use rustix::process::{Gid, Uid};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, set_capabilities, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

/// The rights that a supervisor needs: to become another user, to signal it and write files for it, and to see it in
/// /proc. None that mounts or configures.
const KEPT_CAPABILITIES: CapabilitySet = CapabilitySet::SETUID
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::SYS_PTRACE);

/// Files made from here on belong to the root of the sandbox.
pub fn become_root(ids: Ids) -> Outcome<()> {
    // Capabilities stay when the id changes, and an id of 0 brings none by itself.
    let bits = CapabilitiesSecureBits::NO_SETUID_FIXUP | CapabilitiesSecureBits::NO_ROOT;
    crate::system::set_secure_bits(bits).during(|| "set the secure bits".into())?;
    switch(ids, ids.root)
}

/// From here on no process of the work shares an id with the agent (if the host gave more than one id), and none can
/// trace it or read it in /proc. In a zygote's sandbox the agent keeps the right that the zygote is to have.
pub fn become_guest(ids: Ids, zygote: bool) -> Outcome<()> {
    let kept = if zygote { KEPT_CAPABILITIES.union(CapabilitySet::SYS_ADMIN) } else { KEPT_CAPABILITIES };
    switch(ids, ids.guest)?;
    crate::system::clear_ambient_capabilities().during(|| "clear the ambient capabilities".into())?;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).during(|| "drop capabilities".into())?;
    if !without("no-new-privileges") {
        rustix::thread::set_no_new_privs(true).during(|| "set no_new_privs".into())?;
    }
    crate::system::become_undumpable().during(|| "become undumpable".into())
}

fn switch(ids: Ids, id: u32) -> Outcome<()> {
    if ids.single {
        return Ok(());
    }
    let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
    set_thread_groups(&[]).during(|| "drop groups".into())?;
    set_thread_res_gid(gid, gid, gid).during(|| format!("become group {id}"))?;
    set_thread_res_uid(uid, uid, uid).during(|| format!("become user {id}"))
}
