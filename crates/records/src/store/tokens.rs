use super::{Store, StoreError};
use paddock_model::api::{Role, Token};
use rusqlite::types::Type;
use rusqlite::{OptionalExtension, Row, params};

impl Store {
    /// Only the `hash` of the secret is kept.
    pub fn insert_token(&self, token: &Token, hash: &[u8; 32]) -> Result<(), StoreError> {
        let sql = "INSERT INTO tokens (id, hash, tenant, role, body) VALUES (?1, ?2, ?3, ?4, ?5)";
        self.write(|connection| {
            let values = params![token.id, hash, token.tenant, name_of(token.role), body_of(token)?];
            connection.prepare_cached(sql)?.execute(values).map(drop)
        })
        .map_err(|error| error.taken(&token.id, None))
    }

    /// Found by an index over hashes: the time of the search says nothing about secrets.
    pub fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<Token>, StoreError> {
        let sql = "SELECT body FROM tokens WHERE hash = ?1";
        self.read(|connection| connection.prepare_cached(sql)?.query_row([hash], token).optional())
    }

    pub fn token(&self, id: &str) -> Result<Option<Token>, StoreError> {
        let sql = "SELECT body FROM tokens WHERE id = ?1";
        self.read(|connection| connection.prepare_cached(sql)?.query_row([id], token).optional())
    }

    /// The tokens of one tenant, or of all; oldest first.
    pub fn tokens(&self, tenant: Option<&str>) -> Result<Vec<Token>, StoreError> {
        let sql = "SELECT body FROM tokens WHERE ?1 IS NULL OR tenant = ?1";
        let mut tokens: Vec<Token> =
            self.read(|connection| connection.prepare_cached(sql)?.query_map([tenant], token)?.collect())?;
        tokens.sort_by(|a, b| (a.created_at_ms, &a.id).cmp(&(b.created_at_ms, &b.id)));
        Ok(tokens)
    }

    /// Deletes and returns the token of that id; with a tenant, only if the token is that tenant's.
    pub fn delete_token(&self, id: &str, tenant: Option<&str>) -> Result<Option<Token>, StoreError> {
        let sql = "DELETE FROM tokens WHERE id = ?1 AND (?2 IS NULL OR tenant = ?2) RETURNING body";
        let values = params![id, tenant];
        self.write(|connection| connection.prepare_cached(sql)?.query_row(values, token).optional())
    }

    /// Changes the role of the token of that id, and returns it; with a tenant, only if the token is that tenant's.
    pub fn set_role_of_token(
        &self,
        id: &str,
        tenant: Option<&str>,
        role: Role,
    ) -> Result<Option<Token>, StoreError> {
        let find = "SELECT body FROM tokens WHERE id = ?1 AND (?2 IS NULL OR tenant = ?2)";
        let change = "UPDATE tokens SET role = ?2, body = ?3 WHERE id = ?1";
        self.write(|connection| {
            let found = connection.prepare_cached(find)?.query_row(params![id, tenant], token).optional()?;
            let Some(found) = found else { return Ok(None) };
            let changed = Token { role, ..found };
            let values = params![id, name_of(role), body_of(&changed)?];
            connection.prepare_cached(change)?.execute(values)?;
            Ok(Some(changed))
        })
    }

    /// Deletes and returns the tokens of a tenant.
    pub fn delete_tokens_of(&self, tenant: &str) -> Result<Vec<Token>, StoreError> {
        let sql = "DELETE FROM tokens WHERE tenant = ?1 RETURNING body";
        self.write(|connection| connection.prepare_cached(sql)?.query_map([tenant], token)?.collect())
    }
}

fn name_of(role: Role) -> &'static str {
    match role {
        Role::Admin => "admin",
        Role::User => "user",
        Role::ReadOnly => "read-only",
    }
}

fn body_of(token: &Token) -> rusqlite::Result<String> {
    serde_json::to_string(token).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

fn token(row: &Row) -> rusqlite::Result<Token> {
    let body = row.get_ref(0)?.as_str()?;
    serde_json::from_str(body)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, error.into()))
}
