//! How fast it is, for a look: `cargo test -p paddock-gate --release -- --ignored speed --nocapture`. Nothing is decided here.

use crate::place::{Inside, callers, rules};
use crate::servers::http;
use std::time::Instant;

const BYTES: usize = 1 << 30;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures, and decides nothing"]
async fn speed() {
    let web = http().await;
    let port = web.port();
    let allow = [format!("web.test:{port}"), format!("127.0.0.1:{port}")];
    let zeros = tempfile::NamedTempFile::new().unwrap();
    zeros.as_file().set_len(BYTES as u64).unwrap();
    std::fs::set_permissions(zeros.path(), std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    for caller in callers() {
        let inside = Inside::start(caller, rules(&[&allow[0], &allow[1]]), &[("web.test", "127.0.0.1")]);
        for (way, options) in [
            ("connect", ""),
            ("proxy", "-x http://127.0.0.1:3128"),
            ("tunnel", "-p -x http://127.0.0.1:3128"),
        ] {
            let start = Instant::now();
            let said = inside
                .run(&format!("curl -sS {options} -o /dev/null -w '%{{size_download}}' http://web.test:{port}/zeros/{BYTES}"))
                .await;
            assert_eq!(said.out, BYTES.to_string(), "{said:?}");
            println!("{way} down: {:.0} MiB/s", (BYTES >> 20) as f64 / start.elapsed().as_secs_f64());
            let start = Instant::now();
            let said = inside
                .run(&format!(
                    "curl -sS -f {options} -H 'Expect:' -T {} -o /dev/null http://web.test:{port}/sink",
                    zeros.path().display()
                ))
                .await;
            assert_eq!(said.code, 0, "{said:?}");
            println!("{way} up: {:.0} MiB/s", (BYTES >> 20) as f64 / start.elapsed().as_secs_f64());
        }
        let script = format!(
            "import socket, time
address = socket.gethostbyname('web.test')
for name, place in (('connect', (address, {port})), ('socks', None)):
    start = time.time()
    for i in range(3000):
        if place: s = socket.create_connection(place)
        else:
            s = socket.create_connection(('127.0.0.1', 3128))
            s.sendall(b'\\x05\\x01\\x00\\x05\\x01\\x00\\x03\\x08web.test' + ({port}).to_bytes(2, 'big'))
            got = 0
            while got < 12: got += len(s.recv(12 - got))
        s.sendall(b'GET / HTTP/1.1\\r\\n\\r\\n')
        s.recv(1000)
        s.close()
    print(name, round(3000 / (time.time() - start)), 'requests on connections of their own a second')"
        );
        let said = inside.run(&format!("python3 -c \"{script}\"")).await;
        println!("{}{}", said.out, said.err);
    }
}
