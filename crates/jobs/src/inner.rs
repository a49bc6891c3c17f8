//! The state of all jobs that have not ended: their queue, and what runs.

use crate::live::LiveJob;
use crate::outputs::Room;
use crate::queue::{Entry, Queue};
use crate::request::request_of;
use crate::writer::Writer;
use paddock_fleet::Fleet;
use paddock_model::api::{JobSpec, PoolSize};
use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// With this many tasks it pays to keep sandboxes ready.
const TASKS_FOR_A_POOL: u32 = 8;

#[derive(Debug, Clone)]
pub struct JobsOptions {
    /// Attempts at one time, over all tenants.
    pub running: usize,
    /// Jobs that one tenant may have, ended ones too.
    pub most_jobs: u64,
    /// Bytes that all artifacts of one tenant may take.
    pub artifact_bytes: u64,
}

impl Default for JobsOptions {
    fn default() -> JobsOptions {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        JobsOptions { running: processors * 4, most_jobs: 10_000, artifact_bytes: 10 << 30 }
    }
}

#[derive(Clone)]
pub struct Jobs(pub(crate) Arc<Inner>);

pub struct Inner {
    pub fleet: Fleet,
    pub options: JobsOptions,
    pub writer: Writer,
    pub room: Room,
    pub wake: Notify,
    pub closing: CancellationToken,
    pub tasks: TaskTracker,
    pub running: AtomicUsize,
    pub me: Weak<Inner>,
    pub queue: Mutex<Queue>,
    pub live: RwLock<HashMap<String, Arc<LiveJob>>>,
}

impl Inner {
    pub fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn live(&self, id: &str) -> Option<Arc<LiveJob>> {
        self.live.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    pub fn forget_live(&self, id: &str) {
        self.live.write().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    /// From now on the job's tasks have their turns.
    pub fn add(&self, job: Arc<LiveJob>, waiting: impl IntoIterator<Item = u32>) {
        if job.spec.count() >= TASKS_FOR_A_POOL && is_plain(&job.spec) {
            let size =
                PoolSize { min: 0, max: u32::try_from(self.options.running).unwrap_or(u32::MAX).max(1) };
            let template = job.spec.template.as_deref().unwrap_or("code-interpreter");
            job.progress().pool = Some(self.fleet.lend_pool(template, size));
        }
        let running = u32::try_from(self.options.running).unwrap_or(u32::MAX);
        let entry = Entry {
            id: &job.id,
            tenant: &job.actor.tenant,
            priority: job.spec.priority,
            parallelism: job.spec.parallelism.unwrap_or(running),
        };
        self.queue().add(entry, waiting);
        self.live.write().unwrap_or_else(PoisonError::into_inner).insert(job.id.clone(), job);
        self.wake.notify_one();
    }
}

/// True if its sandboxes are those of its template, as a pool has them.
fn is_plain(spec: &JobSpec) -> bool {
    let request = request_of(spec, None);
    let plain = paddock_model::api::CreateSandbox {
        template: request.template.clone(),
        ttl_seconds: request.ttl_seconds,
        ..Default::default()
    };
    request == plain && spec.best_of.is_none()
}
