//! Jobs and their tasks. A task has a record from the end of its first attempt on; before that it waits or runs.

use super::cursor::Cursor;
use super::{Page, Store, StoreError};
use rusqlite::{Connection, OptionalExtension, Row, named_params, params};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRow {
    pub id: String,
    pub tenant: String,
    pub state: String,
    pub created_ms: u64,
    /// Set once the job has ended.
    pub kept_until_ms: Option<u64>,
    /// The request as it was sent; it never changes.
    pub spec: String,
    pub body: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRow {
    pub job: String,
    pub number: u32,
    pub state: String,
    pub artifact_bytes: u64,
    pub body: String,
}

/// One of many changes that are written at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobChange {
    Job { id: String, state: String, kept_until_ms: Option<u64>, body: String },
    Task(TaskRow),
}

/// A key of the caller, and the fingerprint that tells its request from others.
pub struct JobKey<'a> {
    pub key: &'a str,
    pub fingerprint: &'a str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobInserted {
    New,
    /// The id of the key's job.
    Existing(String),
    /// The key was used for another request.
    Mismatch,
}

const COLUMNS: &str = "id, tenant, state, created_ms, kept_until_ms, spec, body";
const TASK_COLUMNS: &str = "job, number, state, artifact_bytes, body";

impl Store {
    /// Inserts a job once for each key of a tenant, however often it is sent and whenever the server is killed.
    pub fn insert_job(&self, row: &JobRow, key: Option<JobKey>) -> Result<JobInserted, StoreError> {
        let known = "SELECT id, fingerprint FROM jobs WHERE tenant = ?1 AND key = ?2";
        let insert = "INSERT INTO jobs (id, tenant, state, created_ms, spec, body, key, fingerprint)
                      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        self.transaction(|connection| {
            if let Some(JobKey { key, fingerprint }) = &key {
                let found: Option<(String, String)> = connection
                    .prepare_cached(known)?
                    .query_row([row.tenant.as_str(), key], |row| Ok((row.get(0)?, row.get(1)?)))
                    .optional()?;
                match found {
                    Some((id, known)) if known == *fingerprint => return Ok(JobInserted::Existing(id)),
                    Some(_) => return Ok(JobInserted::Mismatch),
                    None => {}
                }
            }
            let (key, fingerprint) = key.map(|key| (key.key, key.fingerprint)).unzip();
            let values =
                params![row.id, row.tenant, row.state, row.created_ms, row.spec, row.body, key, fingerprint];
            connection.prepare_cached(insert)?.execute(values)?;
            Ok(JobInserted::New)
        })
    }

    /// Writes all changes or none.
    pub fn write_jobs(&self, changes: &[JobChange]) -> Result<(), StoreError> {
        self.transaction(|connection| changes.iter().try_for_each(|change| write(connection, change)))
    }

    pub fn job(&self, id: &str) -> Result<Option<JobRow>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM jobs WHERE id = ?1");
        self.read(|connection| connection.prepare_cached(&sql)?.query_row([id], job_row).optional())
    }

    /// The jobs that have not ended, the oldest first.
    pub fn living_jobs(&self) -> Result<Vec<JobRow>, StoreError> {
        let sql =
            format!("SELECT {COLUMNS} FROM jobs WHERE kept_until_ms IS NULL ORDER BY created_ms, rowid");
        self.read(|connection| connection.prepare(&sql)?.query_map([], job_row)?.collect())
    }

    /// Newest first; without a tenant those of all tenants, without a state those in all states.
    pub fn list_jobs(
        &self,
        tenant: Option<&str>,
        state: Option<&str>,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<Page<JobRow>, StoreError> {
        let limit = limit.max(1);
        let after = Cursor::parse(cursor)?;
        let sql = format!(
            "SELECT {COLUMNS} FROM jobs WHERE (created_ms, id) < (:created, :id)
             AND (:tenant IS NULL OR tenant = :tenant) AND (:state IS NULL OR state = :state)
             ORDER BY created_ms DESC, id DESC LIMIT :limit"
        );
        let values = named_params! {
            ":created": after.created_ms, ":id": after.id, ":tenant": tenant, ":state": state,
            ":limit": limit.saturating_add(1),
        };
        let rows: Vec<JobRow> =
            self.read(|connection| connection.prepare_cached(&sql)?.query_map(values, job_row)?.collect())?;
        Ok(Page::cut(rows, limit, |row| Cursor { created_ms: row.created_ms, id: row.id.clone() }))
    }

    /// The number of a tenant's jobs, ended ones too.
    pub fn count_jobs(&self, tenant: &str) -> Result<u64, StoreError> {
        let sql = "SELECT count(*) FROM jobs WHERE tenant = ?1";
        self.read(|connection| connection.prepare_cached(sql)?.query_row([tenant], |row| row.get(0)))
    }

    pub fn job_task(&self, job: &str, number: u32) -> Result<Option<TaskRow>, StoreError> {
        let sql = format!("SELECT {TASK_COLUMNS} FROM job_tasks WHERE job = ?1 AND number = ?2");
        let values = params![job, number];
        self.read(|connection| connection.prepare_cached(&sql)?.query_row(values, task_row).optional())
    }

    /// The tasks from this number on, in their order.
    pub fn job_tasks(&self, job: &str, from: u32, limit: usize) -> Result<Vec<TaskRow>, StoreError> {
        let sql = format!(
            "SELECT {TASK_COLUMNS} FROM job_tasks WHERE job = ?1 AND number >= ?2 ORDER BY number LIMIT ?3"
        );
        let values = params![job, from, limit];
        self.read(|connection| connection.prepare_cached(&sql)?.query_map(values, task_row)?.collect())
    }

    /// The bytes of all artifacts of each tenant.
    pub fn job_artifact_bytes(&self) -> Result<Vec<(String, u64)>, StoreError> {
        let sql = "SELECT tenant, sum(artifact_bytes) FROM job_tasks JOIN jobs ON jobs.id = job_tasks.job
                   GROUP BY tenant";
        self.read(|connection| {
            connection.prepare(sql)?.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        })
    }

    /// Ended jobs whose time is over.
    pub fn jobs_to_forget(&self, now_ms: u64) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT id FROM jobs WHERE kept_until_ms < ?1 LIMIT 1000";
        self.read(|connection| {
            connection.prepare_cached(sql)?.query_map([now_ms], |row| row.get(0))?.collect()
        })
    }

    /// Deletes a job with its tasks.
    pub fn delete_job(&self, id: &str) -> Result<bool, StoreError> {
        self.transaction(|connection| {
            connection.prepare_cached("DELETE FROM job_tasks WHERE job = ?1")?.execute([id])?;
            Ok(connection.prepare_cached("DELETE FROM jobs WHERE id = ?1")?.execute([id])? == 1)
        })
    }
}

fn write(connection: &Connection, change: &JobChange) -> rusqlite::Result<()> {
    match change {
        JobChange::Job { id, state, kept_until_ms, body } => {
            let sql = "UPDATE jobs SET state = ?2, kept_until_ms = ?3, body = ?4 WHERE id = ?1";
            let values = params![id, state, kept_until_ms, body];
            connection.prepare_cached(sql)?.execute(values).map(drop)
        }
        JobChange::Task(TaskRow { job, number, state, artifact_bytes, body }) => {
            // A task of a job that was removed meanwhile must not come back.
            let sql = "INSERT INTO job_tasks (job, number, state, artifact_bytes, body)
                       SELECT ?1, ?2, ?3, ?4, ?5 WHERE EXISTS (SELECT 1 FROM jobs WHERE id = ?1)
                       ON CONFLICT (job, number) DO UPDATE
                       SET state = excluded.state, artifact_bytes = excluded.artifact_bytes, body = excluded.body";
            let values = params![job, number, state, artifact_bytes, body];
            connection.prepare_cached(sql)?.execute(values).map(drop)
        }
    }
}

fn job_row(row: &Row) -> rusqlite::Result<JobRow> {
    Ok(JobRow {
        id: row.get(0)?,
        tenant: row.get(1)?,
        state: row.get(2)?,
        created_ms: row.get(3)?,
        kept_until_ms: row.get(4)?,
        spec: row.get(5)?,
        body: row.get(6)?,
    })
}

fn task_row(row: &Row) -> rusqlite::Result<TaskRow> {
    Ok(TaskRow {
        job: row.get(0)?,
        number: row.get(1)?,
        state: row.get(2)?,
        artifact_bytes: row.get(3)?,
        body: row.get(4)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: u64, tenant: &str) -> JobRow {
        JobRow {
            id: format!("job-{number:016x}"),
            tenant: tenant.into(),
            state: "queued".into(),
            created_ms: number / 2,
            kept_until_ms: None,
            spec: "{}".into(),
            body: "{}".into(),
        }
    }

    fn task(job: &str, number: u32, bytes: u64) -> JobChange {
        let (job, state, body) = (job.to_string(), "succeeded".to_string(), "{}".to_string());
        JobChange::Task(TaskRow { job, number, state, artifact_bytes: bytes, body })
    }

    #[test]
    fn jobs_and_tasks_are_there_after_a_restart() {
        let state = tempfile::tempdir().unwrap();
        let store = Store::open(state.path()).unwrap();
        (0..5).for_each(|number| {
            assert_eq!(store.insert_job(&row(number, "a"), None).unwrap(), JobInserted::New);
        });
        store.insert_job(&row(9, "b"), None).unwrap();
        let ended = row(1, "a").id;
        store
            .write_jobs(&[
                task(&ended, 0, 7),
                task(&ended, 3, 5),
                task(&ended, 3, 6),
                task("job-removed", 0, 1),
                JobChange::Job {
                    id: ended.clone(),
                    state: "succeeded".into(),
                    kept_until_ms: Some(100),
                    body: "done".into(),
                },
            ])
            .unwrap();
        drop(store);
        let store = Store::open(state.path()).unwrap();
        let living: Vec<String> = store.living_jobs().unwrap().into_iter().map(|row| row.id).collect();
        assert_eq!(living, [0, 2, 3, 4, 9].map(|number| row(number, "").id));
        assert_eq!(store.job(&ended).unwrap().unwrap().body, "done");
        let numbers: Vec<u32> =
            store.job_tasks(&ended, 1, 10).unwrap().into_iter().map(|task| task.number).collect();
        assert_eq!(numbers, [3]);
        assert_eq!(store.job_artifact_bytes().unwrap(), [("a".to_string(), 13)]);
        assert_eq!(store.job_task("job-removed", 0).unwrap(), None);
        assert_eq!((store.count_jobs("a").unwrap(), store.count_jobs("b").unwrap()), (5, 1));
        assert_eq!(store.jobs_to_forget(100).unwrap(), Vec::<String>::new());
        assert_eq!(store.jobs_to_forget(101).unwrap(), std::slice::from_ref(&ended));
        assert!(store.delete_job(&ended).unwrap() && !store.delete_job(&ended).unwrap());
        assert_eq!(store.job_task(&ended, 0).unwrap(), None);
    }

    #[test]
    fn pages_show_every_job_once_newest_first() {
        let state = tempfile::tempdir().unwrap();
        let store = Store::open(state.path()).unwrap();
        (0..50).for_each(|number| drop(store.insert_job(&row(number, "a"), None).unwrap()));
        store.insert_job(&row(99, "b"), None).unwrap();
        let (mut seen, mut cursor) = (Vec::new(), None);
        loop {
            let page = store.list_jobs(Some("a"), Some("queued"), 7, cursor.as_deref()).unwrap();
            seen.extend(page.rows.into_iter().map(|row| row.id));
            let Some(next) = page.next_cursor else { break };
            cursor = Some(next);
        }
        assert_eq!(seen, (0..50).rev().map(|number| row(number, "").id).collect::<Vec<_>>());
        assert!(store.list_jobs(None, Some("failed"), 7, None).unwrap().rows.is_empty());
    }

    #[test]
    fn a_key_makes_one_job() {
        let state = tempfile::tempdir().unwrap();
        let store = Store::open(state.path()).unwrap();
        let insert = |number, tenant, fingerprint| {
            store.insert_job(&row(number, tenant), Some(JobKey { key: "k", fingerprint })).unwrap()
        };
        assert_eq!(insert(1, "a", "f"), JobInserted::New);
        assert_eq!(insert(2, "a", "f"), JobInserted::Existing(row(1, "").id));
        assert_eq!(insert(3, "a", "g"), JobInserted::Mismatch);
        assert_eq!(insert(4, "b", "g"), JobInserted::New);
        assert_eq!(store.living_jobs().unwrap().len(), 2);
    }
}
