//! The list of builds: those of the actor's tenant and, for those who see the whole server, those of the command line.

use super::super::{Actor, Fleet, FleetError, blocking};
use super::builds::{parse, shown};
use paddock_model::api::{TemplateBuild, TemplateBuildPage};
use paddock_records::store::Cursor;

impl Fleet {
    /// The newest first.
    pub async fn template_builds(
        &self,
        actor: &Actor,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<TemplateBuildPage, FleetError> {
        let after = Cursor::parse(cursor)?;
        let rows = self.0.store.template_builds_of(&actor.tenant, limit, cursor)?;
        let has_more = rows.next_cursor.is_some();
        let mut builds = Vec::new();
        for row in &rows.rows {
            builds.push(shown(row, &parse(row)?));
        }
        if actor.sees_server() {
            let state = self.state_dir().to_path_buf();
            let of_commands = blocking(move || Ok(paddock_builds::command_builds(&state))).await?;
            let place = |build: &TemplateBuild| (build.created_at_ms, build.id.clone());
            let end = (after.created_ms, after.id);
            builds.extend(of_commands.into_iter().filter(|build| place(build) < end));
            builds.sort_by_key(|build| std::cmp::Reverse(place(build)));
        }
        let more = has_more || builds.len() > limit;
        builds.truncate(limit);
        let last = builds.last().filter(|_| more);
        let next_cursor =
            last.map(|build| Cursor { created_ms: build.created_at_ms, id: build.id.clone() }.text());
        Ok(TemplateBuildPage { builds, next_cursor })
    }

    /// A build of the command line. Its log may name paths of the host.
    pub(super) fn command_build(&self, actor: &Actor, id: &str) -> Option<TemplateBuild> {
        paddock_builds::command_build(self.state_dir(), id).filter(|_| actor.sees_server())
    }
}
