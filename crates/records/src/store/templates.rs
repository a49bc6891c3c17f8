//! Templates that tenants build through the server, and their builds.

use super::{Cursor, Page, Store, StoreError};
use rusqlite::{Connection, OptionalExtension, Row, named_params, params};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateRow {
    pub id: String,
    pub tenant: String,
    pub name: String,
    pub created_ms: u64,
    pub body: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateBuildRow {
    pub id: String,
    pub template: String,
    pub tenant: String,
    pub finished: bool,
    pub created_ms: u64,
    pub body: String,
}

const TEMPLATE: &str = "SELECT id, tenant, name, created_ms, body FROM templates";
const BUILD: &str = "SELECT id, template, tenant, finished, created_ms, body FROM template_builds";

impl Store {
    /// `most`: the most templates of a tenant. `false`: the tenant has them.
    pub fn insert_template(&self, row: &TemplateRow, most: usize) -> Result<bool, StoreError> {
        let sql = "INSERT INTO templates (id, tenant, name, created_ms, body) VALUES (?1, ?2, ?3, ?4, ?5)";
        self.transaction(|connection| {
            let count = "SELECT count(*) FROM templates WHERE tenant = ?1";
            let others: u64 = connection.query_row(count, [&row.tenant], |row| row.get(0))?;
            if others >= most as u64 {
                return Ok(false);
            }
            let values = params![row.id, row.tenant, row.name, row.created_ms, row.body];
            connection.prepare_cached(sql)?.execute(values).map(|_| true)
        })
    }

    pub fn update_template(&self, id: &str, body: &str) -> Result<bool, StoreError> {
        let sql = "UPDATE templates SET body = ?2 WHERE id = ?1";
        self.write(|connection| connection.prepare_cached(sql)?.execute([id, body]).map(|count| count > 0))
    }

    pub fn template(&self, id: &str) -> Result<Option<TemplateRow>, StoreError> {
        let sql = format!("{TEMPLATE} WHERE id = ?1");
        self.read(|connection| connection.prepare_cached(&sql)?.query_row([id], template).optional())
    }

    pub fn template_named(&self, tenant: &str, name: &str) -> Result<Option<TemplateRow>, StoreError> {
        let sql = format!("{TEMPLATE} WHERE tenant = ?1 AND name = ?2");
        self.read(|connection| {
            connection.prepare_cached(&sql)?.query_row([tenant, name], template).optional()
        })
    }

    /// A tenant's templates by name.
    pub fn templates_of(&self, tenant: &str) -> Result<Vec<TemplateRow>, StoreError> {
        let sql = format!("{TEMPLATE} WHERE tenant = ?1 ORDER BY name");
        self.read(|connection| connection.prepare_cached(&sql)?.query_map([tenant], template)?.collect())
    }

    /// With its builds, whose ids are returned; `None`: there is none.
    pub fn delete_template(&self, id: &str) -> Result<Option<Vec<String>>, StoreError> {
        self.transaction(|connection| {
            if connection.execute("DELETE FROM templates WHERE id = ?1", [id])? == 0 {
                return Ok(None);
            }
            let sql = "DELETE FROM template_builds WHERE template = ?1 RETURNING id";
            let builds = connection
                .prepare_cached(sql)?
                .query_map([id], |row| row.get(0))?
                .collect::<Result<_, _>>()?;
            Ok(Some(builds))
        })
    }

    /// `most`: the most unfinished builds of a tenant. `false`: the tenant has them.
    pub fn insert_template_build(&self, row: &TemplateBuildRow, most: usize) -> Result<bool, StoreError> {
        let sql = "INSERT INTO template_builds (id, template, tenant, finished, created_ms, body)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        self.transaction(|connection| {
            if unfinished(connection, &row.tenant)? >= most as u64 {
                return Ok(false);
            }
            let values = params![row.id, row.template, row.tenant, row.finished, row.created_ms, row.body];
            connection.prepare_cached(sql)?.execute(values).map(|_| true)
        })
    }

    pub fn update_template_build(&self, id: &str, finished: bool, body: &str) -> Result<bool, StoreError> {
        let sql = "UPDATE template_builds SET finished = ?2, body = ?3 WHERE id = ?1";
        self.write(|connection| {
            connection.prepare_cached(sql)?.execute(params![id, finished, body]).map(|count| count > 0)
        })
    }

    pub fn template_build(&self, id: &str) -> Result<Option<TemplateBuildRow>, StoreError> {
        let sql = format!("{BUILD} WHERE id = ?1");
        self.read(|connection| connection.prepare_cached(&sql)?.query_row([id], build).optional())
    }

    /// The builds of a template, the newest first.
    pub fn template_builds(&self, template: &str) -> Result<Vec<TemplateBuildRow>, StoreError> {
        let sql = format!("{BUILD} WHERE template = ?1 ORDER BY created_ms DESC, id");
        self.read(|connection| connection.prepare_cached(&sql)?.query_map([template], build)?.collect())
    }

    /// The builds of a tenant, the newest first.
    pub fn template_builds_of(
        &self,
        tenant: &str,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<Page<TemplateBuildRow>, StoreError> {
        let limit = limit.max(1);
        let after = Cursor::parse(cursor)?;
        let sql = format!(
            "{BUILD} WHERE tenant = :tenant AND (created_ms, id) < (:created, :id)
             ORDER BY created_ms DESC, id DESC LIMIT :limit"
        );
        let values = named_params! {
            ":tenant": tenant, ":created": after.created_ms, ":id": after.id, ":limit": limit.saturating_add(1),
        };
        let rows =
            self.read(|connection| connection.prepare_cached(&sql)?.query_map(values, build)?.collect())?;
        Ok(Page::cut(rows, limit, |row| Cursor { created_ms: row.created_ms, id: row.id.clone() }))
    }

    pub fn unfinished_template_builds(&self) -> Result<Vec<TemplateBuildRow>, StoreError> {
        let sql = format!("{BUILD} WHERE finished = 0");
        self.read(|connection| connection.prepare_cached(&sql)?.query_map([], build)?.collect())
    }

    pub fn delete_template_build(&self, id: &str) -> Result<bool, StoreError> {
        let sql = "DELETE FROM template_builds WHERE id = ?1";
        self.write(|connection| connection.prepare_cached(sql)?.execute([id]).map(|count| count > 0))
    }
}

fn unfinished(connection: &Connection, tenant: &str) -> rusqlite::Result<u64> {
    let sql = "SELECT count(*) FROM template_builds WHERE tenant = ?1 AND finished = 0";
    connection.query_row(sql, [tenant], |row| row.get(0))
}

fn template(row: &Row) -> rusqlite::Result<TemplateRow> {
    Ok(TemplateRow {
        id: row.get(0)?,
        tenant: row.get(1)?,
        name: row.get(2)?,
        created_ms: row.get(3)?,
        body: row.get(4)?,
    })
}

fn build(row: &Row) -> rusqlite::Result<TemplateBuildRow> {
    Ok(TemplateBuildRow {
        id: row.get(0)?,
        template: row.get(1)?,
        tenant: row.get(2)?,
        finished: row.get(3)?,
        created_ms: row.get(4)?,
        body: row.get(5)?,
    })
}
