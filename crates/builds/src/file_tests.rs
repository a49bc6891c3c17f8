use super::*;

fn refusal(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn everything_is_read_in_the_order_of_the_file() {
    let file = parse(
        r#"
        base = "debian:bookworm"
        mirror = "http://mirror.example/debian"
        run = ["echo first", { command = "echo second", net = "host" }]
        apt = ["python3", "g++", "libc6:amd64", "x=1.2~rc1-3"]
        pip = ["numpy>=1.26,<3", "requests[socks]"]
        npm = ["@scope/name@1.2.3"]
        copy = [{ from = "tools", to = "/opt/tools" }]
        env = { A = "1", B = "2" }
        preload = ["numpy"]
        [template]
        net = "none"
        env = { B = "3" }
        preload = ["pandas"]
        [template.limits]
        memory = "1GiB"
        [build]
        memory = "2GiB"
        "#,
    )
    .unwrap();
    assert_eq!(file.base, "debian:bookworm");
    assert_eq!(file.mirror.as_deref(), Some("http://mirror.example/debian"));
    let run = |command: &str, network| Step::Run { command: command.into(), network };
    assert_eq!(file.steps[..2], [run("echo first", false), run("echo second", true)]);
    assert!(matches!(&file.steps[2], Step::Apt { packages } if packages.len() == 4));
    assert!(matches!(&file.steps[3], Step::Pip { .. }) && matches!(&file.steps[4], Step::Npm { .. }));
    assert_eq!(file.steps[5], Step::Copy { from: "tools".into(), to: "/opt/tools".into() });
    assert_eq!(file.env["B"], "2", "steps see the build's own");
    assert_eq!((file.settings.env["A"].as_str(), file.settings.env["B"].as_str()), ("1", "3"));
    assert_eq!(file.settings.preload, ["numpy", "pandas"]);
    assert_eq!(file.settings.limits.memory.as_deref(), Some("1GiB"));
    assert_eq!((file.limits.memory, file.limits.disk), (2 << 30, 3 << 30));
}

#[test]
fn an_empty_list_is_no_step() {
    assert_eq!(parse("base = 'x'\napt = []\nrun = []").unwrap().steps, []);
}

#[test]
fn mistakes_are_told_with_their_line() {
    for (text, message) in [
        ("", "`base` is missing"),
        ("base = ''", "line 1: base ``: an image is named by"),
        ("base = 'a b'", "line 1: base `a b`: an image"),
        ("base = 'x'\nbsae = 'y'", "line 2: `bsae` is not a key of a build file; did you mean `base`?"),
        (
            "base = 'x'\nimage = 'y'",
            "line 2: `image` is not a key of a build file; did you mean `template.image`?",
        ),
        (
            "base = 'x'\nlimits = {}",
            "line 2: `limits` is not a key of a build file; did you mean `[template.limits]`",
        ),
        (
            "base = 'x'\nzzzzzzzz = 1",
            "line 2: `zzzzzzzz` is not a key of a build file; known are base, mirror, apt",
        ),
        ("base = 5", "line 1: `base` has to be a string, but is a whole number"),
        ("base = 'x'\nmirror = 'ftp://a'", "line 2: mirror `ftp://a`: a mirror is an address"),
        ("base = 'x'\nmirror = 'http://a b'", "line 2: mirror `http://a b`: a mirror"),
        ("base = 'x'\napt = 'a'", "line 2: `apt` has to be a list of strings, but is a string"),
        ("base = 'x'\napt = ['-o=x']", "line 2: apt `-o=x`: this is no name of a Debian package"),
        ("base = 'x'\napt = ['vim-']", "line 2: apt `vim-`: this is no name"),
        ("base = 'x'\napt = ['?essential']", "line 2: apt `?essential`: this is no name"),
        ("base = 'x'\npip = ['--index-url=x']", "line 2: pip `--index-url=x`: this is no requirement"),
        ("base = 'x'\nnpm = ['a b']", "line 2: npm `a b`: this is no package"),
        (
            "base = 'x'\ncopy = [{ from = '../a', to = '/b' }]",
            "line 2: copy.from `../a`: what is copied lies below",
        ),
        ("base = 'x'\ncopy = [{ from = '/etc', to = '/b' }]", "line 2: copy.from `/etc`: what is copied"),
        (
            "base = 'x'\ncopy = [{ from = 'a', to = 'b' }]",
            "line 2: copy.to `b`: a place inside is an absolute",
        ),
        ("base = 'x'\ncopy = [{ from = 'a', to = '/../b' }]", "line 2: copy.to `/../b`: a place inside"),
        ("base = 'x'\ncopy = [\n{ from = 'a' }]", "line 3: copy.to ``: both `from`"),
        ("base = 'x'\ncopy = [\n{ from = 'a', too = '/b' }]", "line 3: `copy.too` is not a key"),
        ("base = 'x'\ncopy = ['a']", "line 2: `copy` has to be a list of tables"),
        ("base = 'x'\nrun = ['']", "line 2: run ``: a command for the shell cannot be empty"),
        ("base = 'x'\nrun = [\n'a',\n{ net = 'host' }]", "line 4: run ``: a command"),
        (
            "base = 'x'\nrun = [{ command = 'a', net = 'all' }]",
            "line 2: run.net `all`: known are none and host",
        ),
        ("base = 'x'\nrun = [{ command = 'a', user = 'b' }]", "line 2: `run.user` is not a key"),
        ("base = 'x'\nrun = [5]", "line 2: `run` has to be a list of commands"),
        ("base = 'x'\nenv = { \"A=B\" = 'c' }", "line 2: environment variable `A=B`"),
        ("base = 'x'\npreload = ['a-b']", "line 2: preload `a-b` is not a Python module"),
        ("base = 'x'\n[template]\nimage = 'y'", "line 2: template.image `y`: the build makes the image"),
        (
            "base = 'x'\n[template]\nwrokspace = '.'",
            "line 3: `wrokspace` is not a setting; did you mean `workspace`?",
        ),
        (
            "base = 'x'\n[build]\nmemroy = '1g'",
            "line 3: `limits.memroy` is not a setting; did you mean `limits.memory`?",
        ),
        ("base = 'x'\n[build]\nmemory = 'much'", "the limits of `build` are not usable: memory limit"),
        ("base = 'x'\nbase = 'y'", "line 2, column 1: duplicate key"),
    ] {
        let found = refusal(text);
        assert!(found.starts_with(message), "{text:?}: {found}");
    }
    assert_eq!(refusal(&" ".repeat(LARGEST_FILE + 1)), "the file is larger than 1 MiB");
}

/// Deterministic short fuzz: valid fragments, joined at random.
#[test]
fn random_text_never_panics() {
    const FRAGMENTS: [&str; 20] = [
        "base", "apt", "copy", "run", "template", "build", " = ", "[", "]", "{", "}", "\"", "'", "\n", ".",
        ",", "from", "to", "/x", "net",
    ];
    let mut seed: u64 = 0x5eed;
    let mut next = |bound: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % bound as u64) as usize
    };
    for _ in 0..20_000 {
        let text: String = (0..next(24)).map(|_| FRAGMENTS[next(FRAGMENTS.len())]).collect();
        let _ = parse(&text);
    }
}
