//! Calls about a process: which run, their input, signals, the size of a terminal.

use super::connect::{self, Envelopes, Result, RpcError};
use super::inside::Inside;
use super::messages::{OfProcess, Selector, SendInput, SendSignal, Signal, StreamInput, Update};
use super::process::{commands, running};
use super::routes::process_call;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use paddock_fleet::ExecInput;
use serde_json::{Value, json};

pub async fn answer(inside: Inside, call: &str, request: Request) -> Response {
    let answered = match process_call(call) {
        "List" => list(&inside).await,
        "SendInput" => send_input(&inside, request).await,
        "CloseStdin" => close_stdin(&inside, request).await,
        "SendSignal" => send_signal(&inside, request).await,
        "Update" => update(&inside, request).await,
        _ => Err(RpcError::new(
            "unimplemented",
            format!("this server's E2B dialect has no call process.Process/{}", crate::errors::shorten(call)),
        )),
    };
    connect::unary(answered)
}

async fn list(inside: &Inside) -> Result<Value> {
    let processes = commands(inside).await?.into_iter().map(|exec| {
        // A server that was started anew knows the line alone.
        let known = inside.app.e2b().processes.get(inside.id(), exec.exec);
        let config = match &known {
            Some(known) => json!(known.config),
            None => json!({ "cmd": exec.command, "args": [], "envs": {} }),
        };
        let mut process = json!({ "config": config, "pid": exec.exec });
        if let Some(tag) = known.and_then(|known| known.tag) {
            process["tag"] = json!(tag);
        }
        process
    });
    Ok(json!({ "processes": processes.collect::<Vec<_>>() }))
}

async fn send_input(inside: &Inside, request: Request) -> Result<Value> {
    let sent: SendInput = connect::message(&inside.app, request).await?;
    let bytes = sent.input.bytes()?;
    write(inside, &mut input(inside, &sent.process).await?, &bytes).await?;
    Ok(json!({}))
}

async fn close_stdin(inside: &Inside, request: Request) -> Result<Value> {
    let wanted: OfProcess = connect::message(&inside.app, request).await?;
    let closed = input(inside, &wanted.process).await?.close().await;
    closed.map_err(|error| RpcError::of(inside.id(), error))?;
    Ok(json!({}))
}

async fn send_signal(inside: &Inside, request: Request) -> Result<Value> {
    let sent: SendSignal = connect::message(&inside.app, request).await?;
    let exec = running(inside, &sent.process).await?.exec;
    let done = match sent.signal {
        Signal::Kill => inside.fleet().kill_exec(&inside.actor, inside.id(), exec).await.map(drop),
        Signal::Terminate => inside.fleet().signal_exec(&inside.actor, inside.id(), exec, "TERM").await,
        Signal::Unspecified => return Err(RpcError::invalid("signal is missing")),
    };
    done.map_err(|error| RpcError::of(inside.id(), error))?;
    Ok(json!({}))
}

async fn update(inside: &Inside, request: Request) -> Result<Value> {
    let wanted: Update = connect::message(&inside.app, request).await?;
    let exec = running(inside, &wanted.process).await?.exec;
    let pty = wanted.pty.ok_or_else(|| RpcError::invalid("pty is missing"))?;
    let resized = inside.fleet().resize_exec(&inside.actor, inside.id(), exec, pty.size()?).await;
    resized.map_err(|error| RpcError::of(inside.id(), error))?;
    Ok(json!({}))
}

/// A stream of input, in the order in which it comes; its answer comes at its end.
pub async fn stream_input(inside: Inside, request: Request) -> Response {
    match streamed_input(&inside, request).await {
        Ok(()) => {
            let answer = [connect::envelope(&json!({})), connect::last(None)].concat();
            connect::streamed(Body::from(answer))
        }
        Err(error) => error.stream(),
    }
}

async fn streamed_input(inside: &Inside, request: Request) -> Result<()> {
    let mut messages = Envelopes::of(&inside.app, request).await?;
    let mut open: Option<ExecInput> = None;
    while let Some(message) = messages.next::<StreamInput>().await? {
        if let Some(start) = message.start {
            open = Some(input(inside, &start.process).await?);
        }
        if let Some(data) = message.data {
            let input =
                open.as_mut().ok_or_else(|| RpcError::invalid("input came before its process was named"))?;
            write(inside, input, &data.input.bytes()?).await?;
        }
    }
    Ok(())
}

async fn input(inside: &Inside, selector: &Selector) -> Result<ExecInput> {
    let exec = running(inside, selector).await?.exec;
    let input = inside.fleet().exec_input(&inside.actor, inside.id(), exec).await;
    input.map_err(|error| RpcError::of(inside.id(), error))
}

async fn write(inside: &Inside, input: &mut ExecInput, bytes: &[u8]) -> Result<()> {
    input.write(None, bytes).await.map(drop).map_err(|error| RpcError::of(inside.id(), error))
}
