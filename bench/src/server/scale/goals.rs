//! The goals at scale. They are meant for a host with 16 processors and 128 GiB; a smaller one misses most of them.

use super::super::part::Part;
use super::super::promises::{Limit, Promise, Source, promise};
use Limit::{AtLeast, AtMost};
use Part::{ScaleCrowd, ScaleForks, ScaleRates, ScaleSoak};
use Source::Fact;

pub const PROMISES: [Promise; 24] = [
    promise(ScaleCrowd, "live sandboxes", ">= 20,000", Fact("live sandboxes"), AtLeast(20_000.0)),
    promise(
        ScaleCrowd,
        "create with all of them live, beside none",
        "<= 1.3 x",
        Fact("create, beside none live"),
        AtMost(1.3),
    ),
    promise(ScaleCrowd, "exec, beside none", "<= 1.3 x", Fact("exec, beside none live"), AtMost(1.3)),
    promise(ScaleCrowd, "kill, beside none", "<= 1.3 x", Fact("kill, beside none live"), AtMost(1.3)),
    promise(ScaleCrowd, "metrics, beside none", "<= 1.3 x", Fact("metrics, beside none live"), AtMost(1.3)),
    promise(
        ScaleCrowd,
        "filling, at every point",
        ">= 300/s",
        Fact("filling, slowest stretch"),
        AtLeast(300.0),
    ),
    promise(ScaleCrowd, "an idle sandbox, of the host", "<= 1.5 MiB", Fact("each: of the host"), AtMost(1.5)),
    promise(
        ScaleCrowd,
        "an idle sandbox, of the server",
        "<= 15 KiB",
        Fact("each: of the server"),
        AtMost(15.0),
    ),
    promise(
        ScaleCrowd,
        "an idle sandbox, descriptors",
        "<= 2",
        Fact("each: descriptors of the server"),
        AtMost(2.01),
    ),
    promise(
        ScaleCrowd,
        "server start with all of them",
        "<= 10 s",
        Fact("start with all of them after kill -9"),
        AtMost(10.0),
    ),
    promise(ScaleCrowd, "lost by the kill", "0", Fact("lost by the kill"), AtMost(0.0)),
    promise(ScaleCrowd, "killing all", "<= 15 s", Fact("killing all"), AtMost(15.0)),
    promise(
        ScaleRates,
        "throw-away uses from a pool, 16 clients",
        ">= 3,000/s",
        Fact("from a pool, 16 clients"),
        AtLeast(3_000.0),
    ),
    promise(ScaleRates, "their p99", "<= 20 ms", Fact("from a pool, 16 clients, p99"), AtMost(20.0)),
    promise(
        ScaleRates,
        "32 clients beside 16",
        ">= 1 x",
        Fact("from a pool, 32 clients beside 16"),
        AtLeast(1.0),
    ),
    promise(
        ScaleRates,
        "without a pool, one client, p50",
        "<= 25 ms",
        Fact("without a pool, one client, p50"),
        AtMost(25.0),
    ),
    promise(
        ScaleRates,
        "without a pool, 16 clients",
        ">= 800/s",
        Fact("without a pool, 16 clients"),
        AtLeast(800.0),
    ),
    promise(
        ScaleRates,
        "warm run_code, 16 clients",
        ">= 15,000/s",
        Fact("warm run_code, 16 clients"),
        AtLeast(15_000.0),
    ),
    promise(
        ScaleRates,
        "warm exec, 16 clients",
        ">= 12,000/s",
        Fact("warm exec, 16 clients"),
        AtLeast(12_000.0),
    ),
    promise(ScaleForks, "1,000 forks of a context with 64 MiB", "<= 3 s", Fact("1,000 forks"), AtMost(3.0)),
    promise(ScaleForks, "forks that failed", "0", Fact("forks that failed"), AtMost(0.0)),
    promise(
        ScaleSoak,
        "p99 of the last tenth beside the first",
        "<= 1.3 x",
        Fact("p99 of the last tenth beside the first"),
        AtMost(1.3),
    ),
    promise(
        ScaleSoak,
        "growth of descriptors in the second half",
        "0",
        Fact("growth of descriptors in the second half"),
        AtMost(0.0),
    ),
    promise(
        ScaleSoak,
        "growth of the write-ahead log in the second half",
        "<= 4 MiB",
        Fact("growth of the write-ahead log in the second half"),
        AtMost(4.0),
    ),
];
