//! A request that comes twice with the same key is done once.

use super::{Store, StoreError};
use rusqlite::params;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// The caller does the request, then calls `finish` or `abandon`.
    New,
    /// The request was done: the result that `finish` was given.
    Existing(String),
    InProgress,
    /// The key was used for another request.
    Mismatch,
}

/// A request of a server that ended before it could finish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    pub tenant: String,
    pub scope: String,
    pub key: String,
    pub note: Option<String>,
}

impl Store {
    pub fn begin(
        &self,
        tenant: &str,
        scope: &str,
        key: &str,
        fingerprint: &str,
        now_ms: u64,
    ) -> Result<Begun, StoreError> {
        let insert = "INSERT INTO idempotency (tenant, scope, key, fingerprint, created_ms)
                      VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING";
        let select =
            "SELECT fingerprint, result FROM idempotency WHERE tenant = ?1 AND scope = ?2 AND key = ?3";
        self.write(|connection| {
            let values = params![tenant, scope, key, fingerprint, now_ms];
            if connection.prepare_cached(insert)?.execute(values)? == 1 {
                return Ok(Begun::New);
            }
            let (known, result): (String, Option<String>) = connection
                .prepare_cached(select)?
                .query_row([tenant, scope, key], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(match result {
                _ if known != fingerprint => Begun::Mismatch,
                Some(result) => Begun::Existing(result),
                None => Begun::InProgress,
            })
        })
    }

    /// Notes a fact by which a new server can tell how far the request came, such as the sandbox's id.
    pub fn note(&self, tenant: &str, scope: &str, key: &str, note: &str) -> Result<(), StoreError> {
        let sql = "UPDATE idempotency SET note = ?4 WHERE tenant = ?1 AND scope = ?2 AND key = ?3";
        self.write(|connection| connection.prepare_cached(sql)?.execute([tenant, scope, key, note]).map(drop))
    }

    pub fn finish(&self, tenant: &str, scope: &str, key: &str, result: &str) -> Result<(), StoreError> {
        let sql = "UPDATE idempotency SET result = ?4 WHERE tenant = ?1 AND scope = ?2 AND key = ?3";
        self.write(|connection| {
            connection.prepare_cached(sql)?.execute([tenant, scope, key, result]).map(drop)
        })
    }

    /// The request failed: the next one with the key is a new one. A finished request stays.
    pub fn abandon(&self, tenant: &str, scope: &str, key: &str) -> Result<(), StoreError> {
        let sql = "DELETE FROM idempotency WHERE tenant = ?1 AND scope = ?2 AND key = ?3 AND result IS NULL";
        self.write(|connection| connection.prepare_cached(sql)?.execute([tenant, scope, key]).map(drop))
    }

    /// Forgets a request, finished or not: the next one with the key is a new one.
    pub fn forget_key(&self, tenant: &str, scope: &str, key: &str) -> Result<(), StoreError> {
        let sql = "DELETE FROM idempotency WHERE tenant = ?1 AND scope = ?2 AND key = ?3";
        self.write(|connection| connection.prepare_cached(sql)?.execute([tenant, scope, key]).map(drop))
    }

    /// The unfinished requests, for a new server, which finishes or abandons each of them.
    pub fn unfinished(&self) -> Result<Vec<Unfinished>, StoreError> {
        let sql = "SELECT tenant, scope, key, note FROM idempotency WHERE result IS NULL";
        self.read(|connection| {
            let row = |row: &rusqlite::Row| {
                Ok(Unfinished {
                    tenant: row.get(0)?,
                    scope: row.get(1)?,
                    key: row.get(2)?,
                    note: row.get(3)?,
                })
            };
            connection.prepare(sql)?.query_map([], row)?.collect()
        })
    }

    /// Forgets finished requests that began before that time.
    pub fn delete_keys_before(&self, ms: u64) -> Result<usize, StoreError> {
        let sql = "DELETE FROM idempotency WHERE created_ms < ?1 AND result IS NOT NULL";
        self.write(|connection| connection.prepare_cached(sql)?.execute([ms]))
    }
}
