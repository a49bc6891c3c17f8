//! The dashboard: pages and scripts that `make web` built, packed into the executable. They hold no data: their scripts ask the
//! public `/v1` with a token that is kept in the tab, never with a cookie, so that no other site can use it.
//!
//! - [`assets`]: the files; [`headers`]: the policies that they are sent with

mod assets;
mod headers;

use crate::app::App;
use crate::errors::Failure;
use crate::peer::{Peer, Route};
use assets::Asset;
use axum::body::Body;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};

const ASSETS: &str = "/ui/assets/";

/// Not part of the description of the API: pages for people.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/ui", get(to_the_page))
        .route("/ui/", get(page))
        .route("/ui/frame", get(frame))
        .route("/ui/assets/{name}", get(asset))
}

/// Files that hold nothing but the dashboard's own code.
pub fn is_asset(uri: &Uri) -> bool {
    uri.path().starts_with(ASSETS)
}

async fn to_the_page(peer: Option<Extension<Peer>>) -> Result<Response, Failure> {
    over_an_address(peer)?;
    Ok((StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, "/ui/")]).into_response())
}

async fn page(peer: Option<Extension<Peer>>, headers: HeaderMap) -> Result<Response, Failure> {
    over_an_address(peer)?;
    serve("index.html", headers::page(), &headers)
}

/// The page in which HTML of results is shown. Its sandbox gives it an origin that nothing else has.
async fn frame(peer: Option<Extension<Peer>>, headers: HeaderMap) -> Result<Response, Failure> {
    over_an_address(peer)?;
    serve("frame.html", headers::frame(), &headers)
}

async fn asset(
    peer: Option<Extension<Peer>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    over_an_address(peer)?;
    serve(&format!("assets/{name}"), headers::asset(), &headers)
}

/// A browser cannot come by the socket, where no token is asked for.
fn over_an_address(peer: Option<Extension<Peer>>) -> Result<(), Failure> {
    match peer.map(|Extension(peer)| peer.route) {
        Some(Route::Tcp { .. }) => Ok(()),
        Some(Route::Unix { .. }) | None => {
            Err(Failure::new(StatusCode::NOT_FOUND, "not_found", "the dashboard is not served on a socket")
                .hint("Start the server with an address, `paddock serve --listen 127.0.0.1:8080`; `paddock ui` then prints a link."))
        }
    }
}

fn serve(name: &str, policy: HeaderMap, asked: &HeaderMap) -> Result<Response, Failure> {
    let asset = assets::find(name).ok_or_else(|| {
        Failure::new(StatusCode::NOT_FOUND, "not_found", "the dashboard has no such file")
            .hint("Reload the page: the server may be of another version than the page.")
    })?;
    let mut response = body(asset, asked)?.into_response();
    let headers = response.headers_mut();
    headers.extend(policy);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.content_type()));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    Ok(response)
}

fn body(asset: &Asset, asked: &HeaderMap) -> Result<Response, Failure> {
    let accepts = asked.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    if accepts.is_some_and(|accepts| accepts.split(',').any(|coding| coding.trim().starts_with("gzip"))) {
        let coding = [(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"))];
        return Ok((coding, Body::from(asset.gzip)).into_response());
    }
    let plain = asset.plain().map_err(|_| Failure::internal())?;
    Ok(Body::from(plain).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp() -> Option<Extension<Peer>> {
        let local = "127.0.0.1:8080".parse().expect("an address");
        Some(Extension(Peer { route: Route::Tcp { local }, tls: false }))
    }

    #[test]
    fn it_is_served_over_an_address_only() {
        assert!(over_an_address(tcp()).is_ok());
        let unix = Peer { route: Route::Unix { owner: true }, tls: false };
        let refused = over_an_address(Some(Extension(unix))).expect_err("refused");
        assert_eq!(refused.status, StatusCode::NOT_FOUND);
        assert!(refused.hint.expect("a hint").contains("--listen"));
    }

    #[tokio::test]
    async fn every_file_is_there_plain_and_compressed() {
        let page = page(tcp(), HeaderMap::new()).await.expect("a page");
        let body = axum::body::to_bytes(page.into_body(), 1 << 20).await.expect("a body");
        let text = String::from_utf8(body.to_vec()).expect("text");
        let mut files = 0;
        for name in text.split('"').filter_map(|part| part.strip_prefix("/ui/assets/")) {
            let mut gzip = HeaderMap::new();
            gzip.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("br, gzip;q=0.8"));
            let small = asset(tcp(), Path(name.into()), gzip).await.expect("an asset");
            assert_eq!(small.headers()[header::CONTENT_ENCODING], "gzip");
            assert!(small.headers()[header::CACHE_CONTROL].to_str().expect("text").contains("immutable"));
            assert_eq!(small.headers()[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
            assert!(asset(tcp(), Path(name.into()), HeaderMap::new()).await.is_ok());
            files += 1;
        }
        assert!(files >= 2, "{text}");
        assert!(asset(tcp(), Path("../index.html".into()), HeaderMap::new()).await.is_err());
    }
}
