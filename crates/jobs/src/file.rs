//! A job's file: the same description as a request has, in TOML or in JSON.

use paddock_model::api::JobSpec;

/// The most bytes that the server takes in one request.
const LARGEST: usize = 8 << 20;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    #[error("the job's file is larger than 8 MiB")]
    TooLarge,
    #[error("the job's file is not UTF-8 text")]
    NotText,
    #[error("line {line}: `{field}` is not a field here")]
    Unknown { line: usize, field: String, known: String, nearest: Option<String> },
    #[error("line {line}: {message}")]
    Wrong { line: usize, message: String },
}

impl FileError {
    pub fn hint(&self) -> Option<String> {
        match self {
            FileError::TooLarge => Some("put what is large into a volume".into()),
            FileError::Unknown { nearest: Some(nearest), .. } => Some(format!("did you mean `{nearest}`?")),
            FileError::Unknown { known, .. } => Some(format!("known are {known}")),
            FileError::Wrong { .. } => Some("docs/guides/jobs.md has every field".into()),
            FileError::NotText => None,
        }
    }
}

/// JSON where the text begins with a brace, else TOML.
pub fn parse(bytes: &[u8]) -> Result<JobSpec, FileError> {
    if bytes.len() > LARGEST {
        return Err(FileError::TooLarge);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| FileError::NotText)?;
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text).map_err(|error| {
            let message = error.to_string();
            // serde_json says the place at the end of its words.
            let words = message.rsplit_once(" at line ").map_or(message.as_str(), |(words, _)| words);
            failure(error.line().max(1), words)
        });
    }
    toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start).min(text.len());
        let line = text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
        failure(line, error.message())
    })
}

fn failure(line: usize, message: &str) -> FileError {
    let words = |text: &str| -> Vec<String> {
        text.split('`').skip(1).step_by(2).map(|word| word.chars().take(80).collect()).collect()
    };
    let Some(rest) = message.strip_prefix("unknown field ") else {
        let message = message.trim().replace('\n', "; ").chars().take(500).collect();
        return FileError::Wrong { line, message };
    };
    let mut named = words(rest).into_iter();
    let field = named.next().unwrap_or_default().escape_debug().to_string();
    let known: Vec<String> = named.collect();
    let distance = |name: &&String| strsim::damerau_levenshtein(&field.to_lowercase(), name);
    let nearest = known.iter().min_by_key(distance).filter(|name| distance(name) <= 3).cloned();
    FileError::Unknown { line, field, known: known.join(", "), nearest }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_model::api::{JobArray, JobCommand, RetryOn};

    #[test]
    fn the_same_job_in_both_forms() {
        let toml =
            "command = 'echo $1'\nargs = ['{index}']\narray = 3\n[retries]\nattempts = 2\non = ['timeout']\n";
        let json = r#"{"command": "echo $1", "args": ["{index}"], "array": 3,
                       "retries": {"attempts": 2, "on": ["timeout"]}}"#;
        let spec = parse(toml.as_bytes()).unwrap();
        assert_eq!(spec, parse(json.as_bytes()).unwrap());
        assert_eq!(spec.command, Some(JobCommand::Line("echo $1".into())));
        assert_eq!((spec.array.clone(), spec.count()), (Some(JobArray::Count(3)), 3));
        assert_eq!(spec.retries.on, [RetryOn::Timeout]);
    }

    #[test]
    fn a_mistake_is_told_with_its_line_and_what_was_meant() {
        for (text, line, words, hint) in [
            ("name = 'x'\ncomand = 'ls'\n", 2, "`comand` is not a field", "did you mean `command`?"),
            ("{\n\"comand\": 1}", 2, "`comand` is not a field", "did you mean `command`?"),
            ("[retries]\n\ntimes = 1\n", 3, "`times` is not a field", "known are attempts"),
            ("command = 3", 1, "a line for the shell as a string, or a list of words", "jobs.md"),
            ("array = 'many'", 1, "a number of tasks, or a list of items", "jobs.md"),
            ("\n\nname = \n", 3, "", "jobs.md"),
            ("priority = 99999999999", 1, "99999999999", "jobs.md"),
        ] {
            let error = parse(text.as_bytes()).unwrap_err();
            let said = error.to_string();
            assert!(said.starts_with(&format!("line {line}: ")) && said.contains(words), "{text}: {said}");
            assert!(error.hint().unwrap().contains(hint), "{text}: {:?}", error.hint());
        }
        assert_eq!(parse(&[0xff]), Err(FileError::NotText));
        assert_eq!(parse(&vec![b' '; LARGEST + 1]), Err(FileError::TooLarge));
    }
}
