use super::*;
use crate::net::NetLayer;

fn rules(allow: &[&str], deny: &[&str], mode: &str) -> NetRules {
    let texts = |list: &[&str]| list.iter().map(|text| text.to_string()).collect();
    let layer = NetLayer {
        allow: texts(allow),
        deny: texts(deny),
        mode: Some(mode.to_string()),
        ..NetLayer::default()
    };
    layer.resolve(&|_| None, &|_| false).unwrap()
}

fn name(text: &str) -> DomainName {
    DomainName::parse(text).unwrap()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn nothing_is_allowed_that_no_rule_allows() {
    let none = NetRules::default();
    assert_eq!(none.name(&name("example.org"), 443), Err(Denial::NotAllowed));
    assert_eq!(none.resolves(&name("example.org")), Err(Denial::NotAllowed));
    assert_eq!(none.address(address("1.1.1.1"), 443, false), Err(Denial::NotAllowed));
}

#[test]
fn names_and_ports() {
    let rules = rules(&["api.example.com", "*.example.org:443", "db:5432"], &[], "enforce");
    for (host, port, allowed) in [
        ("api.example.com", 443, true),
        ("api.example.com", 80, true),
        ("api.example.com", 8443, false),
        ("example.com", 443, false),
        ("x.api.example.com", 443, false),
        ("a.example.org", 443, true),
        ("a.b.example.org", 443, true),
        ("a.example.org", 80, false),
        ("example.org", 443, false),
        ("badexample.org", 443, false),
        ("db", 5432, true),
        ("db", 443, false),
    ] {
        assert_eq!(rules.name(&name(host), port).is_ok(), allowed, "{host}:{port}");
    }
    assert!(rules.resolves(&name("a.example.org")).is_ok());
    assert_eq!(rules.resolves(&name("example.org")), Err(Denial::NotAllowed));
    // A rule for names is none for addresses.
    assert_eq!(rules.address(address("93.184.216.34"), 443, false), Err(Denial::NotAllowed));
}

#[test]
fn deny_wins() {
    let rules = rules(&["*", "1.0.0.0/8"], &["evil.example", "*.evil.example:443", "1.1.1.0/24"], "enforce");
    assert_eq!(rules.name(&name("evil.example"), 8080), Err(Denial::Rule("evil.example".into())));
    assert_eq!(rules.resolves(&name("evil.example")), Err(Denial::Rule("evil.example".into())));
    assert!(rules.name(&name("a.evil.example"), 443).is_err());
    assert!(rules.name(&name("a.evil.example"), 80).is_ok());
    assert!(rules.resolves(&name("a.evil.example")).is_ok());
    assert!(rules.address(address("1.1.1.1"), 443, false).is_err());
    assert!(rules.address(address("1.2.1.1"), 443, false).is_ok());
    assert_eq!(rules.resolved(address("1.1.1.1"), 443, false), Err(Denial::Rule("1.1.1.0/24".into())));
    assert_eq!(rules.resolved(address("9.9.9.9"), 443, false), Ok(()));
}

#[test]
fn a_name_leads_to_no_special_address_unless_it_is_listed() {
    let open = rules(&["*", "0.0.0.0/0", "::/0"], &[], "enforce");
    for hidden in
        ["10.0.0.1", "127.0.0.1", "169.254.169.254", "::1", "fd00::1", "::ffff:10.0.0.1", "64:ff9b::1"]
    {
        assert!(matches!(open.resolved(address(hidden), 443, false), Err(Denial::Special(_))), "{hidden}");
        assert!(open.address(address(hidden), 443, false).is_err(), "{hidden}");
    }
    let listed = rules(&["db", "10.1.2.0/24:5432", "169.254.0.0/16:80", "[fd00::]/8:443"], &[], "enforce");
    assert_eq!(listed.resolved(address("10.1.2.3"), 5432, false), Ok(()));
    assert_eq!(listed.resolved(address("::ffff:10.1.2.3"), 5432, false), Ok(()));
    assert!(listed.resolved(address("10.1.2.3"), 443, false).is_err());
    assert!(listed.resolved(address("10.1.3.3"), 5432, false).is_err());
    assert_eq!(listed.resolved(address("fd12::1"), 443, false), Ok(()));
    assert_eq!(listed.resolved(address("169.254.1.1"), 80, false), Ok(()));
    // The block around it does not mean the metadata service.
    assert_eq!(
        listed.resolved(address("169.254.169.254"), 80, false),
        Err(Denial::Special(SpecialKind::Metadata))
    );
    assert!(listed.address(address("10.1.2.3"), 5432, false).is_ok());
}

#[test]
fn addresses_of_this_machine_are_listed_one_by_one() {
    let rules = rules(&["example.org", "10.0.0.0/8", "203.0.0.0/8", "127.0.0.1:8080"], &[], "enforce");
    assert_eq!(rules.resolved(address("203.1.0.7"), 443, true), Err(Denial::Special(SpecialKind::Host)));
    assert!(rules.address(address("10.0.0.7"), 443, true).is_err());
    assert!(rules.address(address("127.0.0.1"), 8080, true).is_ok());
    assert!(rules.address(address("127.0.0.1"), 8081, true).is_err());
}

#[test]
fn learning_allows_or_denies_everything_else_and_deny_still_wins() {
    let allow = rules(&[], &["evil.example"], "learn-allow");
    assert_eq!(allow.name(&name("any.example"), 1234), Ok(Grant::Learning));
    assert!(allow.name(&name("evil.example"), 443).is_err());
    assert_eq!(allow.address(address("1.1.1.1"), 53, false), Ok(Grant::Learning));
    assert!(allow.address(address("10.0.0.1"), 53, false).is_err());
    let deny = rules(&["known.example"], &[], "learn-deny");
    assert_eq!(deny.resolves(&name("any.example")), Ok(Grant::Learning));
    assert_eq!(deny.name(&name("any.example"), 443), Err(Denial::NotAllowed));
    assert!(deny.name(&name("known.example"), 443).is_ok());
}

#[test]
fn methods_are_compared_as_they_are() {
    let rules = NetRules { methods: Some(vec!["GET".into(), "HEAD".into()]), ..NetRules::default() };
    assert_eq!(rules.method("GET"), Ok(()));
    assert_eq!(rules.method("get"), Err(Denial::Method("get".into())));
    assert_eq!(rules.method("POST"), Err(Denial::Method("POST".into())));
    assert_eq!(NetRules::default().method("POST"), Ok(()));
}

#[test]
fn rules_of_somebody_else_open_public_addresses_only() {
    let layer = NetLayer {
        allow_public: ["web.example", "127.0.0.1:80", "10.0.0.0/8", "169.254.169.254", "1.1.1.1", "2.2.2.2"]
            .map(String::from)
            .to_vec(),
        ..NetLayer::default()
    };
    let theirs = layer.resolve(&|_| None, &|_| false).unwrap();
    assert!(theirs.name(&name("web.example"), 443).is_ok() && theirs.resolves(&name("web.example")).is_ok());
    assert!(theirs.address(address("1.1.1.1"), 443, false).is_ok());
    for inside in ["127.0.0.1", "10.1.2.3", "169.254.169.254"] {
        assert!(matches!(theirs.address(address(inside), 80, false), Err(Denial::Special(_))), "{inside}");
        assert!(matches!(theirs.resolved(address(inside), 80, false), Err(Denial::Special(_))), "{inside}");
    }
    // An address of the host itself, in any range.
    assert_eq!(theirs.address(address("2.2.2.2"), 443, true), Err(Denial::Special(SpecialKind::Host)));
    // The person's own rule opens it.
    let both = NetLayer { allow: vec!["127.0.0.1:80".into()], ..layer };
    let both = both.resolve(&|_| None, &|_| false).unwrap();
    assert!(both.address(address("127.0.0.1"), 80, true).is_ok());
    assert!(both.resolved(address("127.0.0.1"), 80, true).is_ok());
}

#[test]
fn a_denied_name_is_known_without_a_connection() {
    let rules = rules(&["1.1.1.1"], &["*.evil.test:443"], "enforce");
    assert!(rules.denies_names());
    assert!(rules.denied_name(&name("a.evil.test"), 443).is_some());
    assert!(rules.denied_name(&name("a.evil.test"), 80).is_none());
    assert!(
        !NetRules { deny: vec![Rule::parse("1.0.0.0/8").unwrap()], ..NetRules::default() }.denies_names()
    );
}
