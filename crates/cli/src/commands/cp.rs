//! `paddock cp`: files and directories in and out.

use super::remote::with_client;
use super::{CommandError, print_json};
use crate::args::work::CpArgs;
use crate::caller::Caller;
use crate::copy::download::Source;
use crate::copy::place::Place;
use crate::copy::upload::Destination;
use crate::copy::{CopyError, LeftOut};
use crate::render;
use crate::session::streams::Stream;
use serde_json::json;
use std::collections::BTreeMap;

pub fn execute(args: &CpArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    let (source, destination) = (Place::parse(&args.source)?, Place::parse(&args.destination)?);
    let user = args.user.as_deref();
    if (args.follow_links || !args.attribute.is_empty()) && !matches!(destination, Place::Inside { .. }) {
        return Err(CopyError::AttributesOfNoFile("this copy leads out of one").into());
    }
    match (source, destination) {
        (Place::Inside { .. }, Place::Inside { .. }) => Err(CopyError::TwoSandboxes.into()),
        (Place::Inside { id, path }, to) => with_client(caller, async |client, caller| {
            let source = Source { client: &client, id: &id, path: &path, user };
            let Place::Local(to) = to else {
                if args.json {
                    return Err(CopyError::JsonToStandardOutput.into());
                }
                source.to_stream(caller.stdout).await?;
                return Ok(0);
            };
            let left_out = source.to_path(&to).await?;
            if args.json {
                tell(args, &left_out, caller)?;
            }
            for left in &left_out {
                let name = render::escape::line(&left.name);
                let _ = writeln!(caller.stderr, "paddock: left out: {name}: {}", left.reason);
            }
            Ok(if left_out.is_empty() { 0 } else { 1 })
        }),
        (from, Place::Inside { id, path }) => with_client(caller, async |client, caller| {
            let (attributes, follow_links) = (attributes(args), args.follow_links);
            let destination =
                Destination { client: &client, id: &id, path: &path, user, attributes, follow_links };
            match from {
                Place::Local(from) => destination.take_path(&from).await?,
                _ => destination.take_stream(&Stream::stdin().map_err(CopyError::Standard)?).await?,
            }
            if args.json {
                tell(args, &[], caller)?;
            }
            Ok(0)
        }),
        _ => Err(CopyError::NoSandbox.into()),
    }
}

/// As the API takes them.
fn attributes(args: &CpArgs) -> Option<String> {
    let named: BTreeMap<_, _> = args.attribute.iter().cloned().collect();
    (!named.is_empty()).then(|| json!(named).to_string())
}

fn tell(args: &CpArgs, left_out: &[LeftOut], caller: &mut Caller) -> Result<(), CommandError> {
    let left_out: Vec<_> =
        left_out.iter().map(|left| json!({ "path": left.name, "reason": left.reason.to_string() })).collect();
    let (source, destination) = (args.source.to_string_lossy(), args.destination.to_string_lossy());
    print_json(&json!({ "source": source, "destination": destination, "left_out": left_out }), caller)
}
