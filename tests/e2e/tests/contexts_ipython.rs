//! A template that has IPython: magics, display, and the same answers as without it. With the package that
//! `scripts/test.py` fetches.

use crate::contexts::{Place, text_of};
use crate::contexts_values::given;
use anyhow::{Result, ensure};
use paddock_e2e::{Caller, for_both_callers};
use serde_json::json;

for_both_callers!(
    magics_and_displays_are_results,
    ipython_answers_as_plain_python_does,
    ipython_survives_bad_code,
    figures_come_once_with_the_inline_magic,
);

/// A sandbox whose Python has IPython; `None`, with a message, if there is none.
fn place(caller: &Caller) -> Result<Option<Place<'_>>> {
    let Some(packages) = given(caller, "PADDOCK_TEST_IPYTHON")? else {
        paddock_e2e::skip("ipython", "PADDOCK_TEST_IPYTHON does not name a directory with IPython");
        return Ok(None);
    };
    let shown = format!("{packages}:/packages");
    let place = Place::with(caller, &["--read", &shown, "--env", "PYTHONPATH=/packages"])?;
    let answer = place.python("get_ipython() is not None")?;
    assert_eq!(text_of(&answer)?, "True", "IPython is not what runs: {answer}");
    Ok(Some(place))
}

fn magics_and_displays_are_results(caller: &Caller) -> Result<()> {
    let Some(place) = place(caller)? else { return Ok(()) };
    assert_eq!(place.value("%pwd")?, "'/workspace'");
    assert_eq!(place.python("!echo from a shell")?["stdout"], "from a shell\n");
    assert_eq!(place.value("lines = !printf 'a\\nb'\nlist(lines)")?, "['a', 'b']");
    let answer = place.python("%%bash\necho out; echo err >&2")?;
    assert_eq!((&answer["stdout"], &answer["stderr"]), (&json!("out\n"), &json!("err\n")));
    let code = "from IPython.display import HTML, Markdown, Image, JSON, display\ndisplay(Markdown('*m*'))\nHTML('<b>h</b>')";
    let answer = place.python(code)?;
    assert_eq!(
        (&answer["results"][0]["markdown"], &answer["results"][0]["main"]),
        (&json!("*m*"), &json!(false))
    );
    assert_eq!(
        (&answer["results"][1]["html"], &answer["results"][1]["main"]),
        (&json!("<b>h</b>"), &json!(true))
    );
    assert_eq!(place.python("{'a': [1]}")?["results"][0]["json"], json!({ "a": [1] }));
    let answer = place.python("%no_such_magic")?;
    ensure!(answer["error"]["value"].as_str().is_some_and(|text| text.contains("no_such_magic")), "{answer}");
    Ok(())
}

fn ipython_answers_as_plain_python_does(caller: &Caller) -> Result<()> {
    let Some(place) = place(caller)? else { return Ok(()) };
    ensure!(place.python("x = 41")?.get("results").is_none(), "a statement has no value");
    assert_eq!(place.value("x + 1")?, "42");
    assert_eq!(place.value("_ + 1")?, "43");
    ensure!(place.python("x;")?.get("results").is_none(), "a semicolon hides the value");
    assert_eq!(place.value("import asyncio\nawait asyncio.sleep(0.01)\n7")?, "7");
    let answer = place.python("def divide(by):\n    return 1 / by\ndivide(0)")?;
    let traceback = answer["error"]["traceback"].as_str().unwrap_or_default();
    assert_eq!((&answer["error"]["name"], &answer["exit_code"]), (&json!("ZeroDivisionError"), &json!(1)));
    ensure!(traceback.contains("return 1 / by") && !traceback.contains("paddock"), "{traceback}");
    ensure!(answer["stderr"].as_str().is_some_and(|text| text.contains("ZeroDivisionError")), "{answer}");
    assert_eq!(place.python("def")?["error"]["name"], "SyntaxError");
    assert_eq!(place.python("import sys; sys.exit(3)")?["exit_code"], 3);
    assert_eq!(place.python("exit()")?["exit_code"], 0);
    assert_eq!(place.python("input()")?["error"]["name"], "EOFError");
    let answer = place.code(json!({ "code": "input('? '), input()", "stdin": "one\ntwo\n" }))?;
    assert_eq!((text_of(&answer)?.as_str(), &answer["stdout"]), ("('one', 'two')", &json!("? ")));
    let answer = place.code(json!({ "code": "while True: pass", "timeout_seconds": 0.5 }))?;
    assert_eq!(
        (&answer["cause"]["kind"], &answer["error"]["name"]),
        (&json!("time_limit"), &json!("KeyboardInterrupt"))
    );
    assert_eq!(place.value("x")?, "41");
    Ok(())
}

fn ipython_survives_bad_code(caller: &Caller) -> Result<()> {
    let Some(place) = place(caller)? else { return Ok(()) };
    let goes_on = || -> Result<()> {
        let answer = place.python("6 * 7")?;
        assert_eq!(text_of(&answer)?, "42", "{answer}");
        Ok(())
    };
    let answer = place.python("class Bad:\n    def __repr__(self): raise ValueError('no text')\nBad()")?;
    assert_eq!(
        (&answer["error"]["name"], &answer["error"]["value"]),
        (&json!("ValueError"), &json!("no text"))
    );
    goes_on()?;
    let code = "class Huge:\n    def __repr__(self): return 'x' * (50 << 20)\nHuge()";
    let answer = place.python(code)?;
    ensure!(text_of(&answer)?.len() < 2 << 20, "{} bytes of text", text_of(&answer)?.len());
    place.python("import sys, os\nsys.stdout.close(); os.close(1)")?;
    assert_eq!(place.python("print('back')")?["stdout"], "back\n");
    place.python("ip = get_ipython()\nip.run_cell_async = ip.transform_cell = None")?;
    let broken = place.python("6 * 7")?;
    ensure!(broken["error"]["name"].is_string() || text_of(&broken)? == "42", "{broken}");
    place.act("/contexts/python/restart")?;
    goes_on()?;
    let answer = place.python("import os; os._exit(4)")?;
    assert_eq!((&answer["error"]["name"], &answer["exit_code"]), (&json!("ContextDied"), &json!(4)));
    goes_on()
}

fn figures_come_once_with_the_inline_magic(caller: &Caller) -> Result<()> {
    let Some(place) = place(caller)? else { return Ok(()) };
    if place.python("import matplotlib")?["error"].is_object() {
        paddock_e2e::skip("figures", "/usr/bin/python3 has no matplotlib");
        return Ok(());
    }
    for first in ["%matplotlib inline\n", ""] {
        let answer =
            place.python(&format!("{first}import matplotlib.pyplot as plt\nplt.plot([1, 2], [3, 4]);"))?;
        let pictures =
            answer["results"].as_array().into_iter().flatten().filter(|one| one["png"].is_string());
        assert_eq!(pictures.count(), 1, "{}", answer["results"]);
    }
    Ok(())
}
