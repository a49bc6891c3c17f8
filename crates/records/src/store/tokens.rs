use super::{Store, StoreError};
use paddock_model::api::{Role, Token};
use rusqlite::types::Type;
use rusqlite::{OptionalExtension, Row, params};

impl Store {
    /// Only the `hash` of the secret is kept.
    pub fn insert_token(&self, token: &Token, hash: &[u8; 32]) -> Result<(), StoreError> {
        let sql = "INSERT INTO tokens (id, hash, tenant, role, body) VALUES (?1, ?2, ?3, ?4, ?5)";
        let role = match token.role {
            Role::Admin => "admin",
            Role::User => "user",
            Role::ReadOnly => "read-only",
        };
        self.write(|connection| {
            let body = serde_json::to_string(token)
                .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
            let values = params![token.id, hash, token.tenant, role, body];
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
}

fn token(row: &Row) -> rusqlite::Result<Token> {
    let body = row.get_ref(0)?.as_str()?;
    serde_json::from_str(body)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, error.into()))
}
