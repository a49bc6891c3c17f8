use crate::measure::Timing;
use anyhow::Result;

/// A part that is measured with a server of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    First,
    Warm,
    Burst,
    Crowd,
    Stream,
    Fork,
    Recovery,
    Gate,
    GateIdle,
    AgentsMcp,
    AgentsHandle,
    Volumes,
    Jobs,
    Machines,
    LiveFork,
    Laptop,
    E2b,
    Inspect,
    RunCode,
    Dashboard,
    ScaleCrowd,
    ScaleRates,
    ScaleForks,
    ScaleSoak,
    CodeFirst,
    CodePreloaded,
    CodeWarm,
    CodeBurst,
    CodeSustained,
    CodeCrowd,
    CodeFloor,
}

impl Part {
    /// The parts that are measured beside peers come first: the others are not to run beside a daemon of docker's.
    pub const SERVER: [Part; 7] =
        [Part::First, Part::Warm, Part::Burst, Part::Crowd, Part::Stream, Part::Fork, Part::Recovery];
    pub const GATE: [Part; 2] = [Part::Gate, Part::GateIdle];
    pub const AGENTS: [Part; 2] = [Part::AgentsMcp, Part::AgentsHandle];
    pub const VOLUMES: [Part; 1] = [Part::Volumes];
    pub const JOBS: [Part; 1] = [Part::Jobs];
    pub const MACHINES: [Part; 1] = [Part::Machines];
    pub const LIVE_FORK: [Part; 1] = [Part::LiveFork];
    pub const LAPTOP: [Part; 1] = [Part::Laptop];
    pub const E2B: [Part; 1] = [Part::E2b];
    pub const INSPECT: [Part; 1] = [Part::Inspect];
    pub const RUN_CODE: [Part; 1] = [Part::RunCode];
    pub const DASHBOARD: [Part; 1] = [Part::Dashboard];
    pub const SCALE: [Part; 4] = [Part::ScaleCrowd, Part::ScaleRates, Part::ScaleForks, Part::ScaleSoak];
    pub const CODE: [Part; 7] = [
        Part::CodeFirst,
        Part::CodePreloaded,
        Part::CodeWarm,
        Part::CodeBurst,
        Part::CodeSustained,
        Part::CodeCrowd,
        Part::CodeFloor,
    ];

    pub fn all() -> impl Iterator<Item = Part> {
        Part::SERVER
            .into_iter()
            .chain(Part::GATE)
            .chain(Part::AGENTS)
            .chain(Part::VOLUMES)
            .chain(Part::JOBS)
            .chain(Part::MACHINES)
            .chain(Part::LIVE_FORK)
            .chain(Part::LAPTOP)
            .chain(Part::E2B)
            .chain(Part::INSPECT)
            .chain(Part::RUN_CODE)
            .chain(Part::DASHBOARD)
            .chain(Part::SCALE)
            .chain(Part::CODE)
    }

    pub fn is_code(self) -> bool {
        Part::CODE.contains(&self)
    }

    pub fn is_scale(self) -> bool {
        Part::SCALE.contains(&self)
    }

    /// The group that it is measured with, and the file of its numbers.
    pub fn group(self) -> &'static str {
        match self {
            _ if self.is_code() => "code",
            _ if self.is_scale() => "scale",
            _ if Part::GATE.contains(&self) => "gate",
            _ if Part::AGENTS.contains(&self) => "agents",
            Part::Volumes => "volumes",
            Part::Jobs => "jobs",
            Part::Machines => "microvm",
            Part::LiveFork => "live-fork",
            Part::Laptop => "laptop",
            Part::E2b => "e2b",
            Part::Inspect => "inspect",
            Part::RunCode => "run-code",
            Part::Dashboard => "dashboard",
            _ => "server",
        }
    }

    pub fn has_peers(self) -> bool {
        matches!(self, Part::First | Part::Machines | Part::CodeFirst | Part::CodePreloaded)
    }

    /// The name for `--only`.
    pub fn name(self) -> &'static str {
        match self {
            Part::First => "server-first",
            Part::Warm => "server-warm",
            Part::Burst => "server-burst",
            Part::Crowd => "server-crowd",
            Part::Stream => "server-stream",
            Part::Fork => "server-fork",
            Part::Recovery => "server-recovery",
            Part::Gate => "gate-traffic",
            Part::GateIdle => "gate-idle",
            Part::AgentsMcp => "agents-mcp",
            Part::AgentsHandle => "agents-handle",
            Part::Volumes => "volumes",
            Part::Jobs => "jobs",
            Part::Machines => "microvm",
            Part::LiveFork => "live-fork",
            Part::Laptop => "laptop",
            Part::E2b => "e2b",
            Part::Inspect => "inspect",
            Part::RunCode => "run-code",
            Part::Dashboard => "dashboard",
            Part::ScaleCrowd => "scale-crowd",
            Part::ScaleRates => "scale-rates",
            Part::ScaleForks => "scale-forks",
            Part::ScaleSoak => "scale-soak",
            Part::CodeFirst => "code-first",
            Part::CodePreloaded => "code-preloaded",
            Part::CodeWarm => "code-warm",
            Part::CodeBurst => "code-burst",
            Part::CodeSustained => "code-sustained",
            Part::CodeCrowd => "code-crowd",
            Part::CodeFloor => "code-floor",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Part::First => "create, first exec of `true` and kill",
            Part::Warm => "exec of `true` in a sandbox that is there",
            Part::Burst => "100 creates at once",
            Part::Crowd => "1,000 idle sandboxes",
            Part::Stream => "1 GiB of output through one exec",
            Part::Fork => "100 forks, pause and resume",
            Part::Recovery => "a killed server with 100 live sandboxes",
            Part::Gate => "traffic through the gate, beside the same without a fence",
            Part::GateIdle => "1,000 idle sandboxes with network rules",
            Part::AgentsMcp => "run_code by an MCP client, beside the same by HTTP",
            Part::AgentsHandle => "a tool call by the Python SDK, beside the same without the tools",
            Part::Volumes => "volumes: what a sync moves, and what a start waits for",
            Part::Machines => "microvm: a boot, copies of it, and forks with memory",
            Part::LiveFork => "a Python context with data in it, forked as it stands",
            Part::Jobs => "jobs: an array of 2,000 one-line Python scripts",
            Part::Laptop => "one person with the Python SDK, and nothing set up",
            Part::Dashboard => "the dashboard in a browser, beside 1,000 idle sandboxes",
            Part::RunCode => "SandboxFusion's client and verl's rewards, beside no fence",
            Part::E2b => "E2B's SDK, beside the same without it and beside no fence",
            Part::Inspect => "an evaluation of Inspect, whose samples are forks of one prepared sandbox",
            Part::ScaleCrowd => "every call, with more and more live sandboxes",
            Part::ScaleRates => "calls of more and more clients",
            Part::ScaleForks => "1,000 forks of a context with 64 MiB",
            Part::ScaleSoak => "half of the best rate, for a while",
            Part::CodeFirst => "create, run_code('print(1)') and kill, beside what runs Python elsewhere",
            Part::CodePreloaded => "the same with pandas imported by the template",
            Part::CodeWarm => "run_code('1+1') in a context that is there",
            Part::CodeBurst => "100 times create, run_code and kill, all at once",
            Part::CodeSustained => "create, run_code and kill without pause",
            Part::CodeCrowd => "1,000 sandboxes, each with a Python context that ran one line",
            Part::CodeFloor => "what the kernel and Python alone take for a fence of this kind",
        }
    }
}

pub struct Measured {
    pub part: Part,
    pub outcome: Result<Findings>,
}

#[derive(Default)]
pub struct Findings {
    pub timings: Vec<Timing>,
    pub facts: Vec<Fact>,
    pub curve: Option<Curve>,
    /// How it was measured, if that is not plain, and the numbers that could not be.
    pub notes: Vec<String>,
    /// The remains of this part's sandboxes when all of them were killed.
    pub left: Vec<String>,
}

/// The same numbers at several points.
pub struct Curve {
    /// The name of the number that grows from point to point.
    pub along: &'static str,
    pub columns: Vec<&'static str>,
    /// Each with a value for every column, where there is one.
    pub points: Vec<(usize, Vec<Option<f64>>)>,
}

/// One number.
pub struct Fact {
    pub name: &'static str,
    pub value: f64,
    pub unit: &'static str,
}

impl Findings {
    pub fn timing(&self, name: &str) -> Option<&Timing> {
        self.timings.iter().find(|timing| timing.name == name)
    }

    pub fn fact(&self, name: &str) -> Option<&Fact> {
        self.facts.iter().find(|fact| fact.name == name)
    }

    pub fn add(&mut self, name: &'static str, value: f64, unit: &'static str) {
        self.facts.push(Fact { name, value, unit });
    }
}
