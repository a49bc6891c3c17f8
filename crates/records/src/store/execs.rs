use super::{Store, StoreError};
use rusqlite::{OptionalExtension, params};

impl Store {
    /// A new record, or the same one with another body.
    pub fn put_exec(&self, sandbox: &str, number: u32, body: &str) -> Result<(), StoreError> {
        let sql = "INSERT INTO execs (sandbox, number, body) VALUES (?1, ?2, ?3)
                   ON CONFLICT (sandbox, number) DO UPDATE SET body = excluded.body";
        let values = params![sandbox, number, body];
        self.write(|connection| connection.prepare_cached(sql)?.execute(values).map(drop))
    }

    pub fn exec(&self, sandbox: &str, number: u32) -> Result<Option<String>, StoreError> {
        let sql = "SELECT body FROM execs WHERE sandbox = ?1 AND number = ?2";
        let values = params![sandbox, number];
        self.read(|connection| connection.prepare_cached(sql)?.query_row(values, |row| row.get(0)).optional())
    }

    /// Numbers and bodies, in the order of their numbers.
    pub fn execs_of(&self, sandbox: &str) -> Result<Vec<(u32, String)>, StoreError> {
        let sql = "SELECT number, body FROM execs WHERE sandbox = ?1 ORDER BY number";
        self.read(|connection| {
            connection
                .prepare_cached(sql)?
                .query_map([sandbox], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect()
        })
    }

    pub fn delete_exec(&self, sandbox: &str, number: u32) -> Result<(), StoreError> {
        let sql = "DELETE FROM execs WHERE sandbox = ?1 AND number = ?2";
        let values = params![sandbox, number];
        self.write(|connection| connection.prepare_cached(sql)?.execute(values).map(drop))
    }

    /// 0 if there is none.
    pub fn last_exec_number(&self, sandbox: &str) -> Result<u32, StoreError> {
        let sql = "SELECT coalesce(max(number), 0) FROM execs WHERE sandbox = ?1";
        self.read(|connection| connection.prepare_cached(sql)?.query_row([sandbox], |row| row.get(0)))
    }
}
