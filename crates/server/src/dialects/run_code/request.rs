//! Bodies of requests.

use super::errors::{Refusal, Result};
use crate::app::App;
use crate::bodies::WholeBody;
use crate::errors::shorten;
use crate::extract::{apart, whole_body, within_bounds};
use axum::extract::{FromRequest, Request};
use serde::de::DeserializeOwned;

/// A JSON body.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<App> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Body<T>> {
        let body = within_bounds(whole_body(request.into_body(), app).await?).await?;
        apart(body, parse).await?.map(Body)
    }
}

fn parse<T: DeserializeOwned>(body: WholeBody) -> Result<T> {
    let parsed = serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_slice(&body.bytes));
    parsed.map_err(|error| {
        let (path, message) = (error.path().to_string(), shorten(&error.inner().to_string()));
        match path.as_str() {
            "." => Refusal::field(&[], message),
            path => Refusal::field(&[&shorten(path)], message),
        }
    })
}
