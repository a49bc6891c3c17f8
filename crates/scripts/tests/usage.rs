//! The way of a script from its source to its result, as the command, the server and jobs go it.

#![allow(clippy::unwrap_used, reason = "a test: whatever is missing shall fail it")]

use paddock_scripts::ScriptError;
use paddock_scripts::{Context, Language, needs, parse_arguments, plan};

#[test]
fn a_script_from_its_source_to_its_result() -> Result<(), ScriptError> {
    let source = "# sandbox\n# volume: notes-$args[user] notes\ndef main(user: str):\n    return user\n";
    let arguments = parse_arguments(r#"{"user": "ada"}"#)?;
    // 1. Look up the resources that arguments and `secret:` lines name, and put them into the context.
    assert!(needs(source, Language::Python, &arguments)?.is_empty());
    // 2. Everything that can be wrong before it runs is wrong here, with its line.
    let plan = plan(source, Language::Python, &arguments, &Context::default())?;
    // 3. Create `plan.sandbox`, write `plan.files` (most languages have none), start `plan.exec`.
    assert_eq!(plan.sandbox.volumes[0].name, "notes-ada");
    // 4. When it has ended: read `plan.result.files`, each at most LARGEST_RESULT + 1 bytes, and hand them in.
    let written = br#"{"result": "ada"}"#.to_vec();
    assert_eq!(plan.result.conclude(0, &[Some(written)], b"").unwrap(), "ada");
    // 5. End the sandbox, as failed where there was no result: its volumes are committed or kept aside by that.
    Ok(())
}
