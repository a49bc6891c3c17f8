//! The outside world of the tests: an HTTPS server on this host's loopback with a package index, a registry and a git
//! repository, all as plain files, under names that only the caller's own table knows.

use crate::{Caller, PATIENCE, until};
use anyhow::{Context, Result, ensure};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Serves a directory by TLS and, on the port after it, in the clear.
const SERVER: &str = "\
import base64, functools, http.server, ssl, sys, threading, urllib.parse
class Quiet(http.server.SimpleHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def log_message(self, *a): pass
    def do_GET(self):
        # The Authorization header comes back: as it is, in plain encodings, or in a form that no mask knows.
        key = self.headers.get('Authorization', '').encode()
        forms = [key, key[::-1], base64.b64encode(key), key.hex().encode(), urllib.parse.quote(key, safe='').encode()]
        said = {'/echo': key, '/forms': b' '.join(forms), '/spelled': b'.'.join(bytes([b]) for b in key)}.get(self.path)
        if said is None: return super().do_GET()
        self.send_response(200); self.send_header('Content-Length', str(len(said) + 1))
        self.send_header('X-Seen', key.decode()); self.end_headers()
        self.wfile.write(said + b'\\n')
    def do_POST(self):
        self.rfile.read(int(self.headers.get('Content-Length', 0)))
        self.send_response(200); self.send_header('Content-Length', '7'); self.end_headers()
        self.wfile.write(b'posted\\n')
handler = functools.partial(Quiet, directory=sys.argv[1])
servers = [http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler) for _ in range(2)]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[2] + '/certificate', sys.argv[2] + '/key')
servers[0].socket = context.wrap_socket(servers[0].socket, server_side=True)
print(*(server.server_address[1] for server in servers), flush=True)
threading.Thread(target=servers[1].serve_forever, daemon=True).start()
servers[0].serve_forever()";

/// Makes the served files, in the current directory.
const CONTENT: &str = "\
set -e
mkdir -p certs www && cd www
new='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'
openssl req -x509 $new -days 2 -subj /CN=outside -keyout ../certs/authority -out ca.pem 2>/dev/null
openssl req $new -subj /CN=web.test -keyout ../certs/key -out ../certs/request 2>/dev/null
echo subjectAltName=DNS:web.test,DNS:pypi.test,DNS:npm.test,DNS:git.test,DNS:deb.test,DNS:other.test,DNS:evil.test,DNS:localhost > ../certs/names
openssl x509 -req -in ../certs/request -CA ca.pem -CAkey ../certs/authority -CAcreateserial -days 2 \
    -extfile ../certs/names -out ../certs/certificate 2>/dev/null
echo hello > hello
mkdir -p simple/paddocktest
python3 - <<'P'
import zipfile
w = zipfile.ZipFile('simple/paddocktest/paddocktest-1.0-py3-none-any.whl', 'w')
w.writestr('paddocktest.py', 'value = 42\\n')
w.writestr('paddocktest-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: paddocktest\\nVersion: 1.0\\n')
w.writestr('paddocktest-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
w.writestr('paddocktest-1.0.dist-info/RECORD', 'paddocktest.py,,\\n')
w.close()
P
echo '<a href=\"paddocktest-1.0-py3-none-any.whl\">x</a>' > simple/paddocktest/index.html
mkdir -p package && echo '{\"name\":\"paddocktest\",\"version\":\"1.0.0\",\"main\":\"index.js\"}' > package/package.json
echo 'module.exports = 42' > package/index.js && tar czf paddocktest-1.0.0.tgz package
mkdir -p deb/d/DEBIAN && printf 'Package: paddocktest\nVersion: 1.0\nArchitecture: all\nMaintainer: a <a@b.test>\nDescription: x\n' > deb/d/DEBIAN/control
dpkg-deb -b deb/d deb/paddocktest.deb > /dev/null
(cat deb/d/DEBIAN/control; echo Filename: ./paddocktest.deb; echo Size: $(stat -c %s deb/paddocktest.deb)
 echo SHA256: $(sha256sum < deb/paddocktest.deb | head -c 64)) > deb/Packages
git init -q repo && cd repo && echo content > file && git add file
git -c user.name=a -c user.email=a@b commit -qm one && git update-server-info";

pub struct Outside {
    pub tls: u16,
    pub clear: u16,
    server: Child,
    /// For programs that are to trust it.
    pub certificate: String,
}

impl Outside {
    pub fn start(caller: &Caller) -> Result<Outside> {
        let place = caller.directory("outside")?;
        let made = caller.shell(&place, CONTENT)?;
        made.success().context("making what is served")?;
        let www = place.join("www");
        let mut server = Command::new("python3")
            .args(["-c", SERVER])
            .arg(&www)
            .arg(place.join("certs"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut line = String::new();
        let stdout = server.stdout.take().context("its output")?;
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line)?;
        let ports: Vec<u16> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        ensure!(ports.len() == 2, "the server outside does not start: {line}");
        let certificate = std::fs::read_to_string(www.join("ca.pem"))?;
        let outside = Outside { tls: ports[0], clear: ports[1], server, certificate };
        let up = || TcpStream::connect(("127.0.0.1", outside.tls)).ok();
        until(PATIENCE, "the server outside", up)?;
        outside.register(caller, &www)?;
        Ok(outside)
    }

    /// The caller's table of names, and the registry's page, which names its own port.
    fn register(&self, caller: &Caller, www: &Path) -> Result<()> {
        let names = "127.0.0.1 web.test pypi.test npm.test git.test deb.test other.test\n::1 evil.test\n";
        let directory = caller.state().join("net");
        std::fs::create_dir_all(&directory)?;
        std::fs::write(directory.join("hosts"), names)?;
        std::fs::write(directory.join("roots.pem"), &self.certificate)?;
        caller.own_all(&caller.state())?;
        let tarball = format!("https://npm.test:{}/paddocktest-1.0.0.tgz", self.tls);
        let page = serde_json::json!({
            "name": "paddocktest", "dist-tags": { "latest": "1.0.0" },
            "versions": { "1.0.0": { "name": "paddocktest", "version": "1.0.0", "dist": { "tarball": tarball } } },
        });
        std::fs::write(www.join("paddocktest"), page.to_string())?;
        Ok(())
    }

    /// Rules for a name on both ports, and for the address behind it: it is this host's own.
    pub fn rules(&self, names: &[&str]) -> Vec<String> {
        let ports = format!("{},{}", self.tls, self.clear);
        let named = names.iter().map(|name| format!("--allow-net={name}:{ports}"));
        named.chain([format!("--allow-net=127.0.0.1:{ports}")]).collect()
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
