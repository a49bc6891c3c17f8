//! The text form of git's settings. The parser takes everything that git takes. If git would refuse the file, it goes
//! on behind the unreadable part: a name that is held without need does no harm, and a missed one does.

#[derive(Debug, PartialEq, Eq)]
pub struct Setting {
    /// In lower case, without the part in quotes.
    pub section: String,
    pub subsection: String,
    /// In lower case.
    pub key: String,
    pub value: String,
}

pub fn parse(text: &[u8]) -> Vec<Setting> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let text = String::from_utf8_lossy(text).replace("\r\n", "\n");
    let mut characters = text.chars().peekable();
    let (mut section, mut subsection) = (String::new(), String::new());
    let mut settings = Vec::new();
    while let Some(first) = characters.next() {
        match first {
            '#' | ';' => while characters.next().is_some_and(|next| next != '\n') {},
            '[' => (section, subsection) = heading(&mut characters),
            letter if letter.is_ascii_alphabetic() => {
                let mut key = letter.to_ascii_lowercase().to_string();
                while let Some(next) = characters.next_if(|next| next.is_ascii_alphanumeric() || *next == '-')
                {
                    key.push(next.to_ascii_lowercase());
                }
                while characters.next_if(|next| *next == ' ' || *next == '\t').is_some() {}
                let value = match characters.next_if_eq(&'=') {
                    Some(_) => value(&mut characters),
                    None => String::new(),
                };
                let (section, subsection) = (section.clone(), subsection.clone());
                settings.push(Setting { section, subsection, key, value });
            }
            _ => {}
        }
    }
    settings
}

type Characters<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// `[section]`, `[section "subsection"]`, and the old `[section.subsection]`.
fn heading(characters: &mut Characters<'_>) -> (String, String) {
    let mut section = String::new();
    let mut subsection = String::new();
    while let Some(next) = characters.next() {
        match next {
            ']' | '\n' => break,
            '"' => {
                while let Some(next) = characters.next() {
                    match next {
                        '"' | '\n' => break,
                        '\\' => subsection.extend(characters.next()),
                        next => subsection.push(next),
                    }
                }
            }
            ' ' | '\t' => {}
            next => section.push(next.to_ascii_lowercase()),
        }
    }
    match section.split_once('.') {
        Some((first, rest)) if subsection.is_empty() => (first.to_string(), rest.to_string()),
        _ => (section, subsection),
    }
}

/// The value up to the end of the line, with quotes, escapes and continued lines.
fn value(characters: &mut Characters<'_>) -> String {
    let mut value = String::new();
    let mut quoted = false;
    // The beginning of unquoted trailing space.
    let mut kept = 0;
    while let Some(next) = characters.next() {
        match next {
            '\n' => break,
            '"' => {
                quoted = !quoted;
                kept = value.len();
            }
            '#' | ';' if !quoted => {
                while characters.next().is_some_and(|next| next != '\n') {}
                break;
            }
            '\\' => {
                match characters.next() {
                    Some('\n') | None => continue,
                    Some('n') => value.push('\n'),
                    Some('t') => value.push('\t'),
                    Some('b') => value.push('\u{8}'),
                    Some(other) => value.push(other),
                }
                kept = value.len();
            }
            ' ' | '\t' if !quoted && value.is_empty() => {}
            space if space.is_ascii_whitespace() && !quoted => value.push(space),
            other => {
                value.push(other);
                kept = value.len();
            }
        }
    }
    value.truncate(kept);
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const TRICKY: &str = "\u{feff}# a comment\n[core]\n\thooksPath = tools/hooks ; behind\n\tFsMonitor=\"a \\\"quoted\\\" path\" # x\n\
        [include]path=one\n\tpath = two\\\n  continued\n[includeIf \"gitdir:~/x y/\"]\n\tpath = \"three # not a comment\"\n\
        [alias]\n\tst = !sh -c 'x; y'\n\tbare\n[filter.lfs]\n\tclean = \t git-lfs  clean -- %f  \n[diff \"a\\\\b\"]\r\n\tcommand = c\\tmd\r\n";

    #[test]
    fn it_reads_what_git_reads() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config");
        std::fs::write(&file, TRICKY).unwrap();
        let git = Command::new("git")
            .args(["config", "--no-includes", "--null", "--list", "--file"])
            .arg(&file)
            .output();
        let git = git.unwrap();
        assert!(git.status.success(), "{git:?}");
        let told = String::from_utf8(git.stdout).unwrap();
        let ours: String = parse(TRICKY.as_bytes())
            .into_iter()
            .map(|setting| {
                let between = if setting.subsection.is_empty() {
                    String::new()
                } else {
                    format!("{}.", setting.subsection)
                };
                let value =
                    if setting.key == "bare" { String::new() } else { format!("\n{}", setting.value) };
                format!("{}.{between}{}{value}\0", setting.section, setting.key)
            })
            .collect();
        // Versions of git differ in the spaces within a value; no path is told by them.
        let plain =
            |text: &str| text.split(' ').filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
        assert_eq!(plain(&ours), plain(&told));
    }

    #[test]
    fn a_damaged_line_hides_nothing_behind_it() {
        let found = parse(b"[core\n]]== \x00\xff\n[core]\n9bad = x\nhooksPath = hooks\n");
        assert!(
            found.iter().any(|setting| setting.key == "hookspath" && setting.value == "hooks"),
            "{found:?}"
        );
    }
}
