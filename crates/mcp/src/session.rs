//! The sandboxes of one client. The first is made at the first call that needs one; all are ended with the session. Each has
//! a time to live that the session prolongs for as long as it is there: a killed session leaves nothing for long.

use crate::renewal::{LEASE, Renewal, State, end_all, locked};
use paddock_model::api::{CreateSandbox, Sandbox};
use paddock_tools::{Facts, Host, OperationError, Toolbox, ToolboxOptions};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Sandboxes that one session may have at a time.
pub const MOST_SANDBOXES: usize = 16;
pub const MOST_SNAPSHOTS: usize = 16;

#[derive(Debug, Clone, Default)]
pub struct SessionOptions {
    /// The settings of each sandbox of the session.
    pub create: CreateSandbox,
    /// Use this sandbox instead, which was there before and stays.
    pub attach: Option<String>,
    /// The facts in the descriptions before a sandbox is there.
    pub facts: Facts,
    pub toolbox: ToolboxOptions,
    /// No sandbox lives longer, however long the session does.
    pub longest_life: Option<Duration>,
    /// A sandbox without a request for this long is ended; the next call gets a new one.
    pub idle: Option<Duration>,
}

/// The session of one client.
pub struct Session<H: Host> {
    pub toolbox: Toolbox,
    host: H,
    options: SessionOptions,
    state: Arc<Mutex<State>>,
    /// Held while the session's own sandbox is made, so that two calls do not make two.
    making: tokio::sync::Mutex<()>,
    calls: Arc<AtomicUsize>,
    over: Arc<Notify>,
}

impl<H: Host> Session<H> {
    pub fn new(host: H, options: SessionOptions) -> Session<H> {
        let toolbox = Toolbox::new(&options.toolbox);
        Session {
            toolbox,
            host,
            options,
            state: Arc::default(),
            making: tokio::sync::Mutex::new(()),
            calls: Arc::default(),
            over: Arc::default(),
        }
    }

    pub fn host(&self) -> &H {
        &self.host
    }

    /// The facts in the descriptions of the tools.
    pub async fn facts(&self) -> Facts {
        if let Some(facts) = self.state().facts.clone() {
            return facts;
        }
        let timeout_seconds = self.options.toolbox.timeout_seconds;
        match &self.options.attach {
            Some(id) => match self.host.get(id).await {
                Ok(sandbox) => self.facts_of(&sandbox).await,
                Err(_) => Facts { timeout_seconds, ..self.options.facts.clone() },
            },
            None => Facts { timeout_seconds, ..self.options.facts.clone() },
        }
    }

    /// The id of the sandbox that a call is for: the named one, or the session's own, made now if it has to be.
    pub async fn sandbox(&self, named: Option<&str>) -> Result<String, OperationError> {
        if let Some(id) = named {
            return self.owned(id);
        }
        if let Some(own) = self.state().own.clone() {
            return Ok(own);
        }
        let _making = self.making.lock().await;
        if let Some(own) = self.state().own.clone() {
            return Ok(own);
        }
        let sandbox = match &self.options.attach {
            Some(id) => self.host.get(id).await?,
            None => self.make(None).await?,
        };
        let facts = self.facts_of(&sandbox).await;
        let mut state = self.state();
        state.own = Some(sandbox.id.clone());
        state.facts = Some(facts);
        Ok(sandbox.id)
    }

    /// A further sandbox, of this session.
    pub async fn make(&self, snapshot: Option<String>) -> Result<Sandbox, OperationError> {
        self.check_room()?;
        if let Some(snapshot) = &snapshot
            && !self.state().snapshots.contains(snapshot)
        {
            let message = format!("there is no snapshot '{}' of this session", short(snapshot));
            return Err(OperationError::new("snapshot_not_found", message).hint("snapshot_sandbox makes one"));
        }
        let mut request = self.options.create.clone();
        request.ttl_seconds = Some(self.first_life().as_secs_f64());
        request.persistent = false;
        request.snapshot = snapshot.or(request.snapshot);
        // A name is for one; the others of the session go without.
        if !self.state().owned.is_empty() {
            request.name = None;
        }
        let host = self.host.clone();
        self.owning(async move { host.create(request).await }).await
    }

    pub async fn fork(&self, named: Option<&str>) -> Result<Sandbox, OperationError> {
        self.check_room()?;
        let source = self.sandbox(named).await?;
        let (host, life) = (self.host.clone(), self.first_life().as_secs_f64());
        self.owning(async move { host.fork(&source, life).await }).await
    }

    /// A snapshot without a name is the session's, and goes with it.
    pub async fn snapshot(
        &self,
        named: Option<&str>,
        name: Option<String>,
    ) -> Result<paddock_model::api::Snapshot, OperationError> {
        if self.state().snapshots.len() >= MOST_SNAPSHOTS {
            let message = format!("this session has {MOST_SNAPSHOTS} snapshots already");
            return Err(OperationError::new("quota_exceeded", message));
        }
        let source = self.sandbox(named).await?;
        let snapshot = self.host.snapshot(&source, name).await?;
        self.state().snapshots.insert(snapshot.id.clone());
        Ok(snapshot)
    }

    /// Takes over a sandbox that was made elsewhere for this session; it ends with the session.
    pub fn adopt(&self, id: &str) {
        self.keep();
        self.state().owned.insert(id.to_string());
    }

    pub async fn kill(&self, named: Option<&str>) -> Result<String, OperationError> {
        let own = self.state().own.clone();
        let id = match named {
            Some(id) => self.owned(id)?,
            None => own
                .ok_or_else(|| OperationError::new("sandbox_not_found", "this session has no sandbox yet"))?,
        };
        if self.options.attach.as_deref() == Some(&id) || !self.state().owned.contains(&id) {
            let message = format!("{id} was there before this session, which does not end it");
            return Err(OperationError::new("forbidden", message));
        }
        self.host.kill(&id).await?;
        self.forget(&id);
        Ok(id)
    }

    /// All of this session, and which of them calls use that name none.
    pub fn list(&self) -> (Vec<String>, Option<String>) {
        let state = self.state();
        (state.owned.iter().cloned().collect(), state.own.clone())
    }

    /// The sandbox is no more: the next call gets another.
    pub fn forget(&self, id: &str) {
        let mut state = self.state();
        state.owned.remove(id);
        if state.own.as_deref() == Some(id) {
            state.own = None;
        }
    }

    /// A message that the model must get before its next answer; told once.
    pub fn news(&self) -> Option<&'static str> {
        self.state().news.take()
    }

    /// A call is under way until the returned value is dropped.
    pub fn begin_call(&self) -> impl Drop + use<H> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        UnderWay { calls: self.calls.clone(), state: self.state.clone() }
    }

    fn owned(&self, id: &str) -> Result<String, OperationError> {
        let state = self.state();
        if state.owned.contains(id) || state.own.as_deref() == Some(id) {
            return Ok(id.to_string());
        }
        let message = format!("there is no sandbox '{}' of this session", short(id));
        Err(OperationError::new("sandbox_not_found", message).hint("list_sandboxes names those there are"))
    }

    fn check_room(&self) -> Result<(), OperationError> {
        if self.state().owned.len() < MOST_SANDBOXES {
            return Ok(());
        }
        let message = format!("this session has {MOST_SANDBOXES} sandboxes already");
        Err(OperationError::new("quota_exceeded", message).hint("kill_sandbox ends one"))
    }

    fn first_life(&self) -> Duration {
        self.options.longest_life.map_or(LEASE, |longest| longest.min(LEASE))
    }

    async fn facts_of(&self, sandbox: &Sandbox) -> Facts {
        let mut facts = Facts::of(sandbox);
        facts.timeout_seconds = self.options.toolbox.timeout_seconds;
        match self.host.network_rules(&sandbox.id).await {
            Ok(Some(rules)) => facts.with_rules(&rules),
            _ => facts,
        }
    }

    /// A new sandbox is the session's, even if its caller has given up.
    async fn owning(
        &self,
        making: impl Future<Output = Result<Sandbox, OperationError>> + Send + 'static,
    ) -> Result<Sandbox, OperationError> {
        self.keep();
        let (host, state) = (self.host.clone(), self.state.clone());
        let made = tokio::spawn(async move {
            let sandbox = making.await?;
            let over = {
                let mut state = locked(&state);
                state.owned.insert(sandbox.id.clone());
                state.over
            };
            if over {
                end_all(&host, &state).await;
            }
            Ok(sandbox)
        });
        made.await.unwrap_or_else(|error| Err(OperationError::new("internal", error.to_string())))
    }

    /// Lives are prolonged from the first sandbox on.
    fn keep(&self) {
        let first = self.state().born.replace(Instant::now()).is_none();
        if first {
            let renewal = Renewal {
                host: self.host.clone(),
                state: self.state.clone(),
                calls: self.calls.clone(),
                over: self.over.clone(),
                longest_life: self.options.longest_life,
                idle: self.options.idle,
                born: Instant::now(),
            };
            tokio::spawn(renewal.run());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Ends all that is the session's, and returns when it has ended.
    pub async fn end(&self) {
        self.over.notify_one();
        end_all(&self.host, &self.state).await;
    }
}

impl<H: Host> Drop for Session<H> {
    fn drop(&mut self) {
        self.over.notify_one();
        if self.state().born.is_none() {
            return;
        }
        let (host, state) = (self.host.clone(), self.state.clone());
        // Without a runtime no request can be sent; the time to live ends the remaining sandboxes.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { end_all(&host, &state).await });
        }
    }
}

struct UnderWay {
    calls: Arc<AtomicUsize>,
    state: Arc<Mutex<State>>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.calls.fetch_sub(1, Ordering::Relaxed);
        locked(&self.state).last_call = Some(Instant::now());
    }
}

fn short(text: &str) -> String {
    text.chars().take(80).flat_map(char::escape_debug).collect()
}
