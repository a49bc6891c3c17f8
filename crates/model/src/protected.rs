//! The names in a workspace by which a later tool of the host (git, direnv, an editor, a package manager, a coding agent) would
//! be made to run code, merely by being used in that directory. Files that a person runs on purpose (a Makefile and what it
//! includes, scripts of package.json, build.rs, tests) are not among them.
//!
//! This is the only list: the fence holds it, the account of a shield marks it, docs/reference/protected-names.md is written from
//! it, and the tests try every name of it.

use std::path::Path;

/// One name of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protected {
    /// Relative to the workspace.
    pub name: &'static str,
    pub node: Node,
    pub held: Held,
    pub scope: Scope,
    /// The reason: the tool that uses it, and how.
    pub reason: &'static str,
}

/// The kind of stand-in that an absent name gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    File,
    Directory,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// Read-only where it exists; where it does not, it cannot be made.
    Always,
    /// Read-only where it exists when the sandbox starts. One that is made later is told by a shield.
    WherePresent,
    /// As [`Held::Always`] in a repository one of whose hooks names this tool, else as [`Held::WherePresent`].
    WithHook(&'static str),
    /// Writable, because ordinary work changes it; a shield tells and marks every change.
    Told,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// In every workspace; a name of one part also in directories below, where it exists.
    Workspace,
    /// Only under `paddock shield`: a push would run its content, with the secrets of the project.
    Shield,
    /// Only where the workspace is the caller's home directory.
    Home,
}

const fn entry(name: &'static str, node: Node, held: Held, scope: Scope, reason: &'static str) -> Protected {
    Protected { name, node, held, scope, reason }
}

const fn always(name: &'static str, node: Node, reason: &'static str) -> Protected {
    entry(name, node, Held::Always, Scope::Workspace, reason)
}

const fn present(name: &'static str, node: Node, reason: &'static str) -> Protected {
    entry(name, node, Held::WherePresent, Scope::Workspace, reason)
}

const fn with_hook(name: &'static str, tool: &'static str) -> Protected {
    entry(
        name,
        Node::File,
        Held::WithHook(tool),
        Scope::Workspace,
        "programs that an installed git hook runs",
    )
}

const fn told(name: &'static str, node: Node, reason: &'static str) -> Protected {
    entry(name, node, Held::Told, Scope::Workspace, reason)
}

const fn pipeline(name: &'static str, node: Node, held: Held, reason: &'static str) -> Protected {
    entry(name, node, held, Scope::Shield, reason)
}

const fn home(name: &'static str, node: Node, reason: &'static str) -> Protected {
    entry(name, node, Held::Always, Scope::Home, reason)
}

use Held::{Always, WherePresent};
use Node::{Directory, File};

const AGENT: &str = "settings, hooks and programs of a coding agent";
const AGENT_PROGRAMS: &str = "programs that a coding agent starts";
const INSTRUCTIONS: &str = "a coding agent of the host obeys it";
const MISE: &str = "mise runs its hooks and templates on cd";
const NIX: &str = "direnv evaluates it on cd, where an .envrc that was allowed uses it";
const EDITOR_HOST: &str =
    "commands that an editor runs on the host when it opens the directory, after it asked";
const VIM: &str = "start-up commands of vim and Neovim";

pub const PROTECTED: &[Protected] = &[
    // Version control.
    always(".git", Directory, "hooks and settings name programs that git runs"),
    always(".hg", Directory, "Mercurial's hooks and extensions"),
    always(".jj", Directory, "Jujutsu's settings and the git repository within"),
    present(".sl", Directory, "Sapling's hooks and extensions"),
    present(".svn", Directory, "where Subversion's client connects, through which tunnel"),
    present(".gitmodules", File, "where git fetches submodules from, and how"),
    // Git hooks. The directory that core.hooksPath names is held besides, whatever its name.
    present(".githooks", Directory, "a usual place of core.hooksPath"),
    present(".husky", Directory, "git hooks"),
    present(".lefthook", Directory, "programs that an installed git hook runs"),
    present(".lefthook-local", Directory, "programs that an installed git hook runs"),
    always("lefthook.yml", File, "programs that an installed git hook runs"),
    with_hook("lefthook.yaml", "lefthook"),
    with_hook("lefthook.toml", "lefthook"),
    with_hook("lefthook.json", "lefthook"),
    with_hook("lefthook-local.yml", "lefthook"),
    with_hook(".lefthook.yml", "lefthook"),
    with_hook(".lefthook.yaml", "lefthook"),
    with_hook(".lefthook.toml", "lefthook"),
    with_hook(".lefthook-local.yml", "lefthook"),
    with_hook(".pre-commit-config.yaml", "pre-commit"),
    with_hook(".overcommit.yml", "overcommit"),
    with_hook("captainhook.json", "captainhook"),
    // What runs on cd.
    always(".envrc", File, "direnv runs it on cd"),
    always("mise.toml", File, MISE),
    always(".mise.toml", File, MISE),
    present("mise.local.toml", File, MISE),
    present(".mise.local.toml", File, MISE),
    present("mise/config.toml", File, MISE),
    present(".mise", Directory, MISE),
    present(".config/mise", Directory, MISE),
    present(".config/mise.toml", File, MISE),
    present(".tool-versions", File, "asdf and mise choose, and install, the programs that it names"),
    present(".rtx.toml", File, MISE),
    present(".autoenv", File, "autoenv runs it on cd"),
    present(".autoenv.zsh", File, "autoenv runs it on cd"),
    told("flake.nix", File, NIX),
    told("shell.nix", File, NIX),
    told("devenv.nix", File, NIX),
    told("devbox.json", File, NIX),
    // Editors.
    always(".vscode", Directory, "tasks, and settings that name programs"),
    always(".idea", Directory, "run configurations, start-up tasks and file watchers"),
    present(".devcontainer", Directory, EDITOR_HOST),
    present(".devcontainer.json", File, EDITOR_HOST),
    present(".fleet", Directory, "run configurations"),
    present(".zed", Directory, "tasks, and settings that name language servers"),
    present(".helix", Directory, "settings that name language servers"),
    present(".nova", Directory, "tasks that the editor runs"),
    present(".exrc", File, VIM),
    // Read as .exrc is, where `exrc` is set; a home directory has them besides.
    present(".vimrc", File, VIM),
    present(".gvimrc", File, VIM),
    present(".nvimrc", File, VIM),
    present(".nvim.lua", File, VIM),
    present(".lvimrc", File, VIM),
    present(".dir-locals.el", File, "Emacs evaluates it"),
    present(".dir-locals-2.el", File, "Emacs evaluates it"),
    present(".neoconf.json", File, "settings that name language servers"),
    // Coding agents.
    always(".mcp.json", File, AGENT_PROGRAMS),
    always(".claude", Directory, AGENT),
    always(".codex", Directory, AGENT),
    always(".cursor", Directory, AGENT),
    always(".gemini", Directory, AGENT),
    always(".opencode", Directory, AGENT),
    always("opencode.json", File, AGENT_PROGRAMS),
    present("opencode.jsonc", File, AGENT_PROGRAMS),
    present(".crush.json", File, AGENT_PROGRAMS),
    present("crush.json", File, AGENT_PROGRAMS),
    present(".windsurf", Directory, AGENT),
    present(".continue", Directory, AGENT),
    present(".roo", Directory, AGENT),
    present(".kilocode", Directory, AGENT),
    present(".cline", Directory, AGENT),
    present(".kiro", Directory, AGENT),
    present(".amazonq", Directory, AGENT),
    present(".qwen", Directory, AGENT),
    present(".factory", Directory, AGENT),
    present(".augment", Directory, AGENT),
    present(".junie", Directory, AGENT),
    present(".trae", Directory, AGENT),
    present(".goose", Directory, AGENT),
    present(".agents", Directory, AGENT),
    present(".aider.conf.yml", File, AGENT_PROGRAMS),
    told("AGENTS.md", File, INSTRUCTIONS),
    told("CLAUDE.md", File, INSTRUCTIONS),
    told("CLAUDE.local.md", File, INSTRUCTIONS),
    told("GEMINI.md", File, INSTRUCTIONS),
    told(".cursorrules", File, INSTRUCTIONS),
    told(".windsurfrules", File, INSTRUCTIONS),
    told(".clinerules", File, INSTRUCTIONS),
    told(".github/copilot-instructions.md", File, INSTRUCTIONS),
    // Package managers and compilers.
    always(".npmrc", File, "names npm's shell, registry and options of node"),
    present(".yarnrc", File, "names the program that runs instead of yarn"),
    present(".yarnrc.yml", File, "names the program that runs instead of yarn, and its plug-ins"),
    present(".yarn/releases", Directory, "the program that runs instead of yarn"),
    present(".yarn/plugins", Directory, "code that yarn loads"),
    present(".pnpmfile.cjs", File, "code that pnpm loads"),
    present("pnpmfile.cjs", File, "code that pnpm loads"),
    told("pnpm-workspace.yaml", File, "settings of pnpm, which name its shell and code that it loads"),
    present("bunfig.toml", File, "names code that bun loads"),
    always(".cargo", Directory, "names the compiler, linker and runner that cargo starts"),
    present("rust-toolchain", File, "can name a directory that cargo and rustc themselves come from"),
    present("rust-toolchain.toml", File, "can name a directory that cargo and rustc themselves come from"),
    present(".mvn", Directory, "extensions and options that Maven loads"),
    present(".bundle", Directory, "plug-ins and settings of Bundler"),
    present(".irbrc", File, "irb runs it"),
    present(".pryrc", File, "pry runs it"),
    present(".gdbinit", File, "gdb runs it"),
    present(".lldbinit", File, "lldb runs it"),
    present(".pdbrc", File, "Python's debugger runs it"),
    present(".ghci", File, "ghci runs it"),
    present(".iex.exs", File, "Elixir's shell runs it"),
    present(".ocamlinit", File, "ocaml runs it"),
    present(".octaverc", File, "Octave runs it when it starts"),
    present(".Rprofile", File, "R runs it when it starts"),
    present(".julia/config", Directory, "Julia runs it when it starts"),
    told(
        "sitecustomize.py",
        File,
        "Python runs it when it starts, where it stands on its path or in a virtual environment",
    ),
    told(
        "usercustomize.py",
        File,
        "Python runs it when it starts, where it stands on its path or in a virtual environment",
    ),
    told("pyvenv.cfg", File, "an editor starts the interpreter that stands beside it"),
    // Continuous integration.
    pipeline(".paddock", Directory, Always, "settings of Paddock"),
    pipeline(".github/workflows", Directory, Always, "programs that GitHub runs"),
    pipeline(".github/actions", Directory, Always, "programs that GitHub runs"),
    pipeline(".gitlab-ci.yml", File, Always, "programs that GitLab runs"),
    pipeline(".circleci", Directory, Always, "programs that CircleCI runs"),
    pipeline(".forgejo/workflows", Directory, WherePresent, "programs that Forgejo runs"),
    pipeline(".gitea/workflows", Directory, WherePresent, "programs that Gitea runs"),
    pipeline(".woodpecker", Directory, WherePresent, "programs that Woodpecker runs"),
    pipeline(".woodpecker.yml", File, WherePresent, "programs that Woodpecker runs"),
    pipeline(".buildkite", Directory, WherePresent, "programs that Buildkite runs"),
    pipeline(".drone.yml", File, WherePresent, "programs that Drone runs"),
    pipeline(".travis.yml", File, WherePresent, "programs that Travis runs"),
    pipeline(".appveyor.yml", File, WherePresent, "programs that AppVeyor runs"),
    pipeline("appveyor.yml", File, WherePresent, "programs that AppVeyor runs"),
    pipeline("azure-pipelines.yml", File, WherePresent, "programs that Azure Pipelines runs"),
    pipeline("bitbucket-pipelines.yml", File, WherePresent, "programs that Bitbucket runs"),
    pipeline("cloudbuild.yaml", File, WherePresent, "programs that Cloud Build runs"),
    pipeline("Jenkinsfile", File, WherePresent, "programs that Jenkins runs"),
    // A home directory.
    home(".bashrc", File, "bash runs it"),
    home(".bash_profile", File, "bash runs it"),
    home(".bash_login", File, "bash runs it"),
    home(".bash_logout", File, "bash runs it"),
    home(".bash_aliases", File, "bash runs it"),
    home(".profile", File, "every login shell runs it"),
    home(".zshrc", File, "zsh runs it"),
    home(".zshenv", File, "zsh runs it"),
    home(".zprofile", File, "zsh runs it"),
    home(".zlogin", File, "zsh runs it"),
    home(".zlogout", File, "zsh runs it"),
    home(".kshrc", File, "ksh runs it"),
    home(".cshrc", File, "csh runs it"),
    home(".tcshrc", File, "tcsh runs it"),
    home(".login", File, "csh runs it"),
    home(".xprofile", File, "the desktop runs it"),
    home(".xinitrc", File, "the desktop runs it"),
    home(".xsession", File, "the desktop runs it"),
    home(".config", Directory, "fish, systemd, autostart, git and most editors"),
    home(".local/bin", Directory, "programs on the search path"),
    home(".local/share/systemd", Directory, "services of the user"),
    home(".local/lib", Directory, "code that python loads"),
    home("bin", Directory, "programs on the search path"),
    home(".ssh", Directory, "keys, and programs that ssh runs"),
    home(".gnupg", Directory, "keys, and programs that gpg runs"),
    home(".gitconfig", File, "names programs that git runs"),
    home(".hgrc", File, "Mercurial's hooks and extensions"),
    home(".vimrc", File, VIM),
    home(".gvimrc", File, VIM),
    home(".vim", Directory, VIM),
    home(".emacs", File, "Emacs evaluates it"),
    home(".emacs.d", Directory, "Emacs evaluates it"),
    home(".tmux.conf", File, "tmux runs it"),
    home(".screenrc", File, "screen runs it"),
    home(".docker", Directory, "plug-ins and credential programs"),
    home(".kube", Directory, "credential programs"),
    home(".aws", Directory, "credential programs"),
    home(".claude.json", File, AGENT_PROGRAMS),
];

/// Names in `.git` that stay read-only where an agent may commit: all by which git runs code, or takes settings from
/// elsewhere.
pub const IN_A_REPOSITORY: &[(&str, Node, &str)] = &[
    ("config", File, "names programs that git runs"),
    ("config.worktree", File, "names programs that git runs"),
    ("hooks", Directory, "programs that git runs"),
    ("commondir", File, "where git takes settings and hooks from"),
    ("info", Directory, "which files git hands to the programs of its settings"),
    ("modules", Directory, "repositories of submodules, with settings and hooks of their own"),
    ("worktrees", Directory, "where other working trees take settings and hooks from"),
    ("objects/info/alternates", File, "further places of the host that git takes objects from"),
];

/// Where a repository that is made inside stands on the host until the sandbox ends.
pub const NEW_REPOSITORY: &str = ".git/paddock-new-repository";

/// Further names in `.git` that a shield marks: git runs commands from there when a rebase goes on. An empty stand-in
/// would make git believe that a rebase is under way.
pub const TOLD_IN_A_REPOSITORY: &[&str] = &["rebase-merge", "rebase-apply", "sequencer"];

/// The entry of exactly this name.
pub fn find(name: &Path) -> Option<&'static Protected> {
    PROTECTED.iter().find(|entry| Path::new(entry.name) == name)
}

/// The entry by which a name of one part is held in directories below too.
pub fn find_anywhere(file_name: &str) -> Option<&'static Protected> {
    let entries = PROTECTED.iter().filter(|entry| entry.scope == Scope::Workspace);
    entries.filter(|entry| entry.held != Held::Told).find(|entry| entry.name == file_name)
}

/// The reason why a change at this path, relative to a workspace, can run code on the host later.
pub fn reason(path: &str) -> Option<&'static str> {
    let parts: Vec<&str> = path.split('/').collect();
    if let Some(at) = parts.iter().position(|part| *part == ".git") {
        return reason_in_git(&parts[at + 1..]);
    }
    // A file that Python takes lines of code from.
    if path.ends_with(".pth") {
        return Some("Python runs lines of it when it starts, where it stands in a virtual environment");
    }
    if let [.., virtual_environment, "bin", _] = &parts[..]
        && matches!(*virtual_environment, ".venv" | "venv")
    {
        return Some("an editor starts the interpreter of a virtual environment");
    }
    PROTECTED
        .iter()
        .filter(|entry| entry.scope != Scope::Home)
        .find(|entry| covers(entry, path, &parts))
        .map(|e| e.reason)
}

/// Precondition: `parts` are those below `.git`.
fn reason_in_git(parts: &[&str]) -> Option<&'static str> {
    let Some((first, _)) = parts.split_first() else {
        return Some("a repository: git runs what its settings and hooks name");
    };
    let path = parts.join("/");
    let is_at_or_below =
        |name: &str| path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let held = IN_A_REPOSITORY.iter().find(|(name, _, _)| is_at_or_below(name)).map(|(_, _, reason)| *reason);
    held.or_else(|| {
        TOLD_IN_A_REPOSITORY.contains(first).then_some("git runs commands in it when a rebase goes on")
    })
}

fn covers(entry: &Protected, path: &str, parts: &[&str]) -> bool {
    let below = |rest: &str| rest.is_empty() || rest.starts_with('/');
    let at_the_top = path.strip_prefix(entry.name).is_some_and(below);
    at_the_top || (entry.scope == Scope::Workspace && parts.contains(&entry.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fmt::Write;

    #[test]
    fn names_are_relative_plain_and_named_once() {
        // A name may be held more strictly in a home directory.
        let distinct: BTreeSet<_> =
            PROTECTED.iter().map(|entry| (entry.name, entry.scope == Scope::Home)).collect();
        assert_eq!(distinct.len(), PROTECTED.len());
        for entry in PROTECTED {
            let name = entry.name;
            assert!(!name.starts_with('/') && !name.ends_with('/') && !name.contains(".."), "{name}");
            assert!(!entry.reason.is_empty() && !entry.reason.contains('|'), "{name}");
        }
    }

    #[test]
    fn what_can_run_code_is_known_by_its_path() {
        for path in [
            ".git/hooks/pre-commit",
            ".git/config",
            "sub/.git",
            "sub/.git/hooks/x",
            "a/b/.vscode/tasks.json",
            ".github/workflows/x.yml",
            ".venv/lib/python3.12/site-packages/evil.pth",
            ".venv/bin/python",
            "deep/sitecustomize.py",
            "AGENTS.md",
            "mise.toml",
            "project/.vimrc",
            ".gvimrc",
            ".git/objects/info/alternates",
            ".git/rebase-merge/git-rebase-todo",
        ] {
            assert!(reason(path).is_some(), "{path}");
        }
        for path in [
            ".git/objects/ab/cd",
            ".git/refs/heads/main",
            ".git/index",
            "src/main.rs",
            "sub/.github/workflows/x.yml",
            ".bashrc",
            ".github/dependabot.yml",
        ] {
            assert!(reason(path).is_none(), "{path}");
        }
    }

    /// The page is written from the table. `PADDOCK_WRITE_SPEC=1 cargo test -p paddock-model protected` writes it anew.
    #[test]
    fn the_page_of_the_documentation_is_this_table() {
        let place = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/protected-names.md");
        let page = page();
        if std::env::var_os("PADDOCK_WRITE_SPEC").is_some() {
            std::fs::write(place, &page).unwrap();
        }
        assert_eq!(std::fs::read_to_string(place).unwrap(), page, "write it anew with PADDOCK_WRITE_SPEC=1");
    }

    fn page() -> String {
        let mut page = include_str!("protected_names_head.md").to_string();
        let scopes = [
            (Scope::Workspace, "In every workspace"),
            (Scope::Shield, "Under `paddock shield` besides"),
            (Scope::Home, "Where the workspace is your home directory"),
        ];
        for (scope, title) in scopes {
            write!(page, "\n## {title}\n\n| name | held | because |\n|---|---|---|\n").unwrap();
            for entry in PROTECTED.iter().filter(|entry| entry.scope == scope) {
                let slash = if entry.node == Node::Directory { "/" } else { "" };
                let held = match entry.held {
                    Held::Always => "always".to_string(),
                    Held::WherePresent => "where it exists".to_string(),
                    Held::WithHook(tool) => format!("where it exists; always if a hook names {tool}"),
                    Held::Told => "told".to_string(),
                };
                writeln!(page, "| `{}{slash}` | {held} | {} |", entry.name, entry.reason).unwrap();
            }
        }
        page.push_str("\n## In `.git`, with `--allow-commit`\n\n| name | because |\n|---|---|\n");
        for (name, node, reason) in IN_A_REPOSITORY {
            let slash = if *node == Node::Directory { "/" } else { "" };
            writeln!(page, "| `.git/{name}{slash}` | {reason} |").unwrap();
        }
        page
    }
}
