//! The life of all sandboxes, as it happens.

use crate::app::App;
use crate::auth::Caller;
use crate::errors::Failure;
use crate::extract::Query;
use crate::stream;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use paddock_model::api::Event;
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(follow_events))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Following {
    /// Default true. Past events are in each sandbox's audit: without following there is nothing to show.
    #[serde(default)]
    follow: Option<bool>,
}

/// See what happens to sandboxes, as lines of JSON
///
/// From now on, until the caller goes.
#[utoipa::path(get, path = "/v1/events", tag = "events", params(Following),
    responses((status = 200, description = "One Event per line", content_type = "application/x-ndjson", body = Event)))]
async fn follow_events(
    State(app): State<App>,
    Caller(actor): Caller,
    Query(following): Query<Following>,
) -> Result<Response, Failure> {
    if following.follow == Some(false) {
        return Ok([(header::CONTENT_TYPE, stream::NDJSON)].into_response());
    }
    Ok(stream::events(&app, app.fleet().events(&actor)))
}
