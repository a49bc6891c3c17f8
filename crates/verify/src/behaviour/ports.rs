//! A service inside, reached through the server, by every method.

use super::Check;
use super::code::needs_python;
use super::place::{Place, text};
use anyhow::{Context, Result, ensure};
use serde_json::json;

pub const CHECKS: &[Check] = &[Check {
    operations: &[
        "through_port_get",
        "through_port_head",
        "through_port_options",
        "through_port_post",
        "through_port_put",
        "through_port_patch",
        "through_port_delete",
        "sign_port",
    ],
    title: "a service that listens inside answers by every method, and to a right of its port alone",
    run: ports,
}];

const SERVICE: &str = r#"
import http.server
class Echo(http.server.BaseHTTPRequestHandler):
    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        said = f"{self.command} {self.path} ".encode() + body
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(said)
    do_GET = do_HEAD = do_OPTIONS = do_POST = do_PUT = do_PATCH = do_DELETE = answer
    def log_message(self, *words):
        pass
http.server.HTTPServer(("127.0.0.1", 8123), Echo).serve_forever()
"#;

fn ports(place: &Place) -> Result<()> {
    needs_python(place)?;
    let closed = place.ask("GET", &place.of("/ports/8123/way"), None)?;
    ensure!(closed.status == 502, "nobody listens: {}", closed.status);
    let start = json!({"argv": ["python3", "-c", SERVICE], "background": true});
    let service = place.post(&place.of("/execs"), 201, start)?;
    let target = place.of("/ports/8123/way?a=1");
    place.until("the service listens", |place| Ok(place.ask("GET", &target, None)?.status == 200))?;
    for method in ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"] {
        let body: &[u8] = if matches!(method, "GET" | "HEAD" | "OPTIONS") { b"" } else { b"sent" };
        let answer = place.send(method, &target, body)?.expect(200)?;
        let expected = match method {
            "HEAD" => String::new(),
            _ => format!("{method} /way?a=1 {}", String::from_utf8_lossy(body)),
        };
        ensure!(answer.text() == expected, "{method}: {:?}", answer.text());
    }
    let signed = place.post(&place.of("/ports/sign"), 200, json!({"port": 8123, "expires_seconds": 60}))?;
    let (url, right) = (text(&signed["url"])?, text(&signed["token"])?);
    let at = url.find("/v1/sandboxes/").with_context(|| format!("no path in {url}"))?;
    ensure!(place.call("GET", &url[at..], 200)?.text() == "GET / ", "by the right");
    let elsewhere = place.ask("GET", &place.of(&format!("/ports/8124/?paddock_token={right}")), None)?;
    ensure!(elsewhere.status == 403, "the right at another port: {}", elsewhere.status);
    place.call("DELETE", &place.of(&format!("/execs/{}", service["exec"])), 200).map(drop)
}
