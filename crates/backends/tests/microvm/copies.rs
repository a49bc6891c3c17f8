//! A running VM is copied as it is.

use super::*;
use paddock_backends::PausedVm;

const NAMES: &str =
    "cat /etc/machine-id /proc/sys/kernel/random/boot_id; head -c 16 /dev/urandom | od -An -tx1";

/// Counts, so that it is seen to go on.
const COUNT: &str = "(i=0; while :; do i=$((i+1)); echo $i > /tmp/count; sleep 0.1; done) >/dev/null 2>&1 & \
    echo loaded > /tmp/loaded; echo begun";
const COUNTS: &str = "a=; while [ -z \"$a\" ]; do a=$(cat /tmp/count); done; b=; \
    while [ -z \"$b\" ] || [ \"$b\" = \"$a\" ]; do b=$(cat /tmp/count); done; cat /tmp/loaded";

/// Every VM can be copied except one that KVM runs.
fn can_be_copied(backend: &dyn Backend, spec: &Spec) -> bool {
    let emulated = backend.guarantees(spec).weaknesses.iter().any(|known| known.contains("emulated"));
    if !emulated {
        let _ = writeln!(std::io::stderr().lock(), "\nSKIP microvm: no machine is copied that KVM runs");
    }
    emulated
}

fn copied(
    paused: &dyn PausedVm,
    id: &paddock_model::SandboxId,
    spec: &Spec,
) -> (Box<dyn paddock_backends::Fence>, Talk) {
    let started = Instant::now();
    let raised = paused.copy(id, spec, true).unwrap_or_else(|error| panic!("{error:?}"));
    eprintln!("copied after {:?}", started.elapsed());
    let mut talk = Talk::new(raised.stream);
    talk.say(&ToGuest::Resume);
    talk.ready();
    eprintln!("answers after {:?}", started.elapsed());
    (raised.fence, talk)
}

#[test]
fn copies_of_a_machine_go_on_by_themselves() {
    let state = tempfile::tempdir().unwrap();
    let Some(backend) = machines(state.path()) else { return };
    let (first, spec) = (new_id(), small());
    if !can_be_copied(backend.as_ref(), &spec) {
        return;
    }
    let Raised { fence, stream, .. } = backend.create(&first, &spec, Purpose::ParentVm).unwrap();
    let mut talk = Talk::new(stream);
    talk.ready();
    assert_eq!(talk.run(1, COUNT), (ExitKind::Exited(0), "begun\n".into()));
    let mut drawn = vec![talk.run(2, NAMES).1];
    drop(talk);
    let paused = fence.pause_for_copies(&spec).unwrap_or_else(|error| panic!("{error:?}"));
    let mut copies = Vec::new();
    for number in 0..3 {
        let id = new_id();
        let (fence, mut talk) = copied(paused.as_ref(), &id, &spec);
        let started = Instant::now();
        let said = talk.run(10, &format!("cat /tmp/loaded; echo {number} > /tmp/loaded"));
        eprintln!("first command after {:?}", started.elapsed());
        assert_eq!(said, (ExitKind::Exited(0), "loaded\n".into()));
        drawn.push(talk.run(11, NAMES).1);
        copies.push((id, fence, talk));
    }
    for (number, (_, _, talk)) in copies.iter_mut().enumerate() {
        assert_eq!(talk.run(12, COUNTS), (ExitKind::Exited(0), format!("{number}\n")));
    }
    let lines: Vec<&str> = drawn.iter().flat_map(|said| said.lines()).collect();
    let mut different = lines.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), lines.len(), "two have something in common: {lines:?}");
    let mut ids: Vec<_> = copies.iter().map(|(id, ..)| id.clone()).collect();
    ids.push(first);
    drop(copies);
    drop((paused, fence));
    assert_eq!(traces_in_the_end(state.path(), &ids), [""; 0]);
}
