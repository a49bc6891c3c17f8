//! Tables, and the steps from an older database to a newer one.

use super::StoreError;
use rusqlite::{Connection, OptionalExtension};
use std::path::Path;

/// One step per version; a step that has been released never changes.
pub(super) const STEPS: &[&str] = &["
    CREATE TABLE sandboxes (
        id TEXT PRIMARY KEY, tenant TEXT NOT NULL, name TEXT, state TEXT NOT NULL,
        created_ms INTEGER NOT NULL, ended_ms INTEGER, body TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE UNIQUE INDEX sandboxes_living_name ON sandboxes (tenant, name) WHERE state != 'ended';
    CREATE INDEX sandboxes_newest ON sandboxes (tenant, created_ms, id);
    CREATE INDEX sandboxes_newest_of_all ON sandboxes (created_ms, id);
    CREATE INDEX sandboxes_ended ON sandboxes (ended_ms) WHERE ended_ms IS NOT NULL;
    CREATE TABLE execs (
        sandbox TEXT NOT NULL, number INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (sandbox, number)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE snapshots (
        id TEXT PRIMARY KEY, tenant TEXT NOT NULL, name TEXT, created_ms INTEGER NOT NULL, body TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE UNIQUE INDEX snapshots_name ON snapshots (tenant, name);
    CREATE INDEX snapshots_newest ON snapshots (created_ms, id);
    CREATE TABLE tokens (
        id TEXT PRIMARY KEY, hash BLOB NOT NULL UNIQUE, tenant TEXT NOT NULL, role TEXT NOT NULL, body TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE tenants (name TEXT PRIMARY KEY, quota TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE idempotency (
        tenant TEXT NOT NULL, scope TEXT NOT NULL, key TEXT NOT NULL, fingerprint TEXT NOT NULL, note TEXT,
        result TEXT, created_ms INTEGER NOT NULL, PRIMARY KEY (tenant, scope, key)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE settings (key TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
", "
    CREATE TABLE resources (
        tenant TEXT NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL, updated_ms INTEGER NOT NULL, bound TEXT NOT NULL,
        sealed TEXT NOT NULL, PRIMARY KEY (tenant, name)
    ) STRICT, WITHOUT ROWID;
", "
    CREATE TABLE jobs (
        id TEXT PRIMARY KEY, tenant TEXT NOT NULL, state TEXT NOT NULL, created_ms INTEGER NOT NULL,
        kept_until_ms INTEGER, key TEXT, fingerprint TEXT, spec TEXT NOT NULL, body TEXT NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX jobs_key ON jobs (tenant, key) WHERE key IS NOT NULL;
    CREATE INDEX jobs_newest ON jobs (created_ms, id);
    CREATE INDEX jobs_of_tenant ON jobs (tenant);
    CREATE INDEX jobs_kept ON jobs (kept_until_ms);
    CREATE TABLE job_tasks (
        job TEXT NOT NULL, number INTEGER NOT NULL, state TEXT NOT NULL, artifact_bytes INTEGER NOT NULL,
        body TEXT NOT NULL, PRIMARY KEY (job, number)
    ) STRICT, WITHOUT ROWID;
", "
    CREATE TABLE past_calls (
        sandbox TEXT NOT NULL, number INTEGER NOT NULL, ended_ms INTEGER NOT NULL, body TEXT NOT NULL,
        PRIMARY KEY (sandbox, number)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX past_calls_ended ON past_calls (ended_ms);
", "
    CREATE TABLE secrets (
        id TEXT PRIMARY KEY, tenant TEXT NOT NULL, name TEXT NOT NULL, version INTEGER NOT NULL,
        created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL, body TEXT NOT NULL, sealed TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE UNIQUE INDEX secrets_name ON secrets (tenant, name);
    CREATE INDEX secrets_newest ON secrets (tenant, created_ms, id);
", "
    CREATE TABLE templates (
        id TEXT PRIMARY KEY, tenant TEXT NOT NULL, name TEXT NOT NULL, created_ms INTEGER NOT NULL, body TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE UNIQUE INDEX templates_name ON templates (tenant, name);
    CREATE TABLE template_builds (
        id TEXT PRIMARY KEY, template TEXT NOT NULL, tenant TEXT NOT NULL, finished INTEGER NOT NULL,
        created_ms INTEGER NOT NULL, body TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX template_builds_of ON template_builds (template, created_ms);
    CREATE INDEX template_builds_unfinished ON template_builds (tenant) WHERE finished = 0;
", "
    CREATE TABLE create_places (
        tenant TEXT NOT NULL, key TEXT NOT NULL, node INTEGER NOT NULL, created_ms INTEGER NOT NULL,
        PRIMARY KEY (tenant, key)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX create_places_by_age ON create_places (created_ms);
    CREATE INDEX create_places_of_tenant ON create_places (tenant, created_ms, key);
"];

pub const KNOWN: u32 = STEPS.len() as u32;

const TABLES: [&str; 15] = [
    "sandboxes",
    "execs",
    "snapshots",
    "tokens",
    "tenants",
    "idempotency",
    "settings",
    "resources",
    "jobs",
    "job_tasks",
    "past_calls",
    "secrets",
    "templates",
    "template_builds",
    "create_places",
];

pub fn prepare(path: &Path, connection: &mut Connection) -> Result<(), StoreError> {
    let failed = |source| StoreError::from_sql(path, source);
    let found: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)?;
    if found > KNOWN {
        return Err(StoreError::Newer { path: path.to_path_buf(), found, known: KNOWN });
    }
    for (version, step) in (1..).zip(STEPS).skip(found as usize) {
        let transaction = connection.transaction().map_err(failed)?;
        transaction
            .execute_batch(step)
            .and_then(|()| transaction.pragma_update(None, "user_version", version))
            .and_then(|()| transaction.commit())
            .map_err(failed)?;
    }
    // A full check takes too long on a large file. This finds damage that would make the server useless at once; other
    // damage is reported by the call that meets it.
    for table in TABLES {
        connection
            .query_row(&format!("SELECT 1 FROM {table} LIMIT 1"), [], |_| Ok(()))
            .optional()
            .map_err(failed)?;
    }
    Ok(())
}
