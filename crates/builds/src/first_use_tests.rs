use super::*;
use paddock_engine::backends_of_this_build;

fn options(files: &Path, names: &[&str]) -> FirstUseOptions {
    FirstUseOptions {
        names: names.iter().map(ToString::to_string).collect(),
        files: Some(files.to_path_buf()),
        ..FirstUseOptions::default()
    }
}

#[tokio::test]
async fn a_build_that_fails_is_told_to_everybody_and_not_begun_again() {
    let (state, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(files.path().join("own.toml"), "base = './nowhere'\n").unwrap();
    let mut options = options(files.path(), &["own"]);
    options.wait = Duration::from_secs(60);
    let first_use = FirstUse::open(state.path(), options, backends_of_this_build).unwrap();
    let error = first_use.ensure("own").await.unwrap_err();
    assert!(matches!(&error, FirstUseError::Failed { .. }), "{error}");
    assert!(error.to_string().contains("nowhere"), "{error}");
    let told = first_builds(state.path());
    assert_eq!((told["own"].state, told["own"].step), (FirstBuildState::Failed, 1));
    let again = first_use.ensure("own").await.unwrap_err();
    assert!(matches!(&again, FirstUseError::Failed { build, .. } if *build == told["own"]), "{again}");
    first_use.ensure("other").await.unwrap();
}

#[tokio::test]
async fn a_create_that_can_do_without_begins_the_build_and_goes_on() {
    let (state, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(files.path().join("own.toml"), "base = './nowhere'\n").unwrap();
    let mut options = options(files.path(), &["own"]);
    options.wait = Duration::from_secs(60);
    let first_use = FirstUse::open(state.path(), options, backends_of_this_build).unwrap();
    assert!(matches!(first_use.begin("own").unwrap(), Some(FirstUseError::Building { .. })));
    assert!(matches!(first_use.ensure("own").await, Err(FirstUseError::Failed { .. })), "the same build");
    let told = first_use.begin("own").unwrap();
    assert!(matches!(&told, Some(FirstUseError::Failed { .. })), "{told:?}");
    assert_eq!(first_use.running()["own"].failures, 1, "it was not tried again");
    assert!(first_use.begin("other").unwrap().is_none());
    templates::save(state.path(), "own", &Default::default(), false).unwrap();
    assert!(first_use.begin("own").unwrap().is_none());
}

#[tokio::test]
async fn a_build_that_made_way_is_begun_for_a_create_that_waits() {
    let (state, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(files.path().join("own.toml"), "base = './nowhere'\n").unwrap();
    let mut options = options(files.path(), &["own"]);
    options.wait = Duration::from_secs(60);
    let first_use = FirstUse::open(state.path(), options, backends_of_this_build).unwrap();
    let held = first_use.slots.acquire().await.unwrap();
    assert!(first_use.begin("own").unwrap().is_some());
    // As when the disk has too little room.
    assert!(first_use.makes_way("own"));
    first_use.running().get_mut("own").unwrap().task.take().unwrap().abort();
    while !first_builds(state.path()).is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(first_use.begin("own").unwrap().is_some());
    assert!(first_use.running()["own"].made_way, "one that can do without is told of the failure");
    drop(held);
    let error = first_use.ensure("own").await.unwrap_err();
    assert!(error.to_string().contains("nowhere"), "it was begun: {error}");
    assert_eq!(first_use.running()["own"].failures, 2);
}

#[tokio::test]
async fn a_build_that_a_create_waits_for_does_not_make_way() {
    let (state, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(files.path().join("own.toml"), "base = './nowhere'\n").unwrap();
    let first_use =
        FirstUse::open(state.path(), options(files.path(), &["own"]), backends_of_this_build).unwrap();
    let _held = first_use.slots.acquire().await.unwrap();
    assert!(first_use.begin("own").unwrap().is_some());
    assert!(first_use.ensure("own").await.is_err());
    assert!(!first_use.makes_way("own"), "the build that the other began");
}

#[tokio::test]
async fn a_build_that_panics_has_failed() {
    let (state, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(files.path().join("own.toml"), "base = './nowhere'\n").unwrap();
    let first_use =
        FirstUse::open(state.path(), options(files.path(), &["own"]), backends_of_this_build).unwrap();
    let _held = first_use.slots.acquire().await.unwrap();
    assert!(first_use.begin("own").unwrap().is_some());
    first_use.running().get_mut("own").unwrap().task.take().unwrap().abort();
    while !first_builds(state.path()).is_empty() {
        tokio::task::yield_now().await;
    }
    let (progress, seen) = Progress::new(state.path(), "own");
    first_use.running().get_mut("own").unwrap().seen = seen;
    let of_task = first_use.clone();
    let task = tokio::spawn(async move {
        let _attempt = Attempt { first_use: &of_task, name: "own", progress };
        tokio::task::yield_now().await;
        panic!("a mistake");
    });
    assert!(task.await.unwrap_err().is_panic());
    let told = first_use.begin("own").unwrap();
    assert!(matches!(&told, Some(FirstUseError::Failed { .. })), "{told:?}");
    assert_eq!(first_builds(state.path())["own"].state, FirstBuildState::Failed);
}

#[test]
fn a_build_that_no_create_waits_for_is_tried_less_and_less_often() {
    let minutes = |failures| Need::Replaced.until_again(failures).as_secs() / 60;
    assert_eq!([1, 2, 3, 6, 7, 1000].map(minutes), [10, 20, 40, 320, 360, 360]);
    assert_eq!(Need::Awaited.until_again(1000), UNTIL_AGAIN);
}

#[tokio::test]
async fn a_create_that_does_not_wait_is_told_how_far_the_build_is() {
    let (state, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(files.path().join("own.toml"), "base = './nowhere'\n").unwrap();
    let first_use =
        FirstUse::open(state.path(), options(files.path(), &["own"]), backends_of_this_build).unwrap();
    // The task of the build cannot have run: this test has one thread, and has not given it away.
    let held = first_use.slots.acquire().await.unwrap();
    let error = first_use.ensure("own").await.unwrap_err();
    assert!(matches!(error, FirstUseError::Building { .. }), "{error}");
    assert_eq!(first_builds(state.path())["own"].state, FirstBuildState::Building);
    first_use.abort();
    drop(held);
    // The lock went with the task.
    while !first_builds(state.path()).is_empty() {
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_template_that_is_there_is_not_built() {
    let (state, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(files.path().join("own.toml"), "base = './nowhere'\n").unwrap();
    templates::save(state.path(), "own", &Default::default(), false).unwrap();
    let first_use =
        FirstUse::open(state.path(), options(files.path(), &["own"]), backends_of_this_build).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(first_use.ensure("own")).unwrap();
    assert!(first_builds(state.path()).is_empty());
}

#[test]
fn a_mistake_is_found_when_the_server_starts() {
    let (state, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(files.path().join("broken.toml"), "packages = []\n").unwrap();
    let open = |name: &str| {
        FirstUse::open(state.path(), options(files.path(), &[name]), backends_of_this_build).err()
    };
    let unusable = open("broken").unwrap();
    assert!(unusable.to_string().contains("broken"), "{unusable}");
    assert!(matches!(open("nothing"), Some(FirstUseError::NoFile(_))));
    assert!(open("code-interpreter-v1").is_none());
}
