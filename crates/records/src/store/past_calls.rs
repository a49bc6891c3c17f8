//! Calls in contexts that ended long before the newest ones: not in memory any more, and kept until they are old.

use super::{Store, StoreError};
use rusqlite::{OptionalExtension, params};

impl Store {
    /// Moves a call from the execs of a sandbox to its past calls.
    pub fn put_past_call(&self, sandbox: &str, number: u32, ended_ms: u64) -> Result<(), StoreError> {
        let copy = "INSERT OR REPLACE INTO past_calls (sandbox, number, ended_ms, body)
                    SELECT sandbox, number, ?3, body FROM execs WHERE sandbox = ?1 AND number = ?2";
        self.transaction(|connection| {
            connection.prepare_cached(copy)?.execute(params![sandbox, number, ended_ms])?;
            let delete = "DELETE FROM execs WHERE sandbox = ?1 AND number = ?2";
            connection.prepare_cached(delete)?.execute(params![sandbox, number]).map(drop)
        })
    }

    pub fn past_call(&self, sandbox: &str, number: u32) -> Result<Option<String>, StoreError> {
        let sql = "SELECT body FROM past_calls WHERE sandbox = ?1 AND number = ?2";
        let values = params![sandbox, number];
        self.read(|connection| connection.prepare_cached(sql)?.query_row(values, |row| row.get(0)).optional())
    }

    /// Forgets all past calls of a sandbox but the newest `kept`, at most `most` at once. Returns their numbers, so
    /// that their files go as well.
    pub fn delete_past_calls(&self, sandbox: &str, kept: u32, most: u32) -> Result<Vec<u32>, StoreError> {
        let newest =
            "SELECT number FROM past_calls WHERE sandbox = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2";
        let old =
            "SELECT number FROM past_calls WHERE sandbox = ?1 AND number <= ?2 ORDER BY number LIMIT ?3";
        let delete = "DELETE FROM past_calls WHERE sandbox = ?1 AND number = ?2";
        self.transaction(|connection| {
            let bound: Option<u32> = connection
                .prepare_cached(newest)?
                .query_row(params![sandbox, kept], |row| row.get(0))
                .optional()?;
            let Some(bound) = bound else { return Ok(Vec::new()) };
            let numbers = connection
                .prepare_cached(old)?
                .query_map(params![sandbox, bound, most], |row| row.get(0))?
                .collect::<rusqlite::Result<Vec<u32>>>()?;
            for number in &numbers {
                connection.prepare_cached(delete)?.execute(params![sandbox, number])?;
            }
            Ok(numbers)
        })
    }

    /// Forgets past calls that ended before that time, at most `most` at once.
    pub fn delete_past_calls_before(&self, ms: u64, most: u32) -> Result<Vec<(String, u32)>, StoreError> {
        let old = "SELECT sandbox, number FROM past_calls WHERE ended_ms < ?1 LIMIT ?2";
        let delete = "DELETE FROM past_calls WHERE sandbox = ?1 AND number = ?2";
        self.transaction(|connection| {
            let calls = connection
                .prepare_cached(old)?
                .query_map(params![ms, most], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<Vec<(String, u32)>>>()?;
            for (sandbox, number) in &calls {
                connection.prepare_cached(delete)?.execute(params![sandbox, number])?;
            }
            Ok(calls)
        })
    }
}
