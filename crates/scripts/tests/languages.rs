//! The wrappers with the interpreters of this host, in a directory of their own in place of /workspace. The end-to-end
//! tests try them behind the fence.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: whatever is missing shall fail it"
)]

use paddock_scripts::{Context, Failure, LARGEST_RESULT, Language, Plan, Resource, parse_arguments, plan};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// The result of a script, and its output on both streams.
struct Ran {
    result: Result<Value, Failure>,
    stdout: String,
    stderr: String,
}

impl Ran {
    fn value(&self) -> &Value {
        self.result.as_ref().unwrap_or_else(|failure| panic!("{failure:?}\n{}", self.stderr))
    }

    fn failure(&self) -> (&str, &str) {
        let failure = self.result.as_ref().expect_err("it has a result");
        (&failure.code, &failure.message)
    }
}

fn run(language: Language, source: &str, arguments: Value) -> Ran {
    let context = Context::default();
    let arguments = parse_arguments(&arguments.to_string()).unwrap();
    carry_out(&plan(source, language, &arguments, &context).unwrap(), &BTreeMap::new())
}

/// `env`: the variables that the engine would set, such as placeholders.
fn carry_out(plan: &Plan, env: &BTreeMap<String, String>) -> Ran {
    let place = tempfile::tempdir().unwrap();
    let own = |text: &str| text.replace("/workspace", place.path().to_str().unwrap());
    for file in &plan.files {
        let path = own(&file.path);
        std::fs::create_dir_all(Path::new(&path).parent().unwrap()).unwrap();
        std::fs::write(path, own(&file.content)).unwrap();
    }
    let argv: Vec<String> = plan.exec.argv.iter().flatten().map(|word| own(word)).collect();
    let mut child = Command::new(&argv[0])
        .args(&argv[1..])
        .envs(env)
        .current_dir(place.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stdin = own(plan.exec.stdin.as_deref().unwrap_or_default());
    // A program that cannot begin does not read it.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let output = child.wait_with_output().unwrap();
    let read = |path: &String| {
        std::fs::read(own(path)).ok().map(|mut bytes| {
            bytes.truncate(LARGEST_RESULT + 1);
            bytes
        })
    };
    let contents: Vec<_> = plan.result.files.iter().map(|file| read(&file.path)).collect();
    let exit = output.status.code().unwrap_or(137);
    Ran {
        result: plan.result.conclude(exit, &contents, &output.stdout),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Past the harness, which would keep it to itself.
fn skip(name: &str, reason: &str) {
    let _ = writeln!(std::io::stderr().lock(), "\nSKIP scripts by {name}: {reason}");
}

fn missing(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("PATH=$PATH:/usr/local/go/bin command -v {program}")])
        .output()
        .is_ok_and(|output| output.status.success());
    if !found {
        skip(program, "this machine does not have it");
    }
    !found
}

#[test]
fn python_calls_main_with_its_arguments() {
    let source = "import sys\ndef main(a, b: int = 2, *, c=None):\n    print('out'); print('err', file=sys.stderr)\n    return {'a': a, 'b': b, 'c': c, 't': (1, 2)}\n";
    let ran = run(Language::Python, source, json!({ "a": "é\u{1f600}", "c": [1] }));
    assert_eq!(*ran.value(), json!({ "a": "é\u{1f600}", "b": 2, "c": [1], "t": [1, 2] }));
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("out\n", "err\n"));
    let source = "import asyncio\nasync def main(n: int):\n    await asyncio.sleep(0)\n    return n + 1\n";
    assert_eq!(*run(Language::Python, source, json!({ "n": 1 })).value(), 2);
    let source = "import datetime\ndef main(d: datetime.datetime, raw: bytes):\n    return [d + datetime.timedelta(days=1), len(raw)]\n";
    let ran = run(Language::Python, source, json!({ "d": "2026-01-31T00:00:00Z", "raw": "AAEC" }));
    assert_eq!(*ran.value(), json!(["2026-02-01T00:00:00+00:00", 3]));
    assert_eq!(
        *run(Language::Python, "def main(**rest): return rest", json!({ "x": 1 })).value(),
        json!({ "x": 1 })
    );
    assert_eq!(*run(Language::Python, "def main(): pass", json!({})).value(), Value::Null);
}

#[test]
fn python_says_what_does_not_fit() {
    let source = "def main(prompt: str, count=1): return prompt";
    let ran = run(Language::Python, source, json!({ "promt": "x" }));
    assert_eq!(
        ran.failure(),
        ("arguments_do_not_fit", "main has no parameter `promt`; its parameters are: prompt, count")
    );
    let ran = run(Language::Python, source, json!({}));
    assert_eq!(
        ran.failure(),
        ("arguments_do_not_fit", "argument `prompt` is missing; main's parameters are: prompt, count")
    );
    for (body, code, words) in [
        ("main = 3", "no_main", "no function main"),
        ("def other(): pass  # main", "no_main", "def main"),
        ("def main(): return {'x': {1, 2}}", "result_not_json", "at $.x it has a set; return a list"),
        ("def main(): return [float('nan')]", "result_not_json", "at $[0] it has nan"),
        ("def main(): return float('inf')", "result_not_json", "inf"),
        ("def main(): return b'x'", "result_not_json", "base64"),
        ("def main(): return {(1, 2): 3}", "result_not_json", "a key that is a tuple"),
        ("def main(): return object()", "result_not_json", "a object"),
        ("def main():\n  a = []\n  a.append(a)\n  return a", "result_not_json", "reference to itself"),
        ("def main(): raise ValueError('no luck')", "script_failed", "no luck"),
        ("def main(): return 1 +", "script_failed", "invalid syntax"),
        ("import nothing_of_that_name\ndef main(): pass", "script_failed", "nothing_of_that_name"),
        ("import sys\ndef main(): sys.exit(0)", "no_result", "before main returned"),
        ("import sys\ndef main(): sys.exit(7)", "script_failed", "exit code 7"),
        ("import os\ndef main(): os._exit(0)", "no_result", "before main returned"),
        ("import os\ndef main(): os.kill(os.getpid(), 9)", "script_failed", "137"),
    ] {
        let ran = run(Language::Python, body, json!({}));
        let (found, message) = ran.failure();
        assert_eq!(found, code, "{body}: {}", ran.stderr);
        assert!(message.contains(words), "{body}: {message}");
    }
    // A character that is no text becomes a question mark, and stays a result.
    assert_eq!(*run(Language::Python, "def main(): return '\\ud800'", json!({})).value(), "?");
    let ran = run(Language::Python, "def main():\n    raise ValueError('no luck')", json!({}));
    assert_eq!(ran.result.unwrap_err().name.as_deref(), Some("ValueError"));
    assert!(
        ran.stderr.contains("line 2, in main") && !ran.stderr.contains("paddock script>"),
        "{}",
        ran.stderr
    );
}

#[test]
fn what_stays_outside_has_a_placeholder_inside() {
    let resource = Resource {
        kind: "anthropic".into(),
        value: json!({ "apiKey": "sk-real-value", "url": "u" }),
        secrets: [("apiKey".to_string(), vec!["api.example.com".to_string()])].into(),
    };
    let context = Context { resources: [("anthropic".to_string(), resource)].into(), ..Context::default() };
    let arguments =
        parse_arguments(r#"{"anthropic": "$res:anthropic", "key": "$res:anthropic.apiKey"}"#).unwrap();
    let env = [("PADDOCK_ARGUMENT_1".to_string(), "placeholder-1".to_string())].into();
    let expected = json!(["placeholder-1", "u", "placeholder-1"]);
    let python = "def main(anthropic, key): return [anthropic['apiKey'], anthropic['url'], key]";
    let made = plan(python, Language::Python, &arguments, &context).unwrap();
    assert_eq!(*carry_out(&made, &env).value(), expected);
    let javascript = "export function main(key, anthropic) { return [anthropic.apiKey, anthropic.url, key] }";
    let made = plan(javascript, Language::JavaScript, &arguments, &context).unwrap();
    if !missing("node") {
        assert_eq!(*carry_out(&made, &env).value(), expected);
    }
    let go = "package inner\nfunc main(anthropic map[string]string, key string) ([]string, error) {\n\treturn []string{anthropic[\"apiKey\"], anthropic[\"url\"], key}, nil\n}\n";
    let made = plan(go, Language::Go, &arguments, &context).unwrap();
    if !missing("go") {
        assert_eq!(*carry_out(&made, &env).value(), expected);
    }
    let ruby = "def main(anthropic, key:)\n  [anthropic['apiKey'], anthropic['url'], key]\nend\n";
    let made = plan(ruby, Language::Ruby, &arguments, &context).unwrap();
    if !missing("ruby") {
        assert_eq!(*carry_out(&made, &env).value(), expected);
    }
    let bash = "anthropic=\"$1\"\nkey=\"$2\"\necho \"$key\"";
    let error = plan(bash, Language::Bash, &arguments, &context).unwrap_err();
    assert_eq!(error.code(), "bad_resource");
    let arguments = parse_arguments(r#"{"key": "$res:anthropic.apiKey"}"#).unwrap();
    let made = plan("key=\"$1\"\necho \"$key\"", Language::Bash, &arguments, &context).unwrap();
    assert_eq!(*carry_out(&made, &env).value(), "placeholder-1");
}

#[test]
fn javascript_takes_arguments_by_the_names_of_parameters() {
    if missing("node") {
        return;
    }
    let js = |source: &str, arguments: Value| run(Language::JavaScript, source, arguments);
    let ran = js(
        "export async function main(a, b = 2) { console.log('out'); return { a, b } }",
        json!({ "a": [1] }),
    );
    assert_eq!((ran.value(), ran.stdout.as_str()), (&json!({ "a": [1], "b": 2 }), "out\n"));
    assert_eq!(*js("export const main = (b, a) => a - b", json!({ "a": 3, "b": 1 })).value(), 2);
    assert_eq!(
        *js("const x = require('path');\nexports.main = (a) => x.join(a, 'b')", json!({ "a": "c" })).value(),
        "c/b"
    );
    assert_eq!(*js("import fs from 'fs'\nexport function main(/* x, */ a /* y */, b = {c: [1, 2]}, ...rest) { return [a, b, rest] }", json!({ "a": 1, "rest": [5, 6] })).value(), json!([1, { "c": [1, 2] }, [5, 6]]));
    assert_eq!(*js("export function main() {}", json!({})).value(), Value::Null);
    assert_eq!(
        *js("export function main() { return { when: new Date(0), u: undefined } }", json!({})).value(),
        json!({ "when": "1970-01-01T00:00:00.000Z" })
    );
    for (source, arguments, code, words) in [
        ("export function other() {} // main", json!({}), "no_main", "export async function main"),
        (
            "export function main(a, b) {}",
            json!({ "a": 1 }),
            "arguments_do_not_fit",
            "argument `b` is missing; main's parameters are: a, b",
        ),
        ("export function main(a) {}", json!({ "a": 1, "c": 1 }), "arguments_do_not_fit", "no parameter `c`"),
        ("export function main({ a }) {}", json!({}), "arguments_do_not_fit", "takes a parameter apart"),
        ("export function main() { return { x: NaN } }", json!({}), "result_not_json", "at $.x it has NaN"),
        ("export function main() { return 10n }", json!({}), "result_not_json", "a bigint"),
        (
            "export function main() { return [new Set([1])] }",
            json!({}),
            "result_not_json",
            "at $[0] it has a Set; return an array",
        ),
        ("export function main() { return new Map() }", json!({}), "result_not_json", "a Map"),
        ("export function main() { return Buffer.from('x') }", json!({}), "result_not_json", "a Buffer"),
        ("export function main() { return () => 1 }", json!({}), "result_not_json", "a function"),
        (
            "export function main() { const a = {}; a.a = a; return a }",
            json!({}),
            "result_not_json",
            "reference to itself",
        ),
        ("export function main() { throw new RangeError('far') }", json!({}), "script_failed", "far"),
        (
            "export async function main() { await Promise.reject('plain') }",
            json!({}),
            "script_failed",
            "plain",
        ),
        ("export function main() { process.exit(0) }", json!({}), "no_result", "before main returned"),
        ("export function main( {", json!({}), "script_failed", ""),
        (
            "import x from 'nothing-of-that-name'\nexport function main() {}",
            json!({}),
            "script_failed",
            "nothing-of-that-name",
        ),
    ] {
        let ran = js(source, arguments);
        let (found, message) = ran.failure();
        assert_eq!(found, code, "{source}: {}", ran.stderr);
        assert!(message.contains(words), "{source}: {message}");
    }
}

#[test]
fn a_package_is_found_where_only_require_looks() {
    if missing("node") {
        return;
    }
    let packages = tempfile::tempdir().unwrap();
    let at = packages.path().join("@made/up");
    std::fs::create_dir_all(&at).unwrap();
    std::fs::write(
        at.join("package.json"),
        r#"{"name": "@made/up", "type": "module", "exports": "./index.js"}"#,
    )
    .unwrap();
    std::fs::write(at.join("index.js"), "export const word = 'found'").unwrap();
    let source = "import { word } from '@made/up'\nexport function main() { return word }";
    let made = plan(source, Language::JavaScript, &Default::default(), &Context::default()).unwrap();
    let env = [("NODE_PATH".to_string(), packages.path().display().to_string())].into();
    assert_eq!(*carry_out(&made, &env).value(), "found");
}

#[test]
fn bash_has_positions_and_three_ways_to_a_result() {
    let bash = |source: &str, arguments: Value| run(Language::Bash, source, arguments);
    let ran = bash(
        "# sandbox\nmsg=\"$1\"\ncount=${2:-7}\necho working\necho \"$msg $count\"",
        json!({ "msg": "it's $HOME \"`\"" }),
    );
    assert_eq!(*ran.value(), "it's $HOME \"`\" 7");
    assert_eq!(
        *bash("echo '{\"a\": 1}' > result.json; echo other > result.out; echo last", json!({})).value(),
        json!({ "a": 1 })
    );
    assert_eq!(*bash("printf 'other\\nlines' > ./result.out; echo last", json!({})).value(), "other\nlines");
    assert_eq!(
        *bash("echo $#; read -r line || echo \"no input\"", json!({ "a": 1, "b": 2 })).value(),
        "no input"
    );
    assert_eq!(bash("echo nope > result.json", json!({})).failure().0, "result_not_json");
    assert_eq!(bash("exit 3", json!({})).failure(), ("script_failed", "the script ended with exit code 3"));
}

#[test]
fn go_is_built_and_called() {
    if missing("go") {
        return;
    }
    let source = "package inner\n\nimport \"fmt\"\n\nfunc main(name string, n, m int, nested struct {\n\tFoo string `json:\"foo\"`\n}) (interface{}, error) {\n\tfmt.Println(\"out\")\n\treturn map[string]interface{}{\"text\": fmt.Sprint(name, n+m, nested.Foo)}, nil\n}\n";
    let ran = run(Language::Go, source, json!({ "name": "x", "n": 1, "m": 2, "nested": { "foo": "y" } }));
    assert_eq!((ran.value(), ran.stdout.as_str()), (&json!({ "text": "x3y" }), "out\n"));
    let ran = run(Language::Go, source, json!({ "name": "x" }));
    assert_eq!(
        ran.failure(),
        ("arguments_do_not_fit", "argument `n` is missing; main's parameters are: name, n, m, nested")
    );
    let ran = run(Language::Go, source, json!({ "name": 1, "n": 1, "m": 2, "nested": {} }));
    assert!(ran.failure().1.starts_with("argument `name` is no string"), "{:?}", ran.failure());
    let source = "package main\n\nimport (\n\t\"errors\"\n\t\"math\"\n)\n\nfunc main(fail bool) (float64, error) {\n\tif fail {\n\t\treturn 0, errors.New(\"no luck\")\n\t}\n\treturn math.NaN(), nil\n}\n";
    assert_eq!(run(Language::Go, source, json!({ "fail": true })).failure(), ("script_failed", "no luck"));
    assert_eq!(run(Language::Go, source, json!({ "fail": false })).failure().0, "result_not_json");
    let ran = run(Language::Go, "package inner\nfunc main() error { retrun nil }", json!({}));
    assert_eq!(ran.failure().0, "script_failed");
    assert!(ran.stderr.contains("script.go:2"), "{}", ran.stderr);
}

#[test]
fn a_machine_without_go_says_so() {
    let plan = plan(
        "func main() error { return nil }",
        Language::Go,
        &parse_arguments("{}").unwrap(),
        &Context::default(),
    );
    let mut plan = plan.unwrap();
    let launcher = plan.exec.argv.as_mut().unwrap().last_mut().unwrap();
    *launcher = launcher.replace("command -v go ", "command -v no-such-program ");
    let ran = carry_out(&plan, &BTreeMap::new());
    assert_eq!(ran.failure().0, "interpreter_missing");
    assert!(ran.result.unwrap_err().hint.unwrap().contains("--template go"));
}

#[test]
fn ruby_calls_main_with_its_arguments() {
    if missing("ruby") {
        return;
    }
    let ruby = |source: &str, arguments: Value| run(Language::Ruby, source, arguments);
    assert_eq!(
        *ruby("def main(a, b = 2, c: 3)\n  [a, b, c]\nend", json!({ "a": "x", "c": 4 })).value(),
        json!(["x", 2, 4])
    );
    assert_eq!(ruby("def main(a)\nend", json!({})).failure().0, "arguments_do_not_fit");
    assert_eq!(ruby("def main(a)\nend", json!({ "a": 1, "b": 2 })).failure().0, "arguments_do_not_fit");
    assert_eq!(ruby("x = 1 # main", json!({})).failure().0, "no_main");
    assert_eq!(ruby("def main\n  Float::NAN\nend", json!({})).failure().0, "result_not_json");
    assert_eq!(ruby("def main\n  raise 'no luck'\nend", json!({})).failure(), ("script_failed", "no luck"));
}

#[test]
fn typescript_says_which_parameters_are_optional() {
    if missing("node") {
        return;
    }
    let ts = |source: &str, arguments: Value| run(Language::TypeScript, source, arguments);
    let first = ts("export function main(a: number): number { return a + 1 }", json!({ "a": 1 }));
    assert_eq!(*first.value(), 2);
    // An import of a type only is not resolved at run time.
    let types = "import { Stats } from 'fs'\nimport type { Nowhere } from 'nowhere'\n\
        export function main(a: Stats | Nowhere | number) { return a satisfies unknown }";
    assert_eq!(*ts(types, json!({ "a": 3 })).value(), 3);
    let ran = ts("namespace N { export const a = 1 }\nexport function main() { return N.a }", json!({}));
    assert!(ran.failure().1.contains("a namespace that holds values is not supported"), "{}", ran.stderr);
    let source = "import * as path from 'path'\n\
        // sandbox is no word of this line\n\
        type Pair<A, B> = { a: A; b: B }\n\
        enum Colour { Red = 7 }\n\
        export async function main(\n  pairs: Map<string, Pair<number, string>> | Record<string, Pair<number, string>>,\n  \
        /* a comment, with a comma */ pick: (x: number, y: string) => boolean | undefined,\n  \
        words: Array<string> = [\"a, b\", `c)`],\n  later?: { x: number, y: string },\n  must: 'a' | 'b' | undefined, last: string = path.join('x', \"y\")\n) {\n  \
        return [pairs, words, later ?? null, must ?? null, last, Colour.Red]\n}\n";
    let ran = ts(source, json!({ "pairs": {}, "pick": 1 }));
    assert_eq!(*ran.value(), json!([{}, ["a, b", "c)"], null, null, "x/y", 7]));
    let ran = ts(source, json!({ "pairs": {} }));
    assert!(ran.result.is_ok(), "undefined is allowed of pick: {}", ran.stderr);
    let ran = ts(source, json!({ "pick": 1 }));
    let known = "argument `pairs` is missing; main's parameters are: pairs, pick, words, later, must, last";
    assert_eq!(ran.failure(), ("arguments_do_not_fit", known));
    let ran =
        ts("export const main = async <T extends object>(a: T, b: number) => b", json!({ "a": {}, "b": 2 }));
    assert_eq!(*ran.value(), 2);
    let ran = ts("let x = 1\nexport function main(a: = 2) {}", json!({}));
    assert_eq!(ran.failure().0, "script_failed");
    assert!(ran.stderr.contains("line 2, column 25"), "{}", ran.stderr);
    // Hostile text costs its own sandbox an error.
    assert_eq!(ts(&format!("main{}", "(".repeat(200_000)), json!({})).failure().0, "script_failed");
}

#[test]
fn bun_and_deno_call_main_as_node_does() {
    for (language, program) in [(Language::Bun, "bun"), (Language::Deno, "deno")] {
        if missing(program) {
            continue;
        }
        let source = "export async function main(a: string, b?: number) { console.log('out'); return { a, b: b ?? null } }";
        let ran = run(language, source, json!({ "a": "é" }));
        assert_eq!(
            (ran.value(), ran.stdout.as_str()),
            (&json!({ "a": "é", "b": null }), "out\n"),
            "{program}"
        );
        assert_eq!(run(language, source, json!({})).failure().0, "arguments_do_not_fit", "{program}");
        let ran = run(language, "export function main() { return [new Set()] }", json!({}));
        assert_eq!(ran.failure().0, "result_not_json", "{program}");
        let ran = run(language, "export function main() { throw new RangeError('far') }", json!({}));
        assert_eq!(ran.failure(), ("script_failed", "far"), "{program}");
    }
}
