//! The names in a workspace that stay read-only: those by which a later tool of the
//! host (git, direnv, an editor, a package manager, a coding agent) would be made to run code merely by being
//! used in that directory. Files that a person runs on purpose (Makefile, package.json) are not among them.

/// Name, relative to the workspace, and why it is here.
pub type Protected = (&'static str, &'static str);

/// Held also where they do not exist: an empty stand-in is made for the time of the run, so this list is kept
/// to what many people have a tool for.
pub const IN_EVERY_WORKSPACE: &[Protected] = &[
    (".git", "hooks and settings name programs that git runs"),
    ("HEAD", "with objects/ and refs/ beside it, git takes the directory for a repository of its own"),
    (".gitmodules", "where git fetches submodules from, and how"),
    (".hg", "Mercurial's hooks and extensions"),
    (".jj", "Jujutsu's settings and the git repository within"),
    (".svn", "where Subversion's client connects, through which tunnel"),
    (".githooks", "the usual place of core.hooksPath"),
    (".husky", "git hooks"),
    (".pre-commit-config.yaml", "programs that an installed git hook runs"),
    (".envrc", "direnv runs it on cd"),
    (".mise.toml", "mise runs its hooks and templates on cd"),
    (".vscode", "tasks, and settings that name programs"),
    (".idea", "run configurations and file watchers"),
    (".devcontainer", "commands that an editor runs on the host when it opens the directory"),
    (".mcp.json", "programs that a coding agent starts"),
    (".claude", "hooks, permissions and programs of a coding agent"),
    (".codex", "settings and programs of a coding agent"),
    (".cursor", "settings and programs of a coding agent"),
    (".gemini", "settings and programs of a coding agent"),
    (".npmrc", "names npm's shell, registry and options of node"),
];

/// Held where they exist when the sandbox starts.
pub const WHERE_PRESENT: &[Protected] = &[
    (".sl", "Sapling's hooks and extensions"),
    ("lefthook.yml", "programs that an installed git hook runs"),
    (".lefthook.yml", "programs that an installed git hook runs"),
    (".lefthook", "programs that an installed git hook runs"),
    (".overcommit.yml", "programs that an installed git hook runs"),
    ("mise.toml", "mise runs its hooks and templates on cd"),
    ("mise.local.toml", "mise runs its hooks and templates on cd"),
    (".mise.local.toml", "mise runs its hooks and templates on cd"),
    (".mise", "mise runs its hooks and templates on cd"),
    (".config/mise", "mise runs its hooks and templates on cd"),
    (".config/mise.toml", "mise runs its hooks and templates on cd"),
    (".fleet", "run configurations"),
    (".zed", "tasks, and settings that name language servers"),
    (".helix", "settings that name language servers"),
    (".devcontainer.json", "commands that an editor runs on the host when it opens the directory"),
    (".exrc", "vim's start-up commands"),
    (".nvimrc", "Neovim's start-up commands"),
    (".nvim.lua", "Neovim's start-up commands"),
    (".dir-locals.el", "Emacs evaluates it"),
    (".windsurf", "settings and programs of a coding agent"),
    (".continue", "settings and programs of a coding agent"),
    (".roo", "settings and programs of a coding agent"),
    (".kiro", "hooks and programs of a coding agent"),
    (".opencode", "settings and plug-ins of a coding agent"),
    ("opencode.json", "programs that a coding agent starts"),
    (".aider.conf.yml", "programs that a coding agent starts"),
    (".yarnrc", "names the program that runs instead of yarn"),
    (".yarnrc.yml", "names the program that runs instead of yarn, and its plug-ins"),
    (".yarn/releases", "the program that runs instead of yarn"),
    (".yarn/plugins", "code that yarn loads"),
    (".pnpmfile.cjs", "code that pnpm loads"),
    ("bunfig.toml", "names code that bun loads"),
    (".cargo", "names the compiler, linker and runner that cargo starts"),
    ("rust-toolchain", "can name a directory that cargo and rustc themselves come from"),
    ("rust-toolchain.toml", "can name a directory that cargo and rustc themselves come from"),
    (".mvn", "extensions and options that Maven loads"),
    (".bundle", "plug-ins and settings of Bundler"),
    (".irbrc", "irb runs it"),
    (".pryrc", "pry runs it"),
    (".gdbinit", "gdb runs it"),
    (".lldbinit", "lldb runs it"),
];

/// Held by `paddock shield`, whether they exist or not: a push would run what stands there, with the secrets of the project.
pub const UNDER_A_SHIELD: &[Protected] = &[
    (".paddock", "settings of Paddock"),
    (".github/workflows", "programs that GitHub runs"),
    (".github/actions", "programs that GitHub runs"),
    (".gitlab-ci.yml", "programs that GitLab runs"),
    (".circleci", "programs that CircleCI runs"),
];

/// Held by `paddock shield` where they exist when it starts.
pub const UNDER_A_SHIELD_WHERE_PRESENT: &[Protected] = &[
    (".forgejo/workflows", "programs that Forgejo runs"),
    (".gitea/workflows", "programs that Gitea runs"),
    (".woodpecker", "programs that Woodpecker runs"),
    (".woodpecker.yml", "programs that Woodpecker runs"),
    (".buildkite", "programs that Buildkite runs"),
    (".drone.yml", "programs that Drone runs"),
    (".travis.yml", "programs that Travis runs"),
    (".appveyor.yml", "programs that AppVeyor runs"),
    ("appveyor.yml", "programs that AppVeyor runs"),
    ("azure-pipelines.yml", "programs that Azure Pipelines runs"),
    ("bitbucket-pipelines.yml", "programs that Bitbucket runs"),
    ("cloudbuild.yaml", "programs that Cloud Build runs"),
    ("Jenkinsfile", "programs that Jenkins runs"),
];

/// Added when the workspace is the caller's home directory.
pub const IN_A_HOME: &[Protected] = &[
    (".bashrc", "bash runs it"),
    (".bash_profile", "bash runs it"),
    (".bash_login", "bash runs it"),
    (".bash_logout", "bash runs it"),
    (".bash_aliases", "bash runs it"),
    (".profile", "every login shell runs it"),
    (".zshrc", "zsh runs it"),
    (".zshenv", "zsh runs it"),
    (".zprofile", "zsh runs it"),
    (".zlogin", "zsh runs it"),
    (".zlogout", "zsh runs it"),
    (".kshrc", "ksh runs it"),
    (".cshrc", "csh runs it"),
    (".tcshrc", "tcsh runs it"),
    (".login", "csh runs it"),
    (".xprofile", "the desktop runs it"),
    (".xinitrc", "the desktop runs it"),
    (".xsession", "the desktop runs it"),
    (".config", "fish, systemd, autostart, git and most editors"),
    (".local/bin", "programs on the search path"),
    (".local/share/systemd", "services of the user"),
    (".local/lib", "code that python loads"),
    ("bin", "programs on the search path"),
    (".ssh", "keys, and programs that ssh runs"),
    (".gnupg", "keys, and programs that gpg runs"),
    (".gitconfig", "names programs that git runs"),
    (".hgrc", "Mercurial's hooks and extensions"),
    (".vimrc", "vim's start-up commands"),
    (".vim", "vim's plug-ins"),
    (".emacs", "Emacs evaluates it"),
    (".emacs.d", "Emacs evaluates it"),
    (".tmux.conf", "tmux runs it"),
    (".screenrc", "screen runs it"),
    (".docker", "plug-ins and credential programs"),
    (".kube", "credential programs"),
    (".aws", "credential programs"),
    (".claude.json", "programs that a coding agent starts"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_relative_plain_and_named_once() {
        let shield = UNDER_A_SHIELD.iter().chain(UNDER_A_SHIELD_WHERE_PRESENT);
        let all: Vec<_> =
            IN_EVERY_WORKSPACE.iter().chain(WHERE_PRESENT).chain(IN_A_HOME).chain(shield).collect();
        let distinct: BTreeSet<_> = all.iter().map(|(name, _)| name).collect();
        assert_eq!(distinct.len(), all.len());
        for (name, reason) in all {
            assert!(!name.starts_with('/') && !name.ends_with('/') && !name.contains(".."), "{name}");
            assert!(!reason.is_empty(), "{name}");
        }
    }
}
