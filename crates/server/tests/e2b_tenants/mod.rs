//! In the words of E2B: by the control plane, by the tokens that open one sandbox or one volume, and by addresses that are signed.
//!
//! Each operation of the dialect is in one of these tables; a test fails for one that is in none.

use super::harness::{Answer, Server};
use super::token;
use serde_json::json;

/// All operations, `METHOD PATH` in each line. A test of the server's own holds that the list is the code's.
const ROUTES: &str = include_str!("../../../../tests/schema/e2b_routes.txt");
const NO_SANDBOX: &str = "sb-0000000000000000";

/// Method, path as the list has it, query, and body. What stands in braces is filled in, in the body too.
type Tried = (&'static str, &'static str, &'static str, Option<&'static str>);

const OF_A_SANDBOX: &[Tried] = &[
    ("GET", "/sandboxes/{id}", "", None),
    ("DELETE", "/sandboxes/{id}", "", None),
    ("POST", "/sandboxes/{id}/timeout", "", Some("{\"timeout\": 1}")),
    ("POST", "/sandboxes/{id}/pause", "", Some("{}")),
    ("POST", "/sandboxes/{id}/connect", "", Some("{\"timeout\": 1}")),
    ("POST", "/v2/sandboxes/{id}/connect", "", Some("{}")),
    ("GET", "/sandboxes/{id}/metrics", "", None),
    ("PUT", "/sandboxes/{id}/network", "", Some("{}")),
    ("POST", "/sandboxes/{id}/snapshots", "", Some("{}")),
    ("POST", "/sandboxes/{id}/fork", "", Some("{}")),
];
/// A snapshot is a template too.
const OF_A_SNAPSHOT: &[Tried] = &[
    ("DELETE", "/templates/{id}", "", None),
    ("GET", "/templates/aliases/{alias}", "", None),
    ("POST", "/v2/sandboxes", "", Some("{\"templateID\": \"{id}\"}")),
    ("POST", "/sandboxes", "", Some("{\"templateID\": \"{id}\"}")),
];
const OF_A_NAME: &[Tried] = &[
    ("GET", "/volumes/{id}", "", None),
    ("DELETE", "/volumes/{id}", "", None),
    ("GET", "/secrets/{*key}", "", None),
    ("POST", "/secrets/{*key}", "", Some("{\"value\": \"stolen-value\"}")),
    ("DELETE", "/secrets/{*key}", "", None),
];
const OF_A_TEMPLATE: &[Tried] = &[
    ("DELETE", "/templates/{id}", "", None),
    ("GET", "/templates/aliases/{alias}", "", None),
    ("GET", "/templates/{id}/tags", "", None),
    ("POST", "/templates/tags", "", Some("{\"target\": \"{id}:new\", \"tags\": [\"own\"]}")),
    ("DELETE", "/templates/tags", "", Some("{\"name\": \"{id}\", \"tags\": [\"default\"]}")),
    ("GET", "/templates/{id}/files/{hash}", "", None),
    ("POST", "/v2/templates/{id}/builds/{build}", "", Some("{\"fromImage\": \"x\"}")),
    ("GET", "/templates/{id}/builds/{build}/status", "", None),
    ("POST", "/v2/sandboxes", "", Some("{\"templateID\": \"{id}\"}")),
    ("POST", "/sandboxes", "", Some("{\"templateID\": \"{id}\"}")),
];
const OF_A_VOLUME: &[Tried] = &[
    ("GET", "/volumecontent/{volume}/path", "?path=/", None),
    ("PATCH", "/volumecontent/{volume}/path", "?path=/", Some("{\"mode\": 493}")),
    ("DELETE", "/volumecontent/{volume}/path", "?path=/x", None),
    ("GET", "/volumecontent/{volume}/dir", "?path=/", None),
    ("POST", "/volumecontent/{volume}/dir", "?path=/x", None),
    ("GET", "/volumecontent/{volume}/file", "?path=/x", None),
    ("PUT", "/volumecontent/{volume}/file", "?path=/x", Some("x")),
];
/// Calls that E2B's agent in a sandbox answers.
const INSIDE: &[Tried] = &[
    ("GET", "/health", "", None),
    ("GET", "/files", "?path=/etc/passwd", None),
    ("POST", "/files", "?path=/tmp/theirs", Some("x")),
    ("POST", "/process.Process/List", "", Some("{}")),
    ("POST", "/process.Process/Start", "", Some("{\"process\": {\"cmd\": \"/bin/true\"}}")),
    ("POST", "/process.Process/Connect", "", Some("{\"process\": {\"pid\": 1}}")),
    ("POST", "/process.Process/StreamInput", "", Some("{\"start\": {\"process\": {\"pid\": 1}}}")),
    (
        "POST",
        "/process.Process/SendInput",
        "",
        Some("{\"process\": {\"pid\": 1}, \"input\": {\"stdin\": \"eA==\"}}"),
    ),
    (
        "POST",
        "/process.Process/SendSignal",
        "",
        Some("{\"process\": {\"pid\": 1}, \"signal\": \"SIGNAL_SIGKILL\"}"),
    ),
    ("POST", "/process.Process/CloseStdin", "", Some("{\"process\": {\"pid\": 1}}")),
    ("POST", "/process.Process/Update", "", Some("{\"process\": {\"pid\": 1}}")),
    ("POST", "/filesystem.Filesystem/Stat", "", Some("{\"path\": \"/etc/passwd\"}")),
    ("POST", "/filesystem.Filesystem/ListDir", "", Some("{\"path\": \"/\"}")),
    ("POST", "/filesystem.Filesystem/MakeDir", "", Some("{\"path\": \"/tmp/directory\"}")),
    (
        "POST",
        "/filesystem.Filesystem/Move",
        "",
        Some("{\"source\": \"/tmp/a\", \"destination\": \"/tmp/b\"}"),
    ),
    ("POST", "/filesystem.Filesystem/Remove", "", Some("{\"path\": \"/tmp/a\"}")),
    ("POST", "/filesystem.Filesystem/WatchDir", "", Some("{\"path\": \"/tmp\"}")),
    ("POST", "/filesystem.Filesystem/CreateWatcher", "", Some("{\"path\": \"/tmp\"}")),
    ("POST", "/filesystem.Filesystem/GetWatcherEvents", "", Some("{\"watcherId\": \"w\"}")),
    ("POST", "/filesystem.Filesystem/RemoveWatcher", "", Some("{\"watcherId\": \"w\"}")),
];
const CODE_INTERPRETER: &[Tried] = &[
    ("GET", "/health", "", None),
    ("POST", "/execute", "", Some("{\"code\": \"1\", \"language\": \"cobol\"}")),
    ("GET", "/contexts", "", None),
    ("POST", "/contexts", "", Some("{\"language\": \"cobol\"}")),
    ("DELETE", "/contexts/{id}", "", None),
    ("POST", "/contexts/{id}/restart", "", Some("{}")),
];
/// A program of the sandbox's own would answer this, and none listens.
const A_PORT: &[Tried] = &[("GET", "/", "", None)];
/// Each of these names what is the caller's own: a list has nothing of others, and the name of something new may be the name that
/// another tenant uses.
const LISTS: [&str; 5] = ["/sandboxes", "/v2/sandboxes", "/snapshots", "/volumes", "/secrets"];
const NEW: [&str; 3] = ["/volumes", "/secrets", "/v3/templates"];
const UPLOAD: (&str, &str) = ("PUT", "/e2b/uploads/{grant}");

#[test]
fn every_operation_of_e2b_is_tried_with_what_is_anothers() {
    let tables =
        [OF_A_SANDBOX, OF_A_SNAPSHOT, OF_A_NAME, OF_A_TEMPLATE, OF_A_VOLUME, INSIDE, CODE_INTERPRETER];
    let tried = tables.into_iter().flatten().map(|(method, path, _, _)| format!("{method} {path}"));
    let lists = LISTS.iter().map(|path| format!("GET {path}"));
    let new = NEW.iter().map(|path| format!("POST {path}"));
    let upload = [format!("{} {}", UPLOAD.0, UPLOAD.1)];
    let tried: Vec<String> = tried.chain(lists).chain(new).chain(upload).collect();
    for route in ROUTES.lines() {
        assert!(tried.iter().any(|one| one == route), "{route} is in none of the tables here");
    }
    for one in &tried {
        assert!(ROUTES.lines().any(|route| route == one), "the dialect has no {one}");
    }
}

struct Client<'a> {
    server: &'a Server,
    key: String,
}

impl Client<'_> {
    async fn of<'a>(server: &'a Server, tenant: &str, role: &str) -> Client<'a> {
        Client { server, key: token(server, tenant, role).await }
    }

    async fn ask(&self, method: &str, target: &str, body: Option<&str>) -> Answer {
        self.server.ask_tcp(method, target, &format!("X-API-KEY: {}\r\n", self.key), body).await
    }

    /// The answer to a new thing, which has to be made.
    async fn make(&self, target: &str, body: &str) -> Answer {
        let made = self.ask("POST", target, Some(body)).await;
        assert!(made.status == 201 || made.status == 202, "{target}: {} {}", made.status, made.text());
        made
    }

    async fn sandbox(&self) -> (String, String) {
        let made = self.make("/v2/sandboxes", "{\"templateID\": \"base\"}").await;
        (word(&made, "sandboxID"), word(&made, "envdAccessToken"))
    }

    /// Holds that another tenant's `things` are answered about as those that are not there.
    async fn learns_nothing(&self, table: &[Tried], things: &[&str], nothing: &[&str]) {
        for (method, path, query, body) in table {
            let answered = async |things: &[&str]| {
                let target = format!("{}{query}", filled(path, things));
                let body = body.map(|body| filled(body, things));
                let answer = self.ask(method, &target, body.as_deref()).await;
                (answer.status, without(answer.text(), things))
            };
            let (foreign, none) = (answered(things).await, answered(nothing).await);
            assert_eq!((foreign.0, &foreign), (404, &none), "{method} {path} of {things:?}");
        }
    }
}

/// What stands in braces is the first of the things, and a build the second.
fn filled(text: &str, things: &[&str]) -> String {
    let hash = "0".repeat(64);
    let first = things[0];
    let second = *things.get(1).unwrap_or(&first);
    let names =
        [("{id}", first), ("{alias}", first), ("{*key}", first), ("{volume}", first), ("{build}", second)];
    names.iter().fold(text.replace("{hash}", &hash), |text, (name, thing)| text.replace(name, thing))
}

fn without(text: String, things: &[&str]) -> String {
    things.iter().fold(text, |text, thing| text.replace(thing, "THING"))
}

fn word(answer: &Answer, field: &str) -> String {
    answer.json()[field].as_str().expect("a text").to_string()
}

#[tokio::test]
async fn what_is_anothers_is_not_there_for_clients_of_e2b_either() {
    let server = Server::start(Default::default()).await;
    let mine = Client::of(&server, "mine", "user").await;
    let theirs = Client::of(&server, "theirs", "admin").await;
    let ((id, _), (own, key)) = (mine.sandbox().await, theirs.sandbox().await);
    let snapshot = word(&mine.make(&format!("/sandboxes/{id}/snapshots"), "{}").await, "snapshotID");
    theirs.learns_nothing(OF_A_SANDBOX, &[&id], &[NO_SANDBOX]).await;
    theirs.learns_nothing(OF_A_SNAPSHOT, &[&snapshot], &["sn-0000000000000000"]).await;
    let (name, none) = ("zebrafish-of-mine", "zebrafish-of-none");
    for kind in ["/volumes", "/secrets"] {
        mine.make(kind, &new(name)).await;
    }
    theirs.learns_nothing(OF_A_NAME, &[name], &[none]).await;
    for list in LISTS {
        let (shown, hidden) =
            (mine.ask("GET", list, None).await.text(), theirs.ask("GET", list, None).await.text());
        let things = [id.as_str(), &snapshot, name];
        assert!(things.iter().any(|thing| shown.contains(thing)), "{list} has what is mine: {shown}");
        assert!(!things.iter().any(|thing| hidden.contains(thing)), "{list}: {hidden}");
    }
    let of_one = format!("/snapshots?sandboxID={id}");
    assert_eq!(theirs.ask("GET", &of_one, None).await.json(), json!([]), "{of_one}");
    for kind in NEW {
        theirs.make(kind, &new(name)).await;
    }
    inside(&server, &id, (&own, &key)).await;
    assert_eq!(mine.ask("DELETE", &format!("/templates/{snapshot}"), None).await.status, 204);
    for (client, sandbox) in [(&mine, &id), (&theirs, &own)] {
        assert_eq!(client.ask("DELETE", &format!("/sandboxes/{sandbox}"), None).await.status, 204);
    }
}

fn new(name: &str) -> String {
    json!({ "name": name, "value": "long-enough" }).to_string()
}

/// Their token opens theirs, and says the same of mine as of none.
async fn inside(server: &Server, id: &str, (own, key): (&str, &str)) {
    let ask = async |id: &str, port: u16, (method, path, query, body): &Tried| {
        let headers = format!(
            "E2b-Sandbox-Id: {id}\r\nE2b-Sandbox-Port: {port}\r\nX-Access-Token: {key}\r\nE2B-Traffic-Access-Token: {key}\r\n"
        );
        let target = format!("{}{query}", filled(path, &["no-such"]));
        let answer = server.ask_tcp(method, &target, &headers, *body).await;
        (answer.status, without(answer.text(), &[id]))
    };
    let doors: [(u16, &[Tried]); 3] = [(49_983, INSIDE), (49_999, CODE_INTERPRETER), (80, A_PORT)];
    for (port, table) in doors {
        for tried in table {
            let (foreign, none) = (ask(id, port, tried).await, ask(NO_SANDBOX, port, tried).await);
            assert_eq!((foreign.0, &foreign), (401, &none), "{port} {tried:?}");
            // The control: at the door of their own sandbox it is an operation, however it is answered.
            let control = ask(own, port, tried).await;
            assert!(control.0 != 401 && control.0 != 501, "{port} {tried:?}: {control:?}");
        }
    }
    // A signature that was not made with a token of the sandbox that the request names.
    for (method, body) in [("GET", None), ("POST", Some("x"))] {
        let signed = async |id: &str| {
            let target = "/files?path=/etc/passwd&signature=v1_made-up";
            let answer = server.ask_tcp(method, target, &format!("E2b-Sandbox-Id: {id}\r\n"), body).await;
            (answer.status, without(answer.text(), &[id]))
        };
        let (foreign, none) = (signed(id).await, signed(NO_SANDBOX).await);
        assert_eq!((foreign.0, &foreign), (401, &none), "{method} of a signed address");
    }
}

/// Templates, their builds and tags, uploads for them, and the files of volumes.
#[tokio::test]
async fn what_others_built_and_kept_is_not_there_for_clients_of_e2b() {
    let server = Server::start(Default::default()).await;
    let mine = Client::of(&server, "mine", "user").await;
    let theirs = Client::of(&server, "theirs", "admin").await;
    let made = mine.make("/v3/templates", "{\"name\": \"zebrafish\"}").await;
    let (template, build) = (word(&made, "templateID"), word(&made, "buildID"));
    let roomy = |mb: u64| format!("{{\"name\": \"zebrafish:roomy\", \"minFreeDiskMb\": {mb}}}");
    mine.make("/v3/templates", &roomy(1)).await;
    let refused = mine.ask("POST", "/v3/templates", Some(&roomy(1 << 40))).await;
    assert!(refused.status == 400 && refused.text().contains("disk has free"), "{}", refused.text());
    let nothing = ["tp-0000000000000000", "00000000-0000-4000-8000-000000000000"];
    for name in [template.as_str(), "zebrafish"] {
        theirs.learns_nothing(OF_A_TEMPLATE, &[name, &build], &nothing).await;
    }
    // A build of theirs is none of the template's, whoever asks for it.
    let own = theirs.make("/v3/templates", "{\"name\": \"own\"}").await;
    let status = |template: &str, build: &str| format!("/templates/{template}/builds/{build}/status");
    let (own_template, own_build) = (word(&own, "templateID"), word(&own, "buildID"));
    assert_eq!(theirs.ask("GET", &status(&own_template, &own_build), None).await.status, 200);
    assert_eq!(theirs.ask("GET", &status(&own_template, &build), None).await.status, 404);
    assert_eq!(mine.ask("GET", &status(&template, &build), None).await.status, 200, "nothing was changed");
    volumes(&server, &mine, &theirs).await;
    // An address for uploads is of one tenant and one archive; what was altered in it opens nothing.
    let target = format!("/templates/{template}/files/{}", "0".repeat(64));
    let url = word(&mine.ask("GET", &target, None).await, "url");
    let grant = url.rsplit('/').next().expect("a grant");
    let altered = format!("{}{}", if grant.starts_with('A') { "B" } else { "A" }, &grant[1..]);
    for grant in [altered.as_str(), &theirs.key, "x"] {
        let answer = server.ask_tcp(UPLOAD.0, &UPLOAD.1.replace("{grant}", grant), "", Some("x")).await;
        assert_eq!(answer.status, 403, "{}", answer.text());
    }
    for (client, template) in [(&mine, &template), (&theirs, &own_template)] {
        assert_eq!(client.ask("DELETE", &format!("/templates/{template}"), None).await.status, 204);
    }
}

async fn volumes(server: &Server, mine: &Client<'_>, theirs: &Client<'_>) {
    let mut volumes = Vec::new();
    // The id of a volume is its name.
    for (client, body) in [(mine, "{\"name\": \"mine\"}"), (theirs, "{\"name\": \"theirs\"}")] {
        let made = client.make("/volumes", body).await;
        volumes.push((word(&made, "volumeID"), word(&made, "token")));
    }
    let (of_mine, of_theirs) = (&volumes[0], &volumes[1]);
    let content = async |token: &str, id: &str, (method, path, query, body): &Tried| {
        let header = format!("Authorization: Bearer {token}\r\n");
        let target = format!("{}{query}", filled(path, &[id]));
        let answer = server.ask_tcp(method, &target, &header, *body).await;
        (answer.status, without(answer.text(), &[id]))
    };
    let control = ("POST", "/volumecontent/{volume}/dir", "?path=/own", None);
    assert_eq!(content(&of_theirs.1, &of_theirs.0, &control).await.0, 201);
    for tried in OF_A_VOLUME {
        for token in [&of_theirs.1, &theirs.key] {
            let (foreign, none) = (
                content(token, &of_mine.0, tried).await,
                content(token, "vol-0000000000000000", tried).await,
            );
            assert_eq!((foreign.0, &foreign), (401, &none), "{tried:?}");
        }
    }
}

/// Where a proxy in front ends TLS, an upload goes through it too.
#[tokio::test]
async fn an_address_for_an_upload_has_the_scheme_by_which_the_client_called() {
    let server = Server::start(Default::default()).await;
    let client = Client::of(&server, "mine", "user").await;
    let template = word(&client.make("/v3/templates", "{\"name\": \"zebrafish\"}").await, "templateID");
    let target = format!("/templates/{template}/files/{}", "0".repeat(64));
    for (header, scheme) in [("", "http://"), ("X-Forwarded-Proto: https\r\n", "https://")] {
        let headers = format!("X-API-KEY: {}\r\n{header}", client.key);
        let url = word(&server.ask_tcp("GET", &target, &headers, None).await, "url");
        assert!(url.starts_with(scheme), "{url}");
    }
    assert_eq!(client.ask("DELETE", &format!("/templates/{template}"), None).await.status, 204);
}

/// A list has a sandbox under the same template as the sandbox's own view, whoever made it.
#[tokio::test]
async fn a_list_of_a_template_has_the_sandboxes_that_are_shown_under_it() {
    let server = Server::start(Default::default()).await;
    let client = Client::of(&server, "mine", "user").await;
    let authorized = format!("Authorization: Bearer {}\r\n", client.key);
    let plain = server.ask_tcp("POST", "/v1/sandboxes", &authorized, Some("{}")).await;
    let plain = word(&plain, "id");
    let (of_e2b, _) = client.sandbox().await;
    let snapshot = word(&client.make(&format!("/sandboxes/{plain}/snapshots"), "{}").await, "snapshotID");
    let from_snapshot = client.make("/v2/sandboxes", &format!("{{\"templateID\": \"{snapshot}\"}}")).await;
    let from_snapshot = word(&from_snapshot, "sandboxID");
    for (template, expected) in
        [("base", vec![&plain, &of_e2b]), (snapshot.as_str(), vec![&from_snapshot]), ("other", vec![])]
    {
        let listed = client.ask("GET", &format!("/v2/sandboxes?template={template}"), None).await.json();
        let listed = listed.as_array().expect("a list");
        let mut ids: Vec<&str> = listed.iter().filter_map(|one| one["sandboxID"].as_str()).collect();
        let mut expected: Vec<&str> = expected.into_iter().map(String::as_str).collect();
        ids.sort_unstable();
        expected.sort_unstable();
        assert_eq!(ids, expected, "{template}");
        assert!(listed.iter().all(|one| one["templateID"] == template), "{listed:?}");
    }
    for sandbox in [&plain, &of_e2b, &from_snapshot] {
        assert_eq!(client.ask("DELETE", &format!("/sandboxes/{sandbox}"), None).await.status, 204);
    }
}

/// One that is paused waits for a month, and is not one that runs for a month.
#[tokio::test]
async fn the_month_of_a_pause_ends_with_the_pause() {
    let server = Server::start(Default::default()).await;
    let client = Client::of(&server, "mine", "user").await;
    let (id, _) = client.sandbox().await;
    let left = async || {
        let found = server.ask("GET", &format!("/v1/sandboxes/{id}"), None).await.json();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        found["expires_at_ms"].as_u64().expect("a time").saturating_sub(now.as_millis() as u64) / 1000
    };
    for (body, verb) in [("{}", "resume"), ("{\"memory\": false}", "wake")] {
        let paused = client.ask("POST", &format!("/sandboxes/{id}/pause"), Some(body)).await;
        assert_eq!(paused.status, 204, "{}", paused.text());
        assert!(left().await > 29 * 86_400);
        let awake = server.ask("POST", &format!("/v1/sandboxes/{id}/{verb}"), None).await;
        assert_eq!(awake.status, 200, "{}", awake.text());
        assert!(left().await <= 300);
    }
    let paused = client.ask("POST", &format!("/sandboxes/{id}/pause"), Some("{}")).await;
    assert_eq!(paused.status, 204, "{}", paused.text());
    let connected =
        client.ask("POST", &format!("/v2/sandboxes/{id}/connect"), Some("{\"timeout\": 60}")).await;
    assert_eq!(connected.status, 201, "{}", connected.text());
    assert!(left().await <= 60);
    assert_eq!(client.ask("DELETE", &format!("/sandboxes/{id}"), None).await.status, 204);
}
