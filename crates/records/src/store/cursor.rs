//! The end of a page: opaque to callers, and checked when it comes back.

use super::StoreError;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    pub created_ms: u64,
    pub id: String,
}

impl Cursor {
    /// The place before the newest row of all.
    pub fn start() -> Cursor {
        // SQLite's integers are signed.
        Cursor { created_ms: i64::MAX as u64, id: String::new() }
    }

    /// The place before the oldest row of all, for lists that begin with it.
    pub fn oldest() -> Cursor {
        Cursor { created_ms: 0, id: String::new() }
    }

    pub fn parse(text: Option<&str>) -> Result<Cursor, StoreError> {
        let Some(text) = text else { return Ok(Cursor::start()) };
        let parsed = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        parsed
            .as_deref()
            .and_then(|plain| plain.split_once('.'))
            .and_then(|(created, id)| Some(Cursor { created_ms: created.parse().ok()?, id: id.to_string() }))
            .filter(|cursor| cursor.created_ms <= i64::MAX as u64)
            .ok_or_else(|| StoreError::Cursor { cursor: text.chars().take(80).collect() })
    }

    pub fn text(&self) -> String {
        URL_SAFE_NO_PAD.encode(format!("{}.{}", self.created_ms, self.id))
    }
}
