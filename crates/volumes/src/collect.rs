//! Frees objects that no version names any more. The collector holds the lease, and touches nothing that a later lease
//! made: a collector that lost its lease cannot take anything from its successor.

use crate::pack::generation_of;
use crate::store::Volumes;
use crate::{VolumeError, head::now_ms};
use std::collections::HashSet;

/// Versions that are freed at one time.
const DUE: usize = 64;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Collected {
    pub objects: u64,
    pub bytes: u64,
}

impl Volumes {
    /// `Busy` while another writer has the lease.
    pub async fn collect(&self, tenant: &str, name: &str) -> Result<Collected, VolumeError> {
        let mut writer = self.acquire(tenant, name, "the collector of what is not needed", false).await?;
        let collected = self.collect_with(&mut writer).await;
        writer.release().await?;
        collected
    }

    /// True if enough retired versions have passed their time that a look at the whole store is worth it.
    pub fn is_due(&self, head: &crate::Head) -> bool {
        let grace = self.0.grace.as_millis() as u64;
        let passed = |retired: &crate::head::Retired| retired.at_ms.saturating_add(grace) <= now_ms();
        head.retired.get(DUE - 1).is_some_and(passed)
    }

    /// The same for a writer that has the lease already.
    pub async fn collect_with(&self, writer: &mut crate::Writer) -> Result<Collected, VolumeError> {
        let grace = self.0.grace.as_millis() as u64;
        writer
            .change_checked(|head| {
                let now = now_ms();
                head.retired.retain(|retired| retired.at_ms.saturating_add(grace) > now);
                Ok(())
            })
            .await?;
        let head = writer.head().clone();
        let own = writer.token().generation;
        let (mut packs, mut manifests) = (HashSet::new(), HashSet::new());
        for version in head.versions.iter().chain(head.retired.iter().map(|retired| &retired.version)) {
            if manifests.insert(version.manifest.clone()) {
                // A manifest that cannot be read does not tell which packs it needs: then nothing is freed.
                packs.extend(self.manifest_of(&head, version).await?.packs);
            }
        }
        let mut collected = Collected::default();
        for (part, needed) in [("packs", &packs), ("manifests", &manifests)] {
            for (object, bytes) in self.0.objects.list(&["data", &head.id, part]).await? {
                let older = generation_of(&object).is_some_and(|generation| generation < own);
                if older && !needed.contains(&object) {
                    self.0.objects.delete(&["data", &head.id, part, &object]).await?;
                    collected.objects += 1;
                    collected.bytes += bytes;
                }
            }
        }
        Ok(collected)
    }
}
