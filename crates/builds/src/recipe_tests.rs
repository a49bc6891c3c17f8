use super::*;

const FILES: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn prepare(steps: Vec<BuildStep>) -> Result<BuildFile, String> {
    let request = BuildTemplate { name: "x".into(), steps, ..BuildTemplate::default() };
    let recipe =
        Recipe { request: &request, parent: Parent::Image("alpine".into()), uploads: Path::new("/uploads") };
    recipe.prepare().map_err(|error| error.to_string())
}

fn run(command: &str, user: Option<&str>) -> BuildStep {
    BuildStep::Run { command: command.into(), user: user.map(String::from), force: false }
}

fn copy(to: &str, user: &str, mode: &str) -> BuildStep {
    let (user, mode) = (Some(user.into()), Some(mode.into()));
    BuildStep::Copy { files: FILES.into(), from: "a".into(), to: to.into(), user, mode, force: false }
}

fn client(file: &BuildFile, index: usize) -> ClientStep {
    match &file.steps[index] {
        Step::Client(step) => step.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn settings_hold_for_the_steps_after_them() {
    let variables = BTreeMap::from([("A".to_string(), "1".to_string())]);
    let file = prepare(vec![
        run("first", None),
        BuildStep::Env { variables },
        BuildStep::Workdir { path: "app/".into(), force: false },
        BuildStep::User { name: "root".into() },
        run("second", None),
        run("third", Some("www-data")),
    ])
    .unwrap();
    let ClientStep::Shell(first) = client(&file, 1) else { panic!("no command") };
    assert_eq!(first.surroundings.user, StepUser::Other(User::Name("user".into())));
    assert_eq!((first.surroundings.cwd.as_str(), first.surroundings.env.len()), ("/home/user", 0));
    let ClientStep::Shell(second) = client(&file, 5) else { panic!("no command") };
    assert_eq!(second.surroundings.user, StepUser::Root);
    assert_eq!(
        (second.surroundings.cwd.as_str(), second.surroundings.env["A"].as_str()),
        ("/home/user/app", "1")
    );
    let ClientStep::Shell(third) = client(&file, 6) else { panic!("no command") };
    assert_eq!(third.surroundings.user, StepUser::Other(User::Name("www-data".into())));
    assert_eq!(file.settings.user.as_deref(), Some("root"));
    assert_eq!(file.settings.cwd.as_deref(), Some("/home/user/app"));
}

#[test]
fn copies_have_places_owners_and_modes() {
    let file =
        prepare(vec![copy(".", "", ""), copy("~/x", "root", "0755"), copy("/srv/", "1001:1002", "644")])
            .unwrap();
    let unpacked: Vec<_> = (1..4)
        .map(|index| match client(&file, index) {
            ClientStep::Unpack(unpack) => (unpack.to, unpack.owner, unpack.mode),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(unpacked[0], ("/home/user/".into(), Some("user:user".into()), None));
    assert_eq!(unpacked[1], ("/home/user/x".into(), None, Some(0o755)));
    assert_eq!(unpacked[2], ("/srv/".into(), Some("1001:1002".into()), Some(0o644)));
}

#[test]
fn bad_steps_are_refused_with_their_number() {
    let files = |files: &str| BuildStep::Copy {
        files: files.into(),
        from: "a".into(),
        to: "/a".into(),
        user: None,
        mode: None,
        force: false,
    };
    for (step, words) in [
        (run(" ", None), "step 2: the command is empty"),
        (run("a\0", None), "holds a NUL"),
        (run(&"x".repeat(70_000), None), "longer than 64 KiB"),
        (run("a", Some("a b")), "step 2: "),
        (copy("/a", "-R:x", ""), "step 2: "),
        (copy("/a", "", "4755"), "mode `4755`"),
        (copy("/a", "", "u+x"), "mode `u+x`"),
        (copy("/../a", "", ""), "path `/../a`"),
        (files("../../etc/passwd"), "64 hexadecimal digits"),
        (files(&FILES.to_uppercase()), "64 hexadecimal digits"),
        (BuildStep::User { name: "../x".into() }, "step 2: "),
        (BuildStep::Env { variables: BTreeMap::from([("A=B".into(), "".into())]) }, "step 2: "),
    ] {
        let error = prepare(vec![run("a", None), step]).unwrap_err();
        assert!(error.contains(words), "{words:?} is not in {error:?}");
    }
    assert!(prepare(vec![run("a", None); 501]).unwrap_err().contains("more than 500"));
}

#[test]
fn a_template_has_the_disk_that_its_sandboxes_need_at_least() {
    let disk = |wanted: Option<u64>, inherited: Option<&str>| {
        let request = BuildTemplate { min_free_disk_bytes: wanted, ..BuildTemplate::default() };
        let limits = LimitsLayer { disk: inherited.map(String::from), ..LimitsLayer::default() };
        let settings = Box::new(Policy { limits, ..Policy::default() });
        let parent = Parent::Built { image: "built://x".into(), settings };
        let file = Recipe { request: &request, parent, uploads: Path::new("/u") }.prepare().unwrap();
        paddock_settings::resolve_limits(&file.settings.limits).unwrap().disk
    };
    let usual = paddock_model::Limits::default().disk;
    assert_eq!((disk(None, None), disk(Some(1 << 20), None)), (usual, usual));
    assert_eq!(disk(Some(usual * 3), None), usual * 3);
    assert_eq!(disk(Some(usual), Some("1MiB")), usual);
    assert_eq!(disk(Some(usual), Some("500GiB")), 500 << 30);
}

#[test]
fn a_start_command_is_the_command_of_the_template_and_a_wait_is_for_the_build_alone() {
    let build = |ready: &str| {
        let request = BuildTemplate {
            start: Some("serve".into()),
            ready: Some(ready.into()),
            ..BuildTemplate::default()
        };
        let settings = Policy { read: vec!["/etc".into()], user: Some("root".into()), ..Policy::default() };
        let parent = Parent::Built { image: "built://x".into(), settings: Box::new(settings) };
        Recipe { request: &request, parent, uploads: Path::new("/u") }.prepare().unwrap()
    };
    let file = build("test -e /ready");
    assert_eq!(file.settings.command.last().unwrap(), "serve");
    assert_eq!(file.settings.ready.as_deref(), Some("test -e /ready"));
    assert!(file.settings.read.is_empty(), "paths of the host are not inherited");
    assert_eq!(file.settings.user.as_deref(), Some("root"));
    assert!(matches!(client(&file, 1), ClientStep::Check(_)));
    assert_eq!(build("sleep 20").settings.ready, None);
}
