use super::cursor::Cursor;
use super::{Page, Store, StoreError};
use rusqlite::{OptionalExtension, Row, named_params, params};

/// A secret that is kept under a name; `sealed` is its value, encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretRow {
    pub id: String,
    pub name: String,
    /// 1 for the first value; each new value is one more.
    pub version: u64,
    pub created_ms: u64,
    pub updated_ms: u64,
    /// All that may be shown besides, as JSON.
    pub body: String,
    pub sealed: String,
}

const COLUMNS: &str = "id, name, version, created_ms, updated_ms, body, sealed";

impl Store {
    /// `most`: the most secrets of a tenant. `false`: the tenant has them. `NameTaken` if one of the tenant's has the name.
    pub fn insert_secret(&self, tenant: &str, row: &SecretRow, most: usize) -> Result<bool, StoreError> {
        let count = "SELECT count(*) FROM secrets WHERE tenant = ?1";
        let sql = "INSERT INTO secrets (tenant, id, name, version, created_ms, updated_ms, body, sealed)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let inserted = self.transaction(|connection| {
            let have: u64 = connection.query_row(count, [tenant], |row| row.get(0))?;
            if have >= most as u64 {
                return Ok(false);
            }
            let values = params![
                tenant,
                row.id,
                row.name,
                row.version,
                row.created_ms,
                row.updated_ms,
                row.body,
                row.sealed
            ];
            connection.prepare_cached(sql)?.execute(values).map(|_| true)
        });
        inserted.map_err(|error| error.taken(&row.id, Some(&row.name)))
    }

    /// The next version of a secret. `false` if it is not the tenant's, or its version is not the one before: another call was
    /// faster.
    pub fn update_secret(&self, tenant: &str, row: &SecretRow) -> Result<bool, StoreError> {
        let sql = "UPDATE secrets SET version = ?3, updated_ms = ?4, body = ?5, sealed = ?6
                   WHERE tenant = ?1 AND id = ?2 AND version = ?3 - 1";
        let values = params![tenant, row.id, row.version, row.updated_ms, row.body, row.sealed];
        self.write(|connection| Ok(connection.prepare_cached(sql)?.execute(values)? == 1))
    }

    /// By its name, or else by its id.
    pub fn secret(&self, tenant: &str, key: &str) -> Result<Option<SecretRow>, StoreError> {
        let by_name = format!("SELECT {COLUMNS} FROM secrets WHERE tenant = ?1 AND name = ?2");
        let by_id = format!("SELECT {COLUMNS} FROM secrets WHERE tenant = ?1 AND id = ?2");
        self.read(|connection| {
            let named = connection.prepare_cached(&by_name)?.query_row([tenant, key], secret).optional()?;
            match named {
                Some(row) => Ok(Some(row)),
                None => connection.prepare_cached(&by_id)?.query_row([tenant, key], secret).optional(),
            }
        })
    }

    /// Newest first.
    pub fn list_secrets(
        &self,
        tenant: &str,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<Page<SecretRow>, StoreError> {
        let limit = limit.max(1);
        let after = Cursor::parse(cursor)?;
        let sql = format!(
            "SELECT {COLUMNS} FROM secrets WHERE tenant = :tenant AND (created_ms, id) < (:created, :id)
             ORDER BY created_ms DESC, id DESC LIMIT :limit"
        );
        let values = named_params! {
            ":tenant": tenant, ":created": after.created_ms, ":id": after.id, ":limit": limit.saturating_add(1),
        };
        let rows: Vec<SecretRow> =
            self.read(|connection| connection.prepare_cached(&sql)?.query_map(values, secret)?.collect())?;
        Ok(Page::cut(rows, limit, |row| Cursor { created_ms: row.created_ms, id: row.id.clone() }))
    }

    /// Returns true if there was one.
    pub fn delete_secret(&self, tenant: &str, id: &str) -> Result<bool, StoreError> {
        let sql = "DELETE FROM secrets WHERE tenant = ?1 AND id = ?2";
        self.write(|connection| connection.prepare_cached(sql)?.execute([tenant, id]).map(|count| count > 0))
    }
}

fn secret(row: &Row) -> rusqlite::Result<SecretRow> {
    Ok(SecretRow {
        id: row.get(0)?,
        name: row.get(1)?,
        version: row.get(2)?,
        created_ms: row.get(3)?,
        updated_ms: row.get(4)?,
        body: row.get(5)?,
        sealed: row.get(6)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, name: &str, version: u64) -> SecretRow {
        SecretRow {
            id: id.into(),
            name: name.into(),
            version,
            created_ms: 5,
            updated_ms: 5,
            body: "{}".into(),
            sealed: format!("sealed {version}"),
        }
    }

    #[test]
    fn secrets_belong_to_a_tenant_and_their_versions_rise() {
        let state = tempfile::tempdir().unwrap();
        let store = Store::open(state.path()).unwrap();
        assert!(store.insert_secret("a", &row("sec-1", "key", 1), 2).unwrap());
        assert!(store.insert_secret("b", &row("sec-2", "key", 1), 2).unwrap());
        let taken = store.insert_secret("a", &row("sec-3", "key", 1), 2).unwrap_err();
        assert!(matches!(taken, StoreError::NameTaken { .. }), "{taken}");
        assert!(store.insert_secret("a", &row("sec-4", "other", 1), 2).unwrap());
        assert!(!store.insert_secret("a", &row("sec-5", "third", 1), 2).unwrap(), "two are the most");
        assert_eq!(store.secret("a", "key").unwrap().unwrap().id, "sec-1");
        assert_eq!(store.secret("a", "sec-1").unwrap().unwrap().name, "key");
        assert!(store.secret("a", "sec-2").unwrap().is_none(), "another tenant's");
        assert!(store.update_secret("a", &row("sec-1", "key", 2)).unwrap());
        assert!(!store.update_secret("a", &row("sec-1", "key", 2)).unwrap(), "another call was faster");
        assert!(!store.update_secret("b", &row("sec-1", "key", 3)).unwrap());
        let first = store.list_secrets("a", 1, None).unwrap();
        let second = store.list_secrets("a", 1, first.next_cursor.as_deref()).unwrap();
        assert_eq!((first.rows[0].id.as_str(), second.rows[0].id.as_str()), ("sec-4", "sec-1"));
        assert_eq!((second.next_cursor, second.rows[0].version), (None, 2));
        assert!(!store.delete_secret("b", "sec-1").unwrap());
        assert!(store.delete_secret("a", "sec-1").unwrap());
        assert!(store.secret("a", "key").unwrap().is_none());
    }
}
