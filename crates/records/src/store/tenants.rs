use super::{Store, StoreError};
use paddock_model::api::Quota;
use rusqlite::types::Type;
use rusqlite::{OptionalExtension, Row};

impl Store {
    /// The tenant's quota; unlimited if none was set.
    pub fn quota(&self, tenant: &str) -> Result<Quota, StoreError> {
        let sql = "SELECT quota FROM tenants WHERE name = ?1";
        let found = self.read(|connection| {
            connection.prepare_cached(sql)?.query_row([tenant], |row| quota(row, 0)).optional()
        })?;
        Ok(found.unwrap_or_default())
    }

    pub fn set_quota(&self, tenant: &str, quota: &Quota) -> Result<(), StoreError> {
        let sql = "INSERT INTO tenants (name, quota) VALUES (?1, ?2)
                   ON CONFLICT (name) DO UPDATE SET quota = excluded.quota";
        self.write(|connection| {
            let quota = serde_json::to_string(quota)
                .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
            connection.prepare_cached(sql)?.execute([tenant, &quota]).map(drop)
        })
    }

    /// Every tenant that has a quota, a token, a sandbox or a snapshot; by name.
    pub fn tenants(&self) -> Result<Vec<(String, Quota)>, StoreError> {
        let sql = "SELECT name, quota FROM (
                       SELECT name FROM tenants UNION SELECT tenant FROM tokens
                       UNION SELECT tenant FROM sandboxes UNION SELECT tenant FROM snapshots
                   ) LEFT JOIN tenants USING (name) ORDER BY name";
        self.read(|connection| {
            connection.prepare_cached(sql)?.query_map([], |row| Ok((row.get(0)?, quota(row, 1)?)))?.collect()
        })
    }
}

fn quota(row: &Row, column: usize) -> rusqlite::Result<Quota> {
    let Some(body) = row.get_ref(column)?.as_str_or_null()? else { return Ok(Quota::default()) };
    serde_json::from_str(body)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into()))
}
