//! Snippets and their findings, as `line:column kind text`.

use crate::ScanInput;

use crate::scan;

fn found_with(code: &str, allowed: Option<&[&str]>) -> Vec<String> {
    let allowed_imports = allowed.map(|names| names.iter().map(|name| name.to_string()).collect());
    let input = ScanInput { language: "python".into(), allowed_imports, ..ScanInput::default() };
    let report = scan(&input, code.as_bytes());
    let line = |f: &paddock_model::Finding| format!("{}:{} {} {}", f.line, f.column, f.kind.name(), f.text);
    report.findings.iter().map(line).collect()
}

fn check(table: &[(&str, &[&str])]) {
    for (code, expected) in table {
        assert_eq!(found_with(code, None), *expected, "{code}");
    }
}

#[test]
fn code_that_only_works_is_left_alone() {
    check(&[
        ("", &[]),
        (
            "import numpy as np\nimport os, json\nprint(np.mean([1, 2]), os.getcwd(), os.path.join('a', '..', 'b'))",
            &[],
        ),
        ("import re\nprint(re.compile('x').match('x'))", &[]),
        ("import platform\nprint(platform.system())", &[]),
        ("from urllib.parse import quote\nfrom http import HTTPStatus", &[]),
        ("open('data.csv').read(); open('/workspace/a'); open('/tmp/b', 'w'); open(name)", &[]),
        ("import pathlib\npathlib.Path('/workspace') / 'x'\nprint('/etc/passwd')", &[]),
        ("requests = [1]\nfor r in requests: print(r)\ndef f(socket): return socket.x", &[]),
        ("class A:\n    def eval(self): pass\nA().eval()\nmodel.eval()\ndf.compile(exec=1)", &[]),
        (
            "match x:\n    case {'a': [1, *_]}: pass\nasync def f():\n    async with a as b: await b\nawait f()",
            &[],
        ),
        ("x = a % b\nprint(f'{x!r:>{width}}')\ntype X = int\n", &[]),
    ]);
}

#[test]
fn programs_are_found() {
    check(&[
        ("import subprocess", &["1:8 subprocess subprocess"]),
        (
            "import json, subprocess as s\ns.run(['ls'])",
            &["1:14 subprocess subprocess as s", "2:1 subprocess s.run"],
        ),
        ("from subprocess import run as r\nr('ls')", &["1:24 subprocess run as r", "2:1 subprocess r"]),
        ("import os\nos.system('ls')", &["2:1 subprocess os.system"]),
        ("import os as o\nif 1:\n    x = o.popen", &["3:9 subprocess o.popen"]),
        ("from os import system", &["1:16 subprocess system"]),
        ("from os import *", &["1:16 subprocess *"]),
        ("from os import path, execv as e\ne('a')", &["1:22 subprocess execv as e", "2:1 subprocess e"]),
        ("import os\nrun = os.system\nrun('ls')", &["2:7 subprocess os.system", "3:1 subprocess run"]),
        ("import os\ngetattr(os, 'sys' 'tem')('ls')", &["2:1 subprocess getattr(os, 'sys' 'tem')"]),
        ("import os\ngetattr(os, name)('ls')", &["2:1 subprocess getattr(os, name)"]),
        (
            "import os\nos.__dict__['system']('ls')\nvars(os)['popen']",
            &["2:1 subprocess os.__dict__['system']", "3:1 subprocess vars(os)['popen']"],
        ),
        // The module was imported by an earlier call.
        ("os.system('ls')", &["1:1 subprocess os.system"]),
        ("import pty, multiprocessing", &["1:8 subprocess pty", "1:13 subprocess multiprocessing"]),
        (
            "import asyncio\nawait asyncio.create_subprocess_shell('ls')",
            &["2:7 subprocess asyncio.create_subprocess_shell"],
        ),
        (
            "f'{__import__(\"os\").system(\"ls\")}'",
            &["1:4 subprocess __import__(\"os\").system", "1:4 dynamic_import __import__"],
        ),
    ]);
}

#[test]
fn sockets_are_found() {
    check(&[
        ("import socket", &["1:8 socket socket"]),
        ("import urllib.request", &["1:8 socket urllib.request"]),
        ("import urllib\nurllib.request.urlopen(u)", &["2:1 socket urllib.request.urlopen"]),
        ("from urllib import request", &["1:20 socket request"]),
        ("import requests as r\nr.get('x')", &["1:8 socket requests as r", "2:1 socket r.get"]),
        (
            "import pandas as pd\npd.read_csv('https://example.org/x.csv')",
            &["2:13 socket 'https://example.org/x.csv'"],
        ),
    ]);
}

#[test]
fn code_made_of_text_is_found() {
    check(&[
        ("eval('1')", &["1:1 eval_exec eval"]),
        ("x = 1; exec('x = 2')", &["1:8 eval_exec exec"]),
        ("e = eval\ne('1')", &["1:5 eval_exec eval", "2:1 eval_exec e"]),
        ("compile('1', 'f', 'eval')", &["1:1 eval_exec compile"]),
        ("import builtins\nbuiltins.eval('1')", &["2:1 eval_exec builtins.eval"]),
        ("__builtins__['eval']('1')", &["1:1 eval_exec __builtins__['eval']"]),
        ("ｅｖａｌ('1')", &["1:1 eval_exec ｅｖａｌ"]),
        ("().__class__.__base__.__subclasses__()", &["1:1 eval_exec ().__class__.__base__.__subclasses__"]),
        ("list(map(eval, lines))", &["1:10 eval_exec eval"]),
        ("@eval\ndef f(): pass", &["1:2 eval_exec eval"]),
        ("import ctypes", &["1:8 eval_exec ctypes"]),
    ]);
}

#[test]
fn files_outside_are_found() {
    check(&[
        ("open('/etc/passwd')", &["1:6 file_outside_workspace '/etc/passwd'"]),
        ("open(file='../../etc/passwd')", &["1:11 file_outside_workspace '../../etc/passwd'"]),
        ("open(f'/proc/{pid}/mem')", &["1:6 file_outside_workspace f'/proc/{pid}/mem'"]),
        ("open('/et' 'c/passwd')", &["1:6 file_outside_workspace '/et' 'c/passwd'"]),
        ("open('\\x2fetc/' + name)", &["1:6 file_outside_workspace '\\x2fetc/' + name"]),
        (
            "from pathlib import Path\nPath('/root/.ssh').read_text()",
            &["2:6 file_outside_workspace '/root/.ssh'"],
        ),
        (
            "import shutil, os\nshutil.copy('a', '/etc/a')\nos.remove('/x')",
            &["2:18 file_outside_workspace '/etc/a'", "3:11 file_outside_workspace '/x'"],
        ),
    ]);
}

#[test]
fn imports_that_the_run_decides_are_found() {
    check(&[
        ("__import__(name)", &["1:1 dynamic_import __import__"]),
        ("import importlib\nimportlib.import_module('x')", &["2:1 dynamic_import importlib.import_module"]),
        (
            "from importlib import import_module as i\ni(x)",
            &["1:23 dynamic_import import_module as i", "2:1 dynamic_import i"],
        ),
        (
            "import sys\nsys.modules['os'].system('ls')",
            &["2:1 subprocess sys.modules['os'].system", "2:1 dynamic_import sys.modules"],
        ),
    ]);
}

#[test]
fn only_what_is_allowed_is_imported() {
    let numpy: &[&str] = &["numpy", "os.path", "subprocess"];
    for (code, expected) in [
        ("import numpy.linalg, os.path\nfrom numpy import array\nfrom os import path", &[][..]),
        ("import json", &["1:8 import_not_allowed json"]),
        (
            "import os\nfrom os import getcwd",
            &["1:8 import_not_allowed os", "2:16 import_not_allowed getcwd"],
        ),
        ("from . import x", &["1:15 import_not_allowed x"]),
        // A module that the list names is allowed, and so is its use.
        ("import subprocess\nsubprocess.run('ls')", &[]),
        ("import numpyx", &["1:8 import_not_allowed numpyx"]),
        (
            "def f():\n    try:\n        import socket\n    except E: pass",
            &["3:16 import_not_allowed socket", "3:16 socket socket"],
        ),
    ] {
        assert_eq!(found_with(code, Some(numpy)), expected, "{code}");
    }
    // The list allows the module, but not all of its members.
    assert_eq!(found_with("import os\nos.system('ls')", Some(&["os"])), ["2:1 subprocess os.system"]);
    assert_eq!(found_with("import os\nos.system('ls')", Some(&["os", "os.system"])), [""; 0]);
    assert_eq!(found_with("import os", Some(&[])), ["1:8 import_not_allowed os"]);
}

#[test]
fn what_is_not_understood_is_said_and_hides_nothing() {
    let kinds = |code: &str| -> Vec<String> {
        found_with(code, None).iter().map(|line| line.split(' ').nth(1).unwrap().to_string()).collect()
    };
    assert_eq!(kinds("def f(:\n  pass\nimport subprocess\n"), ["not_parsed", "subprocess"]);
    assert_eq!(kinds("x = ("), ["not_parsed"]);
    // Python ends a comment at a lone CR.
    assert_eq!(
        found_with("# a\rimport subprocess\r\nimport socket", None),
        ["2:8 subprocess subprocess", "3:8 socket socket"]
    );
    assert_eq!(kinds("# -*- coding: utf-7 -*-\n"), ["not_parsed"]);
    assert_eq!(kinds("#!/usr/bin/python\n# vim: set fileencoding=latin-1 :\n"), ["not_parsed"]);
    assert_eq!(kinds("# coding: utf-8\nimport json"), [""; 0]);
}

#[test]
fn lines_of_ipython_are_understood() {
    check(&[
        ("x = 1\n!ls -l 'a\nimport socket", &["2:1 subprocess !ls -l 'a", "3:8 socket socket"]),
        ("files = !ls", &["1:9 subprocess !ls"]),
        ("%%bash\nrm -rf /", &["1:1 subprocess %%bash"]),
        ("%%time\nimport socket", &["2:8 socket socket"]),
        ("%matplotlib inline\nx = 1", &[]),
        ("%pip install x", &["1:1 subprocess %pip install x"]),
        ("%time eval('1')", &["1:7 eval_exec eval"]),
        ("%load_ext x", &["1:1 not_parsed %load_ext x"]),
        ("%%writefile a.py\nx", &["1:1 not_parsed %%writefile a.py"]),
        ("'''\n!ls\n'''\ny = (1\n % 2)", &[]),
        ("get_ipython().system('ls')", &["1:1 subprocess get_ipython"]),
    ]);
}
