use super::cursor::Cursor;
use super::{Page, Store, StoreError};
use paddock_model::api::SandboxState;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{OptionalExtension, Row, named_params, params};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxRow {
    pub id: String,
    pub tenant: String,
    pub name: Option<String>,
    pub state: SandboxState,
    pub created_ms: u64,
    pub ended_ms: Option<u64>,
    pub body: String,
}

/// The filter of a list; a `None` lets all through.
#[derive(Debug, Clone, Default)]
pub struct SandboxQuery<'a> {
    pub tenant: Option<&'a str>,
    pub state: Option<SandboxState>,
    pub name: Option<&'a str>,
    /// 0 counts as 1.
    pub limit: usize,
    pub cursor: Option<&'a str>,
    /// Else the newest come first.
    pub oldest_first: bool,
}

const COLUMNS: &str = "id, tenant, name, state, created_ms, ended_ms, body";
/// The rows that are read while the database is locked.
const BATCH: usize = 200;

impl Store {
    /// `NameTaken` if a living sandbox of the tenant has the name.
    pub fn insert_sandbox(&self, row: &SandboxRow) -> Result<(), StoreError> {
        let sql = "INSERT INTO sandboxes (id, tenant, name, state, created_ms, ended_ms, body)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let SandboxRow { id, tenant, name, state, created_ms, ended_ms, body } = row;
        let values = params![id, tenant, name, State(*state), created_ms, ended_ms, body];
        self.write(|connection| connection.prepare_cached(sql)?.execute(values).map(drop))
            .map_err(|error| error.taken(id, name.as_deref()))
    }

    /// Tenant, name and time of creation stay. `false` if there is no such sandbox.
    pub fn update_sandbox(
        &self,
        id: &str,
        state: SandboxState,
        ended_ms: Option<u64>,
        body: &str,
    ) -> Result<bool, StoreError> {
        let sql = "UPDATE sandboxes SET state = ?2, ended_ms = ?3, body = ?4 WHERE id = ?1";
        let values = params![id, State(state), ended_ms, body];
        self.write(|connection| Ok(connection.prepare_cached(sql)?.execute(values)? == 1))
    }

    pub fn sandbox(&self, id: &str) -> Result<Option<SandboxRow>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM sandboxes WHERE id = ?1");
        self.read(|connection| connection.prepare_cached(&sql)?.query_row([id], row).optional())
    }

    pub fn living_sandbox_named(&self, tenant: &str, name: &str) -> Result<Option<SandboxRow>, StoreError> {
        let sql =
            format!("SELECT {COLUMNS} FROM sandboxes WHERE tenant = ?1 AND name = ?2 AND state != 'ended'");
        self.read(|connection| connection.prepare_cached(&sql)?.query_row([tenant, name], row).optional())
    }

    /// All sandboxes that have not ended, of all tenants, oldest first: a new server looks for them.
    pub fn living_sandboxes(&self) -> Result<Vec<SandboxRow>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM sandboxes WHERE state != 'ended' ORDER BY created_ms, id");
        self.read(|connection| connection.prepare(&sql)?.query_map([], row)?.collect())
    }

    /// Newest first. `accept` judges values without a column; it runs while the database is not locked.
    pub fn list_sandboxes(
        &self,
        query: &SandboxQuery,
        mut accept: impl FnMut(&SandboxRow) -> bool,
    ) -> Result<Page<SandboxRow>, StoreError> {
        let limit = query.limit.max(1);
        let mut position = match query.cursor {
            None if query.oldest_first => Cursor::oldest(),
            cursor => Cursor::parse(cursor)?,
        };
        let mut rows: Vec<SandboxRow> = Vec::new();
        loop {
            let batch = self.batch(query, &position)?;
            let last = batch.len() < BATCH;
            for found in batch {
                position = Cursor { created_ms: found.created_ms, id: found.id.clone() };
                if !accept(&found) {
                    continue;
                }
                // A row more than asked for says that there is a next page.
                if rows.len() == limit {
                    let next_cursor = rows
                        .last()
                        .map(|row| Cursor { created_ms: row.created_ms, id: row.id.clone() }.text());
                    return Ok(Page { rows, next_cursor });
                }
                rows.push(found);
            }
            if last {
                return Ok(Page { rows, next_cursor: None });
            }
        }
    }

    fn batch(&self, query: &SandboxQuery, after: &Cursor) -> Result<Vec<SandboxRow>, StoreError> {
        let (behind, order) = if query.oldest_first { (">", "ASC") } else { ("<", "DESC") };
        let mut sql =
            format!("SELECT {COLUMNS} FROM sandboxes WHERE (created_ms, id) {behind} (:created, :id)");
        // Every value is named even if it is unused, so that one set of values fits all.
        sql += if query.tenant.is_some() { " AND tenant = :tenant" } else { " AND :tenant IS NULL" };
        sql += if query.state.is_some() { " AND state = :state" } else { " AND :state IS NULL" };
        sql += if query.name.is_some() { " AND name = :name" } else { " AND :name IS NULL" };
        sql += &format!(" ORDER BY created_ms {order}, id {order} LIMIT :limit");
        let values = named_params! {
            ":created": after.created_ms, ":id": after.id, ":tenant": query.tenant, ":name": query.name,
            ":state": query.state.map(State), ":limit": BATCH,
        };
        self.read(|connection| connection.prepare_cached(&sql)?.query_map(values, row)?.collect())
    }

    /// Forgets sandboxes that ended before that time, and before the one behind the newest `kept`, the oldest first and at
    /// most `most` at once. Returns their ids. Reads `kept` entries of an index.
    pub fn delete_ended(&self, before_ms: u64, kept: u32, most: u32) -> Result<Vec<String>, StoreError> {
        let behind_newest = "SELECT ended_ms FROM sandboxes WHERE ended_ms IS NOT NULL
                             ORDER BY ended_ms DESC LIMIT 1 OFFSET ?1";
        let ended =
            "SELECT id FROM sandboxes WHERE state = 'ended' AND ended_ms < ?1 ORDER BY ended_ms LIMIT ?2";
        self.transaction(|connection| {
            let too_many: Option<u64> =
                connection.prepare_cached(behind_newest)?.query_row([kept], |row| row.get(0)).optional()?;
            let before_ms = before_ms.max(too_many.unwrap_or(0));
            let mut ended = connection.prepare_cached(ended)?;
            let ids = ended
                .query_map(params![before_ms, most], |row| row.get(0))?
                .collect::<rusqlite::Result<Vec<String>>>()?;
            for id in &ids {
                connection.prepare_cached("DELETE FROM execs WHERE sandbox = ?1")?.execute([id])?;
                connection.prepare_cached("DELETE FROM past_calls WHERE sandbox = ?1")?.execute([id])?;
                connection.prepare_cached("DELETE FROM sandboxes WHERE id = ?1")?.execute([id])?;
            }
            Ok(ids)
        })
    }

    /// Removes a sandbox without a trace: for a creation that failed before its caller was told of it.
    pub fn delete_sandbox(&self, id: &str) -> Result<bool, StoreError> {
        self.transaction(|connection| {
            connection.prepare_cached("DELETE FROM execs WHERE sandbox = ?1")?.execute([id])?;
            connection.prepare_cached("DELETE FROM past_calls WHERE sandbox = ?1")?.execute([id])?;
            Ok(connection.prepare_cached("DELETE FROM sandboxes WHERE id = ?1")?.execute([id])? == 1)
        })
    }
}

fn row(row: &Row) -> rusqlite::Result<SandboxRow> {
    Ok(SandboxRow {
        id: row.get(0)?,
        tenant: row.get(1)?,
        name: row.get(2)?,
        state: row.get::<_, State>(3)?.0,
        created_ms: row.get(4)?,
        ended_ms: row.get(5)?,
        body: row.get(6)?,
    })
}

struct State(SandboxState);

impl ToSql for State {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(match self.0 {
            SandboxState::Creating => b"creating",
            SandboxState::Running => b"running",
            SandboxState::Paused => b"paused",
            SandboxState::Hibernated => b"hibernated",
            SandboxState::Ended => b"ended",
        })))
    }
}

impl FromSql for State {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<State> {
        Ok(State(match value.as_str()? {
            "creating" => SandboxState::Creating,
            "running" => SandboxState::Running,
            "paused" => SandboxState::Paused,
            "hibernated" => SandboxState::Hibernated,
            "ended" => SandboxState::Ended,
            _ => return Err(FromSqlError::InvalidType),
        }))
    }
}
