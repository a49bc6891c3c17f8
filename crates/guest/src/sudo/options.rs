//! The command line of `sudo`, as far as it means something in a sandbox.

/// What a person or a program wants of it.
#[derive(Debug, PartialEq, Eq)]
pub enum Wanted {
    Run(Command),
    /// Nothing is to be done: there is no password to ask for, and none to forget.
    Nothing,
    List,
    Version,
    Help,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Command {
    /// Empty: root. A name, or `#` and an id.
    pub user: String,
    pub group: String,
    pub keeps_all: bool,
    /// Names of further variables that are kept.
    pub keeps: Vec<String>,
    pub sets_home: bool,
    pub login: bool,
    pub shell: bool,
    pub directory: Option<String>,
    /// `NAME=VALUE` in front of the command.
    pub variables: Vec<Vec<u8>>,
    pub words: Vec<Vec<u8>>,
}

pub const HELP: &str =
    "usage: sudo [-EHinSs] [-u USER] [-g GROUP] [-D DIRECTORY] [--preserve-env=NAME,...] [NAME=VALUE ...] \
[COMMAND [ARGUMENT ...]]
Runs COMMAND as root of this sandbox, or as USER. No password is asked for.
  -u USER    another user than root, which takes a root that may install packages
  -E         keep all variables; --preserve-env=NAME,... keeps these
  -i, -s     a login shell of USER; a shell
  -n, -S, -p, -H, -v, -k, -K   as elsewhere; there is no password to ask for or to forget
  -l         tell who may do what
";

/// An error is a line for the person.
pub fn parse(arguments: &[Vec<u8>]) -> Result<Wanted, String> {
    let mut command = Command::default();
    let mut asked = Asked::default();
    let mut rest = arguments.iter();
    let mut words: Vec<Vec<u8>> = Vec::new();
    while let Some(word) = rest.next() {
        if word == b"--" {
            words.extend(rest.by_ref().cloned());
        } else if let Some(name) = word.strip_prefix(b"--") {
            long(&text(name)?, &mut rest, &mut command, &mut asked)?;
        } else if word.len() > 1 && word.starts_with(b"-") {
            short(&text(&word[1..])?, &mut rest, &mut command, &mut asked)?;
        } else {
            words.push(word.clone());
            words.extend(rest.by_ref().cloned());
        }
    }
    let is_variable = |word: &Vec<u8>| word.iter().position(|byte| *byte == b'=').is_some_and(|at| at > 0);
    let first = words.iter().position(|word| !is_variable(word)).unwrap_or(words.len());
    command.words = words.split_off(first);
    command.variables = words;
    decide(command, &asked)
}

#[derive(Default)]
struct Asked {
    nothing: bool,
    list: bool,
    version: bool,
    help: bool,
}

fn decide(command: Command, asked: &Asked) -> Result<Wanted, String> {
    if asked.help {
        return Ok(Wanted::Help);
    }
    if asked.version {
        return Ok(Wanted::Version);
    }
    if asked.list {
        return Ok(Wanted::List);
    }
    if command.login && command.shell {
        return Err("-i and -s exclude each other".into());
    }
    match command.words.is_empty() && !command.login && !command.shell {
        true if asked.nothing => Ok(Wanted::Nothing),
        true => Err("write a command behind it (sudo -h)".into()),
        false => Ok(Wanted::Run(command)),
    }
}

type Words<'a> = std::slice::Iter<'a, Vec<u8>>;

/// Several letters in one word; the value of the last may be the rest of the word, or the next word.
fn short(letters: &str, rest: &mut Words, command: &mut Command, asked: &mut Asked) -> Result<(), String> {
    for (at, letter) in letters.char_indices() {
        if "ugpDCrtT".contains(letter) {
            let value = match &letters[at + letter.len_utf8()..] {
                "" => next(rest, &format!("-{letter}"))?,
                value => value.to_string(),
            };
            return with_value(letter, value, command);
        }
        without_value(letter, command, asked)?;
    }
    Ok(())
}

fn long(name: &str, rest: &mut Words, command: &mut Command, asked: &mut Asked) -> Result<(), String> {
    let (name, value) = match name.split_once('=') {
        Some((name, value)) => (name, Some(value.to_string())),
        None => (name, None),
    };
    if name == "preserve-env" {
        match value {
            Some(names) => command.keeps.extend(names.split(',').map(str::to_string)),
            None => command.keeps_all = true,
        }
        return Ok(());
    }
    let valued = [("user", 'u'), ("group", 'g'), ("prompt", 'p'), ("chdir", 'D'), ("close-from", 'C')];
    if let Some((_, letter)) = valued.iter().find(|(known, _)| *known == name) {
        let value = value.map_or_else(|| next(rest, &format!("--{name}")), Ok)?;
        return with_value(*letter, value, command);
    }
    let letter = match name {
        "login" => 'i',
        "shell" => 's',
        "set-home" => 'H',
        "non-interactive" => 'n',
        "stdin" => 'S',
        "validate" => 'v',
        "reset-timestamp" => 'k',
        "remove-timestamp" => 'K',
        "no-update" => 'N',
        "preserve-groups" => 'P',
        "bell" => 'B',
        "list" => 'l',
        "version" => 'V',
        "help" => 'h',
        _ => return Err(format!("--{name} is not known here (sudo -h)")),
    };
    match value {
        Some(_) => Err(format!("--{name} takes no value")),
        None => without_value(letter, command, asked),
    }
}

fn with_value(letter: char, value: String, command: &mut Command) -> Result<(), String> {
    match letter {
        'u' => command.user = value,
        'g' => command.group = value,
        'D' => command.directory = Some(value),
        // A prompt is never shown, and the command inherits three descriptors.
        'p' | 'C' => {}
        _ => return Err(format!("-{letter} is not known here (sudo -h)")),
    }
    Ok(())
}

fn without_value(letter: char, command: &mut Command, asked: &mut Asked) -> Result<(), String> {
    match letter {
        'E' => command.keeps_all = true,
        'H' => command.sets_home = true,
        'i' => command.login = true,
        's' => command.shell = true,
        'v' | 'k' | 'K' => asked.nothing = true,
        'n' | 'S' | 'N' | 'P' | 'B' => {}
        'l' => asked.list = true,
        'V' => asked.version = true,
        'h' => asked.help = true,
        _ => return Err(format!("-{letter} is not known here (sudo -h)")),
    }
    Ok(())
}

fn next(rest: &mut Words, option: &str) -> Result<String, String> {
    text(rest.next().ok_or_else(|| format!("{option} wants a value"))?)
}

fn text(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "an option is not UTF-8".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Wanted, String> {
        parse(&line.split(' ').filter(|word| !word.is_empty()).map(|word| word.into()).collect::<Vec<_>>())
    }

    fn command(line: &str) -> Command {
        match parsed(line) {
            Ok(Wanted::Run(command)) => command,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn options_end_where_the_command_begins() {
        let found = command("-nE -u root A=b C= apt-get -y install -u jq D=e");
        assert!(found.keeps_all && found.user == "root");
        assert_eq!(found.variables, [b"A=b".to_vec(), b"C=".to_vec()]);
        assert_eq!(found.words.iter().map(Vec::len).collect::<Vec<_>>(), [7, 2, 7, 2, 2, 3]);
        assert_eq!(command("-- -x").words, [b"-x".to_vec()]);
        assert_eq!(command("=x").words, [b"=x".to_vec()], "a variable has a name");
        assert_eq!(command("- x").words, [b"-".to_vec(), b"x".to_vec()]);
    }

    #[test]
    fn values_may_be_joined_to_their_option() {
        for line in ["-uweb id", "-u web id", "-Huweb id", "--user=web id", "--user web id"] {
            assert_eq!(command(line).user, "web", "{line}");
        }
        assert_eq!(command("--preserve-env=A,B id").keeps, ["A", "B"]);
        assert!(command("--preserve-env id").keeps_all);
        assert_eq!(command("-D /tmp id").directory.as_deref(), Some("/tmp"));
        assert!(command("-i").login && command("-s id").shell);
    }

    #[test]
    fn no_password_is_a_success_and_no_command_is_none() {
        for line in ["-v", "-k", "-K", "-nv", "--validate"] {
            assert_eq!(parsed(line), Ok(Wanted::Nothing), "{line}");
        }
        assert_eq!(command("-k id").words.len(), 1);
        assert_eq!(
            (parsed("-l"), parsed("-V"), parsed("--help")),
            (Ok(Wanted::List), Ok(Wanted::Version), Ok(Wanted::Help))
        );
        for (line, said) in [
            ("", "command"),
            ("-Z id", "-Z"),
            ("--zap id", "--zap"),
            ("-u", "value"),
            ("-i -s", "exclude"),
            ("--login=x", "no value"),
            ("A=b", "command"),
        ] {
            assert!(parsed(line).unwrap_err().contains(said), "{line}");
        }
        assert!(parse(&[vec![b'-', 0xff]]).is_err());
    }
}
