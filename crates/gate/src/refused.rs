//! A refusal, and the words for it that the program inside gets.

use crate::bodies::Answered;
use crate::flows::Target;
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use paddock_model::net::{Denial, NetEvent, NetOutcome};
use std::net::IpAddr;

/// A denial with the address that it is about, where a name led to one: the flag that allows it names the address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{denial}")]
pub struct Refused {
    pub denial: Denial,
    pub address: Option<IpAddr>,
}

impl From<Denial> for Refused {
    fn from(denial: Denial) -> Refused {
        Refused { denial, address: None }
    }
}

impl Refused {
    /// The status of an answer, and its text for the program inside.
    pub fn explained(&self, target: Option<&Target>) -> (u16, String) {
        let denial = &self.denial;
        let status = match denial {
            Denial::Malformed | Denial::NotAName => 400,
            Denial::NoAddress | Denial::Unreachable | Denial::Certificate(_) => 502,
            Denial::TooManyFlows => 503,
            _ => 403,
        };
        let Some(target) = target else { return (status, format!("paddock: {denial}\n")) };
        let subject = target.subject(self.address);
        let event = NetEvent {
            time: 0,
            way: target.way,
            name: subject.name,
            address: subject.address,
            port: subject.port,
            outcome: NetOutcome::Denied(denial.clone()),
            count: 1,
        };
        let advice = event.advice().map(|advice| format!("; {advice}")).unwrap_or_default();
        (status, format!("paddock: {}: {denial}{advice}\n", event.target()))
    }

    pub fn response(&self, target: Option<&Target>) -> Response<Answered> {
        let (status, text) = self.explained(target);
        let mut response = Response::new(Answered::Own(Full::new(Bytes::from(text))));
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::FORBIDDEN);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        // The rest of the request is not read.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        response
    }
}
