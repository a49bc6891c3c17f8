//! The promises about run_code.

use super::super::part::Part;
use super::super::promises::Limit::{AtLeast, AtMost, Below};
use super::super::promises::Source::{Fact, Percentile, Ratio};
use super::super::promises::{Promise, promise};

const FIRST: &str = "paddock, unix socket";
const USE: &str = "create, run_code and kill";

pub const PROMISES: [Promise; 16] = [
    promise(
        Part::CodeFirst,
        "create, run_code('print(1)') and kill, p50",
        "<= 5 ms",
        Percentile(FIRST, 50),
        AtMost(5.0),
    ),
    promise(Part::CodeFirst, "the same, p99", "<= 25 ms", Percentile(FIRST, 99), AtMost(25.0)),
    promise(
        Part::CodeFirst,
        "the same beside bare `python3 -c 'print(1)'`, p50",
        "< 0.5 x",
        Ratio(FIRST, "bare"),
        Below(0.5),
    ),
    promise(Part::CodeFirst, "the same by TCP, p50", "<= 5 ms", Percentile("paddock, TCP", 50), AtMost(5.0)),
    promise(
        Part::CodePreloaded,
        "the same with pandas imported by the template, p50",
        "<= 10 ms",
        Percentile(FIRST, 50),
        AtMost(10.0),
    ),
    promise(
        Part::CodePreloaded,
        "bare `python3 -c 'import pandas'` beside it",
        ">= 30 x",
        Ratio("bare", FIRST),
        AtLeast(30.0),
    ),
    promise(Part::CodeWarm, "warm run_code('1+1'), p50", "<= 1 ms", Percentile(FIRST, 50), AtMost(1.0)),
    promise(Part::CodeWarm, "warm run_code('1+1'), p99", "<= 5 ms", Percentile(FIRST, 99), AtMost(5.0)),
    promise(
        Part::CodeWarm,
        "warm run_code('1+1') by TCP, p50",
        "<= 1 ms",
        Percentile("paddock, TCP", 50),
        AtMost(1.0),
    ),
    promise(Part::CodeBurst, "100 of them at once, p95", "<= 500 ms", Percentile(USE, 95), AtMost(500.0)),
    promise(Part::CodeBurst, "100 of them at once, failed", "0", Fact("failed"), AtMost(0.0)),
    promise(Part::CodeSustained, "sustained for a minute", ">= 150 /s", Fact("per second"), AtLeast(150.0)),
    promise(Part::CodeSustained, "sustained, failed", "0", Fact("failed"), AtMost(0.0)),
    promise(
        Part::CodeSustained,
        "sustained, growth of the server",
        "<= 10 %",
        Fact("growth of the server"),
        AtMost(10.0),
    ),
    promise(
        Part::CodeCrowd,
        "live sandboxes with a Python context",
        ">= 1,000",
        Fact("live sandboxes with a context"),
        AtLeast(1_000.0),
    ),
    promise(
        Part::CodeCrowd,
        "memory of each beyond the first (PSS)",
        "<= 6 MiB",
        Fact("each beyond the first"),
        AtMost(6.0),
    ),
];
