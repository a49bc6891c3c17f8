//! `paddock cp`: files and directories in and out.

use super::CommandError;
use super::remote::with_client;
use crate::args::work::CpArgs;
use crate::caller::Caller;
use crate::copy::CopyError;
use crate::copy::download::Source;
use crate::copy::place::Place;
use crate::copy::upload::Destination;
use crate::render;
use crate::session::streams::Stream;

pub fn execute(args: &CpArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    let (source, destination) = (Place::parse(&args.source)?, Place::parse(&args.destination)?);
    let user = args.user.as_deref();
    match (source, destination) {
        (Place::Inside { .. }, Place::Inside { .. }) => Err(CopyError::TwoSandboxes.into()),
        (Place::Inside { id, path }, to) => with_client(caller, async |client, caller| {
            let source = Source { client: &client, id: &id, path: &path, user };
            let Place::Local(to) = to else {
                source.to_stream(caller.stdout).await?;
                return Ok(0);
            };
            let left_out = source.to_path(&to).await?;
            for left in &left_out {
                let name = render::escape::line(&left.name);
                let _ = writeln!(caller.stderr, "paddock: left out: {name}: {}", left.reason);
            }
            Ok(if left_out.is_empty() { 0 } else { 1 })
        }),
        (from, Place::Inside { id, path }) => with_client(caller, async |client, _| {
            let destination = Destination { client: &client, id: &id, path: &path, user };
            match from {
                Place::Local(from) => destination.take_path(&from).await?,
                _ => destination.take_stream(&Stream::stdin().map_err(CopyError::Standard)?).await?,
            }
            Ok(0)
        }),
        _ => Err(CopyError::NoSandbox.into()),
    }
}
