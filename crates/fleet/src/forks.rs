//! Forks: sandboxes that begin with the state of another one at this moment, its contexts included.

use super::fork_results::{ForkNote, Results, not_forked, sorted};
use super::idempotency::Note;
use super::live::Live;
use super::live_fork::{ASLEEP, Boarding, Crossing, OF_ANOTHER, Passage, left_behind, not_live};
use super::ports;
use super::record::{Record, now_ms};
use super::request::{OWN_KEYS, check_metadata, invalid, seconds};
use super::sleep_at_ttl::SleepAtTtl;
use super::snapshots::MOMENT;
use super::vm_fork::Copied;
use super::{Actor, Fleet, FleetError, audit, has_ended};
use paddock_model::api::{CreateSandbox, EndCause, Fork, Forked, ForkedContext, NotForked, SandboxState};
use paddock_model::{ForkKind, SandboxId};
use paddock_records::access::Permit;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::Semaphore;

const MOST_FORKS: u32 = 100;
/// The most forks that are begun while the files are still being kept; more would only keep the source frozen for
/// longer. These few also get ready for a first call while their caller is still being answered.
const FORKS_BEGUN_EARLY: usize = 2;
/// The most forks with interpreters that are made at a time for each processor: they wait for each other while their
/// source stands still, and more would only be in the way.
const FOR_EACH_PROCESSOR: usize = 4;

/// A fork that is to be made.
pub struct Child {
    /// Among all that were asked for, from 0.
    pub place: u32,
    pub record: Record,
    pub permit: Permit,
    /// Its begun fence with interpreters, if there is one.
    pub crossing: Option<Crossing>,
    /// Its copied VM, memory included, if there is one.
    pub copied: Option<Box<Copied>>,
}

impl Fleet {
    /// Makes children that begin with the state of the source at this moment. The source goes on, its streams stay up.
    pub async fn fork(
        &self,
        actor: &Actor,
        id: &str,
        request: Fork,
        key: Option<&str>,
    ) -> Result<Forked, FleetError> {
        self.fork_labelled(actor, id, request, BTreeMap::new(), key).await
    }

    /// As `fork`, with metadata of the server's own for the forks, which the caller cannot give: that of the source is not copied.
    pub async fn fork_labelled(
        &self,
        actor: &Actor,
        id: &str,
        request: Fork,
        labels: BTreeMap<String, String>,
        key: Option<&str>,
    ) -> Result<Forked, FleetError> {
        let count = request.count.unwrap_or(1);
        if !(1..=MOST_FORKS).contains(&count) {
            return Err(invalid(format!("{count} forks are not possible")).hint(format!("1 to {MOST_FORKS}")));
        }
        check_metadata(&request.metadata)?;
        let ttl = request.ttl_seconds.map(|value| seconds("ttl_seconds", value)).transpose()?;
        let live = self.find(actor, id)?;
        FleetError::unless_descriptors_are_left()?;
        let (actor, key) = (actor.clone(), key.map(str::to_string));
        self.detached(async move |fleet: Fleet| {
            let scope = format!("fork {}", live.id);
            fleet
                .once(&actor, &scope, key.as_deref(), &request, async |fleet: &Fleet, note: Note<'_>| {
                    let expires = ttl.map(|ttl| now_ms() + ttl.as_millis() as u64);
                    fleet.fork_now(&actor, &live, &request, (count, expires, labels), note).await
                })
                .await
        })
        .await
    }

    async fn fork_now(
        &self,
        actor: &Actor,
        live: &Arc<Live>,
        request: &Fork,
        (count, expires, labels): (u32, Option<u64>, BTreeMap<String, String>),
        note: Note<'_>,
    ) -> Result<Forked, FleetError> {
        if live.record().state == SandboxState::Ended {
            return Err(has_ended(&live.id));
        }
        self.0.options.root_may_install.check(actor, &live.record().spec, &CreateSandbox::default())?;
        // If the backend keeps memory, the memory takes everything along.
        let boarding = match request.live {
            Some(false) => Boarding::Nobody("only files were asked for".into()),
            _ if live.keeps_memory() => Boarding::Nobody("its memory goes along as a whole".into()),
            None if live.record().is_of_another(actor) => Boarding::Nobody(OF_ANOTHER.into()),
            wanted => self.board(actor, live, wanted == Some(true)).await?,
        };
        let (passage, others, reason) = match boarding {
            Boarding::Ready(mut passage, others) => {
                passage.few = count as usize <= FORKS_BEGUN_EARLY;
                (Some(Arc::new(passage)), others, None)
            }
            Boarding::Nobody(why) if request.live == Some(true) && !live.keeps_memory() => {
                return Err(not_live(&why));
            }
            Boarding::Nobody(why) => (None, Vec::new(), Some(why)),
        };
        let left_behind = if live.keeps_memory() { Vec::new() } else { left_behind(live) };
        let mut children = Vec::new();
        for _ in 0..count {
            let mut child = self.child_of(live, request, expires)?;
            child.made_by = Some(actor.token.clone());
            child.metadata.extend(labels.clone());
            if passage.is_some() {
                child.nest_in(&live.record());
            }
            self.inherit_secrets(live, &mut child, request.secrets)?;
            let ports = live.record().ports.clone();
            child.ports = ports::inherited(self, actor, &live.tenant, ports).await?;
            child.leave_volumes();
            children.push(child);
        }
        note.write(&ForkNote::of(children.iter().map(|child| child.id.clone()).collect(), request.partial))?;
        // The room for all of them is taken first.
        let (admitted, mut failed) = self.admit_forks(children, request.partial).await?;
        if admitted.is_empty() {
            let (sandboxes, contexts, kind) = (Vec::new(), Vec::new(), ForkKind::default());
            return Ok(Forked { sandboxes, kind, reason: None, contexts, left_behind, failed });
        }
        let moment = format!("{MOMENT}{:016x}", self.random_for_id()?);
        let few: Vec<SandboxId> = match &passage {
            Some(passage) if passage.few => admitted.iter().map(|child| child.record.id.clone()).collect(),
            _ => Vec::new(),
        };
        for child in &few {
            self.0.audit_writer.prepare(child);
        }
        let made = match self.fork_at(&moment, live, admitted, passage.clone()).await {
            Ok(raised) => self.all_or_none(raised, request.partial, &mut failed).await,
            Err(error) => Err(error),
        };
        self.drop_memory(&moment);
        let fleet = self.clone();
        // The files stay while sandboxes live that began with them. This call does not wait for that check.
        let let_go = tokio::task::spawn_blocking(move || fleet.let_go(&moment));
        if made.is_err() || !failed.is_empty() {
            let _ = let_go.await;
            // The recorded forks keep their timelines.
            for child in few.iter().filter(|child| self.find(actor, child.as_str()).is_err()) {
                self.0.audit_writer.forget(child);
            }
        }
        let children = made?;
        let ids: Vec<&str> = children.iter().map(|child| child.id.as_str()).collect();
        tell(self, actor, live, &children, &ids);
        let mut contexts = passage.as_ref().map_or_else(Vec::new, |passage| passage.fates(&ids));
        for (context, why) in others {
            contexts.extend(ids.iter().map(|child| ForkedContext {
                sandbox: child.to_string(),
                context: context.clone(),
                carried: false,
                reason: Some(why.clone()),
                stood_still_us: None,
                closed: Vec::new(),
            }));
        }
        let kind = match passage {
            _ if live.keeps_memory() => ForkKind::Memory,
            Some(_) if contexts.iter().any(|context| context.carried) => ForkKind::Interpreter,
            _ => ForkKind::Filesystem,
        };
        let reason = reason.filter(|_| kind == ForkKind::Filesystem && request.live != Some(false));
        let sandboxes = children.iter().map(|child| child.to_api()).collect();
        Ok(Forked { sandboxes, kind, reason, contexts, left_behind, failed })
    }

    /// Takes room for them: for all, after a wait if need be; or with `partial` for as many as there is room for at once.
    async fn admit_forks(
        &self,
        records: Vec<Record>,
        partial: bool,
    ) -> Result<(Vec<Child>, Vec<NotForked>), FleetError> {
        let (mut admitted, mut failed) = (Vec::new(), Vec::new());
        for (place, record) in (0..).zip(records) {
            let permit = if partial { self.admit_now(&record) } else { self.admit(&record).await };
            match permit {
                Ok(permit) => admitted.push(Child { place, record, permit, crossing: None, copied: None }),
                Err(error) if partial => failed.push(not_forked(place, error)),
                Err(error) => return Err(error),
            }
        }
        Ok((admitted, failed))
    }

    /// The forks that were made. Without `partial` one that failed ends the others.
    async fn all_or_none(
        &self,
        results: Results<Arc<Live>>,
        partial: bool,
        failed: &mut Vec<NotForked>,
    ) -> Result<Vec<Arc<Live>>, FleetError> {
        let (made, mut errors) = sorted(results);
        if partial {
            failed.extend(errors.into_iter().map(|(place, error)| not_forked(place, error)));
            failed.sort_by_key(|failed| failed.place);
            return Ok(made);
        }
        let Some((_, error)) = errors.pop() else { return Ok(made) };
        for child in made {
            self.end(&child, EndCause::Killed).await?;
        }
        Err(error)
    }

    /// Keeps the files of the source under the name of the moment, and makes the forks from them.
    async fn fork_at(
        &self,
        moment: &str,
        live: &Arc<Live>,
        mut children: Vec<Child>,
        passage: Option<Arc<Passage>>,
    ) -> Result<Results<Arc<Live>>, FleetError> {
        let guard = live.transition.lock().await;
        let passage = match passage {
            Some(passage) if !passage.begins_in(live) => {
                if passage.is_required() {
                    return Err(not_live(ASLEEP));
                }
                children.iter_mut().for_each(|child| child.record.around.clear());
                None
            }
            passage => passage,
        };
        if live.keeps_memory()
            && let Some(copied) = self.copy_forks(live, moment, &children).await?
        {
            return Ok(self.raise_copied(moment, live, children, copied).await);
        }
        if let Some(passage) = &passage {
            for child in children.iter_mut().take(FORKS_BEGUN_EARLY) {
                child.crossing = Some(self.begin_crossing(passage, &child.record));
            }
        }
        let baseline = match self.keep_files(live, moment, passage.as_deref()).await {
            Ok(baseline) => baseline,
            Err(error) => {
                if let Some(passage) = &passage {
                    passage.call_off();
                }
                for crossing in children.into_iter().filter_map(|child| child.crossing) {
                    crossing.take_down().await;
                }
                return Err(error);
            }
        };
        // Until they exist, the source that they nest in cannot be ended.
        let _guard = Some(guard).filter(|_| passage.is_some());
        Ok(self.raise_children(moment, baseline, children, passage).await)
    }

    /// The forks in their order, and the failure of each that could not be made.
    pub(super) async fn raise_children(
        &self,
        moment: &str,
        baseline: Option<String>,
        children: Vec<Child>,
        passage: Option<Arc<Passage>>,
    ) -> Results<Arc<Live>> {
        let mut tasks = tokio::task::JoinSet::new();
        let room = if passage.is_some() { at_a_time() } else { children.len() };
        let room = Arc::new(Semaphore::new(room));
        let mut missing: BTreeSet<u32> = children.iter().map(|child| child.place).collect();
        for Child { place, record, permit, crossing, copied } in children {
            let (fleet, moment, baseline) = (self.clone(), moment.to_string(), baseline.clone());
            let (passage, room) = (passage.clone(), room.clone());
            let raise = async move {
                // The semaphore is never closed.
                let _room = room.acquire().await;
                let begin = || passage.map(|passage| fleet.begin_crossing(&passage, &record));
                let crossing = crossing.or_else(begin);
                let origin = match fleet.clone_files(&moment, &record, baseline, copied).await {
                    Ok(origin) => origin.with(crossing),
                    Err(error) => {
                        if let Some(crossing) = crossing {
                            crossing.take_down().await;
                        }
                        return Err(error);
                    }
                };
                fleet.bring_up(record, origin, permit).await
            };
            tasks.spawn(async move { (place, raise.await) });
        }
        let mut raised = Vec::new();
        let mut panicked = None;
        while let Some(task) = tasks.join_next().await {
            match task {
                Ok((place, result)) => {
                    missing.remove(&place);
                    raised.push((place, result));
                }
                Err(error) => panicked = Some(FleetError::internal(&error)),
            }
        }
        if let Some(error) = panicked {
            raised.extend(missing.into_iter().map(|place| (place, Err(error.clone()))));
        }
        raised.sort_by_key(|(place, _)| *place);
        raised
    }

    pub(super) fn child_of(
        &self,
        live: &Live,
        request: &Fork,
        expires: Option<u64>,
    ) -> Result<Record, FleetError> {
        let source = live.record().clone();
        let mut metadata = source.metadata.clone();
        // The server's own metadata of the source is not for its forks: it names the job that the source is a part of, which would end
        // them.
        metadata.retain(|key, _| !key.starts_with(OWN_KEYS));
        metadata.extend(request.metadata.clone());
        let awake = source.asked_sleep.and_then(|sleep| sleep.seconds_awake);
        let lifetime = match source.sleep_at_ttl.map(|sleep| sleep.seconds).or(awake) {
            Some(seconds) => Some((seconds * 1e3) as u64),
            None => source.expires_at_ms.map(|at| at.saturating_sub(source.created_at_ms)),
        };
        Ok(Record {
            id: self.new_id()?,
            node: self.0.node.number(),
            name: None,
            state: SandboxState::Creating,
            parent: Some(source.id.to_string()),
            pool: None,
            created_at_ms: now_ms(),
            expires_at_ms: expires.or(lifetime.map(|lifetime| now_ms() + lifetime)),
            metadata,
            moved: (0, 0),
            within: None,
            around: Vec::new(),
            stands_for: None,
            built_ns: Vec::new(),
            paused_when_idle: false,
            asked_sleep: None,
            ports: source.ports.closed(),
            sleep_at_ttl: source.sleep_at_ttl.map(|sleep| {
                let seconds = expires.map_or(sleep.seconds, |at| at.saturating_sub(now_ms()) as f64 / 1e3);
                SleepAtTtl { seconds, has_begun: false, ..sleep }
            }),
            intent: None,
            end: None,
            ..source
        })
    }
}

fn tell(fleet: &Fleet, actor: &Actor, live: &Arc<Live>, children: &[Arc<Live>], ids: &[&str]) {
    if children.is_empty() {
        return;
    }
    audit::call(&fleet.0, actor, live, "fork", serde_json::json!({ "children": ids }));
    for child in children {
        let mut told = serde_json::json!({ "source": live.id });
        if let Some(public) = &child.record().ports.settings.public {
            told["public_ports"] = serde_json::json!(public);
        }
        audit::call(&fleet.0, actor, child, "forked_from", told);
    }
    fleet.0.tell(live, "forked", Some(ids.join(" ")));
}

fn at_a_time() -> usize {
    FOR_EACH_PROCESSOR * std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
