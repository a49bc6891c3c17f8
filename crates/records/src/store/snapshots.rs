use super::cursor::Cursor;
use super::{Page, Store, StoreError};
use rusqlite::{OptionalExtension, Row, named_params, params};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotRow {
    pub id: String,
    pub tenant: String,
    pub name: Option<String>,
    pub created_ms: u64,
    pub body: String,
}

/// Which snapshots a list is to have.
#[derive(Debug, Clone, Default)]
pub struct SnapshotFilter {
    pub name: Option<String>,
    /// The sandbox that they were taken of.
    pub sandbox: Option<String>,
}

const COLUMNS: &str = "id, tenant, name, created_ms, body";

impl Store {
    /// `NameTaken` if a snapshot of the tenant has the name.
    pub fn insert_snapshot(&self, row: &SnapshotRow) -> Result<(), StoreError> {
        let sql = "INSERT INTO snapshots (id, tenant, name, created_ms, body) VALUES (?1, ?2, ?3, ?4, ?5)";
        let values = params![row.id, row.tenant, row.name, row.created_ms, row.body];
        self.write(|connection| connection.prepare_cached(sql)?.execute(values).map(drop))
            .map_err(|error| error.taken(&row.id, row.name.as_deref()))
    }

    pub fn update_snapshot(&self, id: &str, body: &str) -> Result<bool, StoreError> {
        let sql = "UPDATE snapshots SET body = ?2 WHERE id = ?1";
        self.write(|connection| Ok(connection.prepare_cached(sql)?.execute([id, body])? == 1))
    }

    pub fn snapshot(&self, id: &str) -> Result<Option<SnapshotRow>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM snapshots WHERE id = ?1");
        self.read(|connection| connection.prepare_cached(&sql)?.query_row([id], row).optional())
    }

    pub fn snapshot_named(&self, tenant: &str, name: &str) -> Result<Option<SnapshotRow>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM snapshots WHERE tenant = ?1 AND name = ?2");
        self.read(|connection| connection.prepare_cached(&sql)?.query_row([tenant, name], row).optional())
    }

    /// Newest first; without a tenant those of all tenants.
    pub fn list_snapshots(
        &self,
        tenant: Option<&str>,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<Page<SnapshotRow>, StoreError> {
        self.find_snapshots(tenant, &SnapshotFilter::default(), limit, cursor)
    }

    /// The same, of those that fit: a page is short only at the end.
    pub fn find_snapshots(
        &self,
        tenant: Option<&str>,
        filter: &SnapshotFilter,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<Page<SnapshotRow>, StoreError> {
        let limit = limit.max(1);
        let after = Cursor::parse(cursor)?;
        let sql = format!(
            "SELECT {COLUMNS} FROM snapshots WHERE (created_ms, id) < (:created, :id)
             AND (:tenant IS NULL OR tenant = :tenant) AND (:name IS NULL OR name = :name)
             AND (:sandbox IS NULL OR CASE WHEN json_valid(body) THEN json_extract(body, '$.sandbox') END = :sandbox) ORDER BY created_ms DESC, id DESC LIMIT :limit"
        );
        let values = named_params! {
            ":created": after.created_ms, ":id": after.id, ":tenant": tenant, ":limit": limit.saturating_add(1),
            ":name": filter.name, ":sandbox": filter.sandbox,
        };
        let rows: Vec<SnapshotRow> =
            self.read(|connection| connection.prepare_cached(&sql)?.query_map(values, row)?.collect())?;
        Ok(Page::cut(rows, limit, |row| Cursor { created_ms: row.created_ms, id: row.id.clone() }))
    }

    pub fn delete_snapshot(&self, id: &str) -> Result<bool, StoreError> {
        let sql = "DELETE FROM snapshots WHERE id = ?1";
        self.write(|connection| Ok(connection.prepare_cached(sql)?.execute([id])? == 1))
    }
}

fn row(row: &Row) -> rusqlite::Result<SnapshotRow> {
    Ok(SnapshotRow {
        id: row.get(0)?,
        tenant: row.get(1)?,
        name: row.get(2)?,
        created_ms: row.get(3)?,
        body: row.get(4)?,
    })
}
