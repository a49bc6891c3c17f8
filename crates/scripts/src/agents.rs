//! Agents of others: which template has the packages of one, and the scripts to begin with.

use crate::Language;

/// A script to begin with: `paddock script new NAME`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Starter {
    pub name: &'static str,
    pub language: Language,
    /// The file name if none is given.
    pub file: &'static str,
    pub text: &'static str,
    pub about: &'static str,
    /// The further arguments of `paddock script run FILE`.
    pub arguments: &'static str,
}

pub const STARTERS: [Starter; 11] = [
    Starter {
        name: "claude",
        language: Language::TypeScript,
        file: "claude.ts",
        text: include_str!("starters/claude.ts"),
        about: "Claude Code by its SDK, which goes on with its conversation",
        arguments: "--arg prompt='say hello' --arg anthropic='$res:anthropic'",
    },
    Starter {
        name: "codex",
        language: Language::TypeScript,
        file: "codex.ts",
        text: include_str!("starters/codex.ts"),
        about: "OpenAI's Codex by its command, with its state",
        arguments: "--arg prompt='say hello' --arg openai='$res:openai'",
    },
    Starter {
        name: "opencode",
        language: Language::TypeScript,
        file: "opencode.ts",
        text: include_str!("starters/opencode.ts"),
        about: "OpenCode by its command, which goes on with its last session",
        arguments: "--arg prompt='say hello' --arg anthropic='$res:anthropic'",
    },
    Starter {
        name: "python",
        language: Language::Python,
        file: "agent.py",
        text: include_str!("starters/agent.py"),
        about: "an agent of your own, with a memory",
        arguments: "--arg prompt='say hello'",
    },
    Starter {
        name: "typescript",
        language: Language::TypeScript,
        file: "script.ts",
        text: include_str!("starters/script.ts"),
        about: "a function in TypeScript, by Node",
        arguments: "--arg name=Ada",
    },
    Starter {
        name: "javascript",
        language: Language::JavaScript,
        file: "script.mjs",
        text: include_str!("starters/script.mjs"),
        about: "a function in JavaScript, by Node",
        arguments: "--arg name=Ada",
    },
    Starter {
        name: "bash",
        language: Language::Bash,
        file: "script.sh",
        text: include_str!("starters/script.sh"),
        about: "commands of a shell",
        arguments: "--arg name=Ada",
    },
    Starter {
        name: "bun",
        language: Language::Bun,
        file: "script.bun.ts",
        text: include_str!("starters/script.ts"),
        about: "a function in TypeScript, by Bun",
        arguments: "--template bun --arg name=Ada",
    },
    Starter {
        name: "deno",
        language: Language::Deno,
        file: "script.deno.ts",
        text: include_str!("starters/script.ts"),
        about: "a function in TypeScript, by Deno",
        arguments: "--template deno --arg name=Ada",
    },
    Starter {
        name: "go",
        language: Language::Go,
        file: "script.go",
        text: include_str!("starters/script.go"),
        about: "a function in Go",
        arguments: "--template go --arg name=Ada",
    },
    Starter {
        name: "ruby",
        language: Language::Ruby,
        file: "script.rb",
        text: include_str!("starters/script.rb"),
        about: "a method in Ruby",
        arguments: "--template ruby --arg name=Ada",
    },
];

/// The packages that a source for an agent imports, and the build file of Paddock's that has this agent.
const PACKAGES: [(&str, &str); 3] = [
    ("@anthropic-ai/claude-agent-sdk", "claude"),
    ("@anthropic-ai/claude-code", "claude"),
    ("@openai/codex", "codex"),
];
/// The commands that a source starts; the build file has the same name.
const COMMANDS: [&str; 2] = ["codex", "opencode"];
/// How programs are started in Node and Python.
const CALLS: [&str; 12] = [
    "exec(",
    "execSync(",
    "execFile(",
    "execFileSync(",
    "spawn(",
    "spawnSync(",
    "run(",
    "call(",
    "check_call(",
    "check_output(",
    "Popen(",
    "system(",
];
const QUOTES: [char; 3] = ['"', '\'', '`'];

/// The template for a script that asks for an agent and whose caller names no template.
///
/// The shipped templates reach the agent's own service and nothing else, which a header may ask for as well. A template
/// of the owner's that has this name takes its place. Only certain signs count: a template that is not needed takes
/// minutes.
pub fn agent_template(source: &str, language: Language) -> Option<&'static str> {
    let comment = language.comment();
    let code = source.lines().filter(|line| !line.trim_start().starts_with(comment));
    code.into_iter().find_map(|line| {
        let imported =
            PACKAGES.iter().find(|(package, _)| imports(line, package)).map(|(_, template)| *template);
        imported.or_else(|| COMMANDS.into_iter().find(|command| starts(line, command, language)))
    })
}

/// `from "PACKAGE"`, `import "PACKAGE"`, `import("PACKAGE")`, `require("PACKAGE")`.
fn imports(line: &str, package: &str) -> bool {
    line.match_indices(package).any(|(at, _)| {
        let Some(before) = line[..at].strip_suffix(QUOTES) else { return false };
        let before = before.trim_end();
        ["from", "import", "import(", "require("].iter().any(|word| before.ends_with(word))
    })
}

/// `execSync("codex ...")`, `spawn("codex", ...)`, `subprocess.run(["codex", ...])`; in a shell, the first word of a line.
fn starts(line: &str, command: &str, language: Language) -> bool {
    if language == Language::Bash {
        return line.split_whitespace().next() == Some(command);
    }
    line.match_indices(command).any(|(at, _)| {
        let whole = line[at + command.len()..].starts_with(|c: char| c == ' ' || QUOTES.contains(&c));
        let Some(before) = line[..at].strip_suffix(QUOTES).filter(|_| whole) else { return false };
        let before = before.trim_end().trim_end_matches('[').trim_end();
        CALLS.iter().any(|call| before.ends_with(call))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check;

    #[test]
    fn every_starter_is_a_sound_script_in_its_language() {
        for starter in STARTERS {
            assert_eq!(
                Language::of_file(starter.file.as_ref()).unwrap(),
                starter.language,
                "{}",
                starter.name
            );
            let found = check(starter.text, starter.language);
            assert!(found.is_ok_and(|found| found.sandbox), "{}", starter.name);
            let agent = matches!(starter.name, "claude" | "codex" | "opencode").then_some(starter.name);
            assert_eq!(agent_template(starter.text, starter.language), agent, "{}", starter.name);
        }
    }

    #[test]
    fn a_script_that_asks_for_an_agent_is_told_from_one_that_speaks_of_it() {
        let typescript = |source| agent_template(source, Language::TypeScript);
        assert_eq!(typescript("import { query } from \"@anthropic-ai/claude-agent-sdk\";"), Some("claude"));
        assert_eq!(typescript("const sdk = await import('@openai/codex')"), Some("codex"));
        assert_eq!(typescript("const result = execSync(`codex --quiet \"${prompt}\"`, {"), Some("codex"));
        assert_eq!(typescript("spawn('opencode', ['run'])"), Some("opencode"));
        for other in [
            "// import x from '@openai/codex'",
            "let a = 'codex of rules'; console.log('codex is a book')",
            "const text = 'the opencode project'; run('codexes')",
            "const name = '@anthropic-ai/claude-agent-sdk'",
        ] {
            assert_eq!(typescript(other), None, "{other}");
        }
        let python = |source| agent_template(source, Language::Python);
        assert_eq!(python("subprocess.run(['codex', 'exec', prompt])"), Some("codex"));
        assert_eq!(python("# subprocess.run('codex exec')\ncodex = 1\nprint('codex exec')"), None);
        let bash = |source| agent_template(source, Language::Bash);
        assert_eq!(bash("cd x\n  opencode run \"$1\""), Some("opencode"));
        assert_eq!(bash("echo codex\ncodex_home=1"), None);
    }
}
