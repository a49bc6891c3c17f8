//! One sandbox for its caller, or a page of them.

use super::live::Live;
use super::record::Record;
use super::{Actor, Fleet, FleetError};
use paddock_model::api::{Sandbox, SandboxPage, SandboxState};
use paddock_records::store::{Cursor, SandboxQuery};
use std::cmp::Reverse;
use std::collections::BTreeMap;

const LARGEST_PAGE: usize = 1000;

/// The filter of a list; an empty one shows all living sandboxes.
#[derive(Debug, Clone, Default)]
pub struct ListFilter {
    pub states: Vec<SandboxState>,
    pub name: Option<String>,
    pub template: Option<String>,
    pub shown_template: Option<ShownTemplate>,
    pub metadata: Vec<(String, String)>,
    /// 0: as many as one page holds.
    pub limit: usize,
    pub cursor: Option<String>,
    /// Else the newest come first.
    pub oldest_first: bool,
    pub created_after_ms: Option<u64>,
}

/// A filter for a template under the name by which a dialect shows it: a label, else the snapshot, else the template, else a default.
#[derive(Debug, Clone)]
pub struct ShownTemplate {
    pub label: &'static str,
    pub default: &'static str,
    /// The one that is looked for.
    pub template: String,
}

impl ShownTemplate {
    pub fn of<'a>(
        &self,
        metadata: &'a BTreeMap<String, String>,
        snapshot: Option<&'a str>,
        template: Option<&'a str>,
    ) -> &'a str {
        let label = metadata.get(self.label).map(String::as_str);
        label.or(snapshot).or(template).unwrap_or(self.default)
    }

    fn fits(&self, record: &Record) -> bool {
        self.of(&record.metadata, record.snapshot.as_deref(), record.template.as_deref()) == self.template
    }
}

impl Fleet {
    pub async fn get(&self, actor: &Actor, id: &str) -> Result<Sandbox, FleetError> {
        match self.find(actor, id) {
            Ok(live) => Ok(live.to_api()),
            Err(error) => match self.ended(actor, id)? {
                Some(record) => Ok(record.to_api(0)),
                None => Err(error),
            },
        }
    }

    pub async fn list(&self, actor: &Actor, filter: &ListFilter) -> Result<SandboxPage, FleetError> {
        let query = SandboxQuery {
            tenant: (!actor.owner).then_some(actor.tenant.as_str()),
            name: filter.name.as_deref(),
            limit: if filter.limit == 0 { 100 } else { filter.limit.min(LARGEST_PAGE) },
            cursor: filter.cursor.as_deref(),
            oldest_first: filter.oldest_first,
            // Of one state, the database leaves the others out before anything is read.
            state: only(&filter.states),
        };
        let wanted = |record: &Record| {
            let state =
                if filter.states.is_empty() { record.lives() } else { filter.states.contains(&record.state) };
            let template = filter.template.is_none() || record.template == filter.template;
            state
                && record.stands_for.is_none()
                && template
                && filter.shown_template.as_ref().is_none_or(|shown| shown.fits(record))
                && filter.created_after_ms.is_none_or(|after| record.created_at_ms > after)
                && filter.metadata.iter().all(|(key, value)| record.metadata.get(key) == Some(value))
        };
        if !filter.states.contains(&SandboxState::Ended) {
            return self.list_living(actor, filter, query.limit, wanted);
        }
        let page = self.0.store.list_sandboxes(&query, |row| {
            serde_json::from_str::<Record>(&row.body).is_ok_and(|record| wanted(&record))
        })?;
        let sandboxes = page.rows.iter().filter_map(|row| {
            let record: Record = serde_json::from_str(&row.body).ok()?;
            let live = self.find(actor, &row.id).ok();
            Some(live.map_or_else(|| record.to_api(0), |live| live.to_api()))
        });
        Ok(SandboxPage { sandboxes: sandboxes.collect(), next_cursor: page.next_cursor })
    }

    /// The list comes from memory: however many have ended, the living ones are found at once.
    fn list_living(
        &self,
        actor: &Actor,
        filter: &ListFilter,
        limit: usize,
        wanted: impl Fn(&Record) -> bool,
    ) -> Result<SandboxPage, FleetError> {
        let after = Cursor::parse(filter.cursor.as_deref())?;
        let tenant = (!actor.owner).then_some(actor.tenant.as_str());
        let fits = |live: &Live| {
            let record = live.record();
            (filter.name.is_none() || record.name == filter.name) && wanted(&record)
        };
        let mut place = match (&filter.cursor, filter.created_after_ms) {
            (Some(_), _) => Some((Reverse(after.created_ms), after.id)),
            (None, Some(earliest)) if filter.oldest_first => Some((Reverse(earliest), String::new())),
            (None, _) => None,
        };
        let mut found = Vec::new();
        // One more than fits tells that there is another page. A filter that few sandboxes pass looks at many of them,
        // some at a time, so that creates are not blocked meanwhile.
        while found.len() <= limit {
            let some = self.0.live.page(tenant, place.as_ref(), limit + 1, filter.oldest_first);
            let Some((last, _)) = some.last() else { break };
            place = Some(last.clone());
            found.extend(some.into_iter().filter(|(_, live)| fits(live)));
        }
        let more = found.len() > limit;
        found.truncate(limit);
        let last = found.last().filter(|_| more);
        let next_cursor = last
            .map(|((Reverse(created_ms), id), _)| Cursor { created_ms: *created_ms, id: id.clone() }.text());
        Ok(SandboxPage { sandboxes: found.iter().map(|(_, live)| live.to_api()).collect(), next_cursor })
    }
}

fn only(states: &[SandboxState]) -> Option<SandboxState> {
    match states {
        [state] => Some(*state),
        _ => None,
    }
}
