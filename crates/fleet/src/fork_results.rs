//! The results of several forks: all are made or none, or each is made or fails by itself.

use super::{FleetError, Kind};
use paddock_model::SandboxId;
use paddock_model::api::NotForked;
use serde::{Deserialize, Serialize};

/// Each fork that was asked for, or the reason that it was not made, with its place among all of them.
pub type Results<T> = Vec<(u32, Result<T, FleetError>)>;

/// The forks of an unfinished request. Which were made is found out by looking for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ForkNote {
    AllOrNone(Vec<SandboxId>),
    Partial { partial: Vec<SandboxId> },
}

impl ForkNote {
    pub fn of(forks: Vec<SandboxId>, partial: bool) -> ForkNote {
        if partial { ForkNote::Partial { partial: forks } } else { ForkNote::AllOrNone(forks) }
    }

    /// The forks, and whether each of them counts by itself.
    pub fn into_forks(self) -> (Vec<SandboxId>, bool) {
        match self {
            ForkNote::AllOrNone(forks) => (forks, false),
            ForkNote::Partial { partial } => (partial, true),
        }
    }
}

/// Those that were made, and the others.
pub fn sorted<T>(results: Results<T>) -> (Vec<T>, Vec<(u32, FleetError)>) {
    let (mut made, mut failed) = (Vec::new(), Vec::new());
    for (place, result) in results {
        match result {
            Ok(fork) => made.push(fork),
            Err(error) => failed.push((place, error)),
        }
    }
    (made, failed)
}

pub fn not_forked(place: u32, error: FleetError) -> NotForked {
    NotForked {
        place,
        status: error.status(),
        code: error.code.into(),
        retry_after_seconds: error.kind.retry_after_seconds(),
        message: error.message,
        hint: error.hint,
    }
}

/// Of a request that a killed server did not finish.
pub fn never_made() -> FleetError {
    FleetError::new(Kind::Unavailable, "unavailable", "the server ended before this fork was made")
        .hint("fork again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_of_older_servers_are_read() {
        let id = || SandboxId::try_from("sb-0123456789abcdef".to_string()).expect("an id");
        let read = |text| serde_json::from_str::<ForkNote>(text).expect("a note");
        assert_eq!(read(r#"["sb-0123456789abcdef"]"#), ForkNote::AllOrNone(vec![id()]));
        let partial = ForkNote::Partial { partial: vec![id()] };
        assert_eq!(read(&serde_json::to_string(&partial).expect("text")), partial);
        assert!(serde_json::from_str::<ForkNote>("7").is_err());
    }

    #[test]
    fn a_failure_has_the_status_that_it_would_have_alone() {
        let kind = Kind::TooMany { retry_after_seconds: 7 };
        let failed = not_forked(2, FleetError::new(kind, "quota_exceeded", "used up").hint("end some"));
        assert_eq!((failed.place, failed.status, failed.retry_after_seconds), (2, 429, Some(7)));
        assert_eq!((failed.code.as_str(), failed.hint.as_deref()), ("quota_exceeded", Some("end some")));
        let full = not_forked(0, FleetError::new(Kind::Unavailable, "disk_full", "full"));
        assert_eq!((full.status, full.retry_after_seconds), (507, None));
    }
}
