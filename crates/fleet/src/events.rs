//! The events of every sandbox as they happen; an actor sees its own tenant's.

use super::{Actor, Fleet};
use paddock_model::api::Event;
use tokio::sync::broadcast::{self, error::RecvError};

pub struct EventReader {
    receiver: broadcast::Receiver<(String, Event)>,
    actor: Actor,
}

impl Fleet {
    pub fn events(&self, actor: &Actor) -> EventReader {
        EventReader { receiver: self.0.events.subscribe(), actor: actor.clone() }
    }
}

impl EventReader {
    /// `None` when the fleet closes.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            match self.receiver.recv().await {
                Ok(told) => {
                    if let Some(event) = self.visible(told) {
                        return Some(event);
                    }
                }
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    }

    /// An event that has happened already. `None`: there is none, or it is time to wait.
    pub fn ready(&mut self) -> Option<Event> {
        while let Ok(told) = self.receiver.try_recv() {
            if let Some(event) = self.visible(told) {
                return Some(event);
            }
        }
        None
    }

    fn visible(&self, (tenant, event): (String, Event)) -> Option<Event> {
        (self.actor.owner || tenant == self.actor.tenant).then_some(event)
    }
}
