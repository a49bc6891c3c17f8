use super::*;
use paddock_model::api::{Quota, Role, SandboxState, Token};
use std::fs;
use std::os::unix::fs::FileExt;

fn sandbox(number: u64, tenant: &str, name: Option<&str>) -> SandboxRow {
    SandboxRow {
        id: format!("sb-{number:016x}"),
        tenant: tenant.into(),
        name: name.map(str::to_string),
        state: SandboxState::Running,
        // Several have the same time, as happens.
        created_ms: number / 3,
        ended_ms: None,
        body: format!("{{\"number\":{number}}}"),
    }
}

fn open() -> (tempfile::TempDir, Store) {
    let state = tempfile::tempdir().unwrap();
    let store = Store::open(state.path()).unwrap();
    (state, store)
}

#[test]
fn what_was_written_is_there_after_a_restart() {
    let (state, store) = open();
    let row = sandbox(1, "a", Some("x"));
    store.insert_sandbox(&row).unwrap();
    store.put_exec(&row.id, 2, "{}").unwrap();
    store.put_exec(&row.id, 1, "old").unwrap();
    store.put_exec(&row.id, 1, "new").unwrap();
    store.set_setting("key", b"\0value").unwrap();
    drop(store);
    let store = Store::open(state.path()).unwrap();
    assert_eq!(store.sandbox(&row.id).unwrap(), Some(row.clone()));
    assert_eq!(store.living_sandboxes().unwrap(), std::slice::from_ref(&row));
    assert_eq!(store.execs_of(&row.id).unwrap(), [(1, "new".to_string()), (2, "{}".to_string())]);
    assert_eq!(store.exec(&row.id, 1).unwrap().as_deref(), Some("new"));
    assert_eq!((store.last_exec_number(&row.id).unwrap(), store.last_exec_number("none").unwrap()), (2, 0));
    assert_eq!(store.setting("key").unwrap().as_deref(), Some(&b"\0value"[..]));
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(fs::metadata(state.path().join("paddock.db")).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_second_server_is_told_who_is_first() {
    let (state, store) = open();
    let error = Store::open(state.path()).err().unwrap();
    assert!(
        matches!(error, StoreError::Locked { pid: Some(pid), .. } if pid == std::process::id()),
        "{error}"
    );
    assert!(error.to_string().contains(&std::process::id().to_string()));
    drop(store);
    Store::open(state.path()).unwrap();
}

#[test]
fn a_state_directory_that_was_removed_or_replaced_is_noticed_and_gets_no_second_server() {
    let above = tempfile::tempdir().unwrap();
    let state = above.path().join("state");
    let store = Store::open(&state).unwrap();
    store.insert_sandbox(&sandbox(1, "a", None)).unwrap();
    for change in ["removed", "replaced"] {
        match change {
            "removed" => fs::rename(&state, above.path().join("aside")).unwrap(),
            _ => fs::create_dir_all(&state).unwrap(),
        }
        let refused = store.insert_sandbox(&sandbox(2, "a", None)).unwrap_err();
        assert!(matches!(refused, StoreError::Removed { .. }), "{change}: {refused}");
        assert!(refused.hint().is_some());
        // Records can still be read.
        assert_eq!(store.living_sandboxes().unwrap().len(), 1);
        // An ordinary user's records were in the directory: a second server finds nothing that it could take for its
        // own.
        if rustix::process::geteuid().is_root() {
            let second = Store::open(&state).err().unwrap();
            assert!(
                matches!(second, StoreError::Orphaned { pid: Some(pid), .. } if pid == std::process::id()),
                "{change}: {second}"
            );
        }
    }
    drop(store);
    Store::open(&state).unwrap();
}

#[test]
fn a_name_is_taken_only_among_the_living_of_a_tenant() {
    let (_state, store) = open();
    let first = sandbox(1, "a", Some("x"));
    store.insert_sandbox(&first).unwrap();
    let taken = store.insert_sandbox(&sandbox(2, "a", Some("x"))).unwrap_err();
    assert!(matches!(taken, StoreError::NameTaken { name } if name == "x"));
    assert!(matches!(
        store.insert_sandbox(&first).unwrap_err(),
        StoreError::Exists { .. } | StoreError::NameTaken { .. }
    ));
    store.insert_sandbox(&sandbox(3, "b", Some("x"))).unwrap();
    store.insert_sandbox(&sandbox(4, "a", None)).unwrap();
    store.insert_sandbox(&sandbox(5, "a", None)).unwrap();
    assert_eq!(store.living_sandbox_named("a", "x").unwrap(), Some(first.clone()));
    assert!(store.update_sandbox(&first.id, SandboxState::Ended, Some(100), "{}").unwrap());
    assert_eq!(store.living_sandbox_named("a", "x").unwrap(), None);
    store.insert_sandbox(&sandbox(6, "a", Some("x"))).unwrap();
    assert!(!store.update_sandbox("sb-none", SandboxState::Ended, None, "{}").unwrap());
    store.put_exec(&first.id, 1, "{}").unwrap();
    assert!(store.delete_ended(100, 9, 9).unwrap().is_empty());
    assert_eq!(store.delete_ended(101, 9, 9).unwrap(), std::slice::from_ref(&first.id));
    assert_eq!((store.sandbox(&first.id).unwrap(), store.execs_of(&first.id).unwrap().len()), (None, 0));
}

#[test]
fn of_many_ended_sandboxes_the_oldest_are_forgotten_first() {
    let (_state, store) = open();
    assert!(store.delete_ended(0, 1, 3).unwrap().is_empty());
    for number in 0..10 {
        let row = sandbox(number, "a", None);
        store.insert_sandbox(&row).unwrap();
        if number < 8 {
            let ended = Some(1000 + number);
            assert!(store.update_sandbox(&row.id, SandboxState::Ended, ended, "{}").unwrap());
        }
    }
    assert!(store.delete_ended(0, 8, 3).unwrap().is_empty(), "there are no more than that");
    let ids = |numbers: std::ops::Range<u64>| numbers.map(|n| sandbox(n, "a", None).id).collect::<Vec<_>>();
    assert_eq!(store.delete_ended(0, 3, 3).unwrap(), ids(0..3));
    assert_eq!(store.delete_ended(0, 3, 3).unwrap(), ids(3..4));
    assert!(store.delete_ended(0, 3, 3).unwrap().is_empty());
    assert!(ids(4..10).iter().all(|id| store.sandbox(id).unwrap().is_some()));
}

#[test]
fn pages_show_everything_once_newest_first() {
    let (_state, store) = open();
    for number in 0..500 {
        store.insert_sandbox(&sandbox(number, if number % 5 == 0 { "b" } else { "a" }, None)).unwrap();
    }
    for limit in [1, 7, 199, 200, 201, 1000] {
        let mut seen: Vec<SandboxRow> = Vec::new();
        let mut cursor = None;
        loop {
            let query = SandboxQuery {
                tenant: Some("a"),
                limit,
                cursor: cursor.as_deref(),
                ..SandboxQuery::default()
            };
            let page = store.list_sandboxes(&query, |row| !row.body.ends_with("7}")).unwrap();
            assert!(page.rows.len() <= limit);
            seen.extend(page.rows);
            // Rows that come while a caller pages do not disturb.
            let Some(next) = page.next_cursor else { break };
            cursor = Some(next);
        }
        let expected: Vec<u64> = (0..500).rev().filter(|n| n % 5 != 0 && n % 10 != 7).collect();
        let ids: Vec<String> = expected.iter().map(|number| format!("sb-{number:016x}")).collect();
        assert_eq!(seen.iter().map(|row| row.id.clone()).collect::<Vec<_>>(), ids, "limit {limit}");
    }
    let of_state = |state| SandboxQuery { state: Some(state), limit: 1000, ..SandboxQuery::default() };
    assert_eq!(store.list_sandboxes(&of_state(SandboxState::Running), |_| true).unwrap().rows.len(), 500);
    assert_eq!(store.list_sandboxes(&of_state(SandboxState::Paused), |_| true).unwrap().rows.len(), 0);
    for bad in ["", "x", "!!", "LTEueA", "OTk5OTk5OTk5OTk5OTk5OTk5OTk5Lng"] {
        let query = SandboxQuery { cursor: Some(bad), limit: 1, ..SandboxQuery::default() };
        assert!(matches!(store.list_sandboxes(&query, |_| true), Err(StoreError::Cursor { .. })), "{bad}");
    }
}

#[test]
fn snapshots_have_names_and_pages() {
    let (_state, store) = open();
    let row = |number: u64, name: Option<&str>| SnapshotRow {
        id: format!("sn-{number:016x}"),
        tenant: "a".into(),
        name: name.map(str::to_string),
        created_ms: number,
        body: "{}".into(),
    };
    (0..5).for_each(|number| store.insert_snapshot(&row(number, None)).unwrap());
    store.insert_snapshot(&row(5, Some("n"))).unwrap();
    assert!(matches!(store.insert_snapshot(&row(6, Some("n"))), Err(StoreError::NameTaken { .. })));
    let first = store.list_snapshots(Some("a"), 4, None).unwrap();
    let second = store.list_snapshots(Some("a"), 4, first.next_cursor.as_deref()).unwrap();
    assert_eq!((first.rows.len(), second.rows.len(), second.next_cursor), (4, 2, None));
    assert_eq!(store.list_snapshots(Some("b"), 4, None).unwrap().rows.len(), 0);
    assert_eq!(store.snapshot_named("a", "n").unwrap(), Some(row(5, Some("n"))));
    let of = |number: u64| SnapshotRow {
        body: format!("{{\"sandbox\": \"sb-{}\"}}", number % 2),
        ..row(100 + number, Some(&format!("of-{number}")))
    };
    (0..6).for_each(|number| store.insert_snapshot(&of(number)).unwrap());
    let odd = SnapshotFilter { sandbox: Some("sb-1".into()), name: None };
    let first = store.find_snapshots(Some("a"), &odd, 2, None).unwrap();
    let second = store.find_snapshots(Some("a"), &odd, 2, first.next_cursor.as_deref()).unwrap();
    assert_eq!((first.rows, second.rows, second.next_cursor), (vec![of(5), of(3)], vec![of(1)], None));
    let named = SnapshotFilter { name: Some("of-0".into()), ..SnapshotFilter::default() };
    let found = store.find_snapshots(Some("a"), &named, 1, None).unwrap();
    assert_eq!((found.rows, found.next_cursor), (vec![of(0)], None));
    assert!(store.update_snapshot(&row(5, None).id, "new").unwrap());
    assert_eq!(store.snapshot(&row(5, None).id).unwrap().unwrap().body, "new");
    assert!(store.delete_snapshot(&row(5, None).id).unwrap());
    assert!(!store.delete_snapshot(&row(5, None).id).unwrap());
}

#[test]
fn a_request_with_a_key_is_done_once() {
    let (state, store) = open();
    assert_eq!(store.begin("a", "create", "k", "f", 1).unwrap(), Begun::New);
    assert_eq!(store.begin("a", "create", "k", "f", 2).unwrap(), Begun::InProgress);
    assert_eq!(store.begin("a", "create", "k", "other", 2).unwrap(), Begun::Mismatch);
    assert_eq!(store.begin("b", "create", "k", "f", 2).unwrap(), Begun::New);
    assert_eq!(store.begin("a", "fork", "k", "f", 2).unwrap(), Begun::New);
    store.note("a", "create", "k", "sb-1").unwrap();
    drop(store);
    let store = Store::open(state.path()).unwrap();
    let unfinished = store.unfinished().unwrap();
    assert_eq!(unfinished.len(), 3);
    assert!(unfinished.iter().any(|entry| entry.scope == "create" && entry.note.as_deref() == Some("sb-1")));
    store.finish("a", "create", "k", "{\"done\":1}").unwrap();
    store.abandon("a", "create", "k").unwrap();
    store.abandon("a", "fork", "k").unwrap();
    assert_eq!(store.begin("a", "create", "k", "f", 9).unwrap(), Begun::Existing("{\"done\":1}".into()));
    assert_eq!(store.begin("a", "create", "k", "other", 9).unwrap(), Begun::Mismatch);
    assert_eq!(store.begin("a", "fork", "k", "f", 9).unwrap(), Begun::New);
    assert_eq!(store.delete_keys_before(2).unwrap(), 1);
    assert_eq!(store.begin("a", "create", "k", "other", 9).unwrap(), Begun::New);
}

#[test]
fn tenants_are_everybody_who_has_something() {
    let (_state, store) = open();
    store.insert_sandbox(&sandbox(1, "with-sandbox", None)).unwrap();
    let token = Token {
        id: "tk-1".into(),
        tenant: "with-token".into(),
        role: Role::ReadOnly,
        label: None,
        created_at_ms: 1,
        expires_at_ms: None,
    };
    store.insert_token(&token, &[1; 32]).unwrap();
    assert!(matches!(store.insert_token(&token, &[2; 32]), Err(StoreError::Exists { .. })));
    let quota = Quota { cpus: Some(1.5), ..Quota::default() };
    store.set_quota("with-quota", &Quota::default()).unwrap();
    store.set_quota("with-quota", &quota).unwrap();
    assert_eq!(store.quota("with-quota").unwrap(), quota);
    assert_eq!(store.quota("nobody").unwrap(), Quota::default());
    let names: Vec<String> = store.tenants().unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["with-quota", "with-sandbox", "with-token"]);
    assert_eq!(store.tokens(Some("with-quota")).unwrap(), []);
    assert_eq!(store.tokens(None).unwrap(), std::slice::from_ref(&token));
    assert_eq!(store.delete_token("tk-1", Some("other")).unwrap(), None);
    assert_eq!(store.delete_token("tk-1", Some("with-token")).unwrap(), Some(token));
}

#[test]
fn resources_belong_to_their_tenant_and_are_bounded() {
    let (_state, store) = open();
    let row = |name: &str, sealed: &str| ResourceRow {
        name: name.into(),
        kind: "api".into(),
        updated_ms: 7,
        bound: "{}".into(),
        sealed: sealed.into(),
    };
    assert!(store.set_resource("a", &row("u/x", "one"), 2).unwrap());
    assert!(store.set_resource("a", &row("u/x", "two"), 2).unwrap());
    assert!(store.set_resource("a", &row("b", "x"), 2).unwrap());
    assert!(!store.set_resource("a", &row("c", "x"), 2).unwrap(), "one too many");
    assert!(store.set_resource("a", &row("b", "y"), 2).unwrap(), "in its place");
    assert!(store.set_resource("other", &row("c", "x"), 2).unwrap());
    assert_eq!(store.resource("a", "u/x").unwrap(), Some(row("u/x", "two")));
    assert_eq!(store.resource("other", "u/x").unwrap(), None);
    let names: Vec<String> = store.resources("a").unwrap().into_iter().map(|row| row.name).collect();
    assert_eq!(names, ["b", "u/x"]);
    assert!(!store.delete_resource("other", "b").unwrap());
    assert!(store.delete_resource("a", "b").unwrap() && !store.delete_resource("a", "b").unwrap());
}

#[test]
fn a_database_of_the_first_version_is_brought_up_to_date() {
    let state = tempfile::tempdir().unwrap();
    let old = Connection::open(state.path().join("paddock.db")).unwrap();
    old.execute_batch(super::schema::STEPS[0]).unwrap();
    old.pragma_update(None, "user_version", 1).unwrap();
    drop(old);
    let store = Store::open(state.path()).unwrap();
    assert_eq!(store.resources("a").unwrap(), []);
    drop(store);
    Store::open(state.path()).unwrap();
}

#[test]
fn a_newer_database_is_left_alone() {
    let (state, store) = open();
    store.write(|connection| connection.pragma_update(None, "user_version", 99)).unwrap();
    drop(store);
    let error = Store::open(state.path()).err().unwrap();
    assert!(matches!(error, StoreError::Newer { found: 99, known: super::schema::KNOWN, .. }), "{error}");
    assert!(error.hint().is_some());
}

#[test]
fn a_damaged_database_says_so_and_how_to_go_on() {
    let garbage = [0x5A_u8; 512];
    // The header; the schema; the pages of records.
    for offset in [0, 100, 4096] {
        let (state, store) = open();
        (0..500).for_each(|number| store.insert_sandbox(&sandbox(number, "a", None)).unwrap());
        drop(store);
        let path = state.path().join("paddock.db");
        assert!(!state.path().join("paddock.db-wal").exists(), "closing moves everything into the database");
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        let length = file.metadata().unwrap().len();
        let mut at = offset;
        while at < length {
            file.write_all_at(&garbage, at).unwrap();
            at += 4096;
        }
        let error = match Store::open(state.path()) {
            Err(error) => error,
            Ok(store) => store.living_sandboxes().unwrap_err(),
        };
        assert!(matches!(error, StoreError::Damaged { .. }), "offset {offset}: {error:?}");
        assert!(error.hint().unwrap().contains("move `"));
        fs::rename(&path, state.path().join("aside")).unwrap();
        Store::open(state.path()).unwrap();
    }
}

#[test]
fn a_full_or_read_only_disk_is_told_apart() {
    let (_state, store) = open();
    store
        .read(|connection| {
            let pages: u32 = connection.pragma_query_value(None, "page_count", |row| row.get(0))?;
            connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))
        })
        .unwrap();
    let full =
        (0..10_000).find_map(|number| store.insert_sandbox(&sandbox(number, "a", None)).err()).unwrap();
    assert!(matches!(full, StoreError::Full { .. }), "{full:?}");
    store.living_sandboxes().unwrap();
    store.read(|connection| connection.pragma_update(None, "query_only", true)).unwrap();
    let read_only = store.set_setting("a", b"").unwrap_err();
    assert!(matches!(read_only, StoreError::ReadOnly { .. }), "{read_only:?}");
    for (kind, full) in [
        (std::io::ErrorKind::StorageFull, true),
        (std::io::ErrorKind::ReadOnlyFilesystem, false),
        (std::io::ErrorKind::PermissionDenied, false),
    ] {
        let error = StoreError::from_io(Path::new("x"), kind.into());
        assert_eq!(matches!(error, StoreError::Full { .. }), full);
        assert_eq!(matches!(error, StoreError::ReadOnly { .. }), !full);
    }
}

#[test]
fn the_log_does_not_grow_for_ever() {
    let (state, store) = open();
    for number in 0..5_000 {
        store.put_exec("sb", number % 10, &"x".repeat(1000)).unwrap();
    }
    drop(store);
    assert!(fs::metadata(state.path().join("paddock.db")).unwrap().len() < 1 << 20);
    fn shared<T: Send + Sync>() {}
    shared::<Store>();
}

/// `cargo test --release -p paddock-records write_times -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement, which a clock decides: by hand, with --ignored --nocapture"]
fn write_times() {
    let (_state, store) = open();
    let body = "x".repeat(1500);
    let mut times: Vec<u128> = (0..20_000)
        .map(|number| {
            let row = SandboxRow { body: body.clone(), ..sandbox(number, "a", None) };
            let started = std::time::Instant::now();
            store.insert_sandbox(&row).unwrap();
            started.elapsed().as_micros()
        })
        .collect();
    times.sort_unstable();
    println!("insert: median {} us, 99 % {} us, most {} us", times[10_000], times[19_800], times[19_999]);
    assert!(times[10_000] < 500);
}

#[test]
fn past_calls_are_found_until_they_are_old_or_too_many() {
    let (_state, store) = open();
    let row = sandbox(1, "a", None);
    store.insert_sandbox(&row).unwrap();
    for number in 1..=10 {
        store.put_exec(&row.id, number, &format!("call {number}")).unwrap();
    }
    for number in 1..=8 {
        store.put_past_call(&row.id, number, u64::from(number) * 100).unwrap();
    }
    assert_eq!(store.execs_of(&row.id).unwrap().len(), 2);
    assert_eq!(
        (store.exec(&row.id, 3).unwrap(), store.past_call(&row.id, 3).unwrap()),
        (None, Some("call 3".into()))
    );
    // A missing call is not moved.
    store.put_past_call(&row.id, 99, 1).unwrap();
    assert_eq!(store.past_call(&row.id, 99).unwrap(), None);
    assert_eq!(store.delete_past_calls_before(250, 1).unwrap(), [(row.id.clone(), 1)]);
    assert_eq!(store.delete_past_calls_before(250, 100).unwrap(), [(row.id.clone(), 2)]);
    assert_eq!(store.delete_past_calls(&row.id, 4, 100).unwrap(), [3, 4]);
    assert!(store.delete_past_calls(&row.id, 4, 100).unwrap().is_empty());
    assert!(store.past_call(&row.id, 5).unwrap().is_some() && store.past_call(&row.id, 4).unwrap().is_none());
    assert!(store.delete_sandbox(&row.id).unwrap());
    assert_eq!(store.past_call(&row.id, 5).unwrap(), None);
}

#[test]
fn a_key_of_what_never_happened_is_forgotten_though_it_was_finished() {
    let (_state, store) = open();
    assert_eq!(store.begin("a", "exec x", "k", "f", 1).unwrap(), Begun::New);
    store.finish("a", "exec x", "k", "{}").unwrap();
    store.abandon("a", "exec x", "k").unwrap();
    assert_eq!(store.begin("a", "exec x", "k", "f", 1).unwrap(), Begun::Existing("{}".into()));
    store.forget_key("a", "exec x", "k").unwrap();
    assert_eq!(store.begin("a", "exec x", "k", "f", 1).unwrap(), Begun::New);
}

/// Writers that never pause once kept every checkpoint from reaching the end of the log.
#[test]
fn the_log_stays_short_however_much_is_written_without_a_pause() {
    let (state, store) = open();
    let log = state.path().join("paddock.db-wal");
    let body = "x".repeat(20_000);
    let longest = std::thread::scope(|scope| {
        let writer = |number: u64| {
            let (store, log, body) = (&store, &log, &body);
            scope.spawn(move || {
                let writes = (0..2000u32).map(|write| {
                    store.put_exec(&format!("sb-{number}"), write % 50, body).unwrap();
                    fs::metadata(log).unwrap().len()
                });
                writes.max().unwrap()
            })
        };
        let writers: Vec<_> = (0..4).map(writer).collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).max().unwrap()
    });
    // Each writer may have added one record since it measured.
    let most = checkpoint::LONGEST_LOG_BYTES + 4 * (1 << 20);
    assert!(longest <= most, "{longest} bytes of log for 160 MB of writes to 4 MB of records");
    // The database has everything that was in the log.
    assert_eq!(store.exec("sb-3", 49).unwrap().as_deref(), Some(body.as_str()));
    drop(store);
    let store = Store::open(state.path()).unwrap();
    assert_eq!(store.execs_of("sb-0").unwrap().len(), 50);
}

/// A command that reads beside the server holds the log; it must hold up no writer.
#[test]
fn a_reader_beside_the_server_makes_no_writer_wait_for_it() {
    let (state, store) = open();
    store.put_exec("sb-0", 0, "first").unwrap();
    let beside = Connection::open(state.path().join("paddock.db")).unwrap();
    beside.execute_batch("BEGIN").unwrap();
    let seen = || beside.query_row("SELECT count(*) FROM execs", [], |row| row.get::<_, u32>(0)).unwrap();
    assert_eq!(seen(), 1);
    let body = "x".repeat(1 << 20);
    for number in 0..40 {
        store.put_exec("sb-0", number, &body).unwrap();
    }
    assert_eq!(seen(), 1);
    drop(beside);
    for number in 0..8 {
        store.put_exec("sb-0", number, &body).unwrap();
    }
    let log = fs::metadata(state.path().join("paddock.db-wal")).unwrap().len();
    assert!(log <= checkpoint::LONGEST_LOG_BYTES, "{log}");
}
