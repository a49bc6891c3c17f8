//! Ports inside, by path and by host name: the callers that may use them, and which port is meant. [`crate::proxy`]
//! carries the bytes.

use crate::app::App;
use crate::auth::{self, Caller, Known, bearer};
use crate::dialects::e2b;
use crate::docs::{escape, policy};
use crate::errors::{Failure, shorten};
use crate::extract::{Json, NoQuery, Target};
use crate::gateway;
use crate::own_token;
use crate::peer::Peer;
use crate::proxy::{self, Inside};
use crate::revoked::{self, Leash};
use axum::Json as Answer;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Extensions, HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use paddock_fleet::Actor;
use paddock_model::api::{ApiError, SignPort, SignedPort};
use percent_encoding::percent_decode_str;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The cookie, and the parameter that sets it.
pub const TOKEN: &str = "paddock_token";

const APART: &str = "sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads";

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .route("/v1/sandboxes/{id}/ports/{port}", any(by_path))
        .route("/v1/sandboxes/{id}/ports/{port}/", any(by_path))
        .route("/v1/sandboxes/{id}/ports/{port}/{*path}", any(by_path))
}

pub fn signing_routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(sign_port))
}

/// A right to one port, which needs no token until it expires
///
/// It opens that port of that sandbox, and nothing else. It ends with its time (a day at most), with its sandbox, and with the token
/// that asked for it.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/ports/sign", tag = "ports",
    params(("id" = String, Path, description = "Id or name")), request_body = SignPort,
    responses((status = 200, body = SignedPort)))]
async fn sign_port(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    _: NoQuery,
    Json(request): Json<SignPort>,
) -> Result<Answer<SignedPort>, Failure> {
    Ok(Answer(app.fleet().sign_port(&actor, &id, request, app.guard().domain()).await?))
}

/// HTTP and WebSocket to a port inside
///
/// The token comes by Authorization, by the cookie `paddock_token`, or once by the parameter `paddock_token`, which
/// sets the cookie and leads on to the page without it (with GET; with other methods it counts for nothing). A right from `POST
/// .../ports/sign` goes by the same three; as the parameter it counts with every method and for upgrades, and only a GET of a page
/// (`Accept: text/html`) is answered with the cookie. No token goes
/// inside, whichever way it came: what else of the query or of a header holds one is left out. With `--domain D` the same is
/// at `{port}-{id}.D`.
/// By path, a page gets an origin that nothing else has (`Content-Security-Policy: sandbox`): an app that needs cookies or calls
/// of its own scripts is to be opened at `{port}-{id}.D`.
#[utoipa::path(method(get, post, put, delete, patch, head, options), path = "/v1/sandboxes/{id}/ports/{port}/{path}",
    tag = "ports",
    params(("id" = String, Path, description = "Id or name"), ("port" = u16, Path, description = "1 to 65535"),
        ("path" = String, Path, description = "A path that the program inside knows; may hold slashes")),
    responses((status = "default", description = "As the program inside answers"),
        (status = 303, description = "The cookie is set"), (status = 502, body = ApiError)))]
#[allow(dead_code, reason = "describes by_path, which takes every method")]
pub async fn through_port() {}

async fn by_path(State(app): State<App>, request: Request) -> Response {
    let wants_page = wants_page(request.headers());
    let answer = match inside_by_path(request.uri()) {
        Ok(inside) => through(&app, inside, request).await,
        Err(failure) => Err(failure),
    };
    let mut answer = answer.unwrap_or_else(|failure| refuse(failure, wants_page));
    keep_apart(answer.headers_mut());
    answer
}

/// A page by path has the address of the API and of the dashboard, whose session its scripts could take over. The policy gives
/// it an origin of its own.
fn keep_apart(headers: &mut HeaderMap) {
    headers.append(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(APART));
}

pub async fn by_host(State(app): State<App>, request: Request) -> Response {
    let wants_page = wants_page(request.headers());
    let answer = match app.guard().port_name(request.uri(), request.headers()) {
        Some(name) => {
            let rest = request.uri().path().to_string();
            through(
                &app,
                Inside {
                    sandbox: name.sandbox,
                    port: name.port,
                    prefix: String::new(),
                    rest,
                    query: String::new(),
                },
                request,
            )
            .await
        }
        None => Err(no_such_domain()),
    };
    answer.unwrap_or_else(|failure| refuse(failure, wants_page))
}

/// The gateway and this node have other domains.
fn no_such_domain() -> Failure {
    Failure::new(
        StatusCode::MISDIRECTED_REQUEST,
        "no_such_domain",
        "this node does not know the domain below which the host names a port",
    )
    .hint("Start the node with the same --domain as its gateway.")
}

/// `/v1/sandboxes/{id}/ports/{port}/{rest}`; the part behind the port goes inside unchanged.
fn inside_by_path(uri: &Uri) -> Result<Inside, Failure> {
    let path = uri.path();
    let mut parts = path.splitn(7, '/').skip(3);
    let (sandbox, port, rest) = (parts.next(), parts.nth(1), parts.next());
    let sandbox = percent_decode_str(sandbox.unwrap_or_default()).decode_utf8();
    let sandbox = sandbox.map_err(|_| Failure::invalid("the path is not valid: the id is not UTF-8"))?;
    let port = port.unwrap_or_default();
    let number =
        port.parse().ok().filter(|number| *number != 0 && port.bytes().all(|byte| byte.is_ascii_digit()));
    let Some(number) = number else {
        return Err(Failure::invalid(format!("the port {:?} is not 1 to 65535", shorten(port))));
    };
    let prefix = path[..path.len() - rest.map_or(0, |rest| rest.len() + 1)].to_string();
    Ok(Inside {
        sandbox: sandbox.into_owned(),
        port: number,
        prefix,
        rest: format!("/{}", rest.unwrap_or_default()),
        query: String::new(),
    })
}

async fn through(app: &App, inside: Inside, mut request: Request) -> Result<Response, Failure> {
    let peer = request.extensions().get::<Peer>().copied();
    let parameter = own_token::parameter(request.uri().query());
    let by_right = match &parameter {
        Some(secret) => holder_of_right(app, request.extensions(), &inside, secret).await?,
        None => None,
    };
    // A program takes the address as it is, by a right; a page needs the cookie, for all that it loads.
    let begins = *request.method() == Method::GET && (by_right.is_none() || wants_page(request.headers()));
    if let Some(secret) = parameter.as_ref().filter(|_| begins) {
        if by_right.is_none() {
            may_use(&auth::identify(app, request.extensions(), Some(secret)).await?.actor)?;
        }
        return Ok(set_cookie(&inside, &request, peer, secret));
    }
    let mut secrets: Vec<String> = parameter.into_iter().collect();
    let identified = match by_right {
        Some(known) => {
            secrets.extend(take_cookie(request.headers_mut()));
            Ok(known)
        }
        None => identify(app, &inside, &mut request, &mut secrets).await,
    };
    if identified.is_ok() {
        auth::is_known(request.extensions());
    }
    let Known { actor, revoked } = match identified {
        Ok(known) => known,
        // The name of a port has an origin of its own; by path the program inside would share the one of this server.
        Err(failure) if inside.prefix.is_empty() => visitor(app, &inside).await?.ok_or(failure)?,
        Err(failure) => return Err(failure),
    };
    may_use(&actor)?;
    secrets.extend(own_token::shown(app, request.headers()).await);
    // With every method, no token of ours goes inside: not by its parameter, and not by a header that repeats the
    // address.
    let query = own_token::clean_query(request.uri().query(), &secrets);
    own_token::clean_headers(request.headers_mut(), &secrets);
    if own_token::holds(inside.rest.as_bytes(), &secrets) {
        return Err(Failure::invalid("the path holds a token of this server, which does not go inside")
            .hint("Send the token by Authorization, or by the cookie paddock_token."));
    }
    // Without the slash at the end, relative links of a page would lead out of it.
    let bare = inside.rest == "/" && !inside.prefix.is_empty() && !request.uri().path().ends_with('/');
    if bare && *request.method() == Method::GET && wants_page(request.headers()) {
        return Ok(redirect(
            StatusCode::PERMANENT_REDIRECT,
            &format!("{}/{query}", own_address(&request, peer, &inside.prefix)),
        ));
    }
    let inside = Inside { query, ..inside };
    let leash = revoked.map(|revoked| Leash::new(revoked, &request));
    let wants_page = wants_page(request.headers());
    let forwarded = async {
        let forwarded = proxy::forward(app, &actor, &inside, request, peer, leash.clone()).await;
        forwarded.unwrap_or_else(|failure| refuse(failure, wants_page))
    };
    Ok(revoked::bounded(leash.clone(), forwarded).await)
}

/// Somebody without a token, at a port that is public. No visitor wakes a sandbox, but one of E2B's that resumes by itself.
async fn visitor(app: &App, inside: &Inside) -> Result<Option<Known>, Failure> {
    let Some(visit) = app.fleet().admit_visitor(&inside.sandbox, inside.port).await? else { return Ok(None) };
    match e2b::let_in(app, &visit).await {
        Some(let_in) => let_in.map_err(|refusal| refusal.failure)?,
        None if visit.finds_it_asleep() => {
            let message =
                format!("sandbox {} sleeps, and a request without a token does not wake it", inside.sandbox);
            return Err(Failure::new(StatusCode::CONFLICT, "wrong_state", message)
                .hint("Wake it with a token: paddock resume, paddock wake, or a request that shows one."));
        }
        None => {}
    }
    Ok(Some(visit.admitted.into()))
}

/// The caller by cookie, else by Authorization, else by the owner's socket. Our own token is taken out of the request,
/// and put among the `secrets`.
async fn identify(
    app: &App,
    inside: &Inside,
    request: &mut Request,
    secrets: &mut Vec<String>,
) -> Result<Known, Failure> {
    let cookie = take_cookie(request.headers_mut());
    if let Some(actor) = gateway::caller(request.extensions())? {
        secrets.extend(cookie);
        // Authorization can be the program's own, but a token goes inside in no case.
        if let Ok(Some(secret)) = bearer(request.headers())
            && own_token::is_own(app, secret).await
        {
            secrets.push(secret.to_string());
            request.headers_mut().remove(header::AUTHORIZATION);
        }
        return Ok(Known { actor, revoked: None });
    }
    if let Some(secret) = cookie
        && let Some(known) = holder(app, request.extensions(), inside, &secret).await
    {
        secrets.push(secret);
        // With the cookie, Authorization can be the program's own, but a token of ours goes inside in no case.
        if let Ok(Some(secret)) = bearer(request.headers())
            && own_token::is_own(app, secret).await
        {
            secrets.push(secret.to_string());
            request.headers_mut().remove(header::AUTHORIZATION);
        }
        return Ok(known);
    }
    let secret = bearer(request.headers())?.map(str::to_string);
    let by_right = match &secret {
        Some(secret) => holder_of_right(app, request.extensions(), inside, secret).await?,
        None => None,
    };
    let known = match by_right {
        Some(known) => known,
        None => auth::identify(app, request.extensions(), secret.as_deref()).await?,
    };
    secrets.extend(secret);
    request.headers_mut().remove(header::AUTHORIZATION);
    Ok(known)
}

/// The holder of a token, or of a right to this port.
async fn holder(app: &App, extensions: &Extensions, inside: &Inside, secret: &str) -> Option<Known> {
    match holder_of_right(app, extensions, inside, secret).await {
        Ok(None) => app.fleet().authenticate(secret).await.map(Known::from),
        Ok(known) => known,
        Err(_) => None,
    }
}

/// `None`: the text is no right of this server. A right that does not open this port is refused.
async fn holder_of_right(
    app: &App,
    extensions: &Extensions,
    inside: &Inside,
    secret: &str,
) -> Result<Option<Known>, Failure> {
    if !app.fleet().has_signed_port(secret) {
        return Ok(None);
    }
    let named = gateway::holder(extensions);
    let admitted = app.fleet().admit_port_right(secret, &inside.sandbox, inside.port, named).await?;
    Ok(Some(admitted.into()))
}

/// The tokens of this server in a request that another one admitted: they are taken out of its headers, and do not go inside.
pub async fn take_own_tokens(app: &App, request: &mut Request) -> Vec<String> {
    let mut secrets: Vec<String> = own_token::parameter(request.uri().query()).into_iter().collect();
    secrets.extend(take_cookie(request.headers_mut()));
    if let Ok(Some(secret)) = bearer(request.headers())
        && own_token::is_own(app, secret).await
    {
        secrets.push(secret.to_string());
        request.headers_mut().remove(header::AUTHORIZATION);
    }
    own_token::clean_headers(request.headers_mut(), &secrets);
    secrets
}

fn may_use(actor: &Actor) -> Result<(), Failure> {
    match actor.only_reads() {
        true => Err(auth::reads_only()),
        false => Ok(()),
    }
}

/// Our cookie, which stays where it is.
pub fn parse_cookie(headers: &HeaderMap) -> Option<String> {
    let mut cookies = HeaderMap::new();
    for value in headers.get_all(header::COOKIE) {
        cookies.append(header::COOKIE, value.clone());
    }
    take_cookie(&mut cookies)
}

/// Takes our cookie out, and leaves the others as they were.
pub fn take_cookie(headers: &mut HeaderMap) -> Option<String> {
    let mut found = None;
    let mut kept = Vec::new();
    for value in headers.get_all(header::COOKIE) {
        for pair in value.as_bytes().split(|byte| *byte == b';').map(<[u8]>::trim_ascii) {
            let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
            if name == TOKEN.as_bytes() {
                let secret = String::from_utf8_lossy(&pair[pair.len().min(name.len() + 1)..]).into_owned();
                found.get_or_insert(secret);
            } else if !pair.is_empty() {
                kept.push(pair.to_vec());
            }
        }
    }
    headers.remove(header::COOKIE);
    if let Ok(value) = HeaderValue::from_bytes(&kept.join(&b"; "[..]))
        && !value.is_empty()
    {
        headers.insert(header::COOKIE, value);
    }
    found
}

/// The same for a front: `prefix` and `rest` are the two parts of the path. The token is one that the caller has checked.
pub fn set_cookie_and_lead_on(prefix: &str, rest: &str, request: &Request, secret: &str) -> Response {
    let inside = Inside {
        sandbox: String::new(),
        port: 0,
        prefix: prefix.into(),
        rest: rest.into(),
        query: String::new(),
    };
    set_cookie(&inside, request, request.extensions().get().copied(), secret)
}

fn set_cookie(inside: &Inside, request: &Request, peer: Option<Peer>, secret: &str) -> Response {
    let query = own_token::clean_query(request.uri().query(), &[secret.to_string()]);
    let target =
        format!("{}{query}", own_address(request, peer, &format!("{}{}", inside.prefix, inside.rest)));
    let mut response = match comes_from_another_site(request.headers()) {
        true => led_on(&target),
        false => redirect(StatusCode::SEE_OTHER, &target),
    };
    let secure = if peer.is_some_and(|peer| peer.tls) { "; Secure" } else { "" };
    // Only for this port: the program behind another port is not to get it.
    let cookie = format!("{TOKEN}={secret}; Path={}/; HttpOnly; SameSite=Strict{secure}", inside.prefix);
    if let Ok(value) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    response
}

/// The dashboard at an address opens a port at its name. A browser calls that another site.
fn comes_from_another_site(headers: &HeaderMap) -> bool {
    let is = |name: &str, value: &str| headers.get(name).is_some_and(|found| found == value);
    is("sec-fetch-site", "cross-site") && is("sec-fetch-mode", "navigate")
}

/// A page that leads to the target. A redirect would still be of the site that the browser comes from, and browsers send no
/// strict cookie with one.
fn led_on(target: &str) -> Response {
    let page = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><title>Paddock</title>\
         <meta http-equiv=refresh content=\"0;url={target}\"><a href=\"{target}\">To the page</a></html>",
        target = escape(target)
    );
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    (headers, page).into_response()
}

/// Absolute, with the host that the guard let pass: a path such as `//elsewhere` cannot lead away.
fn own_address(request: &Request, peer: Option<Peer>, path: &str) -> String {
    let header = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let host =
        request.uri().authority().map(|authority| authority.as_str()).or(header).unwrap_or("localhost");
    format!("{}://{host}{path}", peer.map_or("http", |peer| peer.scheme()))
}

fn redirect(status: StatusCode, target: &str) -> Response {
    let location = HeaderValue::from_str(target).unwrap_or(HeaderValue::from_static("/"));
    let own = [
        (header::LOCATION, location),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        // The address that is left may hold a token.
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    (status, own).into_response()
}

pub fn wants_page(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html"))
}

/// For a browser, a page; for programs, the same failure as everywhere.
fn refuse(failure: Failure, wants_page: bool) -> Response {
    if !wants_page {
        return failure.into_response();
    }
    const STYLE: &str = "body{font:16px/1.6 system-ui,sans-serif;max-width:36rem;margin:15vh auto;padding:0 1rem}code{color:#667}";
    let hint = failure.hint.as_deref().map(|hint| format!("<p>{}</p>", escape(hint))).unwrap_or_default();
    let page = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><title>Paddock: {code}</title><style>{STYLE}</style>\
         <h1>{message}</h1>{hint}<p><code>{code}</code></p></html>",
        code = escape(failure.code),
        message = escape(&failure.message),
    );
    let mut response = failure.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    if let Ok(policy) = HeaderValue::from_str(&policy(STYLE)) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    headers.remove(header::CONTENT_LENGTH);
    *response.body_mut() = Body::from(page);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_the_port_goes_inside_as_it_came() {
        let inside = |path: &str| inside_by_path(&path.parse().expect("a target"));
        let found = inside("/v1/sandboxes/sb-1/ports/3000/a/%2e%2e/b//c?x=1").expect("valid");
        assert_eq!((found.sandbox.as_str(), found.port), ("sb-1", 3000));
        assert_eq!(
            (found.prefix.as_str(), found.rest.as_str()),
            ("/v1/sandboxes/sb-1/ports/3000", "/a/%2e%2e/b//c")
        );
        for path in ["/v1/sandboxes/a/ports/80", "/v1/sandboxes/a/ports/80/"] {
            let found = inside(path).expect("valid");
            assert_eq!((found.prefix.as_str(), found.rest.as_str()), ("/v1/sandboxes/a/ports/80", "/"));
        }
        for port in ["0", "65536", "+80", "-1", "http", "", "8%30"] {
            assert!(inside(&format!("/v1/sandboxes/a/ports/{port}/")).is_err(), "{port}");
        }
        assert!(inside("/v1/sandboxes/%ff/ports/80/").is_err());
    }

    #[test]
    fn our_cookie_is_taken_and_others_stay() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("a=1; paddock_token=s3cret; b=2=3"));
        headers.append(header::COOKIE, HeaderValue::from_static("paddock_token=second;c"));
        assert_eq!(take_cookie(&mut headers).as_deref(), Some("s3cret"));
        assert_eq!(headers.get_all(header::COOKIE).iter().collect::<Vec<_>>(), ["a=1; b=2=3; c"]);
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("paddock_token"));
        assert_eq!(take_cookie(&mut headers).as_deref(), Some(""));
        assert!(!headers.contains_key(header::COOKIE));
    }

    #[test]
    fn a_redirect_cannot_lead_away() {
        let request = Request::builder()
            .uri("//evil.example/x?paddock_token=s%2D1&y=2")
            .header("host", "3000-a.boxes.example")
            .body(Body::empty())
            .expect("a request");
        assert_eq!(own_token::parameter(request.uri().query()).as_deref(), Some("s-1"));
        let inside = Inside {
            sandbox: "a".into(),
            port: 3000,
            prefix: String::new(),
            rest: request.uri().path().into(),
            query: String::new(),
        };
        let response = set_cookie(&inside, &request, None, "s-1");
        assert_eq!(response.headers()["location"], "http://3000-a.boxes.example//evil.example/x?y=2");
        assert_eq!(response.headers()["set-cookie"], "paddock_token=s-1; Path=/; HttpOnly; SameSite=Strict");
    }

    #[test]
    fn a_browser_of_another_site_is_led_on_by_a_page() {
        let request = Request::builder()
            .uri("/?paddock_token=s-1&q='<b>")
            .header("host", "3000-a.boxes.example")
            .header("sec-fetch-site", "cross-site")
            .header("sec-fetch-mode", "navigate")
            .body(Body::empty());
        // Quotes and brackets are no part of a target that is valid.
        assert!(request.is_err());
        let request = Request::builder()
            .uri("/?paddock_token=s-1&q='a&b=1")
            .header("host", "3000-a.boxes.example")
            .header("sec-fetch-site", "cross-site")
            .header("sec-fetch-mode", "navigate")
            .body(Body::empty())
            .expect("a request");
        let inside = Inside {
            sandbox: "a".into(),
            port: 3000,
            prefix: String::new(),
            rest: "/".into(),
            query: String::new(),
        };
        let response = set_cookie(&inside, &request, None, "s-1");
        assert_eq!((response.status(), response.headers().get("location")), (StatusCode::OK, None));
        assert_eq!(response.headers()["set-cookie"], "paddock_token=s-1; Path=/; HttpOnly; SameSite=Strict");
        let body = futures_util::FutureExt::now_or_never(axum::body::to_bytes(response.into_body(), 1 << 16));
        let body = String::from_utf8(body.expect("at once").expect("a body").to_vec()).expect("text");
        assert!(body.contains("content=\"0;url=http://3000-a.boxes.example/?q=&#39;a&amp;b=1\""), "{body}");
        assert!(!body.contains("s-1"), "{body}");
    }

    #[test]
    fn a_page_shows_nothing_unescaped() {
        let response = refuse(Failure::invalid("<script>alert(1)</script>"), true);
        assert_eq!(response.headers()["content-type"], "text/html; charset=utf-8");
        let body = futures_util::FutureExt::now_or_never(axum::body::to_bytes(response.into_body(), 1 << 16));
        let body = body.expect("at once").expect("a body");
        assert!(!String::from_utf8_lossy(&body).contains("<script>"));
    }
}
