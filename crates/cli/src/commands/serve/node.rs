//! What a server is among those behind one gateway: its number, its labels, and the gateway's key.

use crate::args::host::ServeArgs;
use crate::caller::Environment;
use crate::env_vars::PADDOCK_NODE;
use paddock_model::{NodeNumber, NodeNumberError};
use paddock_server::{GatewayKey, GatewayKeyError};
use std::collections::BTreeMap;

/// A report, which has them all, is read each second.
const MOST_LABELS: usize = 64;

#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error("PADDOCK_NODE cannot be used")]
    Number(#[source] NodeNumberError),
    #[error("--gateway-key needs the number of this node")]
    KeyWithoutNode,
    #[error("the label `{0}` is given twice")]
    LabelTwice(String),
    #[error("{count} labels are given, and {most} are the most")]
    Labels { count: usize, most: usize },
    #[error(transparent)]
    Key(#[from] GatewayKeyError),
}

impl NodeError {
    pub fn hint(&self) -> Option<String> {
        match self {
            NodeError::Key(error) => error.hint(),
            NodeError::KeyWithoutNode => {
                Some("add --node NUMBER, another for each server behind the gateway".to_string())
            }
            _ => None,
        }
    }
}

#[derive(Debug)]
pub struct Node {
    pub number: Option<NodeNumber>,
    pub labels: BTreeMap<String, String>,
    pub gateway_key: Option<GatewayKey>,
}

impl Node {
    pub fn choose(args: &ServeArgs, environment: &Environment) -> Result<Node, NodeError> {
        let number = match (args.node, environment.get(PADDOCK_NODE)) {
            (Some(number), _) => Some(number),
            (None, Some(text)) => Some(text.to_string_lossy().parse().map_err(NodeError::Number)?),
            (None, None) => None,
        };
        if args.label.len() > MOST_LABELS {
            return Err(NodeError::Labels { count: args.label.len(), most: MOST_LABELS });
        }
        let mut labels = BTreeMap::new();
        for (key, value) in &args.label {
            if labels.insert(key.clone(), value.clone()).is_some() {
                return Err(NodeError::LabelTwice(key.clone()));
            }
        }
        let gateway_key = match &args.gateway_key {
            Some(_) if number.is_none() => return Err(NodeError::KeyWithoutNode),
            Some(path) => Some(GatewayKey::read(path)?),
            None => None,
        };
        Ok(Node { number, labels, gateway_key })
    }
}
