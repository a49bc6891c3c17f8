//! Packages that are installed while a context lives: the same context imports them, even if another command installed
//! them.

use crate::contexts::{Place, text_of};
use crate::contexts_values::given;
use anyhow::{Result, ensure};
use paddock_e2e::{Caller, for_both_callers};
use serde_json::json;

for_both_callers!(
    what_pip_installs_is_imported_by_the_same_context,
    what_pip_installs_by_a_magic_is_imported_by_the_same_context,
    what_npm_installs_is_required_by_the_same_context,
);

/// Packages as wheels: a package, a module, and a part of the first.
const WHEEL: &str = r#"
import zipfile
def wheel(name, files):
    with zipfile.ZipFile(f"{name}-99.0-py3-none-any.whl", "w") as made:
        about = f"{name}-99.0.dist-info"
        for path, text in files.items():
            made.writestr(path, text)
        made.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 99.0\n")
        made.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        made.writestr(f"{about}/RECORD", "")
wheel("late_one", {"late_one/__init__.py": "value = 1\n"})
wheel("late_two", {"late_two.py": "value = 2\n"})
wheel("late_three", {"late_one/part.py": "value = 3\n"})
"#;
const PIP: &str =
    "pip install --quiet --no-index --no-deps --no-cache-dir --disable-pip-version-check --find-links .";

fn has_pip() -> bool {
    let found = std::path::Path::new("/usr/bin/pip").exists();
    if !found {
        paddock_e2e::skip("packages", "there is no /usr/bin/pip");
    }
    found
}

fn what_pip_installs_is_imported_by_the_same_context(caller: &Caller) -> Result<()> {
    if !has_pip() {
        return Ok(());
    }
    let place = Place::with(caller, &[])?;
    place.python(WHEEL)?;
    // The directory of a user's packages is not there yet, and it was looked into already.
    assert_eq!(place.python("import late_one")?["error"]["name"], "ModuleNotFoundError");
    // In one call: by a subprocess, then the import.
    let code = format!("import subprocess\nsubprocess.run('{PIP} late_one', shell=True, check=True)\n");
    let answer = place
        .python(&format!("{code}import late_one, site, sys\n(late_one.value, site.USER_SITE in sys.path)"))?;
    assert_eq!(text_of(&answer)?, "(1, True)", "{answer}");
    // In another one, by a command beside the context.
    let exec = |command: String| place.post("/execs", json!({ "command": command }), 200);
    assert_eq!(place.python("import late_two")?["error"]["name"], "ModuleNotFoundError");
    let ran = exec(format!("{PIP} late_two"))?;
    assert_eq!(ran["exit_code"], 0, "{ran}");
    assert_eq!(place.value("import late_two\nlate_two.value")?, "2");
    // Part of a package that was imported before.
    assert_eq!(place.python("import late_one.part")?["error"]["name"], "ModuleNotFoundError");
    exec(format!("{PIP} late_three"))?;
    assert_eq!(place.value("import late_one.part\nlate_one.part.value")?, "3");
    // A package with a version has it, and a missing one is still told in Python's own words.
    assert_eq!(place.value("import importlib.metadata as m\nm.version('late_two')")?, "'99.0'");
    let missing = place.python("import late_nowhere")?;
    assert_eq!(missing["error"]["value"], "No module named 'late_nowhere'", "{missing}");
    ensure!(!missing["error"]["traceback"].to_string().contains("find_spec"), "{missing}");
    // A user's package comes before the system's, as in a new interpreter.
    let order = "[path for path in sys.path if path.endswith('-packages')]";
    let new = exec(format!("python3 -c \"import sys; print({order})\""))?;
    assert_eq!(
        new["stdout"].as_str().unwrap_or_default().trim_end(),
        place.value(&format!("import sys\n{order}"))?
    );
    Ok(())
}

fn what_pip_installs_by_a_magic_is_imported_by_the_same_context(caller: &Caller) -> Result<()> {
    let Some(packages) = given(caller, "PADDOCK_TEST_IPYTHON")? else {
        paddock_e2e::skip("ipython", "PADDOCK_TEST_IPYTHON does not name a directory with IPython");
        return Ok(());
    };
    if !has_pip() {
        return Ok(());
    }
    let shown = format!("{packages}:/packages");
    let options = ["--read", &shown, "--env", "PYTHONPATH=/packages"];
    let place = Place::with(caller, &options)?;
    place.python(WHEEL)?;
    assert_eq!(place.value(&format!("!{PIP} late_one\nimport late_one\nlate_one.value"))?, "1");
    place.python(&format!("%{PIP} late_two"))?;
    assert_eq!(place.value("import late_two\nlate_two.value")?, "2");
    Ok(())
}

const NPM: &str = "npm install --offline --no-audit --no-fund --loglevel=error";

fn what_npm_installs_is_required_by_the_same_context(caller: &Caller) -> Result<()> {
    if !std::path::Path::new("/usr/bin/npm").exists() {
        paddock_e2e::skip("packages", "there is no /usr/bin/npm");
        return Ok(());
    }
    let place = Place::new(caller)?;
    let make = "for name in one two; do mkdir -p $name/package/lib; \
        echo '{\"name\": \"late-'$name'\", \"version\": \"1.0.0\", \"main\": \"lib/main.js\"}' > $name/package/package.json; \
        echo \"module.exports = '$name'\" > $name/package/lib/main.js; tar -czf $name.tgz -C $name package; done; \
        mkdir -p three/package/lib; echo 'export default 3' > three/package/lib/main.mjs; \
        echo '{\"name\": \"late-three\", \"version\": \"1.0.0\", \"exports\": {\"import\": \"./lib/main.mjs\"}}' > three/package/package.json; \
        tar -czf three.tgz -C three package; mkdir node_modules";
    let exec = |command: &str| place.post("/execs", json!({ "command": command }), 200);
    let made = exec(make)?;
    assert_eq!(made["exit_code"], 0, "{made}");
    let run = |code: &str| place.code(json!({ "code": code, "language": "javascript" }));
    for name in ["one", "two", "three"] {
        let missing = run(&format!("require('late-{name}')"))?;
        let told = missing["error"]["value"].as_str().unwrap_or_default();
        ensure!(told.starts_with(&format!("Cannot find module 'late-{name}'")), "{missing}");
        let missing = run(&format!("await importModule('late-{name}')"))?;
        ensure!(missing["error"].is_object(), "{missing}");
    }
    let code = format!("require('child_process').execSync('{NPM} ./one.tgz')\nrequire('late-one')");
    assert_eq!(text_of(&run(&code)?)?, "'one'");
    let ran = exec(&format!("{NPM} ./two.tgz ./three.tgz"))?;
    assert_eq!(ran["exit_code"], 0, "{ran}");
    assert_eq!(text_of(&run("require('late-two')")?)?, "'two'");
    assert_eq!(text_of(&run("(await importModule('late-three')).default")?)?, "3");
    assert_eq!(
        text_of(&run("typeof require('node:fs').readFileSync + typeof require('fs/promises').readFile")?)?,
        "'functionfunction'"
    );
    Ok(())
}
