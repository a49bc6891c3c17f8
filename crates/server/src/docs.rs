//! The reference: /openapi.json for programs, /docs for people. The page is made here, and loads nothing.

use crate::app::App;
use crate::extract::NoQuery;
use crate::openapi::{document, openapi};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use serde_json::Value;
use std::fmt::Write;
use std::sync::LazyLock;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(openapi_document)).routes(routes!(reference))
}

/// This description
#[utoipa::path(get, path = "/openapi.json", tag = "server", security(()),
    responses((status = 200, content_type = "application/json", body = Object)))]
async fn openapi_document(_: NoQuery) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], openapi()).into_response()
}

/// This description, for people
#[utoipa::path(get, path = "/docs", tag = "server", security(()),
    responses((status = 200, content_type = "text/html", body = String)))]
async fn reference(_: NoQuery) -> Response {
    static PAGE: LazyLock<String> = LazyLock::new(|| page(&document()));
    static POLICY: LazyLock<String> = LazyLock::new(|| policy(STYLE));
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY.as_str()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (headers, PAGE.as_str()).into_response()
}

/// Allows nothing but this one style sheet.
pub fn policy(style: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, style.as_bytes());
    let hash = base64::engine::general_purpose::STANDARD.encode(digest);
    format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}

pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

pub const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1c2024;background:#fff}\
h1,h2,h3{line-height:1.2}h2{margin-top:3rem;border-bottom:1px solid #d0d5da}h3{margin:2rem 0 .3rem;font-size:1rem}\
code,.path{font-family:ui-monospace,monospace;font-size:.92em}.method{display:inline-block;min-width:4.2em;font-weight:700}\
table{border-collapse:collapse;width:100%;margin:.5rem 0}td,th{text-align:left;vertical-align:top;padding:.25rem .6rem .25rem 0;border-top:1px solid #e6e9ec}\
th{font-weight:600;color:#59636e}nav a{margin-right:1rem}a{color:#0b5cad}p{margin:.3rem 0}\
@media(prefers-color-scheme:dark){body{color:#e4e7ea;background:#15181b}a{color:#7db8f5}h2,td,th{border-color:#333a40}th{color:#98a2ac}}";

fn page(document: &Value) -> String {
    let mut html = String::new();
    // Writing to a String cannot fail.
    let _ = write!(
        html,
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\
         <title>Paddock API</title><style>{STYLE}</style><h1>Paddock API</h1><p>{}</p>\
         <p>As a document for programs: <a href=\"/openapi.json\">openapi.json</a> (OpenAPI 3.1). \
         Send <code>Authorization: Bearer SECRET</code>; the unix socket of the owner needs no token. \
         Every failure is an <a href=\"#ApiError\">ApiError</a>.</p>",
        text(&document["info"]["description"])
    );
    let tags = document["tags"].as_array().map(Vec::as_slice).unwrap_or_default();
    html.push_str("<nav>");
    for tag in tags {
        let name = text(&tag["name"]);
        let _ = write!(html, "<a href=\"#{name}\">{name}</a>");
    }
    html.push_str("<a href=\"#types\">types</a></nav>");
    for tag in tags {
        let name = text(&tag["name"]);
        let _ = write!(html, "<h2 id=\"{name}\">{name}</h2><p>{}</p>", text(&tag["description"]));
        for (path, item) in document["paths"].as_object().into_iter().flatten() {
            for (method, operation) in item.as_object().into_iter().flatten() {
                if operation["tags"][0] == tag["name"] {
                    write_operation(&mut html, path, method, operation);
                }
            }
        }
    }
    html.push_str("<h2 id=types>types</h2>");
    for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
        write_schema(&mut html, name, schema);
    }
    html.push_str("</html>");
    html
}

fn write_operation(html: &mut String, path: &str, method: &str, operation: &Value) {
    let _ = write!(
        html,
        "<h3><span class=method>{}</span> <span class=path>{}</span></h3><p>{}. {}</p>",
        escape(&method.to_uppercase()),
        escape(path),
        text(&operation["summary"]),
        text(&operation["description"])
    );
    html.push_str("<table>");
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let required =
            if parameter["required"] == true && parameter["in"] != "path" { ", required" } else { "" };
        let _ = write!(
            html,
            "<tr><td><code>{}</code><td>{}{required}<td>{}<td>{}",
            text(&parameter["name"]),
            text(&parameter["in"]),
            kind(&parameter["schema"]),
            text(&parameter["description"])
        );
    }
    for (media, body) in operation["requestBody"]["content"].as_object().into_iter().flatten() {
        let _ = write!(html, "<tr><td>body<td>{}<td>{}<td>", escape(media), kind(&body["schema"]));
    }
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        let contents = response["content"].as_object();
        let failed = status.starts_with(['4', '5']);
        if failed {
            continue;
        }
        let described = contents.into_iter().flatten().next();
        let (media, kind) = described
            .map_or((String::new(), String::new()), |(media, body)| (escape(media), kind(&body["schema"])));
        let _ = write!(
            html,
            "<tr><td>{}<td>{media}<td>{kind}<td>{}",
            escape(status),
            text(&response["description"])
        );
    }
    html.push_str("</table>");
}

fn write_schema(html: &mut String, name: &str, schema: &Value) {
    let name = escape(name);
    let _ = write!(html, "<h3 id=\"{name}\"><code>{name}</code></h3><p>{}</p>", text(&schema["description"]));
    let alternatives = schema["oneOf"].as_array().into_iter().flatten();
    let objects = std::iter::once(schema).chain(alternatives);
    html.push_str("<table>");
    for object in objects {
        if let Some(values) = object["enum"].as_array() {
            let values: Vec<String> =
                values.iter().map(|value| format!("<code>{}</code>", text(value))).collect();
            let _ = write!(html, "<tr><td>{}<td><td>{}", values.join(", "), text(&object["description"]));
        }
        let required = object["required"].as_array();
        for (field, property) in object["properties"].as_object().into_iter().flatten() {
            let needed = required.is_some_and(|required| required.iter().any(|name| name == field));
            let _ = write!(
                html,
                "<tr><td><code>{}</code>{}<td>{}<td>{}",
                escape(field),
                if needed { "" } else { "?" },
                kind(property),
                text(&property["description"])
            );
        }
    }
    html.push_str("</table>");
}

/// The type of a value in a few words, with links.
fn kind(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = escape(reference.rsplit('/').next().unwrap_or_default());
        return format!("<a href=\"#{name}\">{name}</a>");
    }
    let alternatives = schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array());
    if let Some(alternatives) = alternatives {
        return alternatives.iter().map(kind).collect::<Vec<_>>().join(" or ");
    }
    let names = match &schema["type"] {
        Value::Array(names) => names.iter().map(text).collect::<Vec<_>>().join(" or "),
        name => text(name),
    };
    match names.as_str() {
        "array" => format!("list of {}", kind(&schema["items"])),
        _ => names,
    }
}

fn text(value: &Value) -> String {
    escape(value.as_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_shows_every_operation_and_type_and_loads_nothing() {
        let document = document();
        let page = page(&document);
        for path in document["paths"].as_object().expect("paths").keys() {
            assert!(page.contains(&escape(path)), "{path}");
        }
        for name in document["components"]["schemas"].as_object().expect("schemas").keys() {
            assert!(page.contains(&format!("id=\"{name}\"")), "{name}");
        }
        for foreign in ["http://", "https://", "<script", "src="] {
            assert!(!page.contains(foreign), "{foreign}");
        }
    }

    #[test]
    fn what_is_shown_is_escaped() {
        assert_eq!(escape("<b a='\"&"), "&lt;b a=&#39;&quot;&amp;");
    }
}
