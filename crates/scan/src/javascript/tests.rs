//! Snippets and their findings, as `line:column kind text`.

use crate::ScanInput;

use crate::scan;

fn found_in(language: &str, code: &str, allowed: Option<&[&str]>) -> Vec<String> {
    let allowed_imports = allowed.map(|names| names.iter().map(|name| name.to_string()).collect());
    let input = ScanInput { language: language.into(), allowed_imports, ..ScanInput::default() };
    let report = scan(&input, code.as_bytes());
    let line = |f: &paddock_model::Finding| format!("{}:{} {} {}", f.line, f.column, f.kind.name(), f.text);
    report.findings.iter().map(line).collect()
}

/// Both languages must have the same findings.
fn check(table: &[(&str, &[&str])]) {
    for (code, expected) in table {
        for language in ["javascript", "typescript"] {
            assert_eq!(found_in(language, code, None), *expected, "{language}: {code}");
        }
    }
}

#[test]
fn code_that_only_works_is_left_alone() {
    check(&[
        ("", &[]),
        (
            "const fs = require('fs'); fs.readFileSync('data.txt'); fs.writeFileSync('/tmp/x', '/etc is text')",
            &[],
        ),
        ("import { readFile } from 'node:fs/promises'; await readFile(`/workspace/${x}`)", &[]),
        ("import path from 'path'; console.log(path.join('a', '..'))", &[]),
        ("const x = { eval: 1, net: 2 }; x.eval; x.fetch(); f.constructor; new this.constructor(1)", &[]),
        ("if (f instanceof Function) setTimeout(() => 1, 10)", &[]),
        ("const http = { get() {} }; http.get()", &[]),
        ("const a = b / c / d; const r = /eval(1)/g; label: for (const i of [1]) break label", &[]),
        ("class A { #x = 1; static { this.y = 2 } get z() { return this.#x ?? 0 } }", &[]),
    ]);
    let typed = "import type { A } from './a'\nenum E { X }\nconst x: Map<string, number> = new Map<string, number>()\n\
                 function f<T extends object>(a: T, b?: string): a is T { return (a as any)!.x satisfies number }";
    assert_eq!(found_in("typescript", typed, None), [""; 0]);
}

#[test]
fn programs_and_sockets_are_found() {
    check(&[
        (
            "const cp = require('child_process')\ncp.exec('ls')",
            &["1:12 subprocess require('child_process')", "2:1 subprocess cp.exec"],
        ),
        (
            "import { exec as e } from 'node:child_process'\ne('ls')",
            &["1:1 subprocess import { exec as e } from 'node:child_process'", "2:1 subprocess e"],
        ),
        ("export * from 'child_process'", &["1:1 subprocess export * from 'child_process'"]),
        (
            "(await import('child_process')).exec('ls')",
            &[
                "1:1 subprocess (await import('child_process')).exec",
                "1:8 subprocess import('child_process')",
            ],
        ),
        ("require('\\x6eet').connect(1)", &["1:1 socket require('\\x6eet').connect"]),
        ("await fetch('http://x')", &["1:7 socket fetch"]),
        (
            "new WebSocket('ws://x'); globalThis.fetch(x)",
            &["1:5 socket WebSocket", "1:26 socket globalThis.fetch"],
        ),
        ("import https from 'https'", &["1:1 socket import https from 'https'"]),
        // The module was imported by an earlier call.
        ("child_process.exec('ls')", &["1:1 subprocess child_process.exec"]),
    ]);
}

#[test]
fn code_made_of_text_is_found() {
    check(&[
        ("eval('1')", &["1:1 eval_exec eval"]),
        ("(0, eval)('1')", &["1:5 eval_exec eval"]),
        ("\\u0065val('1')", &["1:1 eval_exec \\u0065val"]),
        ("new Function('return 1')()", &["1:1 eval_exec new Function('return 1')"]),
        ("Function('return 1')()", &["1:1 eval_exec Function('return 1')"]),
        (
            "[].constructor.constructor('return 1')()",
            &["1:1 eval_exec [].constructor.constructor('return 1')"],
        ),
        ("global['ev' + x]('1')", &["1:1 eval_exec global['ev' + x]"]),
        ("globalThis['eval']('1')", &["1:1 eval_exec globalThis['eval']"]),
        ("window.self.eval", &["1:1 eval_exec window.self.eval"]),
        ("setTimeout('alert(1)', 5)", &["1:1 eval_exec setTimeout('alert(1)', 5)"]),
        ("import vm from 'node:vm'", &["1:1 eval_exec import vm from 'node:vm'"]),
        ("process.binding('fs')", &["1:1 eval_exec process.binding"]),
        ("const { binding: b } = process\nb('fs')", &["1:18 eval_exec b", "2:1 eval_exec b"]),
    ]);
}

#[test]
fn imports_that_the_run_decides_are_found() {
    check(&[
        ("require(name)", &["1:1 dynamic_import require(name)"]),
        ("await importModule(name)", &["1:7 dynamic_import importModule(name)"]),
        ("await import(`./${x}.js`)", &["1:7 dynamic_import import(`./${x}.js`)"]),
        ("const r = require\nr('x')", &["1:11 dynamic_import require"]),
        ("import { createRequire } from 'module'", &["1:10 dynamic_import createRequire"]),
        ("process.getBuiltinModule('fs')", &["1:1 dynamic_import process.getBuiltinModule"]),
        ("import('data:text/javascript,1')", &["1:1 dynamic_import import('data:text/javascript,1')"]),
    ]);
}

#[test]
fn files_outside_are_found() {
    check(&[
        ("require('fs').readFileSync('/etc/passwd')", &["1:28 file_outside_workspace '/etc/passwd'"]),
        (
            "import fs from 'fs'\nfs.promises.readFile(`/proc/${x}`)",
            &["2:22 file_outside_workspace `/proc/${x}`"],
        ),
        (
            "const { readFileSync: r } = require('node:fs')\nr('../../etc/x')",
            &["2:3 file_outside_workspace '../../etc/x'"],
        ),
        (
            "import { rm } from 'fs/promises'\nrm('file:///etc')",
            &["2:4 file_outside_workspace 'file:///etc'"],
        ),
        ("import * as f from 'fs'\nf.copyFileSync('a', '/etc/a')", &["2:21 file_outside_workspace '/etc/a'"]),
    ]);
    let cast = "import fs from 'fs'\n;(fs as any).readFileSync('/etc/x')\nimport g = require('fs')\ng.openSync('/x')";
    assert_eq!(
        found_in("typescript", cast, None),
        ["2:27 file_outside_workspace '/etc/x'", "4:12 file_outside_workspace '/x'"]
    );
}

#[test]
fn only_what_is_allowed_is_imported() {
    let allowed: &[&str] = &["lodash", "fs", ".", "axios"];
    for (code, expected) in [
        ("import a from 'lodash/fp'; require('node:fs'); import './x.js'; require('axios').get(u)", &[][..]),
        ("import a from 'left-pad'", &["1:1 import_not_allowed import a from 'left-pad'"]),
        ("require('../x')", &["1:1 import_not_allowed require('../x')"]),
        ("await import('net')", &["1:7 import_not_allowed import('net')", "1:7 socket import('net')"]),
    ] {
        assert_eq!(found_in("javascript", code, Some(allowed)), expected, "{code}");
    }
}

#[test]
fn what_is_not_understood_is_said_and_hides_nothing() {
    let kinds = |code: &str| -> Vec<String> {
        let lines = found_in("javascript", code, None);
        lines.iter().map(|line| line.split(' ').nth(1).unwrap().to_string()).collect()
    };
    assert!(kinds("let = = 1;\neval('1')").contains(&"not_parsed".to_string()));
    assert!(kinds("let x = ;\neval('1')").contains(&"eval_exec".to_string()));
    // Every line end of JavaScript ends a comment.
    for end in ["\r", "\n", "\u{2028}", "\u{2029}"] {
        assert_eq!(kinds(&format!("// x{end}eval('1')")), ["eval_exec"], "{end:?}");
    }
    assert_eq!(kinds("<!-- x\nlet y"), ["not_parsed"]);
}
