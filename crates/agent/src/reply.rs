//! A reply of the model while it comes, piece by piece.

use crate::error::ModelError;
use crate::turn::{Call, Usage};
use std::collections::BTreeMap;

/// More calls than that in one reply are no plan.
const MOST_CALLS: usize = 64;

#[derive(Debug, Default)]
pub struct Reply {
    pub text: String,
    /// Calls by the provider's number.
    calls: BTreeMap<u64, Call>,
    usage: Usage,
    pub stop: Option<String>,
}

/// A whole reply.
#[derive(Debug, PartialEq)]
pub struct Whole {
    pub text: String,
    pub calls: Vec<Call>,
    pub usage: Usage,
    /// The provider's word for why it ended.
    pub stop: String,
}

impl Reply {
    pub fn begin_call(&mut self, number: u64, id: &str, tool: &str) -> Result<(), ModelError> {
        if self.calls.len() >= MOST_CALLS && !self.calls.contains_key(&number) {
            return Err(ModelError::Nonsense(format!("more than {MOST_CALLS} calls in one reply")));
        }
        let call = self.calls.entry(number).or_insert_with(|| Call {
            id: String::new(),
            tool: String::new(),
            arguments: String::new(),
        });
        call.id.push_str(id);
        call.tool.push_str(tool);
        Ok(())
    }

    pub fn add_arguments(&mut self, number: u64, piece: &str) -> Result<(), ModelError> {
        match self.calls.get_mut(&number) {
            Some(call) => call.arguments.push_str(piece),
            None => return Err(ModelError::Nonsense("arguments of a call that did not begin".into())),
        }
        Ok(())
    }

    /// Counts come more than once, each time for the whole.
    pub fn count(&mut self, input: Option<u64>, output: Option<u64>) {
        self.usage.input_tokens = input.unwrap_or(self.usage.input_tokens);
        self.usage.output_tokens = output.unwrap_or(self.usage.output_tokens);
    }

    /// `asked`: bytes of the request, for a provider that counts nothing.
    pub fn finish(self, asked: usize) -> Result<Whole, ModelError> {
        let Some(stop) = self.stop else { return Err(ModelError::Cut) };
        let mut calls: Vec<Call> = self.calls.into_values().collect();
        for (call, number) in calls.iter_mut().zip(1..) {
            if call.tool.is_empty() {
                return Err(ModelError::Nonsense("a call without the name of a tool".into()));
            }
            if call.id.is_empty() {
                call.id = format!("call_{number}");
            }
        }
        let mut usage = self.usage;
        if usage == Usage::default() {
            // A token is about four bytes: enough for a budget to end.
            let said: usize = calls.iter().map(|call| call.arguments.len()).sum::<usize>() + self.text.len();
            usage = Usage { input_tokens: asked as u64 / 4, output_tokens: said as u64 / 4 + 1 };
        }
        Ok(Whole { text: self.text, calls, usage, stop })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_become_calls_in_their_order() {
        let mut reply = Reply::default();
        reply.begin_call(1, "b", "second").unwrap();
        reply.begin_call(0, "", "first").unwrap();
        reply.add_arguments(1, "{\"a\"").unwrap();
        reply.add_arguments(1, ":1}").unwrap();
        reply.count(Some(10), None);
        reply.count(None, Some(3));
        reply.stop = Some("tool_use".into());
        let whole = reply.finish(0).unwrap();
        assert_eq!(
            whole.calls[0],
            Call { id: "call_1".into(), tool: "first".into(), arguments: String::new() }
        );
        assert_eq!(whole.calls[1].arguments, "{\"a\":1}");
        assert_eq!(whole.usage, Usage { input_tokens: 10, output_tokens: 3 });
    }

    #[test]
    fn without_an_end_it_is_cut_and_without_counts_it_is_guessed() {
        assert!(matches!(Reply::default().finish(0), Err(ModelError::Cut)));
        let reply = Reply { text: "12345678".into(), stop: Some("end".into()), ..Reply::default() };
        assert_eq!(reply.finish(400).unwrap().usage, Usage { input_tokens: 100, output_tokens: 3 });
    }

    #[test]
    fn a_flood_of_calls_and_nameless_ones_make_no_sense() {
        let mut reply = Reply::default();
        for number in 0..MOST_CALLS as u64 {
            reply.begin_call(number, "i", "t").unwrap();
        }
        assert!(reply.begin_call(9999, "i", "t").is_err());
        assert!(reply.add_arguments(5000, "x").is_err());
        let mut reply = Reply { stop: Some("x".into()), ..Reply::default() };
        reply.begin_call(0, "i", "").unwrap();
        assert!(matches!(reply.finish(0), Err(ModelError::Nonsense(_))));
    }
}
