//! The values that a call gives back, language by language, against a real server: values, pictures, tables, errors.

use crate::contexts::{Place, text_of};
use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, for_both_callers};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;

for_both_callers!(
    a_shell_keeps_its_directory_variables_and_functions,
    javascript_keeps_its_declarations,
    typescript_is_checked_and_has_values,
    a_template_brings_a_runner_of_its_own,
    a_value_has_many_representations,
    figures_and_tables_are_results,
);

fn a_shell_keeps_its_directory_variables_and_functions(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    let bash = |code: &str| place.code(json!({ "code": code, "language": "bash" }));
    // Words that the runner itself could use.
    bash("name=a count=b status=c back=d had=e added=f length=g")?;
    let answer = bash("echo $name$count$status$back$had$added$length")?;
    ensure!(answer["stdout"] == "abcdefg\n", "{answer}");
    bash("cd /tmp; x=5; f() { echo \"f $x\"; }; export Y=exported")?;
    let answer = bash("f; pwd; sh -c 'echo $Y'; (exit 3)")?;
    assert_eq!(
        (answer["stdout"].as_str(), answer["exit_code"].as_i64()),
        (Some("f 5\n/tmp\nexported\n"), Some(3))
    );
    let body = json!({ "code": "cat; echo $A; pwd", "language": "bash", "stdin": "in\n", "cwd": "/", "env": { "A": "1" } });
    assert_eq!(place.code(body)?["stdout"], "in\n1\n/\n");
    assert_eq!(bash("echo \"[$A]\"; pwd")?["stdout"], "[]\n/tmp\n");
    ensure!(
        bash("if then")?["stderr"].as_str().unwrap_or_default().contains("syntax error"),
        "no syntax error"
    );
    for endless in ["while :; do :; done", "sleep 1000; echo never"] {
        let answer = place.code(json!({ "code": endless, "language": "bash", "timeout_seconds": 0.3 }))?;
        assert_eq!(
            (answer["cause"]["kind"].as_str(), answer["stdout"].as_str()),
            (Some("time_limit"), Some(""))
        );
    }
    assert_eq!(bash("f")?["stdout"], "f 5\n");
    // A shell that is told to end, ends.
    let answer = bash("exit 5")?;
    assert_eq!(
        (answer["exit_code"].as_i64(), answer["error"]["name"].as_str()),
        (Some(5), Some("ContextDied"))
    );
    let answer = bash("echo \"[$x]\"")?;
    assert_eq!(
        (answer["stdout"].as_str(), &answer["context_restarted"]["kind"]),
        (Some("[]\n"), &json!("exited"))
    );
    Ok(())
}

fn javascript_keeps_its_declarations(caller: &Caller) -> Result<()> {
    if !std::path::Path::new("/usr/bin/node").exists() {
        paddock_e2e::skip("javascript", "there is no /usr/bin/node");
        return Ok(());
    }
    let place = Place::new(caller)?;
    let run = |code: &str| place.code(json!({ "code": code, "language": "javascript" }));
    run("const x = 20; function f(a) { return a + 1 }; class C {}")?;
    assert_eq!(text_of(&run("f(x) * 2")?)?, "42");
    // As an agent writes it: the same again, with a correction.
    assert_eq!(text_of(&run("const x = await Promise.resolve(1); x")?)?, "1");
    let answer = run("console.log('out'); console.error('err'); ({ a: [1, 2] })")?;
    assert_eq!((answer["stdout"].as_str(), answer["stderr"].as_str()), (Some("out\n"), Some("err\n")));
    assert_eq!(answer["results"][0]["json"], json!({ "a": [1, 2] }));
    let answer = run("function broken() {\n  return null.field\n}\nbroken()")?;
    assert_eq!(answer["error"]["name"], "TypeError");
    let traceback = answer["error"]["traceback"].as_str().unwrap_or_default();
    ensure!(traceback.contains("2 |   return null.field"), "{traceback}");
    let body = json!({ "code": "while (true) {}", "language": "javascript", "timeout_seconds": 0.5 });
    let answer = place.code(body)?;
    assert_eq!(
        (answer["cause"]["kind"].as_str(), answer["error"]["name"].as_str()),
        (Some("time_limit"), Some("KeyboardInterrupt"))
    );
    let body =
        json!({ "code": "await new Promise(() => {})", "language": "javascript", "timeout_seconds": 0.3 });
    assert_eq!(place.code(body)?["error"]["name"], "KeyboardInterrupt");
    assert_eq!(text_of(&run("x")?)?, "1");
    let answer = run("process.exit(3)")?;
    assert_eq!(
        (answer["exit_code"].as_i64(), answer["error"]["name"].as_str()),
        (Some(3), Some("ContextDied"))
    );
    Ok(())
}

/// By Paddock's own means, with any Node. A package called typescript that cannot do it, as npm has it since version 7,
/// changes nothing.
fn typescript_is_checked_and_has_values(caller: &Caller) -> Result<()> {
    if !std::path::Path::new("/usr/bin/node").exists() {
        paddock_e2e::skip("typescript", "there is no /usr/bin/node");
        return Ok(());
    }
    let plain = Place::new(caller)?;
    typescript_has_values(&plain)?;
    let Some(packages) = given(caller, "PADDOCK_TEST_NODE_MODULES")? else {
        paddock_e2e::skip(
            "typescript",
            "PADDOCK_TEST_NODE_MODULES does not name a directory with typescript",
        );
        return Ok(());
    };
    let shown = format!("{packages}:/node_modules");
    let id = plain.server.create(&["--read", &shown, "--env", "NODE_PATH=/node_modules"])?;
    let place = Place { server: plain.server, id };
    let there = place.code(json!({ "code": "require('typescript').version", "language": "javascript" }))?;
    ensure!(text_of(&there)?.starts_with("'7."), "another typescript than the test is about: {there}");
    typescript_has_values(&place)
}

fn typescript_has_values(place: &Place<'_>) -> Result<()> {
    let run = |code: &str| place.code(json!({ "code": code, "language": "typescript" }));
    let code = "interface Point { x: number; y: number }\nenum Colour { Red = 7 }\n\
                const length = (p: Point): number => Math.hypot(p.x, p.y)\nlength({ x: 3, y: 4 }) as number";
    assert_eq!(text_of(&run(code)?)?, "5");
    assert_eq!(text_of(&run("length({ x: 6, y: 8 }) + Colour.Red")?)?, "17");
    assert_eq!(text_of(&run("const later: number = await Promise.resolve(1)\nlater")?)?, "1");
    ensure!(run("later;")?.get("results").is_none(), "a semicolon hides the value");
    let answer = run("let fine = 1\nlet wrong: = 2")?;
    let error = &answer["error"];
    assert_eq!(error["name"], "SyntaxError", "{answer}");
    ensure!(error["value"].as_str().is_some_and(|value| value.contains("line 2, column 12")), "{error}");
    ensure!(error["traceback"].as_str().is_some_and(|text| text.contains("2 | let wrong: = 2")), "{error}");
    let answer = run("const broken = (): never => { throw new RangeError('far') }\nbroken()")?;
    assert_eq!((&answer["error"]["name"], &answer["error"]["value"]), (&json!("RangeError"), &json!("far")));
    assert_eq!(text_of(&run("later + 1")?)?, "2");
    Ok(())
}

/// A language of the template's own, by the interface of docs/reference/runner.md, in a few lines of shell.
fn a_template_brings_a_runner_of_its_own(caller: &Caller) -> Result<()> {
    let directory = caller.directory("template")?;
    let runners = directory.join("runners");
    std::fs::create_dir(&runners)?;
    let file = runners.join("count");
    std::fs::write(&file, RUNNER)?;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755))?;
    caller.own_all(&directory)?;
    let place = Place::with(caller, &["--read", &format!("{}:/etc/paddock", directory.display())])?;
    let run = |code: &str| place.code(json!({ "code": code, "language": "count" }));
    let answer = run("four")?;
    assert_eq!((text_of(&answer)?.as_str(), answer["stdout"].as_str()), ("4 of 4", Some("counted\n")));
    // The same process: it remembers.
    assert_eq!(text_of(&run("abc")?)?, "3 of 7");
    let answer = run("bad")?;
    assert_eq!((&answer["error"]["name"], &answer["exit_code"]), (&json!("Uncountable"), &json!(3)));
    assert_eq!(place.get("/contexts/count")?["language"], "count");
    let answer = place.code(json!({ "code": "sleep", "language": "count", "timeout_seconds": 0.5 }))?;
    assert_eq!(
        (&answer["cause"]["kind"], &answer["error"]["name"]),
        (&json!("time_limit"), &json!("Interrupted"))
    );
    assert_eq!(text_of(&run("a")?)?, "1 of 8");
    let answer = run("leave")?;
    assert_eq!((&answer["error"]["name"], &answer["exit_code"]), (&json!("ContextDied"), &json!(9)));
    assert_eq!(text_of(&run("a")?)?, "1 of 1");
    Ok(())
}

const RUNNER: &str = r#"#!/bin/bash
LC_ALL=C total=0
trap : INT
exec 9<&"$PADDOCK_CONTROL"
[ "$PADDOCK_CONTROL" = 9 ] || exec {PADDOCK_CONTROL}<&-
send() { # kind, then names and values
  local kind=$1 text; shift
  printf -v text '%s %d\n' "$kind" $(($# / 2))
  while (($#)); do printf -v text '%s%s %d\n%s\n' "$text" "$1" "${#2}" "$2"; shift 2; done
  printf %s "$text" >&9
}
send ready version 1
while read -r kind count <&9; do
  declare -A field=()
  for ((; count > 0; count--)); do
    read -r name length <&9
    value=; ((length)) && IFS= read -r -N "$length" value <&9
    read -r -N 1 _ <&9
    field[$name]=$value
  done
  [ "$kind" = run ] || continue
  code=${field[code]}
  case $code in
    bad) send error name Uncountable value bad traceback ''; send done call "${field[call]}" exit_code 3; continue ;;
    leave) exit 9 ;;
    sleep) sleep 1000 9<&-; send error name Interrupted value '' traceback '' ;;
    *) ((total += ${#code})); echo counted; send result main 1 text/plain "${#code} of $total" ;;
  esac
  send done call "${field[call]}"
done
"#;

fn a_value_has_many_representations(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    let code = "class Rich:
    def _repr_html_(self): return '<b>h</b>'
    def _repr_markdown_(self): return '*m*'
    def _repr_svg_(self): return '<svg/>'
    def _repr_png_(self): return b'\\x89PNG\\n\\x00'
    def _repr_jpeg_(self): return b'\\xff\\xd8'
    def _repr_pdf_(self): return b'%PDF'
    def _repr_latex_(self): return '$l$'
    def _repr_json_(self): return {'k': [1, None]}
    def _repr_javascript_(self): return 'alert(1)'
    def __repr__(self): return 'plain'
Rich()";
    let answer = place.python(code)?;
    let expected = json!({
        "main": true, "text": "plain", "html": "<b>h</b>", "markdown": "*m*", "svg": "<svg/>", "png": "iVBORwoA",
        "jpeg": "/9g=", "pdf": "JVBERg==", "latex": "$l$", "json": { "k": [1, null] }, "javascript": "alert(1)",
    });
    assert_eq!(answer["results"][0], expected);
    let code = "class Bundle:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {'text/plain': 'p', 'application/x-own': 'o', 'image/png': 'iVBORwoA'}
Bundle()";
    let answer = place.python(code)?;
    assert_eq!(answer["results"][0]["extra"], json!({ "application/x-own": "o" }));
    assert_eq!(answer["results"][0]["png"], "iVBORwoA");
    assert_eq!(place.python("[1, {'a': None}]")?["results"][0]["json"], json!([1, { "a": null }]));
    Ok(())
}

/// A copy of the directory that the variable names, which the caller may read.
pub fn given(caller: &Caller, variable: &str) -> Result<Option<String>> {
    let Some(from) = std::env::var_os(variable).filter(|path| std::path::Path::new(path).is_dir()) else {
        return Ok(None);
    };
    let to = caller.place().join("packages");
    let copied = std::process::Command::new("cp").arg("-aL").arg(&from).arg(&to).status()?;
    ensure!(copied.success(), "{} could not be copied", from.display());
    caller.own_all(&to)?;
    Ok(Some(to.display().to_string()))
}

/// If the host's Python has pandas and matplotlib, as `scripts/setup.py --tests` installs them.
fn figures_and_tables_are_results(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    if place.python("import pandas, matplotlib")?["error"].is_object() {
        paddock_e2e::skip("figures", "/usr/bin/python3 has no pandas and matplotlib");
        return Ok(());
    }
    let answer =
        place.python("import pandas as pd\npd.DataFrame({'a': range(2000), 'b': ['x', None] * 1000})")?;
    let result = &answer["results"][0];
    ensure!(result["html"].as_str().is_some_and(|html| html.contains("<table")), "no table: {result}");
    assert_eq!(
        (&result["data"]["columns"], &result["data"]["total_rows"]),
        (&json!(["a", "b"]), &json!(2000))
    );
    assert_eq!(result["data"]["rows"].as_array().map(Vec::len), Some(1000));
    assert_eq!(result["data"]["rows"][1], json!([1, null]));
    let charts = [
        (
            "plt.plot([1, 2], [3, 4], label='l'); plt.title('T');",
            "line",
            json!([{ "label": "l", "points": [[1, 3], [2, 4]] }]),
        ),
        (
            "plt.scatter([1, 2], [3, 4]);",
            "scatter",
            json!([{ "label": "", "artist": "_child0", "points": [[1.0, 3.0], [2.0, 4.0]] }]),
        ),
        (
            "plt.bar(['a', 'b'], [3, 4]);",
            "bar",
            json!([
                { "label": "a", "group": "", "artist": "_container0", "value": 3 },
                { "label": "b", "group": "", "artist": "_container0", "value": 4 },
            ]),
        ),
        (
            "plt.pie([1, 3], labels=['p', 'q']);",
            "pie",
            json!([
                { "label": "p", "angle": 90.0, "share": 0.25, "radius": 1 },
                { "label": "q", "angle": 270.0, "share": 0.75, "radius": 1 },
            ]),
        ),
        (
            "plt.boxplot([[1, 2, 3, 4, 10]]);",
            "box",
            json!([{ "label": "1", "min": 1.0, "first_quartile": 2.0, "median": 3.0, "third_quartile": 4.0, "max": 4.0, "outliers": [10.0] }]),
        ),
        (
            "plt.plot([1, 2, 3, 4, 5], [2, 3, 5, 7, 11], label='five');",
            "line",
            json!([{ "label": "five", "points": [[1, 2], [2, 3], [3, 5], [4, 7], [5, 11]] }]),
        ),
    ];
    for (code, kind, elements) in charts {
        let answer = place.python(&format!("import matplotlib.pyplot as plt\n{code}"))?;
        let results = answer["results"].as_array().with_context(|| format!("{code}: {answer}"))?;
        assert_eq!(results.len(), 1, "{code}: {answer}");
        assert_eq!(
            (results[0]["chart"]["type"].as_str(), &results[0]["chart"]["elements"]),
            (Some(kind), &elements)
        );
        ensure!(
            results[0]["png"].as_str().is_some_and(|png| png.starts_with("iVBORw0KGgo")),
            "{code}: no picture"
        );
    }
    Ok(())
}
