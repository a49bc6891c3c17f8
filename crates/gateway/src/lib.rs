//! One door for many servers: `paddock gateway`. It is a Paddock server over its own state directory, the home of tokens and tenants, with a
//! room in front ([`paddock_server::front`]) that sends what is about sandboxes to the nodes that have them.
//!
//! - [`gateway`]: what a gateway knows; [`room`]: how it answers; [`routes`]: which requests are whose; [`refused`]: those that no gateway can answer yet
//! - [`sources`]: where nodes are read from, and with which keys; [`nodes`], [`node`]: those that are known; [`poll`]: what they
//!   report
//! - [`link`]: the connections to one node; [`head`]: heads of requests and answers between the two; [`forward`]: one request, streamed
//! - [`who`]: the caller of a request, as the node is told of it
//! - [`placement`]: the node of a new sandbox; [`asked`]: what its request says about that; [`create`]: it is made once, whatever breaks;
//!   [`keys`]: the node of a key that a client gave
//! - [`resolve`]: the node that has an id or a name
//! - [`lists`], [`merge`]: lists of all nodes as one; [`events`]: the same for what happens
//! - [`e2b`], [`e2b_lists`], [`ports`], [`signed`]: E2B's operations, ports inside, and rights that need no token
//! - [`own`]: what the gateway says of the nodes and of itself
//!
//! Of sandboxes it keeps nothing but the node of each create with a key, for a day: an id says its node, so that any number of gateways work
//! side by side.

mod asked;
mod create;
mod e2b;
mod e2b_lists;
mod events;
mod failures;
#[cfg(test)]
mod fake_node;
mod forward;
mod gateway;
mod head;
mod keys;
mod link;
mod lists;
mod merge;
mod node;
mod nodes;
mod own;
mod placement;
mod poll;
mod ports;
mod refused;
mod resolve;
mod room;
mod routes;
mod signed;
mod sources;
mod who;

pub use gateway::Gateway;
pub use sources::{NodeSource, SourceError, Sources};
