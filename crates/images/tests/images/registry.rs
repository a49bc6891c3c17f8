//! Pulling, from a registry that this test runs on loopback.

use std::collections::HashMap;
use std::fs;
use std::sync::{Arc, Mutex};

use paddock_images::{ImageError, NoProgress, RegistryReach};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::*;

const TOKEN: &str = "let-me-in";

/// Serves the content that it was given, and records the requests.
#[derive(Clone, Default)]
struct Registry {
    content: Arc<Mutex<HashMap<String, Vec<u8>>>>,
    requests: Arc<Mutex<Vec<String>>>,
    access: Access,
    address: String,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Access {
    #[default]
    Open,
    Token,
    TokenOfNoUse,
    BrokenToken,
    RealmElsewhere,
}

impl Registry {
    async fn start(access: Access) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let registry = Self { access, address, ..Self::default() };
        let server = registry.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = server.clone();
                tokio::spawn(async move { server.answer(stream).await });
            }
        });
        registry
    }

    async fn answer(&self, mut stream: TcpStream) -> Option<()> {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(stream.read_u8().await.ok()?);
        }
        let request = String::from_utf8(request).ok()?;
        let path = request.split(' ').nth(1)?.to_owned();
        self.requests.lock().unwrap().push(path.clone());
        let has_token = request.to_lowercase().contains(&format!("bearer {TOKEN}"));
        let allowed = self.access == Access::Open || (self.access == Access::Token && has_token);
        let found = self.content.lock().unwrap().get(&path).cloned();
        let (status, extra, body) = if path.starts_with("/token?") {
            let token = if self.access == Access::BrokenToken { "a\r\nb" } else { TOKEN };
            ("200 OK", String::new(), json!({"token": token}).to_string().into_bytes())
        } else if !allowed {
            let host =
                if self.access == Access::RealmElsewhere { "elsewhere.invalid" } else { &self.address };
            let realm =
                format!("www-authenticate: Bearer realm=\"http://{host}/token\",service=\"test\"\r\n");
            ("401 Unauthorized", realm, Vec::new())
        } else {
            match found {
                Some(body) if body.starts_with(b"REDIRECT ") => {
                    let place = String::from_utf8_lossy(&body[9..]).into_owned();
                    ("307 Temporary Redirect", format!("location: {place}\r\n"), Vec::new())
                }
                Some(body) => ("200 OK", String::new(), body),
                None => ("404 Not Found", String::new(), b"{}".to_vec()),
            }
        };
        let head = format!(
            "HTTP/1.1 {status}\r\n{extra}content-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.ok()?;
        stream.write_all(&body).await.ok()
    }

    fn put(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.content.lock().unwrap().insert(format!("/v2/team/hello/{path}"), bytes.into());
    }

    /// Stores the image under the tag `latest`, behind an index of two platforms; returns the manifest.
    fn push(&self, image: &Image, change: impl FnOnce(&mut Value)) -> Vec<u8> {
        let (blobs, mut manifest) = image.blobs();
        change(&mut manifest);
        for blob in blobs {
            self.put(&format!("blobs/{}", digest(&blob)), blob);
        }
        let manifest = manifest.to_string().into_bytes();
        let other = index_entry(b"other", "s390x");
        let index =
            json!({"schemaVersion": 2, "manifests": [other, index_entry(&manifest, this_architecture())]});
        self.put(&format!("manifests/{}", digest(&manifest)), manifest.clone());
        self.put("manifests/latest", index.to_string());
        manifest
    }

    fn name(&self) -> String {
        format!("{}/team/hello", self.address)
    }

    fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }
}

#[tokio::test]
async fn an_image_is_pulled_once() {
    let registry = Registry::start(Access::Open).await;
    let manifest = registry.push(&Image::hello(), |_| {});
    let lab = Lab::new();
    let first = lab.store.resolve(&registry.name(), &NoProgress).await.unwrap();
    assert_eq!(listing(&first.root), ["bin", "bin/sh", "hello"]);
    assert_eq!(first.digest, Some(digest(&manifest)));
    assert_eq!(first.command, ["/bin/sh", "-c", "true"]);
    // Index, manifest, configuration and two layers.
    assert_eq!(registry.take_requests().len(), 5);

    let second = lab.store.resolve(&registry.name(), &NoProgress).await.unwrap();
    assert_eq!(first, second);
    assert_eq!(registry.take_requests(), ["/v2/team/hello/manifests/latest"]);

    // A digest cannot change, so the registry is not asked.
    let pinned = format!("{}@{}", registry.name(), digest(&manifest));
    assert_eq!(lab.store.resolve(&pinned, &NoProgress).await.unwrap(), first);
    assert_eq!(registry.take_requests(), Vec::<String>::new());
    lab.assert_clean();
}

#[tokio::test]
async fn images_share_layers() {
    let registry = Registry::start(Access::Open).await;
    let lab = Lab::new();
    registry.push(&Image::hello(), |_| {});
    lab.store.resolve(&registry.name(), &NoProgress).await.unwrap();
    registry.take_requests();
    let mut layers = Image::hello().layers;
    layers.push(Tar::new().file("more", "x").done());
    registry.push(&Image::new(layers), |_| {});
    let image = lab.store.resolve(&registry.name(), &NoProgress).await.unwrap();
    assert_eq!(listing(&image.root), ["bin", "bin/sh", "hello", "more"]);
    let layers = registry.take_requests().iter().filter(|path| path.contains("/blobs/")).count();
    assert_eq!(layers, 2, "the new configuration and the new layer");
}

#[tokio::test]
async fn a_token_is_fetched_when_it_is_asked_for() {
    let registry = Registry::start(Access::Token).await;
    registry.push(&Image::hello(), |_| {});
    let lab = Lab::new();
    let image = lab.store.resolve(&registry.name(), &NoProgress).await.unwrap();
    assert_eq!(listing(&image.root).len(), 3);
    let tokens: Vec<_> =
        registry.take_requests().into_iter().filter(|path| path.starts_with("/token")).collect();
    assert_eq!(tokens, ["/token?scope=repository%3Ateam%2Fhello%3Apull&service=test"]);
}

#[tokio::test]
async fn a_lying_registry_is_caught() {
    type Check = fn(&ImageError) -> bool;
    let first_layer = gzip(&Image::hello().layers[0]);
    let path = format!("blobs/{}", digest(&first_layer));
    let mut flipped = first_layer.clone();
    flipped[20] ^= 1;
    let cases: [(Vec<u8>, Check); 4] = [
        (flipped, |error| matches!(error, ImageError::DigestMismatch { .. })),
        (first_layer[..10].to_vec(), |error| matches!(error, ImageError::SizeMismatch { .. })),
        ([&first_layer[..], b"more"].concat(), |error| matches!(error, ImageError::SizeMismatch { .. })),
        (vec![0; 1 << 20], |error| matches!(error, ImageError::SizeMismatch { .. })),
    ];
    for (bytes, expected) in cases {
        let registry = Registry::start(Access::Open).await;
        registry.push(&Image::hello(), |_| {});
        registry.put(&path, bytes);
        let lab = Lab::new();
        let error = lab.store.resolve(&registry.name(), &NoProgress).await.unwrap_err();
        assert!(expected(&error), "{error:?}");
        assert!(!lab.path("images").join(path.replace(':', "/")).exists());
        lab.assert_clean();
        // The refused layer is not kept: the honest layer is taken afterwards.
        registry.put(&path, first_layer.clone());
        assert!(lab.store.resolve(&registry.name(), &NoProgress).await.is_ok());
    }
}

#[tokio::test]
async fn documents_of_a_registry_are_checked() {
    let registry = Registry::start(Access::Open).await;
    let lab = Lab::new();
    let resolve = async || lab.store.resolve(&registry.name(), &NoProgress).await.unwrap_err();
    let manifest = registry.push(&Image::hello(), |_| {});
    registry.put(&format!("manifests/{}", digest(&manifest)), "{}");
    assert!(matches!(resolve().await, ImageError::DigestMismatch { .. }));
    registry.put("manifests/latest", vec![b' '; (4 << 20) + 1]);
    assert!(matches!(resolve().await, ImageError::LimitExceeded { .. }));
    registry.put("manifests/latest", json!({"manifests": [index_entry(b"other", "s390x")]}).to_string());
    let error = resolve().await;
    assert!(error.to_string().ends_with("on offer: linux/s390x"), "{error}");
    registry.push(&Image::hello(), |manifest| manifest["layers"][0]["urls"] = json!(["http://127.0.0.1/"]));
    assert!(matches!(resolve().await, ImageError::ForeignLayer { .. }));
    registry.push(&Image::hello(), |manifest| manifest["config"]["mediaType"] = json!("text/plain"));
    assert!(matches!(resolve().await, ImageError::UnknownMediaType { .. }));
    let mut wrong_diff_id = Image::hello();
    wrong_diff_id.config["rootfs"]["diff_ids"][0] = json!(digest(b"other"));
    registry.push(&wrong_diff_id, |_| {});
    assert!(matches!(resolve().await, ImageError::DigestMismatch { .. }));
    lab.assert_clean();
}

#[tokio::test]
async fn a_damaged_cache_heals() {
    let registry = Registry::start(Access::Open).await;
    registry.push(&Image::hello(), |_| {});
    let lab = Lab::new();
    let image = lab.store.resolve(&registry.name(), &NoProgress).await.unwrap();
    fs::remove_dir_all(image.root.parent().unwrap()).unwrap();
    let layer = gzip(&Image::hello().layers[0]);
    let blob = lab.path("images/blobs").join(digest(&layer).replace(':', "/"));
    // The length stays the same, so that only the digest tells.
    let mut damaged = layer.clone();
    damaged[layer.len() - 10] ^= 1;
    fs::write(&blob, damaged).unwrap();
    assert!(lab.store.resolve(&registry.name(), &NoProgress).await.is_err());
    assert_eq!(lab.store.resolve(&registry.name(), &NoProgress).await.unwrap(), image);
}

#[tokio::test]
async fn refusals_of_a_registry_are_told_apart() {
    let lab = Lab::new();
    let registry = Registry::start(Access::Open).await;
    let error = lab.store.resolve(&registry.name(), &NoProgress).await.unwrap_err();
    assert!(error.to_string().ends_with("has no team/hello:latest"), "{error}");
    assert!(error.hint().is_some());

    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    let error = lab.store.resolve(&format!("{address}/a"), &NoProgress).await.unwrap_err();
    assert!(matches!(error, ImageError::Unreachable { .. }) && error.hint().is_some(), "{error:?}");

    let error = lab.store.resolve("no-such-host.invalid/a", &NoProgress).await.unwrap_err();
    assert!(matches!(error, ImageError::Unreachable { .. }), "{error:?}");

    // A token that is not accepted is not requested again and again.
    let strict = Registry::start(Access::TokenOfNoUse).await;
    let error = lab.store.resolve(&strict.name(), &NoProgress).await.unwrap_err();
    assert!(matches!(error, ImageError::Unauthorized { .. }) && error.hint().is_some(), "{error:?}");
    assert_eq!(strict.take_requests().len(), 3);

    // A token that cannot be a header, or a realm in the clear elsewhere, is an error and nothing worse.
    for access in [Access::BrokenToken, Access::RealmElsewhere] {
        let hostile = Registry::start(access).await;
        lab.store.resolve(&hostile.name(), &NoProgress).await.unwrap_err();
    }
    lab.assert_clean();
}

#[tokio::test]
async fn nobody_is_led_to_what_only_the_server_reaches() {
    let registry = Registry::start(Access::Token).await;
    let other = Registry::start(Access::Open).await;
    for registry in [&registry, &other] {
        registry.push(&Image::hello(), |_| {});
    }
    let lab = Lab::new();
    let named = RegistryReach::Named(vec![registry.address.clone()]);
    let pull = async |registry: &Registry, reach: &RegistryReach| {
        lab.store.resolve_from_registry(&registry.name(), reach, &NoProgress).await
    };
    let refused = |error: &ImageError| matches!(error, ImageError::RegistryRefused { .. });
    for (registry, reach) in [(&other, &named), (&registry, &RegistryReach::Public)] {
        let error = pull(registry, reach).await.unwrap_err();
        assert!(refused(&error) && error.hint().is_some(), "{error}");
        assert!(registry.take_requests().is_empty());
    }
    // The registry also gives tokens at the port that the reach names.
    pull(&registry, &named).await.unwrap();
    registry
        .put("manifests/latest", format!("REDIRECT http://{}/v2/team/hello/manifests/latest", other.address));
    let error = pull(&registry, &named).await.unwrap_err();
    assert!(refused(&error), "{error}");
    assert!(other.take_requests().is_empty());
    pull(&registry, &RegistryReach::Anywhere).await.unwrap();
    assert!(!other.take_requests().is_empty());
}
