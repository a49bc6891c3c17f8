//! Bodies of the control plane. Fields that are not known are left alone: newer SDKs have more of them.

use super::errors::Refusal;
use crate::app::App;
use crate::bodies::WholeBody;
use crate::errors::shorten;
use crate::extract::{apart, whole_body, within_bounds};
use axum::extract::{FromRequest, Request};
use serde::de::DeserializeOwned;

/// A JSON body; none at all means `{}`.
pub struct Json<T>(pub T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<App> for Json<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Json<T>, Refusal> {
        let body = within_bounds(whole_body(request.into_body(), app).await?).await?;
        apart(body, parse).await?.map(Json)
    }
}

fn parse<T: DeserializeOwned>(body: WholeBody) -> Result<T, Refusal> {
    let text = match body.bytes.trim_ascii() {
        b"" => &b"{}"[..],
        text => text,
    };
    let parsed = serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_slice(text));
    parsed.map_err(|error| {
        let (path, message) = (error.path().to_string(), shorten(&error.inner().to_string()));
        match path.as_str() {
            "." => Refusal::invalid(format!("the body is not valid: {message}")),
            path => Refusal::invalid(format!("field {}: {message}", shorten(path))),
        }
    })
}
