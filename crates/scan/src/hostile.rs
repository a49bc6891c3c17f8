//! Code that is made to break its reader. The scanner runs in this process, so that a crash fails the test.

use super::{LARGEST, ScanInput, scan};
use paddock_model::{FindingKind, ScanReport};

const LANGUAGES: [&str; 3] = ["python", "javascript", "typescript"];

fn scanned(language: &str, code: &[u8]) -> ScanReport {
    let input =
        ScanInput { language: language.into(), allowed_imports: Some(vec![]), ..ScanInput::default() };
    let report = scan(&input, code);
    assert!(report.findings.len() <= 100);
    assert!(
        report
            .findings
            .iter()
            .all(|finding| finding.text.len() < 1000 && finding.line > 0 && finding.column > 0)
    );
    report
}

fn has(report: &ScanReport, kind: FindingKind) -> bool {
    report.findings.iter().any(|finding| finding.kind == kind)
}

/// Runs on a stack of 512 KiB, which every thread has, independent of the test runner's own stack.
fn on_a_small_stack(action: fn()) {
    std::thread::Builder::new().stack_size(512 * 1024).spawn(action).unwrap().join().unwrap();
}

#[test]
fn no_depth_overflows_the_stack() {
    on_a_small_stack(|| {
        const DEPTH: usize = 30_000;
        for language in LANGUAGES {
            for (open, close) in
                [("(", ")"), ("[", "]"), ("f(", ")"), ("-", "1"), ("a.", "b"), ("not ", "x"), ("x[0].", "y")]
            {
                let whole = format!("{}1{}", open.repeat(DEPTH), close.repeat(DEPTH));
                scanned(language, whole.as_bytes());
                let cut = scanned(language, open.repeat(DEPTH).as_bytes());
                assert!(has(&cut, FindingKind::NotParsed) || open.len() > 1, "{language} {open}");
            }
        }
    });
}

#[test]
fn a_hundred_thousand_parentheses_hide_nothing() {
    on_a_small_stack(|| {
        let code = format!("{}eval{}", "(".repeat(100_000), ")".repeat(100_000));
        assert!(has(&scanned("python", code.as_bytes()), FindingKind::EvalExec));
        assert!(has(&scanned("javascript", code.as_bytes()), FindingKind::EvalExec));
    });
}

#[test]
fn calls_in_calls_are_followed_only_so_far() {
    let nested = format!("{}os{}", "getattr(".repeat(2_000), ", 'system')".repeat(2_000));
    assert!(has(&scanned("python", format!("import os\n{nested}").as_bytes()), FindingKind::Subprocess));
    let required = format!("{}'fs'{}", "require(".repeat(2_000), ")".repeat(2_000));
    assert!(has(&scanned("javascript", required.as_bytes()), FindingKind::DynamicImport));
}

#[test]
fn bytes_that_are_no_text_are_a_finding() {
    for language in LANGUAGES {
        for (code, line, column) in [
            (&b"x = 1\ny\xff = 2"[..], 2, 2),
            (b"a\0b", 1, 2),
            (b"\xed\xa0\x80", 1, 1),
            (b"x\n\xf0\x9f", 2, 1),
        ] {
            let report = scanned(language, code);
            let finding = &report.findings[0];
            assert_eq!(
                (finding.kind, finding.line, finding.column),
                (FindingKind::NotParsed, line, column),
                "{code:?}"
            );
        }
    }
}

#[test]
fn five_megabytes_are_a_finding_and_not_a_wait() {
    for language in LANGUAGES {
        let report = scanned(language, &b"x = 1\n".repeat((5 << 20) / 6));
        assert_eq!(report.findings[0].kind, FindingKind::NotParsed);
        assert!(report.findings[0].text.contains("more than the 1048576"), "{}", report.findings[0].text);
    }
    // 120 kB of code are within the bound of 1 MiB.
    let mut code = b"x = 1\n".repeat(20_000);
    code.extend(b"import os\n");
    assert!(code.len() < LARGEST && has(&scanned("python", &code), FindingKind::ImportNotAllowed));
}

#[test]
fn many_findings_are_counted() {
    let report = scanned("python", b"eval(1)\n".repeat(1_000).as_slice());
    assert_eq!((report.findings.len(), report.findings_missing), (100, 900));
    let names: String = (0..5_000).map(|n| format!("a{n} = os.system\n")).collect();
    assert_eq!(scanned("python", names.as_bytes()).findings_missing, 4_900);
    let meanings: String = (0..50).map(|n| format!("x = subprocess.f{n}\n")).collect();
    assert!(has(&scanned("python", meanings.as_bytes()), FindingKind::NotParsed));
}

/// Every beginning of a program, every byte of it replaced, and noise: nothing panics, whatever comes of it.
#[test]
fn broken_code_never_breaks_the_scanner() {
    const PYTHON: &str = "%time x\n!ls\nfrom os import (system as s, \\\n  path)\nx = f'''{getattr(os, \"a\" 'b')[1:]!r}'''\r@e\ndef f(a: int = 1, *b, **c): return lambda d: {**c}\nopen('/e\\x2f\\N{X}\\u12')\n";
    const SCRIPT: &str = "import a, {b as c, default as d} from 'x/y'\nconst {e, f: [g]} = await import(`h${i}`)\nnew Function(\\u0065val, /r[/]/g)['\\u{66}']?.(...j)\nexport {k} from \"l\"; class M { #n = async () => {} }\n<T>(o as p)!.q\n";
    for (language, code) in [("python", PYTHON), ("javascript", SCRIPT), ("typescript", SCRIPT)] {
        for end in 0..code.len() {
            scanned(language, &code.as_bytes()[..end]);
        }
        for at in 0..code.len() {
            for byte in [b'\n', b'"', b'{', b'\\', b'%', 0xc3, b'\r'] {
                let mut broken = code.as_bytes().to_vec();
                broken[at] = byte;
                scanned(language, &broken);
            }
        }
    }
    const NOISE: &[u8] = b"()[]{}'\"`\\\n\r\t %!#$.,:;=<>/*-+@?ab01xf_\xc3\xa9";
    let mut state = 0x9e37_79b9_u32;
    for round in 0..400 {
        let noise: Vec<u8> = (0..300)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                NOISE[(state >> 16) as usize % NOISE.len()]
            })
            .collect();
        scanned(LANGUAGES[round % 3], &noise);
    }
}
