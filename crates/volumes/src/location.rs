//! Where volumes are kept: a directory, or a bucket by its URL.

use crate::VolumeError;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
use object_store::{BackoffConfig, ObjectStore, RetryConfig};
use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// `DIR`, `file:///DIR`, `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or `az://CONTAINER/PREFIX`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    pub url: String,
    /// Settings of the bucket, by the names that the object_store crate has for them (`endpoint`, `region`, ...), over
    /// those that the environment has (`AWS_*`, `GOOGLE_*`, `AZURE_*`).
    pub settings: BTreeMap<String, String>,
    /// How long an unanswered request is tried again; 30 s if not set.
    pub retry: Option<Duration>,
}

/// A place that was opened.
#[derive(Clone)]
pub struct Location {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) prefix: ObjectPath,
    /// A directory of this host has no conditional put of its own.
    pub(crate) directory: Option<PathBuf>,
}

impl Location {
    pub fn directory(path: &Path) -> Result<Location, VolumeError> {
        let url = path.display().to_string();
        let refuse = |reason: String| VolumeError::Location { url: url.clone(), reason };
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(path).map_err(|error| refuse(error.to_string()))?;
        let path = path.canonicalize().map_err(|error| refuse(error.to_string()))?;
        let store = LocalFileSystem::new_with_prefix(&path).map_err(|error| refuse(error.to_string()))?;
        // A version that was acknowledged outlives a power failure too.
        let store = Arc::new(store.with_fsync(true));
        Ok(Location { store, prefix: ObjectPath::default(), directory: Some(path) })
    }

    pub fn open(options: &Options) -> Result<Location, VolumeError> {
        let shown: String = options.url.chars().take(200).collect();
        let refuse = |reason: String| VolumeError::Location { url: shown.clone(), reason };
        if options.url.starts_with('/') {
            return without_settings(options, &refuse)
                .and_then(|()| Location::directory(Path::new(&options.url)));
        }
        let url = Url::parse(&options.url).map_err(|error| {
            refuse(format!("{error}; write an absolute directory, or s3://, gs:// or az:// and a bucket"))
        })?;
        if url.scheme() == "file" {
            let path =
                url.to_file_path().map_err(|()| refuse("it names no directory of this host".into()))?;
            return without_settings(options, &refuse).and_then(|()| Location::directory(&path));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refuse("credentials do not belong into a URL; set them in the environment".into()));
        }
        let bucket = url.host_str().filter(|host| !host.is_empty());
        let bucket = bucket.ok_or_else(|| refuse("it names no bucket".into()))?;
        let prefix = ObjectPath::from_url_path(url.path()).map_err(|error| refuse(error.to_string()))?;
        install_provider();
        let store = bucket_store(url.scheme(), bucket, options).map_err(refuse)?;
        Ok(Location { store, prefix, directory: None })
    }
}

fn without_settings(options: &Options, refuse: &dyn Fn(String) -> VolumeError) -> Result<(), VolumeError> {
    match options.settings.keys().next() {
        Some(key) => Err(refuse(format!("a directory has no setting `{key}`"))),
        None => Ok(()),
    }
}

/// The pause before a request is sent again; later ones are longer.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);

/// More attempts than there is time for: only time counts, as ten refused connections are over within seconds. An error
/// shows the number to people.
fn retries_within(timeout: Duration) -> usize {
    let pauses = timeout.as_millis() / SHORTEST_PAUSE.as_millis();
    usize::try_from(pauses).unwrap_or(usize::MAX).saturating_add(1)
}

fn bucket_store(scheme: &str, bucket: &str, options: &Options) -> Result<Arc<dyn ObjectStore>, String> {
    let retry_timeout = options.retry.unwrap_or(Duration::from_secs(30));
    let retry = RetryConfig {
        backoff: BackoffConfig {
            init_backoff: SHORTEST_PAUSE,
            max_backoff: Duration::from_secs(2),
            base: 2.0,
        },
        max_retries: retries_within(retry_timeout),
        retry_timeout,
    };
    macro_rules! built {
        ($builder:ty) => {{
            let mut builder = <$builder>::from_env().with_retry(retry);
            for (key, value) in &options.settings {
                let parsed =
                    key.parse().map_err(|_| format!("it has no setting `{}`", key.escape_debug()))?;
                builder = builder.with_config(parsed, value);
            }
            builder
        }};
    }
    let url = format!("{scheme}://{bucket}");
    let text = |error: object_store::Error| error.to_string();
    match scheme {
        "s3" => Ok(Arc::new(built!(AmazonS3Builder).with_url(url).build().map_err(text)?)),
        "gs" => Ok(Arc::new(built!(GoogleCloudStorageBuilder).with_url(url).build().map_err(text)?)),
        "az" => Ok(Arc::new(built!(MicrosoftAzureBuilder).with_url(url).build().map_err(text)?)),
        other => Err(format!("`{other}` is not known; known are a directory, s3, gs and az")),
    }
}

/// The client takes the process's own provider; an earlier choice was the same one.
fn install_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str, settings: &[(&str, &str)]) -> String {
        let settings = settings.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let options = Options { url: url.into(), settings, retry: None };
        Location::open(&options).err().unwrap().to_string()
    }

    #[test]
    fn what_is_no_place_is_refused_with_a_reason() {
        for (url, words) in [
            ("volumes", "absolute directory"),
            ("ftp://bucket", "`ftp` is not known"),
            ("s3://", "no bucket"),
            ("s3://key:secret@bucket", "credentials do not belong"),
        ] {
            let said = refused(url, &[]);
            assert!(said.contains(words), "{url}: {said}");
        }
        assert!(refused("s3://bucket", &[("endpiont", "x")]).contains("`endpiont`"));
        assert!(refused("/tmp", &[("region", "x")]).contains("no setting `region`"));
    }

    #[test]
    fn buckets_of_three_clouds_open_without_being_asked_anything() {
        for (url, settings) in [
            ("s3://bucket/some/prefix", vec![("region", "eu-central-1")]),
            ("az://container", vec![("account_name", "someone"), ("account_key", "a2V5")]),
        ] {
            let settings = settings.into_iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
            let options = Options { url: url.into(), settings, retry: None };
            assert!(Location::open(&options).unwrap().directory.is_none(), "{url}");
        }
    }

    #[test]
    fn retries_are_bounded_by_time_and_a_number_that_people_can_read() {
        assert_eq!(retries_within(Duration::from_secs(30)), 301);
        assert_eq!(retries_within(Duration::ZERO), 1);
    }
}
