//! `paddock fork`: more sandboxes from the present state of one.

use super::remote::with_client;
use super::{CommandError, print, print_json};
use crate::args::copies::ForkArgs;
use crate::caller::Caller;
use crate::client::Target;
use crate::render;
use paddock_model::api::{Fork, Forked, NotForked};

pub fn execute(args: ForkArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    let request = Fork {
        count: Some(args.count),
        ttl_seconds: args.ttl,
        metadata: args.metadata.into_iter().collect(),
        secrets: args.secrets,
        live: match (args.live, args.files_only) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        },
        partial: args.partial,
    };
    with_client(caller, async |client, caller| {
        let forked: Forked = client.post_once(Target::sandbox(&args.id).part("fork"), &request).await?;
        if args.json {
            print_json(&forked, caller)?;
        } else {
            let ids = forked.sandboxes.iter().map(|child| format!("{}\n", render::escape::line(&child.id)));
            print(&ids.collect::<String>(), caller)?;
            for note in notes(&forked) {
                let _ = writeln!(caller.stderr, "{}", render::escape::line(&note));
            }
        }
        Ok(i32::from(!forked.failed.is_empty()))
    })
}

/// Tells about things that a caller may expect in the forks, and that are not there.
fn notes(forked: &Forked) -> Vec<String> {
    let mut notes: Vec<String> =
        forked.reason.iter().map(|why| format!("only the files were forked: {why}")).collect();
    for context in &forked.contexts {
        if let Some(why) = &context.reason {
            let (context, sandbox) = (&context.context, &context.sandbox);
            notes.push(format!("context {context} begins anew in {sandbox}: {why}"));
        }
        for closed in &context.closed {
            notes.push(format!("context {} of {}: {closed} was closed", context.context, context.sandbox));
        }
    }
    for left in &forked.left_behind {
        notes.push(format!("exec {} ({}) runs in the source only", left.exec, left.command));
    }
    let asked = forked.sandboxes.len() + forked.failed.len();
    for failed in &forked.failed {
        let NotForked { place, code, message, .. } = failed;
        notes.push(format!("fork {} of {asked} was not made: {message} ({code})", place + 1));
        notes.extend(failed.hint.iter().map(|hint| format!("hint: {hint}")));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fork_that_was_not_made_is_named_with_its_reason() {
        let text = r#"{"sandboxes": [], "failed": [
            {"place": 0, "status": 429, "code": "quota_exceeded", "message": "used up", "hint": "end some"},
            {"place": 1, "status": 507, "code": "disk_full", "message": "full"}]}"#;
        let forked: Forked = serde_json::from_str(text).expect("an answer");
        let expected = [
            "fork 1 of 2 was not made: used up (quota_exceeded)",
            "hint: end some",
            "fork 2 of 2 was not made: full (disk_full)",
        ];
        assert_eq!(notes(&forked), expected);
    }
}
