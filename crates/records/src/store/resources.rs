use super::{Store, StoreError};
use rusqlite::{OptionalExtension, Row, params};

/// A value that is kept for scripts; `sealed` is all of it, encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceRow {
    pub name: String,
    pub kind: String,
    pub updated_ms: u64,
    /// The fields that are bound to hosts, and their hosts, as JSON.
    pub bound: String,
    pub sealed: String,
}

impl Store {
    /// `most`: the most resources of a tenant. `false`: the tenant has them, and this would be one more.
    pub fn set_resource(&self, tenant: &str, row: &ResourceRow, most: usize) -> Result<bool, StoreError> {
        let count = "SELECT count(*) FROM resources WHERE tenant = ?1 AND name != ?2";
        let sql = "INSERT INTO resources (tenant, name, kind, updated_ms, bound, sealed) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                   ON CONFLICT (tenant, name) DO UPDATE SET kind = excluded.kind, updated_ms = excluded.updated_ms,
                   bound = excluded.bound, sealed = excluded.sealed";
        self.transaction(|connection| {
            let others: u64 = connection.query_row(count, [tenant, &row.name], |row| row.get(0))?;
            if others >= most as u64 {
                return Ok(false);
            }
            let values = params![tenant, row.name, row.kind, row.updated_ms, row.bound, row.sealed];
            connection.prepare_cached(sql)?.execute(values).map(|_| true)
        })
    }

    pub fn resource(&self, tenant: &str, name: &str) -> Result<Option<ResourceRow>, StoreError> {
        let sql =
            "SELECT name, kind, updated_ms, bound, sealed FROM resources WHERE tenant = ?1 AND name = ?2";
        self.read(|connection| connection.prepare_cached(sql)?.query_row([tenant, name], resource).optional())
    }

    /// A tenant's resources by name.
    pub fn resources(&self, tenant: &str) -> Result<Vec<ResourceRow>, StoreError> {
        let sql =
            "SELECT name, kind, updated_ms, bound, sealed FROM resources WHERE tenant = ?1 ORDER BY name";
        self.read(|connection| connection.prepare_cached(sql)?.query_map([tenant], resource)?.collect())
    }

    /// Returns true if there was one.
    pub fn delete_resource(&self, tenant: &str, name: &str) -> Result<bool, StoreError> {
        let sql = "DELETE FROM resources WHERE tenant = ?1 AND name = ?2";
        self.write(|connection| {
            connection.prepare_cached(sql)?.execute([tenant, name]).map(|count| count > 0)
        })
    }
}

fn resource(row: &Row) -> rusqlite::Result<ResourceRow> {
    Ok(ResourceRow {
        name: row.get(0)?,
        kind: row.get(1)?,
        updated_ms: row.get(2)?,
        bound: row.get(3)?,
        sealed: row.get(4)?,
    })
}
