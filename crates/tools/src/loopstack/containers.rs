//! Which sandbox a `containerId` is.

use super::arguments::{Destroy, Init};
use super::{LoopstackError, Result, paths, short};
use crate::host::{FileOperations, Host};
use paddock_model::api::{CreateSandbox, Sandbox};
use paddock_model::net::{NetSetting, is_registry_inside, vouches_for_registry};
use serde::Serialize;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The notes by which a sandbox of these tools is found again, also by the next server.
const ID_NOTE: &str = "loopstack.container";
const IMAGE_NOTE: &str = "loopstack.image";
const TEMPLATE: &str = "template:";
const WORKSPACE: &str = "/workspace";

/// Which directories of the host a caller may have mounted, and images by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum HostPaths {
    /// As far as the API lets this caller: for programs.
    AsCaller,
    /// None, or only this directory: a path that a model names is not the wish of a person.
    #[default]
    None,
    Only(PathBuf),
}

#[derive(Debug, Clone, Default)]
pub struct LoopstackOptions {
    /// The settings of every sandbox, besides its image.
    pub create: CreateSandbox,
    pub host_paths: HostPaths,
    /// The sandboxes outlive this very object, and are found again by their notes.
    pub lasting: bool,
}

pub struct Containers<H: Host> {
    host: H,
    options: LoopstackOptions,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The sandbox of each `containerId`.
    ids: HashMap<String, String>,
    /// The sandbox of each `containerName` and its image; of lasting ones the server knows the names.
    names: HashMap<String, (String, String)>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Initialised {
    container_id: String,
    docker_id: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Destroyed {
    container_id: String,
    removed: bool,
}

impl<H: Host> Containers<H> {
    pub fn new(host: H, options: LoopstackOptions) -> Containers<H> {
        Containers { host, options, known: Mutex::default() }
    }

    pub async fn init(&self, given: Init) -> Result<Initialised> {
        let root = paths::inside(&given.root_path)?;
        let request = self.request(&given, &root)?;
        if let Some((id, image)) = self.known().names.get(&given.container_name).cloned() {
            same_image(&given, Some(&image))?;
            self.known().ids.insert(given.container_id.clone(), id.clone());
            return Ok(Initialised { container_id: given.container_id, docker_id: id });
        }
        let sandbox = match self.host.create(request).await {
            Ok(sandbox) => {
                // If no directory of the host is mounted, the directory is the sandbox's own.
                if given.project_out_path.is_empty() && root != "/" {
                    self.host.sandbox(&sandbox.id).make_directory(&root, true).await?;
                }
                sandbox
            }
            Err(error) if error.code == "name_taken" => self.existing(&given).await?,
            Err(error) => return Err(error.into()),
        };
        let mut known = self.known();
        known.ids.insert(given.container_id.clone(), sandbox.id.clone());
        if !self.options.lasting {
            known.names.insert(given.container_name, (sandbox.id.clone(), given.image_name));
        }
        drop(known);
        Ok(Initialised { container_id: given.container_id, docker_id: sandbox.id })
    }

    pub async fn destroy(&self, given: Destroy) -> Result<Destroyed> {
        let id = self.id(&given.container_id).await?;
        let done = match given.remove_container {
            true => self.host.kill(&id).await,
            false => self.host.hibernate(&id).await,
        };
        match done {
            Err(error) if !error.is_end_of_sandbox() => return Err(error.into()),
            _ => {}
        }
        let mut known = self.known();
        known.ids.remove(&given.container_id);
        if given.remove_container {
            known.ids.retain(|_, other| *other != id);
            known.names.retain(|_, (other, _)| *other != id);
        }
        drop(known);
        Ok(Destroyed { container_id: given.container_id, removed: given.remove_container })
    }

    pub async fn sandbox(&self, container: &str) -> Result<H::Sandbox> {
        Ok(self.host.sandbox(&self.id(container).await?))
    }

    async fn id(&self, container: &str) -> Result<String> {
        let unknown = || LoopstackError::NotRegistered(short(container));
        if let Some(id) = self.known().ids.get(container) {
            return Ok(id.clone());
        }
        if !self.options.lasting || container.is_empty() {
            return Err(unknown());
        }
        let found = self.host.find(ID_NOTE, container).await?;
        found.into_iter().next().map(|sandbox| sandbox.id).ok_or_else(unknown)
    }

    /// The sandbox of this name, if these tools made it from the same image.
    async fn existing(&self, given: &Init) -> Result<Sandbox> {
        let sandbox = self.host.get(&given.container_name).await?;
        let name = short(&given.container_name);
        if !sandbox.metadata.contains_key(ID_NOTE) {
            return Err(LoopstackError::Refused(format!(
                "the name '{name}' is that of another sandbox; choose another"
            )));
        }
        same_image(given, sandbox.metadata.get(IMAGE_NOTE))?;
        Ok(sandbox)
    }

    fn request(&self, given: &Init, root: &str) -> Result<CreateSandbox> {
        let mut request = self.options.create.clone();
        request.name = self.options.lasting.then(|| given.container_name.clone());
        // As in a container: the tools write anywhere inside.
        request.user.get_or_insert_with(|| "root".into());
        request.metadata.insert(ID_NOTE.into(), given.container_id.clone());
        request.metadata.insert(IMAGE_NOTE.into(), given.image_name.clone());
        match given.image_name.strip_prefix(TEMPLATE) {
            Some(template) => request.template = Some(template.into()),
            None => {
                request.image = Some(self.image(&given.image_name)?);
                request.public_image = !self.is_vouched_for(&given.image_name);
            }
        }
        if given.project_out_path.is_empty() {
            request.workspace = None;
            return Ok(request);
        }
        let directory = self.directory(&given.project_out_path)?;
        request.workspace = None;
        match root {
            WORKSPACE => request.workspace = Some(directory),
            "/" => return Err(LoopstackError::Refused("rootPath is /, where nothing can be mounted".into())),
            root => request.write.push(format!("{directory}:{root}")),
        }
        Ok(request)
    }

    fn directory(&self, path: &str) -> Result<String> {
        let allowed = match &self.options.host_paths {
            HostPaths::AsCaller => return Ok(path.to_string()),
            HostPaths::None => None,
            HostPaths::Only(directory) => Some(directory),
        };
        let same = |directory: &&PathBuf| {
            std::fs::canonicalize(path)
                .is_ok_and(|path| std::fs::canonicalize(directory).is_ok_and(|own| own == path))
        };
        match allowed.filter(same) {
            Some(directory) => Ok(directory.display().to_string()),
            None => Err(LoopstackError::Refused(format!(
                "projectOutPath '{}' is a directory of the host that nobody allowed; leave it empty, or start Paddock with \
                 --workspace and this very directory",
                short(path)
            ))),
        }
    }

    /// A model chose the name. An image inside the host's networks is allowed only if the person who started Paddock
    /// named it, or its registry.
    fn is_vouched_for(&self, image: &str) -> bool {
        let allow = match &self.options.create.network {
            Some(NetSetting::Rules(layer)) => layer.allow.as_slice(),
            _ => &[],
        };
        self.options.create.image.as_deref() == Some(image) || vouches_for_registry(allow, image)
    }

    /// Only the name of an image in a registry, written out: a path of the host shows its files.
    fn image(&self, name: &str) -> Result<String> {
        if self.options.host_paths == HostPaths::AsCaller
            || self.options.create.image.as_deref() == Some(name)
        {
            return Ok(name.to_string());
        }
        let plain = name.starts_with(|first: char| first.is_ascii_alphanumeric())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-/:@".contains(c))
            && !name.contains("..")
            && !name.contains("//")
            && !name.contains(":/");
        if !plain {
            return Err(LoopstackError::Refused(format!(
                "imageName '{}' is not the name of an image in a registry, such as python:3.12, nor template:NAME",
                short(name)
            )));
        }
        if is_registry_inside(name) && !self.is_vouched_for(name) {
            let registry = name.split('/').next().unwrap_or_default();
            return Err(LoopstackError::Refused(format!(
                "imageName '{}' names a registry on the host or in its networks, which a model does not reach; to allow it, start \
                 Paddock with --allow-net {}",
                short(name),
                short(registry)
            )));
        }
        Ok(written_out(name))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A name stands for one image: another image in it would be a surprise.
fn same_image(given: &Init, image: Option<&String>) -> Result<()> {
    if image == Some(&given.image_name) {
        return Ok(());
    }
    Err(LoopstackError::Refused(format!(
        "the container '{}' exists with the image '{}'; destroy it first, or choose another name",
        short(&given.container_name),
        image.map_or("", String::as_str)
    )))
}

/// With its registry and its tag, so that no file of the host can have the same name.
fn written_out(name: &str) -> String {
    let registry = match name.split_once('/') {
        Some((first, _)) if first.contains(['.', ':']) || first == "localhost" => "",
        Some(_) => "docker.io/",
        None => "docker.io/library/",
    };
    let last = name.rsplit('/').next().unwrap_or(name);
    let tag = if last.contains([':', '@']) { "" } else { ":latest" };
    format!("{registry}{name}{tag}")
}

#[cfg(test)]
mod tests {
    use super::written_out;

    #[test]
    fn images_are_written_out() {
        for (name, meant) in [
            ("python", "docker.io/library/python:latest"),
            ("python:3.12", "docker.io/library/python:3.12"),
            ("some/tool", "docker.io/some/tool:latest"),
            ("registry.example:5000/a/b@sha256:ab", "registry.example:5000/a/b@sha256:ab"),
            ("etc", "docker.io/library/etc:latest"),
        ] {
            assert_eq!(written_out(name), meant);
        }
    }
}
