//! Tests of the engine's zygote with Python's runner, which is in this crate.

use super::Language;
use paddock_backends::InterpreterStart;
use paddock_engine::{Engine, ExecEvent, Zygote};
use std::sync::Arc;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interpreter_is_forked_into_sandboxes() {
    if !rustix::process::geteuid().is_root() {
        return println!("SKIP zygotes: sandboxes share an id without root");
    }
    let state = tempfile::tempdir().unwrap();
    let engine = Arc::new(Engine::new(state.path()));
    let layers = [paddock_model::Policy::default()];
    let surroundings = paddock_settings::Surroundings {
        state_dir: state.path(),
        home: None,
        backends: paddock_backends::all,
    };
    let spec = paddock_settings::resolve(&layers, surroundings).unwrap().spec;
    let start = InterpreterStart { env: paddock_settings::default_environment(), cwd: "/workspace".into() };
    let python = Language::named(None).unwrap();
    let sources = python.zygote(&["colorsys".to_string()]).unwrap();
    let zygote = Zygote::start(&engine, None, &spec, sources, &start).await.unwrap();
    let zygote = Arc::new(zygote);
    for _ in 0..2 {
        let id = paddock_engine::new_id().unwrap();
        let forked = zygote.fork(&engine, id, &spec, &start, 1).await.unwrap();
        let (sandbox, mut exec) = (forked.sandbox, forked.exec);
        let code = "import os, sys; print(os.getppid(), 'colorsys' in sys.modules, os.getcwd(), os.getuid())";
        let frame = format!("run 2\ncall 1\nx\ncode {}\n{code}\n", code.len());
        assert!(exec.input().write(frame.as_bytes()).await);
        let mut said = String::new();
        while !said.contains("done 2") {
            match tokio::time::timeout(Duration::from_secs(20), exec.next()).await.unwrap() {
                ExecEvent::Output { bytes, .. } => said.push_str(&String::from_utf8_lossy(&bytes)),
                other => panic!("{other:?} after {said}"),
            }
        }
        assert!(said.contains("1 True /workspace 1000\n"), "{said}");
        tokio::task::spawn_blocking(move || sandbox.end(None).map(drop)).await.unwrap().unwrap();
    }
    tokio::task::spawn_blocking(move || zygote.destroy()).await.unwrap();
}
