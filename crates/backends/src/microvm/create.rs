//! A sandbox with a VM: made anew, or from kept memory.

use super::fence::engine_fence;
use super::launch::{Content, Launched, Resumption, TemplateFiles, VmSandbox, failed, raise};
use super::monitor::MemorySource;
use super::parts::Parts;
use super::shape::shape;
use super::{bake, copy, disk, kvm, memory, probe, qemu, sparse, template_bake};
use paddock_fences::error::{CreateError, HostStep};
use paddock_fences::fence::Raised;
use paddock_fences::purpose::Purpose;
use paddock_fences::shared::adopt::reach;
use paddock_model::{SandboxId, Spec};
use std::fs::File;
use std::io::Error;
use std::path::Path;

pub fn create(state: &Path, id: &SandboxId, spec: &Spec, purpose: Purpose) -> Result<Raised, CreateError> {
    let parts = Parts::find(state, spec)?;
    let shape = shape(&spec.limits, kvm::decide(state, &parts).acceleration);
    if let Some(missing) = copy::missing(shape, spec).filter(|_| purpose == Purpose::ParentVm) {
        return Err(CreateError::unavailable(missing));
    }
    let baked = bake::get(state, &parts, shape)?;
    let disk = disk::open(state, spec, None)?;
    let template = match purpose {
        Purpose::TemplateMemory => {
            let copied = sparse::in_memory("vm", shape.memory)
                .and_then(|memory| sparse::copy(&baked.memory, &memory).map(|()| memory));
            let memory = copied.host(|| "copy the memory of a VM".into())?;
            Some(TemplateFiles { memory, disk: another(&disk)? })
        }
        _ => None,
    };
    let source = MemorySource::Copy {
        memory: another(template.as_ref().map_or(&baked.memory, |template| &template.memory))?.into(),
        // Memory that is kept for others is written to a file of its own.
        shared: template.is_some(),
    };
    let content = Content::Sandbox(VmSandbox { spec, purpose, disk, resumption: None, template });
    let mut launched = raise(state, id, content, &parts, shape, source)?;
    let resumed = baked.recall(&mut *launched.monitor);
    resumed.map_err(|error| failed(&launched.raised.stream, error))?;
    Ok(engine_fence(state, id, launched))
}

fn another(file: &File) -> Result<File, CreateError> {
    file.try_clone().host(|| "copy a descriptor".into())
}

/// A sandbox that goes on from kept memory, with a stream to its guest.
pub fn create_from_memory(
    state: &Path,
    id: &SandboxId,
    spec: &Spec,
    kept: &Path,
) -> Result<Raised, CreateError> {
    let parts = Parts::find(state, spec)?;
    let template = template_bake::load(kept)?;
    let resumption = Some(Resumption { connection: memory::random()?, renamed: template.is_some() });
    let content = |disk: File| {
        Content::Sandbox(VmSandbox { spec, purpose: Purpose::Lasting, disk, resumption, template: None })
    };
    let (mut launched, resumed) = match template {
        Some(template) => {
            let content = content(disk::open(state, spec, Some(&template.disk))?);
            let source = MemorySource::Copy { memory: another(&template.memory)?.into(), shared: false };
            let mut launched = raise(state, id, content, &parts, template.shape, source)?;
            let resumed = launched.monitor.recall(&template.state, true);
            (launched, resumed)
        }
        None => {
            let saved = File::open(kept.join(memory::STATE)).host(|| format!("open {}", kept.display()))?;
            // The sandbox's limits may have changed since; the VM's shape has not.
            let shape = memory::read_shape(kept)
                .unwrap_or_else(|| shape(&spec.limits, kvm::decide(state, &parts).acceleration));
            let content = content(disk::open(state, spec, None)?);
            let mut launched = raise(state, id, content, &parts, shape, MemorySource::Stream)?;
            let monitor = &mut launched.monitor;
            let resumed = monitor.recall(&saved, false).and_then(|()| monitor.go_on());
            (launched, resumed)
        }
    };
    if launched.shape.fixed_addresses && !qemu::wants_fixed_addresses() {
        launched.raised.notes.push(probe::FIXED.into());
    }
    resumed.map_err(|error| {
        let error = Error::new(error.kind(), format!("the kept memory: {error}"));
        failed(&launched.raised.stream, error)
    })?;
    let raised = reach(state, id, launched.raised)?;
    Ok(engine_fence(state, id, Launched { raised, ..launched }))
}
