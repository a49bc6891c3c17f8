//! Which model, by whose key, within which budget: from the flags and the environment.

use super::AgentError;
use crate::args::agent::{AgentArgs, DialectName};
use crate::caller::Environment;
use crate::env_vars;
use paddock_agent::{Budget, Dialect, Endpoint, Key, Patience};
use std::time::Duration;

const ANTHROPIC: &str = "https://api.anthropic.com";
const OPENAI: &str = "https://api.openai.com/v1";
const SILENCE: Duration = Duration::from_secs(120);
/// The model if only its key is set.
const ANTHROPIC_MODEL: &str = "claude-sonnet-4-5";

/// The endpoint is not contacted yet.
pub fn endpoint(args: &AgentArgs, environment: &Environment) -> Result<Endpoint, AgentError> {
    let set = |name: &str| environment.get(name).and_then(|value| value.to_str()).map(str::to_string);
    let named = args.dialect.map(|dialect| match dialect {
        DialectName::Anthropic => Dialect::Anthropic,
        DialectName::Openai => Dialect::OpenAi,
    });
    let (url, named) = match args.model.clone() {
        Some(url) => (url, named),
        None => default_url(named, &set)?,
    };
    // Once without a key, to learn whose it would be.
    let dialect = Endpoint::new(&url, named, String::new(), None, args.max_tokens)?.dialect;
    let (key_variable, name_variable) = match dialect {
        Dialect::Anthropic => (env_vars::ANTHROPIC_API_KEY, env_vars::ANTHROPIC_MODEL),
        Dialect::OpenAi => (env_vars::OPENAI_API_KEY, env_vars::OPENAI_MODEL),
    };
    let key = match args.key_env.as_deref() {
        Some("none") => None,
        Some(variable) => Some(set(variable).ok_or_else(|| AgentError::NoKey(variable.to_string()))?),
        None => Some(set(key_variable).ok_or_else(|| AgentError::NoKey(key_variable.to_string()))?),
    };
    let usual = (url == ANTHROPIC).then(|| ANTHROPIC_MODEL.to_string());
    let model = args.name.clone().or_else(|| set(name_variable)).or(usual);
    let model = model.filter(|name| !name.is_empty()).ok_or_else(|| AgentError::NoName(url.clone()))?;
    Ok(Endpoint::new(&url, named, model, key.map(Key), args.max_tokens)?)
}

/// The URL, and the format that is spoken there. The variable decides: behind ANTHROPIC_BASE_URL is Anthropic's format,
/// on any host.
fn default_url(
    dialect: Option<Dialect>,
    set: &dyn Fn(&str) -> Option<String>,
) -> Result<(String, Option<Dialect>), AgentError> {
    let dialect = match dialect {
        Some(dialect) => dialect,
        None if set(env_vars::ANTHROPIC_API_KEY).is_some() => Dialect::Anthropic,
        None if set(env_vars::OPENAI_API_KEY).is_some() => Dialect::OpenAi,
        None if set(env_vars::ANTHROPIC_BASE_URL).is_some() => Dialect::Anthropic,
        None if set(env_vars::OPENAI_BASE_URL).is_some() => Dialect::OpenAi,
        None => return Err(AgentError::NoModel),
    };
    let (variable, usual) = match dialect {
        Dialect::Anthropic => (env_vars::ANTHROPIC_BASE_URL, ANTHROPIC),
        Dialect::OpenAi => (env_vars::OPENAI_BASE_URL, OPENAI),
    };
    Ok((set(variable).unwrap_or_else(|| usual.to_string()), Some(dialect)))
}

pub fn patience(args: &AgentArgs) -> Patience {
    Patience { attempts: args.attempts, ..Patience::default() }
}

/// The longest that the model may say nothing at all.
pub fn silence(args: &AgentArgs) -> Duration {
    args.silence.map_or(SILENCE, Duration::from_secs_f64)
}

pub fn budget(args: &AgentArgs) -> Budget {
    let usual = Budget::default();
    let time = args.time.map_or(usual.time, Duration::from_secs_f64);
    Budget { steps: args.steps, tokens: args.tokens, time }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{self, Command};
    use std::ffi::OsString;

    fn of(line: &str, variables: &[(&str, &str)]) -> Result<Endpoint, AgentError> {
        let words: Vec<OsString> =
            ["paddock", "agent"].into_iter().chain(line.split_whitespace()).map(OsString::from).collect();
        let Ok(Command::Agent(args)) = args::parse(&words) else { panic!("{line}") };
        endpoint(&args, &variables.iter().map(|(name, value)| (name.into(), value.into())).collect())
    }

    #[test]
    fn the_key_that_is_set_says_whose_model_it_is() {
        let found = of("", &[("ANTHROPIC_API_KEY", "sk-a")]).unwrap();
        assert_eq!(
            (found.url.as_str(), found.dialect),
            ("https://api.anthropic.com/v1/messages", Dialect::Anthropic)
        );
        assert_eq!(found.model, ANTHROPIC_MODEL);
        let found =
            of("--name m", &[("OPENAI_API_KEY", "sk-o"), ("OPENAI_BASE_URL", "https://h/v1")]).unwrap();
        assert_eq!((found.url.as_str(), found.dialect), ("https://h/v1/chat/completions", Dialect::OpenAi));
    }

    #[test]
    fn a_base_url_speaks_the_format_of_its_variable() {
        let local = ("ANTHROPIC_BASE_URL", "http://127.0.0.1:9");
        let found = of("--name m", &[("ANTHROPIC_API_KEY", "sk-a"), local]).unwrap();
        assert_eq!(
            (found.url.as_str(), found.dialect),
            ("http://127.0.0.1:9/v1/messages", Dialect::Anthropic)
        );
        let found = of("--name m --key-env none", &[local]).unwrap();
        assert_eq!((found.dialect, found.key.is_none()), (Dialect::Anthropic, true));
    }

    #[test]
    fn what_is_missing_is_named() {
        let said = |line: &str, variables: &[(&str, &str)]| of(line, variables).unwrap_err().to_string();
        assert_eq!(said("", &[]), "no model is named, and no key of one is set");
        assert!(said("", &[("OPENAI_API_KEY", "sk-o")]).contains("has to be named"));
        assert!(said("--model https://h --name m", &[]).contains("`OPENAI_API_KEY`"));
        assert!(said("--model https://h --name m --key-env MINE", &[]).contains("`MINE`"));
        assert!(said("--model h --name m", &[]).contains("`h` is not one"));
        let found =
            of("--model http://127.0.0.1:1/v1 --name m --key-env none", &[("OPENAI_API_KEY", "sk")]).unwrap();
        assert!(found.key.is_none());
    }
}
