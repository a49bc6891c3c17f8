use crate::*;
use paddock_model::net::{NetLayer, NetSetting};

fn parse(source: &str) -> Result<Annotations, ScriptError> {
    Annotations::parse(source, Language::Python)
}

fn wrong(line: &str) -> String {
    let error = parse(&format!("#!/usr/bin/env python3\n{line}\ndef main(): pass\n")).expect_err(line);
    assert_eq!((error.code(), error.line()), ("bad_annotation", Some(2)), "{line}");
    assert!(error.hint().is_some_and(|hint| !hint.is_empty()) || error.to_string().len() > 20, "{line}");
    error.to_string()
}

#[test]
fn a_header_with_everything() {
    let source = "#!/usr/bin/env python3\n# SPDX-License-Identifier: MIT\n\n# sandbox python:3.12\n\
        #volume: agent-state .agent\n#  volume: $workspace-$args[user] /data/my files\n\
        # net: api.example.com, *.example.org:443\n# net: preset:model-apis\n\
        # secret: KEY@api.example.com,b.example.com=$res:u/ada/api.key\n\
        # timeout: 10m\n# memory: 512MiB\n# cpus: 1.5\n# backend: gvisor\n# require: memory-limit, pids-limit\n\
        import os\n# a comment\ndef main(): pass\n";
    let found = parse(&source.replace(", pids-limit", "")).unwrap();
    assert!(found.sandbox);
    assert_eq!(found.image.as_deref(), Some("python:3.12"));
    let volumes: Vec<_> =
        found.volumes.iter().map(|v| (v.line, v.name.as_str(), v.target.as_str())).collect();
    assert_eq!(volumes, [(5, "agent-state", ".agent"), (6, "$workspace-$args[user]", "/data/my files")]);
    assert_eq!(found.net.unwrap(), ["api.example.com", "*.example.org:443", "preset:model-apis"]);
    assert_eq!(found.secrets[0].hosts, ["api.example.com", "b.example.com"]);
    assert_eq!(
        (found.secrets[0].from.name.as_str(), found.secrets[0].from.field.as_str()),
        ("u/ada/api", "key")
    );
    assert_eq!(found.timeout.unwrap().as_secs(), 600);
    assert_eq!((found.memory, found.cpus), (Some(512 << 20), Some(1.5)));
    assert_eq!(found.backend.as_deref(), Some("gvisor"));
    assert_eq!(found.require, ["memory-limit"]);
}

#[test]
fn comments_are_left_alone() {
    for comment in [
        "Copyright 2026: the authors. All rights reserved.",
        "SPDX-License-Identifier: Apache-2.0",
        "-*- coding: utf-8 -*-",
        "type: ignore",
        "pylint: disable=all",
        "note: the sandbox has no network",
        "This script reads the volume of a sphere",
        "Sandbox demo",
        "Memory: keep it small",
        "Required: Python 3.9",
        "Timeouts are handled below: see main",
        "requirements:",
        "pandas==2.0",
        "/// script",
        "dependencies = [\"x\"]",
        "next: do the other thing",
        "memo: call ada",
        "https://example.com/volume: x",
        "volume control of the radio, and more",
        "the net: result",
        "------------------",
        "# volume: a b",
        "",
    ] {
        let found = parse(&format!("# {comment}\n# sandbox\ndef main(): pass\n"));
        assert_eq!(found, Ok(Annotations { sandbox: true, ..Annotations::default() }), "{comment}");
    }
}

#[test]
fn what_was_meant_as_an_annotation_is_an_error() {
    for (line, words) in [
        ("# volum: x y", "did you mean `volume`"),
        ("# volumes: x y", "did you mean `volume`"),
        ("# vloume: x y", "did you mean `volume`"),
        ("# Volume: agent-state .agent", "did you mean `volume`"),
        ("# volume : agent-state .agent", "did you mean `volume`"),
        ("# volume agent-state .agent", "has no colon"),
        ("# volume:", "nothing behind it"),
        ("# volume: agent-state", "has no target"),
        ("# sandbx", "did you mean `sandbox`"),
        ("# snadbox", "did you mean `sandbox`"),
        ("# Sandbox", "did you mean `sandbox`"),
        ("# sandboxed", "did you mean `sandbox`"),
        ("# SANDBOX", "did you mean `sandbox`"),
        ("# sandbx python:3.12", "did you mean `sandbox`"),
        ("# Sandbox python:3.12", "did you mean `sandbox`"),
        ("# sandbox=false", "cannot be turned off"),
        ("# sandbox = false", "cannot be turned off"),
        ("# sandbox=off", "cannot be turned off"),
        ("# sandbox=0", "cannot be turned off"),
        ("# sandbox=maybe", "takes one image"),
        ("# sandbox: python", "has a colon"),
        ("# sandbox python 3.12", "takes one image"),
        ("# sandbox /", "path of the host"),
        ("# sandbox /etc", "path of the host"),
        ("# sandbox ../x", "path of the host"),
        ("# sandbox ~/x", "path of the host"),
        ("# sandbox built://x", "path of the host"),
        ("# sandbox a$b", "takes one image"),
        ("# network: example.com", "did you mean `net`"),
        ("# net example.com", "has no colon"),
        ("# net: host", "not for a script"),
        ("# net: https://example.com", "example.com"),
        ("# net: example.com:99999", "99999"),
        ("# net:", "nothing behind it"),
        ("# secrets: A@b.example", "did you mean `secret`"),
        ("# secret: KEY", "is not NAME@HOST"),
        ("# secret: KEY@", "KEY"),
        ("# secret: 1KEY@a.example", "is not NAME@HOST"),
        ("# secret: KEY@a.example=env:HOME", "is not NAME@HOST"),
        ("# secret: KEY@a.example=file:/etc/shadow", "is not NAME@HOST"),
        ("# secret: KEY@a.example=$res:../x", "not allowed"),
        ("# timout: 5s", "did you mean `timeout`"),
        ("# timeout 5s", "has no colon"),
        ("# timeout: soon", "is not a duration"),
        ("# timeout: 0", "is zero"),
        ("# timeout: 900000d", "longer than a year"),
        ("# memroy: 1g", "did you mean `memory`"),
        ("# mem: 1g", "did you mean `memory`"),
        ("# memory: much", "is not a size"),
        ("# memory: 1", "outside"),
        ("# cpu: 2", "did you mean `cpus`"),
        ("# cpus: two", "is no number"),
        ("# cpus: 0", "outside"),
        ("# cpus: NaN", "is no number"),
        ("# cpus: -1", "outside"),
        ("# backend: ../x", "is no name"),
        ("# backend gvisor", "has no colon"),
        ("# require: own-kernal", "own-kernal"),
        ("# requires: own-kernel", "did you mean `require`"),
    ] {
        let said = wrong(line);
        assert!(said.contains(words), "{line}: {said}");
    }
}

#[test]
fn what_touches_an_annotation_and_is_none_is_an_error() {
    let error = parse("# sandbox\n# image: alpine\ndef main(): pass").unwrap_err();
    assert_eq!(error.to_string(), "line 2: `image` is no annotation");
    let error = parse("# gpu: 1\n# sandbox\ndef main(): pass").unwrap_err();
    assert_eq!(error.line(), Some(1));
    parse("# gpu: 1\n\n# sandbox\ndef main(): pass").unwrap();
    parse("# sandbox\n# todo: more\ndef main(): pass").unwrap();
}

#[test]
fn what_stands_below_the_header_is_found() {
    let error = parse("import os\n\n# sandbox\ndef main(): pass").unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 3: `# sandbox` stands below the header, where annotations are not read"
    );
    let error = parse("\"\"\"doc\"\"\"\n# volume: a-b c\ndef main(): pass").unwrap_err();
    assert_eq!(error.line(), Some(2));
    parse("import os\n# timeout: 5s\n    # sandbox\n# the volume: a b\ndef main(): pass").unwrap();
}

#[test]
fn an_annotation_stands_once() {
    for twice in ["sandbox\n# sandbox", "timeout: 1s\n# timeout: 2s", "memory: 1g\n# memory: 1g"] {
        let error = parse(&format!("# {twice}\ndef main(): pass")).unwrap_err();
        assert!(error.to_string().contains("twice, also in line 1"), "{error}");
    }
}

fn planned(header: &str, arguments: &str) -> Result<Plan, ScriptError> {
    let source = format!("{header}\ndef main(): pass\n");
    plan(&source, Language::Python, &parse_arguments(arguments).unwrap(), &Context::default())
}

#[test]
fn volumes_follow_the_rules_of_names_and_targets() {
    let plan = planned("# volume: $workspace-$args[u.n] .agent\n# volume: ab /data/x", r#"{"u": {"n": 5}}"#)
        .unwrap();
    let mounts: Vec<_> = plan.sandbox.volumes.iter().map(|v| (v.name.as_str(), v.path.as_str())).collect();
    assert_eq!(mounts, [("default-5", "/workspace/.agent"), ("ab", "/data/x")]);
    assert_eq!(plan.sandbox.env["WM_VOLUME_AB"], "/data/x");
    // `~/.agent` is the volume, with any home of the template.
    assert_eq!(plan.sandbox.env["HOME"], "/workspace");
    let at_home = planned("# volume: ab /home/agent/.agent", "{}").unwrap();
    assert!(!at_home.sandbox.env.contains_key("HOME"));
    let many: String = (0..11).map(|n| format!("# volume: v{n} /data/{n}\n")).collect();
    for (header, line, words) in [
        ("# volume: a /data/x", 1, "volume name `a` is not allowed"),
        ("# volume: -ab /data/x", 1, "not allowed"),
        ("# volume: a..b /data/x", 1, "not allowed"),
        ("# volume: a/b /data/x", 1, "not allowed"),
        ("# volume: ab /etc/x", 1, "is not below"),
        ("# volume: ab /data/../etc", 1, "holds `..`"),
        ("# volume: ab ../x", 1, "holds `..`"),
        ("# volume: ab /data", 1, "is not below"),
        ("# volume: ab .", 1, "is not below"),
        ("# volume: ab .paddock", 1, "where the script itself is"),
        ("# volume: ab /workspace/.paddock/x", 1, "where the script itself is"),
        ("# volume: ab x\n# volume: ab y", 2, "twice, also in line 1"),
        ("# volume: ab x\n# volume: cd x", 2, "taken by line 1"),
        ("# volume: ab x\n# volume: cd ./x/", 2, "taken by line 1"),
        ("# volume: ab x\n# volume: cd /workspace/x/y", 2, "taken by line 1"),
        ("# volume: ab x\n# volume: $args[x] y", 2, "is not given"),
        ("# volume: $workspace x\n# volume: default y", 2, "twice"),
        (many.as_str(), 11, "more than 10"),
    ] {
        let error = planned(header.trim_end(), "{}").expect_err(header);
        assert_eq!(error.line(), Some(line), "{header}");
        assert!(error.to_string().contains(words), "{header}: {error}");
    }
    let error = planned("# volume: ab-$args[x] y", r#"{"x": "../../etc"}"#).unwrap_err();
    assert!(error.to_string().contains("not allowed"), "{error}");
}

#[test]
fn a_plan_says_what_the_header_asks_for() {
    let plan = planned("# sandbox alpine:3.20\n# net: none\n# timeout: 5s\n# memory: 64MiB\n# cpus: 1", "{}")
        .unwrap();
    assert_eq!(
        (plan.sandbox.image.as_deref(), plan.sandbox.template.as_deref()),
        (Some("alpine:3.20"), None)
    );
    assert_eq!(plan.exec.timeout_seconds, Some(5.0));
    assert_eq!(plan.sandbox.ttl_seconds, Some(125.0));
    assert_eq!(plan.sandbox.limits.memory_bytes, Some(64 << 20));
    assert_eq!(serde_json::to_value(&plan.sandbox.network).unwrap(), "none");
    let call = crate::runners::call_of(&plan.exec);
    assert_eq!(call["args"], serde_json::json!({}));
    assert_eq!(planned("", "{}").unwrap().sandbox.template.as_deref(), Some("code-interpreter"));
    // The plan can be kept in a queue.
    let text = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
}

#[test]
fn a_header_names_public_places_only() {
    let plan_with = |header: &str, allow: &[&str]| {
        let allow = allow.iter().map(ToString::to_string).collect();
        let source = format!("{header}\ndef main(): pass\n");
        let context = Context { allow, ..Context::default() };
        plan(&source, Language::Python, &Arguments::default(), &context)
    };
    for (header, line, flag) in [
        ("# net: 127.0.0.1:39911", 1, "--allow-net 127.0.0.1:39911"),
        ("# sandbox\n# net: a.example 10.0.0.0/8", 2, "--allow-net 10.0.0.0/8"),
        ("# net: 169.254.169.254", 1, "--allow-net 169.254.169.254"),
        ("# net: [::1]:80", 1, "--allow-net [::1]:80"),
        ("\n# sandbox 127.0.0.1:18080/x", 2, "--allow-net 127.0.0.1:18080"),
        ("# sandbox localhost/x", 1, "--allow-net localhost"),
    ] {
        let error = plan_with(header, &[]).expect_err(header);
        assert_eq!(error.line(), Some(line), "{header}");
        assert!(error.hint().unwrap().contains(flag), "{header}: {error}");
    }
    // The rules of the header are for public addresses, those of the person for any.
    let made = plan_with("# net: a.example, 127.0.0.1:80, 0.0.0.0/0", &["127.0.0.0/8:80"]).unwrap();
    let layer = NetLayer {
        allow: vec!["127.0.0.0/8:80".into()],
        allow_public: ["a.example", "127.0.0.1:80", "0.0.0.0/0"].map(String::from).to_vec(),
        ..NetLayer::default()
    };
    assert_eq!(made.sandbox.network, Some(NetSetting::Rules(layer)));
    assert_eq!(plan_with("", &[]).unwrap().sandbox.network, None);
    let person = NetLayer { allow: vec!["a.example".into()], ..NetLayer::default() };
    for header in ["", "# net: none"] {
        let made = plan_with(header, &["a.example"]).unwrap();
        assert_eq!(made.sandbox.network, Some(NetSetting::Rules(person.clone())), "{header}");
    }
    // The address behind an image's name is checked, unless the person named its registry.
    let image =
        |allow: &[&str]| plan_with("# sandbox registry.corp:5000/x", allow).unwrap().sandbox.public_image;
    assert!(image(&[]) && image(&["*"]) && image(&["registry.corp"]) && !image(&["registry.corp:5000"]));
    assert!(!plan_with("", &[]).unwrap().sandbox.public_image);
}

#[test]
fn a_secret_goes_only_where_its_owner_said() {
    let source =
        "# secret: KEY@api.example.com=$res:api.key\n# secret: TOKEN@t.example.com\ndef main(): pass\n";
    let arguments = parse_arguments(r#"{"api": "$res:api"}"#).unwrap();
    assert_eq!(needs(source, Language::Python, &arguments).unwrap(), ["api", "TOKEN"]);
    let resource = |value: serde_json::Value, field: &str, host: &str| Resource {
        kind: "x".into(),
        value,
        secrets: [(field.to_string(), vec![host.to_string()])].into(),
    };
    let mut context = Context::default();
    let key = serde_json::json!({ "key": "sk-real-value" });
    context.resources.insert("api".into(), resource(key.clone(), "key", "api.example.com"));
    let error = plan(source, Language::Python, &arguments, &context).unwrap_err();
    assert_eq!((error.code(), error.to_string().contains("TOKEN")), ("resource_not_found", true));
    context.resources.insert("TOKEN".into(), resource("t-real-value".into(), "", "t.example.com"));
    let made = plan(source, Language::Python, &arguments, &context).unwrap();
    assert_eq!(made.sandbox.secrets.len(), 3);
    assert_eq!(made.sandbox.secrets["KEY"].hosts, ["api.example.com"]);
    assert_eq!(made.sandbox.secrets["KEY"].from.as_deref(), Some("resource:api.key"));
    assert_eq!(made.sandbox.secrets["TOKEN"].from.as_deref(), Some("resource:TOKEN"));
    assert!(!serde_json::to_string(&made).unwrap().contains("real-value"));
    assert!(!made.exec.stdin.as_ref().unwrap().contains("real-value"));
    context.resources.insert("api".into(), resource(key, "key", "other.example.com"));
    let error = plan(source, Language::Python, &arguments, &context).unwrap_err();
    assert_eq!(error.line(), Some(1));
    assert!(error.to_string().contains("not bound to that host"), "{error}");
}

#[test]
fn scripts_without_a_body_or_main_are_refused() {
    for (language, source, code) in [
        (Language::Python, "# sandbox\n\n", "bad_script"),
        (Language::Python, "", "bad_script"),
        (Language::Bash, "#!/bin/bash\n# sandbox alpine\n", "bad_script"),
        (Language::Python, "print(1)\n", "no_main"),
        (Language::TypeScript, "export function other() {}\n", "no_main"),
        (Language::Go, "package inner\n", "no_main"),
    ] {
        let error = plan(source, language, &Arguments::new(), &Context::default()).unwrap_err();
        assert_eq!(error.code(), code, "{source}");
        assert!(error.hint().is_some());
    }
    check("echo hello\n", Language::Bash).unwrap();
    let large = format!("def main(): pass\n#{}", "x".repeat(LARGEST_SOURCE));
    assert!(matches!(check(&large, Language::Python), Err(ScriptError::TooLarge(_))));
}

#[test]
fn the_header_of_every_language_has_its_own_comments() {
    let body = |language: Language| match language {
        Language::Go => "package inner\nfunc main() error { return nil }\n",
        _ => "main\n",
    };
    for language in Language::ALL {
        let comment = language.comment();
        let source = format!("{comment} sandbox\n{comment}volume: agent-state .agent\n{}", body(language));
        let made = plan(&source, language, &Arguments::new(), &Context::default()).unwrap();
        assert!(made.annotations.sandbox, "{language}");
        assert_eq!(made.sandbox.volumes[0].path, "/workspace/.agent");
        let source = format!("{comment} sandbox=false\n{}", body(language));
        plan(&source, language, &Arguments::new(), &Context::default()).unwrap_err();
    }
}
