//! Pages of sandboxes by age.

use super::errors::{Refusal, Result};
use super::timestamps;
use super::views;
use crate::app::App;
use crate::auth::Caller;
use crate::errors::shorten;
use axum::Json as Answer;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Uri};
use paddock_fleet::{ListFilter, ShownTemplate};
use paddock_model::api::SandboxState;
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde_json::Value;

const PAGE: usize = 100;
const LONGEST_PAGE: usize = 1000;
pub const NEXT: &str = "x-next-token";

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Wanted {
    metadata: Option<String>,
    /// Several with commas, or several times.
    state: Vec<String>,
    template: Option<String>,
    started_after: Option<String>,
    order: Option<String>,
    limit: Option<usize>,
    next_token: Option<String>,
}

pub async fn list(
    State(app): State<App>,
    Caller(actor): Caller,
    uri: Uri,
) -> Result<(HeaderMap, Answer<Vec<Value>>)> {
    let filter = filter(&uri)?;
    let page = app.fleet().list(&actor, &filter).await?;
    Ok((next(page.next_cursor), Answer(page.sandboxes.iter().map(views::listed).collect())))
}

/// The sandboxes that a query asks for.
pub fn filter(uri: &Uri) -> Result<ListFilter> {
    let wanted: Wanted = parsed(uri)?;
    let oldest_first = match wanted.order.as_deref() {
        None | Some("desc") => false,
        Some("asc") => true,
        Some(other) => {
            return Err(Refusal::invalid(format!("order: {:?} is neither asc nor desc", shorten(other))));
        }
    };
    let after = wanted.started_after.as_deref().map(|text| {
        timestamps::parse(text)
            .ok_or_else(|| Refusal::invalid(format!("startedAfter: {:?} is no time", shorten(text))))
    });
    let after = after.transpose()?.map(|after| u64::try_from(after).unwrap_or_default());
    Ok(ListFilter {
        states: states(&wanted.state)?,
        metadata: wanted.metadata.as_deref().map(pairs).transpose()?.unwrap_or_default(),
        shown_template: wanted.template.map(|template| ShownTemplate { template, ..views::SHOWN_TEMPLATE }),
        limit: page_limit(wanted.limit)?,
        cursor: wanted.next_token,
        oldest_first,
        created_after_ms: after,
        ..ListFilter::default()
    })
}

/// Parameters that are not known are left alone.
pub fn parsed<T: serde::de::DeserializeOwned>(uri: &Uri) -> Result<T> {
    serde_html_form::from_str(uri.query().unwrap_or_default())
        .map_err(|error| Refusal::invalid(format!("the query is not valid: {}", shorten(&error.to_string()))))
}

pub fn page_limit(limit: Option<usize>) -> Result<usize> {
    match limit.unwrap_or(PAGE) {
        limit @ 1..=LONGEST_PAGE => Ok(limit),
        limit => Err(Refusal::invalid(format!("limit: {limit} is not 1 to {LONGEST_PAGE}"))),
    }
}

/// The header that names the page that follows.
pub fn next(cursor: Option<String>) -> HeaderMap {
    let value = cursor.and_then(|cursor| HeaderValue::from_str(&cursor).ok());
    value.into_iter().map(|value| (axum::http::HeaderName::from_static(NEXT), value)).collect()
}

fn states(given: &[String]) -> Result<Vec<SandboxState>> {
    let mut found = Vec::new();
    for state in given.iter().flat_map(|list| list.split(',')).filter(|state| !state.is_empty()) {
        match state {
            "running" => found.extend([SandboxState::Running, SandboxState::Creating]),
            "paused" => found.extend([SandboxState::Paused, SandboxState::Hibernated]),
            other => {
                return Err(Refusal::invalid(format!(
                    "state: {:?} is neither running nor paused",
                    shorten(other)
                )));
            }
        }
    }
    Ok(found)
}

/// The SDKs encode each key and value twice, put them together as a query, and encode that as a parameter. The query was decoded
/// once already; the rest is done here.
fn pairs(text: &str) -> Result<Vec<(String, String)>> {
    let twice = |text: &str| {
        let once = percent_decode_str(text).decode_utf8().ok()?;
        percent_decode_str(&once).decode_utf8().ok().map(String::from)
    };
    text.split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            twice(key).zip(twice(value)).ok_or_else(|| Refusal::invalid("metadata is not UTF-8"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_decoded_as_often_as_it_was_encoded() {
        let uri = Uri::from_static(
            "/v2/sandboxes?metadata=a%252520b%3Dc%252526d&limit=3&state=running%2Cpaused&new=1",
        );
        let wanted: Wanted = parsed(&uri).expect("valid");
        assert_eq!(wanted.metadata.as_deref(), Some("a%2520b=c%2526d"));
        assert_eq!(pairs("a%2520b=c%2526d").expect("valid"), [("a b".to_string(), "c&d".to_string())]);
        assert_eq!(pairs("x=1&y=2").expect("valid").len(), 2);
        assert_eq!(states(&wanted.state).expect("valid").len(), 4);
        assert!(states(&["ended".into()]).is_err());
        assert!(pairs("%25ff=1").is_err());
    }

    #[test]
    fn a_page_has_bounds() {
        assert_eq!(page_limit(None).expect("valid"), 100);
        assert!(page_limit(Some(0)).is_err() && page_limit(Some(1001)).is_err());
    }
}
