//! The templates that sandboxes can be made from.

use crate::app::App;
use crate::auth::Caller;
use crate::errors::Failure;
use crate::extract::NoQuery;
use axum::Json as Answer;
use axum::extract::State;
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list_templates))
}

#[derive(Serialize, utoipa::ToSchema)]
struct TemplateList {
    templates: Vec<Template>,
}

#[derive(Serialize, utoipa::ToSchema)]
struct Template {
    name: String,
}

/// List templates
#[utoipa::path(get, path = "/v1/templates", tag = "templates", responses((status = 200, body = TemplateList)))]
async fn list_templates(
    State(app): State<App>,
    Caller(actor): Caller,
    _: NoQuery,
) -> Result<Answer<TemplateList>, Failure> {
    let names = app.fleet().templates(&actor).await?;
    Ok(Answer(TemplateList { templates: names.into_iter().map(|name| Template { name }).collect() }))
}
