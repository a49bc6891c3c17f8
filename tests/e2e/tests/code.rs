//! `paddock code`: source text, from wherever it comes.

use anyhow::{Result, ensure};
use paddock_e2e::{Caller, Finished, for_both_callers, skip};

for_both_callers!(
    python,
    javascript,
    bash,
    from_a_file,
    from_standard_input,
    the_fence_is_the_same,
    source_larger_than_an_argument,
    mistakes,
);

fn code(caller: &Caller, arguments: &[&str]) -> Result<Finished> {
    caller.paddock(["code"])?.arguments(arguments).finish()
}

fn python(caller: &Caller) -> Result<()> {
    assert_eq!(code(caller, &["print(6 * 7)"])?.success()?, "42\n");
    assert_eq!(
        code(caller, &["-l", "python", "import sys; print('x', file=sys.stderr); sys.exit(3)"])?
            .exited(3)?
            .err(),
        "x\n"
    );
    ensure!(code(caller, &["1/0"])?.exited(1)?.err().contains("ZeroDivisionError"), "no trace");
    Ok(())
}

fn javascript(caller: &Caller) -> Result<()> {
    if !std::path::Path::new("/usr/bin/node").exists() {
        skip("code::javascript", "there is no /usr/bin/node");
        return Ok(());
    }
    let finished = code(caller, &["-l", "javascript", "console.log(6 * 7, await Promise.resolve('later'))"])?;
    assert_eq!(finished.success()?, "42 later\n");
    let file = caller.file("program.js", "console.log(require('os').hostname())")?;
    assert_eq!(code(caller, &[&file.display().to_string()])?.success()?, "paddock\n");
    Ok(())
}

fn bash(caller: &Caller) -> Result<()> {
    let source = "a=(1 2 3); echo \"${a[2]}\"; exit 5";
    assert_eq!(code(caller, &["-l", "bash", source])?.exited(5)?.out(), "3\n");
    Ok(())
}

fn from_a_file(caller: &Caller) -> Result<()> {
    for (name, source) in [("program.py", "print('from a file')"), ("program.sh", "echo from a file")] {
        let file = caller.file(name, source)?.display().to_string();
        assert_eq!(code(caller, &[&file])?.success()?, "from a file\n");
    }
    Ok(())
}

fn from_standard_input(caller: &Caller) -> Result<()> {
    for arguments in [&["-l", "bash", "-"][..], &["-l", "bash"]] {
        let invocation = caller.paddock(["code"])?.arguments(arguments).input("echo from input; cat");
        assert_eq!(invocation.finish()?.success()?, "from input\n");
    }
    // When the source is elsewhere, input is the program's.
    let invocation = caller.paddock(["code", "print(input())"])?.input("a line\n");
    assert_eq!(invocation.finish()?.success()?, "a line\n");
    Ok(())
}

fn the_fence_is_the_same(caller: &Caller) -> Result<()> {
    let finished = code(caller, &["--json", "--timeout", "300ms", "import time; time.sleep(600)"])?;
    assert_eq!(finished.exited(124)?.json()?["cause"]["kind"], "time_limit");
    let workspace = caller.directory("workspace")?;
    let options = ["--workspace", &workspace.display().to_string(), "open('made', 'w').write('x')"];
    code(caller, &options)?.success()?;
    let names: Vec<_> = std::fs::read_dir(&workspace)?.flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(names, ["made"]);
    code(caller, &["--require", "own-kernel", "print(1)"])?.refused(&["own-kernel"])
}

fn source_larger_than_an_argument(caller: &Caller) -> Result<()> {
    let source = format!("x = '{}'\nprint(len(x))", "y".repeat(1 << 20));
    let invocation = caller.paddock(["code", "-"])?.input(source);
    assert_eq!(invocation.finish()?.success()?, "1048576\n");
    Ok(())
}

fn mistakes(caller: &Caller) -> Result<()> {
    code(caller, &["-l", "cobol", "x"])?.refused(&["cobol", "python"])?;
    code(caller, &["missing/program.py"])?.refused(&["missing/program.py"])?;
    ensure!(code(caller, &["def"])?.exited(1)?.err().contains("SyntaxError"), "no syntax error");
    Ok(())
}
