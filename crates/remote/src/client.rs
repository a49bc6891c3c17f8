//! The server of this call, by the caller's environment. The calls themselves are `paddock-client`'s.
//!
//! - [`address`]: `PADDOCK_URL`, else the user's own socket
//! - [`start`]: starting a server where none is configured and none answers
//! - [`operations`]: the operations of a model's tools
//! - [`room`]: a create that waits for its tenant's quota
//!
//! `run` and `code` touch nothing of this.

pub mod address;
pub mod operations;
pub mod room;
mod start;

pub use paddock_client::{
    Address, Answer, Call, Client, ClientError, ConnectError, Filter, Lines, Target, Upload, random_key,
};

use paddock_client::NotStarted;
use paddock_records::store::ServerHolder;
use paddock_terminal::caller::Environment;
use paddock_terminal::{env_vars, state};
use start::Starter;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// So long a server is waited for that a person may have started just now.
const BEGINNING: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(50);

/// Starts the user's own server if none is configured and none is there. May wait for that.
pub fn find(environment: &Environment) -> Result<Client, ClientError> {
    if let Some(address) = address::configured(environment)? {
        return new(environment, address);
    }
    let state_dir = state::prepare(environment).map_err(no_state)?;
    let socket = address::own_socket(environment, &state_dir);
    let client = new(environment, Address::Unix(socket.clone()))?;
    let starter = Starter::new(socket, state_dir);
    starter.ensure().map_err(start::not_started)?;
    Ok(client.reviving(Arc::new(starter)))
}

/// True if a server is configured, runs, or begins to run within some seconds. None is started, for what needs a server that a
/// person set up: one that a client starts listens on no address, and keeps the person's from starting.
pub fn awaited(environment: &Environment) -> Result<bool, ClientError> {
    if address::configured(environment)?.is_some() {
        return Ok(true);
    }
    let state_dir = locate_state(environment)?;
    let began = Instant::now();
    while ServerHolder::of(&state_dir).is_none() {
        if began.elapsed() > BEGINNING {
            return Ok(false);
        }
        std::thread::sleep(STEP);
    }
    Ok(true)
}

/// The server that [`find`] would use; none is started.
pub fn existing(environment: &Environment) -> Result<Client, ClientError> {
    let address = match address::configured(environment)? {
        Some(address) => address,
        None => Address::Unix(address::own_socket(environment, &locate_state(environment)?)),
    };
    new(environment, address)
}

fn new(environment: &Environment, address: Address) -> Result<Client, ClientError> {
    let token = environment.get(env_vars::PADDOCK_TOKEN);
    Client::new(address, token.map(|token| token.as_encoded_bytes()))
}

fn locate_state(environment: &Environment) -> Result<PathBuf, ClientError> {
    state::locate(environment).map_err(no_state)
}

fn no_state(error: state::StateError) -> ClientError {
    let hint = error.hint();
    NotStarted::new(error, hint).into()
}
