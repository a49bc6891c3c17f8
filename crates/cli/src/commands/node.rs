//! `paddock node`: the servers behind a gateway.

use super::remote::with_client;
use super::{CommandError, print, print_json};
use crate::args::node::NodeAction;
use crate::caller::Caller;
use crate::client::{Call, Target};
use crate::render;
use paddock_client::Method;
use paddock_model::NodeNumber;
use paddock_model::api::{ClusterNodes, NodeReport};

pub fn execute(action: NodeAction, caller: &mut Caller) -> Result<i32, CommandError> {
    with_client(caller, async |client, caller| {
        let (node, word) = match action {
            NodeAction::Ls { json } => {
                let listed: ClusterNodes = client.json(Call::get(Target::new("/v1/nodes"))).await?;
                match json {
                    true => print_json(&listed.nodes, caller)?,
                    false => print(&render::nodes::text(&listed.nodes, caller.colour_on_stdout()), caller)?,
                }
                return Ok(0);
            }
            NodeAction::Cordon { node } => (node, "cordon"),
            NodeAction::Uncordon { node } => (node, "uncordon"),
        };
        let _: NodeReport = client.json(Call::new(Method::POST, target(node).part(word))).await?;
        print(&format!("{node}\n"), caller)?;
        Ok(0)
    })
}

fn target(node: NodeNumber) -> Target {
    Target::new("/v1/nodes").part(&node.to_string())
}
