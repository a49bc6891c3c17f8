//! The guest's messages about one exec that its caller has not taken yet. The bytes granted to the guest bound them:
//! whatever the size of its frames, many small ones become few large ones.

use crate::exec_event::ExecEvent;
use paddock_protocol::StreamKind;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Pieces of one stream that follow each other become one, up to this many bytes.
const LARGE: usize = 64 * 1024;
/// With more than this many events waiting, the order between the streams gives way.
const ORDERED_EVENTS: usize = 1024;
/// With more than this many, it gives way for the control stream too: no honest guest sends this much.
const FLOOD: usize = 16 * ORDERED_EVENTS;

#[derive(Default)]
pub struct Inbox {
    state: Mutex<State>,
    arrived: Notify,
}

#[derive(Default)]
struct State {
    events: VecDeque<ExecEvent>,
    over: bool,
}

impl Inbox {
    pub fn push(&self, event: ExecEvent) {
        {
            let mut state = self.state();
            state.over |= matches!(event, ExecEvent::Closed | ExecEvent::Lost { .. });
            if let Some(event) = state.merge(event) {
                state.events.push_back(event);
            }
        }
        self.arrived.notify_one();
    }

    /// After the last event `Closed`, however often it is called. May be dropped at any point without a loss.
    pub async fn next(&self) -> ExecEvent {
        loop {
            let arrived = self.arrived.notified();
            {
                let mut state = self.state();
                if let Some(event) = state.events.pop_front() {
                    return event;
                }
                if state.over {
                    return ExecEvent::Closed;
                }
            }
            arrived.await;
        }
    }

    /// True if an end is among the waiting events.
    pub fn holds_an_end(&self) -> bool {
        let state = self.state();
        state.over || state.events.iter().any(|event| matches!(event, ExecEvent::Exited { .. }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the event, unless it could be added to a waiting one.
    fn merge(&mut self, event: ExecEvent) -> Option<ExecEvent> {
        if let ExecEvent::Interrupted { call } = event {
            let waiting = self.events.iter_mut().find(|event| matches!(event, ExecEvent::Interrupted { .. }));
            return match waiting {
                Some(waiting) => {
                    *waiting = event;
                    None
                }
                None => Some(ExecEvent::Interrupted { call }),
            };
        }
        let ExecEvent::Output { stream, bytes } = event else { return Some(event) };
        let crowded = self.events.len() > ORDERED_EVENTS;
        // The control stream has its place between the output: a message on it never comes sooner.
        if stream == StreamKind::Control {
            let flooded = self.events.len() > FLOOD;
            let near = self.events.iter_mut().rev().take(if flooded { usize::MAX } else { 1 });
            for waiting in near {
                if let ExecEvent::Output { stream: StreamKind::Control, bytes: before } = waiting
                    && (flooded || before.len() + bytes.len() <= LARGE)
                {
                    before.extend_from_slice(&bytes);
                    return None;
                }
            }
            return Some(ExecEvent::Output { stream, bytes });
        }
        for waiting in self.events.iter_mut().rev() {
            match waiting {
                ExecEvent::Output { stream: same, bytes: before }
                    if *same == stream && (crowded || before.len() + bytes.len() <= LARGE) =>
                {
                    before.extend_from_slice(&bytes);
                    return None;
                }
                // Output is never moved past another kind of event.
                ExecEvent::Output { .. } if crowded => {}
                _ => break,
            }
        }
        Some(ExecEvent::Output { stream, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn many_small_pieces_become_few() {
        let inbox = Inbox::default();
        for number in 0..200_000u32 {
            let stream = if number % 2 == 0 { StreamKind::Stdout } else { StreamKind::Stderr };
            inbox.push(ExecEvent::Output { stream, bytes: vec![number as u8] });
        }
        inbox.push(ExecEvent::Closed);
        assert!(inbox.state().events.len() <= ORDERED_EVENTS + 3);
        let mut bytes = 0;
        while let ExecEvent::Output { bytes: piece, .. } = inbox.next().await {
            bytes += piece.len();
        }
        assert_eq!(bytes, 200_000);
        assert!(matches!(inbox.next().await, ExecEvent::Closed));
    }

    #[tokio::test]
    async fn control_bytes_keep_their_place_and_a_flood_of_them_is_bounded() {
        let inbox = Inbox::default();
        let push = |stream, byte| inbox.push(ExecEvent::Output { stream, bytes: vec![byte] });
        for (stream, byte) in [
            (StreamKind::Stdout, 1),
            (StreamKind::Control, 2),
            (StreamKind::Control, 3),
            (StreamKind::Stdout, 4),
        ] {
            push(stream, byte);
        }
        let mut seen = Vec::new();
        for _ in 0..3 {
            if let ExecEvent::Output { stream, bytes } = inbox.next().await {
                seen.push((stream, bytes));
            }
        }
        let expected =
            [(StreamKind::Stdout, vec![1]), (StreamKind::Control, vec![2, 3]), (StreamKind::Stdout, vec![4])];
        assert_eq!(seen, expected);
        for call in 0..100_000 {
            push(if call % 2 == 0 { StreamKind::Control } else { StreamKind::Stderr }, 0);
            inbox.push(ExecEvent::Interrupted { call });
        }
        assert!(inbox.state().events.len() <= FLOOD + 3);
    }
}
