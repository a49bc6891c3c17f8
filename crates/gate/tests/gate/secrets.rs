//! Secrets: placeholders inside, values at the hosts that they are bound to, and nowhere else.

use crate::place::{Inside, callers, rules};
use crate::servers::http;
use paddock_gate::{Authority, Carriers, Secret, Secrets};
use paddock_model::net::{Denial, DomainName, NetLayer, NetOutcome, Rule, Way};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

const PLACE: &str = "paddock-secret-0123456789abcdef";
const VALUE: &str = "sk-the-real-one";

/// Turns the answer, so that no mask knows it.
fn rot13(text: &str) -> String {
    let turn = |byte: u8, first: u8| (byte - first + 13) % 26 + first;
    let one = |byte: u8| match byte {
        b'a'..=b'z' => turn(byte, b'a'),
        b'A'..=b'Z' => turn(byte, b'A'),
        byte => byte,
    };
    text.bytes().map(|byte| one(byte) as char).collect()
}

/// All that a plain echo could make of a request.
fn plainly(head: &str) -> String {
    use base64::Engine as _;
    let value = head.lines().find_map(|line| line.strip_prefix("Authorization: Bearer ")).unwrap_or_default();
    let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
    let all: String = value.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let encoded = base64::engine::general_purpose::STANDARD.encode(format!("Bearer {value}"));
    let reversed: String = head.chars().rev().collect();
    format!("{head}\n{reversed}\n{hex}\n{all}\n{encoded}\n{}", head.to_uppercase())
}

/// Repeats the head of each request, turned, under names that it has a certificate for; `/plain` as it is, in a header too.
async fn echo(authority: &Authority, name: &str) -> SocketAddr {
    let acceptor = TlsAcceptor::from(authority.server(&DomainName::parse(name).unwrap()).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut client = acceptor.accept(client).await?;
                let mut seen = Vec::new();
                loop {
                    let mut space = [0; 4096];
                    let count = client.read(&mut space).await?;
                    if count == 0 {
                        return Ok::<_, std::io::Error>(());
                    }
                    seen.extend_from_slice(&space[..count]);
                    if seen.ends_with(b"\r\n\r\n") {
                        let text = String::from_utf8_lossy(&seen).into_owned();
                        let (body, more) = match text.contains(" /plain ") {
                            true => {
                                let line =
                                    text.lines().find(|line| line.starts_with("Authorization")).unwrap_or("");
                                (plainly(&text), format!("X-Seen: {line}\r\nX-{VALUE}: 1\r\n"))
                            }
                            false => (rot13(&text), String::new()),
                        };
                        let head =
                            format!("HTTP/1.1 200 {VALUE}\r\nContent-Length: {}\r\n{more}\r\n", body.len());
                        client.write_all(head.as_bytes()).await?;
                        client.write_all(body.as_bytes()).await?;
                        seen.clear();
                    }
                }
            });
        }
    });
    address
}

struct World {
    bound: SocketAddr,
    other: SocketAddr,
    secrets: Arc<Secrets>,
    /// The authorities of the sandbox, and of the outside: a client that believes only one of them shows which side
    /// ended TLS.
    own: tempfile::NamedTempFile,
    outside: tempfile::NamedTempFile,
    /// The key of the first, and the certificate of the second.
    key: String,
    roots: Vec<CertificateDer<'static>>,
}

impl World {
    /// The same gate with another secret: `x-own` is set to the value. `None`: it has no secret any more.
    fn changed(&self, value: Option<&str>) -> Secrets {
        let secret = |value: &str| Secret {
            name: "RULE".into(),
            placeholder: PLACE.into(),
            value: value.to_string().into(),
            hosts: vec![Rule::parse(&format!("api.test:{}", self.bound.port())).unwrap()],
            carriers: Carriers::default(),
            inject: vec![("x-own".parse().unwrap(), "own {}".to_string())],
        };
        let authority = Authority::from_key_pem(&self.key).unwrap();
        Secrets::new(value.map(secret).into_iter().collect(), authority, self.roots.clone()).unwrap()
    }
}

fn readable(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    std::fs::set_permissions(file.path(), std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    file
}

/// `api.test` has the secret, `other.test` has not; both have certificates of an authority that this host does not
/// know.
async fn world() -> World {
    let outside = Authority::new().unwrap();
    let (bound, other) = (echo(&outside, "api.test").await, echo(&outside, "other.test").await);
    let authority = Authority::new().unwrap();
    let own = readable(authority.pem());
    let secret = Secret {
        name: "KEY".into(),
        placeholder: PLACE.into(),
        value: VALUE.to_string().into(),
        hosts: vec![Rule::parse(&format!("api.test:{}", bound.port())).unwrap()],
        carriers: Carriers::default(),
        inject: Vec::new(),
    };
    let roots = vec![CertificateDer::from_pem_slice(outside.pem().as_bytes()).unwrap()];
    let key = authority.key_pem().to_string();
    let secrets = Arc::new(Secrets::new(vec![secret], authority, roots.clone()).unwrap());
    World { bound, other, secrets, own, outside: readable(outside.pem()), key, roots }
}

fn allowed(world: &World, clear: u16) -> Vec<String> {
    let (bound, other) = (world.bound.port(), world.other.port());
    vec![
        format!("api.test:{bound}"),
        format!("other.test:{other},{clear}"),
        format!("127.0.0.1:{bound},{other},{clear}"),
    ]
}

const TABLE: [(&str, &str); 2] = [("api.test", "127.0.0.1"), ("other.test", "127.0.0.1")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_value_reaches_the_bound_host_by_every_way_and_nobody_else() {
    let clear = http().await.port();
    for caller in callers() {
        let world = world().await;
        let texts = allowed(&world, clear);
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let inside = Inside::with_secrets(caller, rules(&texts), &TABLE, world.secrets.clone());
        let curl = format!("curl -sS --max-time 30 --cacert {}", world.own.path().display());
        let api = format!("https://api.test:{}/x", world.bound.port());
        for options in ["", "-x http://127.0.0.1:3128", "-x socks5h://127.0.0.1:3128"] {
            let said = inside.run(&format!("{curl} {options} -H 'X-Api-Key: {PLACE}' {api}")).await;
            let out = rot13(&said.out).to_lowercase();
            let put = out.contains(&format!("x-api-key: {VALUE}")) && !out.contains(PLACE);
            assert!(put, "{options}: {said:?}");
        }
        // Basic, and many requests on one connection.
        let said = inside.run(&format!("{curl} -u user:{PLACE} {api} {api}")).await;
        let out = rot13(&said.out);
        let encoded: Vec<&str> =
            out.lines().filter_map(|line| line.split_once("Basic ")).map(|(_, text)| text.trim()).collect();
        assert_eq!(encoded.len(), 2, "{said:?}");
        let said = inside.run(&format!("echo {} | base64 -d", encoded[1])).await;
        assert_eq!(said.out, format!("user:{VALUE}"));
        // The name inside TLS is the bound one too: a front would pass the value on to another host of its own.
        let other = format!("-H 'Host: other.test:{}'", world.other.port());
        let said = inside.run(&format!("{curl} {other} -H 'X-Api-Key: {PLACE}' {api}")).await;
        assert!(said.out.contains("the request is for other.test") && !said.out.contains(VALUE), "{said:?}");
        // Connections to other hosts stay end to end: the placeholder goes through, and the value does not.
        let curl = format!("curl -sS --max-time 30 --cacert {}", world.outside.path().display());
        let other = format!("https://other.test:{}/x", world.other.port());
        let said = inside.run(&format!("{curl} -H 'X-Api-Key: {PLACE}' {other}")).await;
        let out = rot13(&said.out);
        assert!(out.contains(PLACE) && !out.contains(VALUE), "{said:?}");
        // A client that does not believe the sandbox's authority gets no answer in the bound host's name.
        assert_eq!(inside.run(&format!("{curl} {api}")).await.code, 60);
    }
}

/// Three requests on one connection, each when the test says so, and one on a new connection.
const ON_ONE_CONNECTION: &str = "
import http.client, os, ssl, sys, time
place, certificates, port = sys.argv[1:]

def connect():
    context = ssl.create_default_context(cafile=certificates)
    connection = http.client.HTTPSConnection('api.test', int(port), timeout=30, context=context)
    connection.connect()
    connection.auto_open = 0
    return connection

def ask(open_connection):
    try:
        connection = open_connection()
        connection.request('GET', '/x')
        return connection.getresponse().read().decode().lower()
    except Exception as error:
        return type(error).__name__

kept = connect()
for step in '123':
    print('|' + ask(lambda: kept), flush=True)
    open(f'{place}/said-{step}', 'w').close()
    while not os.path.exists(f'{place}/go-{step}'):
        time.sleep(0.005)
print('|' + ask(connect), flush=True)
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_header_of_the_gate_changes_and_ends_on_an_open_connection() {
    for caller in callers() {
        let world = world().await;
        let texts = allowed(&world, 1);
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let secrets = Arc::new(world.changed(Some(VALUE)));
        let mut inside = Inside::with_secrets(caller, rules(&texts), &TABLE, secrets);
        let place = tempfile::tempdir().unwrap();
        std::fs::set_permissions(place.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        let program = readable(ON_ONE_CONNECTION);
        let [program, own] = [program.path(), world.own.path()].map(|path| path.display().to_string());
        let line = format!("python3 {program} {} {own} {}", place.path().display(), world.bound.port());
        let changes = async {
            for (step, value) in [(1, Some("sk-the-second-one")), (2, None), (3, None)] {
                while !place.path().join(format!("said-{step}")).exists() {
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                }
                let mask = inside.gate().update_secrets(world.changed(value));
                assert!(mask.apply(&mut VALUE.as_bytes().to_vec()), "a value that is gone is masked on");
                std::fs::write(place.path().join(format!("go-{step}")), "").unwrap();
            }
        };
        let run = inside.run(&line);
        let said = tokio::select! {
            // It waits for the changes, so that it ends before them only by a mistake.
            said = run => said,
            said = async { changes.await; std::future::pending().await } => said,
        };
        let answers: Vec<String> = said.out.split('|').skip(1).map(rot13).collect();
        assert_eq!(answers.len(), 4, "{said:?}");
        assert!(answers[0].contains(&format!("x-own: own {VALUE}")), "{answers:?}");
        assert!(
            answers[1].contains("x-own: own sk-the-second-one") && !answers[1].contains(VALUE),
            "{answers:?}"
        );
        // The gate has no business in that host's TLS any more: the connection is cut, and the next is end to end.
        assert!(!answers[2].contains("x-own"), "{answers:?}");
        assert!(rot13(&answers[3]).contains("SSLCertVerificationError"), "{answers:?}");
        inside
            .event(|event| matches!(&event.outcome, NetOutcome::Closed { why: Some(Denial::Changed), .. }))
            .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_for_a_host_cuts_its_connections_that_the_gate_cannot_see() {
    for caller in callers() {
        let world = world().await;
        let texts = allowed(&world, 1);
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let mut inside = Inside::with_secrets(caller, rules(&texts), &TABLE, Arc::default());
        let place = tempfile::tempdir().unwrap();
        std::fs::set_permissions(place.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        let certificates =
            [&world.own, &world.outside].map(|file| std::fs::read_to_string(file.path()).unwrap());
        let (program, both) = (readable(ON_ONE_CONNECTION), readable(&certificates.concat()));
        let [program, both] = [program.path(), both.path()].map(|path| path.display().to_string());
        let line = format!("python3 {program} {} {both} {}", place.path().display(), world.bound.port());
        let changes = async {
            for step in 1..=3 {
                while !place.path().join(format!("said-{step}")).exists() {
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                }
                inside.gate().update_secrets(world.changed(Some(VALUE)));
                std::fs::write(place.path().join(format!("go-{step}")), "").unwrap();
            }
        };
        let said = tokio::select! {
            said = inside.run(&line) => said,
            said = async { changes.await; std::future::pending().await } => said,
        };
        let answers: Vec<String> = said.out.split('|').skip(1).map(rot13).collect();
        assert_eq!(answers.len(), 4, "{said:?}");
        assert!(answers[0].contains("host: api.test") && !answers[0].contains("x-own"), "{answers:?}");
        assert!(!answers[1].contains("host: api.test"), "{answers:?}");
        assert!(answers[3].contains(&format!("x-own: own {VALUE}")), "{answers:?}");
        inside
            .event(|event| matches!(&event.outcome, NetOutcome::Closed { why: Some(Denial::Changed), .. }))
            .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_the_host_repeats_does_not_come_back() {
    for caller in callers() {
        let world = world().await;
        let texts = allowed(&world, 1);
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let mut inside = Inside::with_secrets(caller, rules(&texts), &TABLE, world.secrets.clone());
        let curl = format!("curl -sS -i --max-time 30 --cacert {}", world.own.path().display());
        let api = format!("https://api.test:{}/plain", world.bound.port());
        let said = inside.run(&format!("{curl} -H 'Authorization: Bearer {PLACE}' {api} {api}")).await;
        let out = said.out.to_lowercase();
        let reversed: String = VALUE.chars().rev().collect();
        let hex: String = VALUE.bytes().map(|byte| format!("{byte:02x}")).collect();
        let all: String = VALUE.bytes().map(|byte| format!("%{byte:02x}")).collect();
        for form in [VALUE, &reversed, &hex, &all] {
            assert!(!out.contains(form), "{form}: {said:?}");
        }
        // The middle of it in base64.
        assert!(
            !said.out.contains("c2stdGhlLXJlYWwtb25") && !said.out.contains("NrLXRoZS1yZWFsLW9u"),
            "{said:?}"
        );
        let stars = "*".repeat(VALUE.len());
        assert_eq!(out.matches(&format!("x-seen: authorization: bearer {stars}")).count(), 2, "{said:?}");
        // Headers that hosts repeat carry no value, and the refusal says how to have it otherwise.
        for header in ["Origin", "X-Request-Id"] {
            let said = inside.run(&format!("{curl} -H '{header}: {PLACE}' {api}")).await;
            let lower = header.to_lowercase();
            assert!(said.out.contains(&format!("secret KEY is not put into header {lower}")), "{said:?}");
            assert!(said.out.contains(&format!("--secret-header KEY:{lower}")), "{said:?}");
        }
        inside.event(|event| matches!(&event.outcome, NetOutcome::Denied(Denial::SecretHeader { .. }))).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_placeholder_in_the_clear_is_refused() {
    let clear = http().await.port();
    for caller in callers() {
        let world = world().await;
        let texts = allowed(&world, clear);
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let mut inside = Inside::with_secrets(caller, rules(&texts), &TABLE, world.secrets.clone());
        let url = format!("http://other.test:{clear}/x");
        // The control: without it the same requests pass.
        let said = inside.run(&format!("curl -sS {url}")).await;
        assert!(said.out.starts_with("hello"), "{said:?}");
        for (options, way) in [
            ("", Way::Connect),
            ("-x http://127.0.0.1:3128", Way::Http),
            ("-p -x http://127.0.0.1:3128", Way::Tunnel),
            ("-x socks5h://127.0.0.1:3128", Way::Socks),
        ] {
            let carried = [
                format!("-H 'X-Api-Key: {PLACE}' {url}"),
                format!("{url}?key={PLACE}"),
                format!("--data-binary 'a={PLACE}' {url}"),
            ];
            for carried in carried {
                let said = inside.run(&format!("curl -sS --max-time 30 {options} {carried}")).await;
                assert!(!said.out.contains("hello"), "{options} {carried}: {said:?}");
            }
            let denied = inside
                .event(|event| event.way == way && matches!(event.outcome, NetOutcome::Denied(_)))
                .await;
            assert_eq!(denied.outcome, NetOutcome::Denied(Denial::Placeholder("KEY".into())), "{options}");
        }
        let said = inside.run_with_proxy(&format!("curl -sS '{url}?key={PLACE}'")).await;
        assert!(said.out.contains("secret KEY is not for this host"), "{said:?}");
    }
}

/// On the port of the binding, on a clear one that a rule allows, and on port 80, which no rule allows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_over_plain_http_says_that_it_wants_tls() {
    const WORDS: &str = "secret KEY is put into requests over TLS only; use https:// in place of http://";
    let clear = http().await.port();
    for caller in callers() {
        let world = world().await;
        let mut texts = allowed(&world, clear);
        texts.push(format!("api.test:{clear}"));
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let mut inside = Inside::with_secrets(caller, rules(&texts), &TABLE, world.secrets.clone());
        let urls = [("80", ""), (&*world.bound.port().to_string(), ""), (&*clear.to_string(), "hello")]
            .map(|(port, answer)| (format!("http://api.test:{port}/x"), answer.to_string()));
        for (way, options) in [
            (Way::Connect, ""),
            (Way::Http, "-x http://127.0.0.1:3128"),
            (Way::Tunnel, "-p -x http://127.0.0.1:3128"),
        ] {
            for (url, answer) in &urls {
                if way == Way::Tunnel && url.contains(":80/") {
                    // The proxy refuses the tunnel before it sees the request.
                    continue;
                }
                for carried in [format!("-H 'X-Api-Key: {PLACE}'"), format!("-d a=1 -u user:{PLACE}")] {
                    let line =
                        format!("curl -sS --max-time 30 -w ' %{{http_code}}' {options} {carried} {url}");
                    let said = inside.run(&line).await;
                    assert!(said.out.contains(WORDS) && said.out.ends_with(" 403"), "{line}: {said:?}");
                }
                let denied = inside
                    .event(|event| {
                        event.way == way
                            && matches!(&event.outcome, NetOutcome::Denied(Denial::ClearSecret(name)) if name == "KEY")
                    })
                    .await;
                assert_eq!(denied.advice().unwrap(), "use https:// in place of http://");
                // The control: a host that takes requests in the clear gets those without a secret.
                let said = inside.run(&format!("curl -sS --max-time 30 {options} {url}")).await;
                assert!(said.out.contains(answer), "{url}: {said:?}");
            }
        }
        // A body goes nowhere either, and the answer says why.
        let (url, _) = &urls[2];
        let line = format!("curl -sS --max-time 30 -x http://127.0.0.1:3128 --data-binary 'a={PLACE}' {url}");
        let said = inside.run(&line).await;
        assert!(said.out.contains(WORDS), "{said:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_is_not_itself_gets_nothing() {
    for caller in callers() {
        let world = world().await;
        // The server at the bound name's address has a certificate for another name.
        let impostor = world.other.port();
        let secret = Secret {
            name: "KEY".into(),
            placeholder: PLACE.into(),
            value: VALUE.to_string().into(),
            hosts: vec![Rule::parse(&format!("api.test:{impostor}")).unwrap()],
            carriers: Carriers::default(),
            inject: Vec::new(),
        };
        let secrets = Arc::new(Secrets::new(vec![secret], Authority::new().unwrap(), Vec::new()).unwrap());
        let texts = [format!("api.test:{impostor}"), format!("127.0.0.1:{impostor}")];
        let mut inside = Inside::with_secrets(caller, rules(&[&texts[0], &texts[1]]), &TABLE, secrets);
        let line = format!("curl -sS -k --max-time 30 -H 'X-Api-Key: {PLACE}' https://api.test:{impostor}/");
        let said = inside.run(&line).await;
        assert!(
            said.out.contains("its certificate is not accepted") && !said.out.contains(VALUE),
            "{said:?}"
        );
        let denied = inside.event(|event| matches!(event.outcome, NetOutcome::Denied(_))).await;
        let NetOutcome::Denied(Denial::Certificate(why)) = &denied.outcome else { panic!("{denied:?}") };
        assert!(why.contains("UnknownIssuer"), "{why}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn methods_hold_where_tls_is_ended() {
    for caller in callers() {
        let world = world().await;
        let port = world.bound.port();
        let layer = NetLayer {
            allow: vec![format!("api.test:{port}"), format!("127.0.0.1:{port}")],
            methods: vec!["GET".into()],
            ..NetLayer::default()
        };
        let rules = layer.resolve(&|_| None, &|_| true).unwrap();
        let inside = Inside::with_secrets(caller, rules, &TABLE, world.secrets.clone());
        let curl = format!("curl -sS --max-time 30 --cacert {}", world.own.path().display());
        let said = inside.run(&format!("{curl} -H 'X-Api-Key: {PLACE}' https://api.test:{port}/")).await;
        assert!(rot13(&said.out).contains(VALUE), "{said:?}");
        let said = inside.run(&format!("{curl} -X DELETE https://api.test:{port}/")).await;
        assert!(said.out.contains("method DELETE is not allowed"), "{said:?}");
    }
}
