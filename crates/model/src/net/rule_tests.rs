use super::*;

#[test]
fn every_form_reads_and_prints_as_itself() {
    for (text, printed) in [
        ("api.example.com", "api.example.com"),
        ("API.example.com.:443", "api.example.com:443"),
        ("*.example.org:443", "*.example.org:443"),
        ("*.bücher.example", "*.xn--bcher-kva.example"),
        ("*", "*"),
        ("*:22", "*:22"),
        ("db:5432", "db:5432"),
        ("example.org:*", "example.org:*"),
        ("example.org:80,443,8000-8010", "example.org:80,443,8000-8010"),
        ("10.1.2.0/24:5432", "10.1.2.0/24:5432"),
        ("10.1.2.3", "10.1.2.3"),
        ("10.1.2.3/32:1", "10.1.2.3:1"),
        ("0.0.0.0/0:443", "0.0.0.0/0:443"),
        ("[fd00::]/8:443", "[fd00::]/8:443"),
        ("[fd00::/8]:443", "[fd00::]/8:443"),
        ("[fd00::]/8", "[fd00::]/8"),
        ("fd00::/8", "[fd00::]/8"),
        ("[::1]:8080", "[::1]:8080"),
        ("::1", "[::1]"),
        ("2001:db8::1", "[2001:db8::1]"),
    ] {
        let rule = Rule::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(rule.to_string(), printed);
        assert_eq!(Rule::parse(printed).unwrap(), rule, "{printed}");
    }
}

#[test]
fn bad_rules_say_what_is_wrong_with_which_value() {
    for (text, said) in [
        ("", "empty"),
        ("a b", "space"),
        ("a\tb.org", "space"),
        ("https://example.org/", "URL"),
        ("*.*.org", "`*`"),
        ("a*.example.org", "`*`"),
        ("example.*", "`*`"),
        ("*.", "not a host name"),
        ("a..b", "not a host name"),
        ("a_b-.org:443", "not a host name"),
        ("127.1:80", "not a host name"),
        ("0x7f000001", "not a host name"),
        ("1.2.3.4.5", "not a host name"),
        ("256.1.1.1", "not a host name"),
        ("example.org:", "no ports"),
        ("example.org:0", "no ports"),
        ("example.org:65536", "no ports"),
        ("example.org:+80", "no ports"),
        ("example.org:https", "no ports"),
        ("example.org:90-80", "no ports"),
        ("example.org:80,", "no ports"),
        ("10.1.2.3/24", "at once"),
        ("[fd00::1]/8:443", "at once"),
        ("10.1.2.0/33", "no block"),
        ("10.1.2.0/-1", "no block"),
        ("example.org/24", "no block"),
        ("[fd00::]/129", "no block"),
        ("[fd00::", "no block"),
        ("[10.1.2.3]:80", "no block"),
        ("fd00::/8:443", "neither"),
        ("a:b:c", "neither"),
    ] {
        let error = Rule::parse(text).expect_err(text);
        let shown = error.to_string();
        assert!(shown.contains(said), "{text}: {shown}");
        assert!(shown.contains(text.escape_debug().to_string().as_str()), "{text}: {shown}");
        assert!(!error.hint().is_empty());
    }
    let hint = Rule::parse("10.1.2.3/24").unwrap_err().hint();
    assert!(hint.contains("10.1.2.0/24"), "{hint}");
}

#[test]
fn ports_that_were_not_written() {
    let rule = Rule::parse("example.org").unwrap();
    let allowed: Vec<u16> = (1..=u16::MAX).filter(|port| rule.ports.allow(*port)).collect();
    assert_eq!(allowed, [80, 443]);
    assert!((1..=u16::MAX).all(|port| rule.ports.deny(port)));
    let rule = Rule::parse("example.org:8000-8001,9").unwrap();
    let allowed: Vec<u16> = (1..=u16::MAX).filter(|port| rule.ports.allow(*port)).collect();
    assert_eq!(allowed, [9, 8000, 8001]);
}

#[test]
fn a_long_list_of_ports_is_refused() {
    let many: Vec<String> = (1..=65).map(|port| port.to_string()).collect();
    Rule::parse(&format!("example.org:{}", many.join(","))).expect_err("65 ranges");
}
