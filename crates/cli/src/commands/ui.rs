//! `paddock ui`: a link that opens the dashboard, once.

use super::e2b;
use super::remote::with_client;
use super::{CommandError, print};
use crate::args::ui::UiArgs;
use crate::caller::Caller;
use crate::client::{self, Call, Target};
use crate::render;
use paddock_client::Method;
use paddock_model::api::{CreateSignInCode, SignInCode};
use std::io::IsTerminal;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

pub fn execute(args: UiArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    if !client::awaited(&caller.environment)? {
        return Err(CommandError::NoServerForBrowser);
    }
    with_client(caller, async |client, caller| {
        // Before the code is made: without an address it would be of no use.
        let url = e2b::url(&client).await.map_err(|error| match error {
            CommandError::NoServerAddress => CommandError::NoAddressForBrowser,
            other => other,
        })?;
        let request =
            CreateSignInCode { tenant: args.tenant, role: args.role.into(), token_seconds: Some(args.lasts) };
        let call = Call::new(Method::POST, Target::new("/v1/sign-in-codes"));
        let code: SignInCode = client.json(call.json(&request)?).await?;
        // A browser sends no server what stands behind `#`.
        let link = render::escape::line(&format!("{}/ui/#code={}", url.trim_end_matches('/'), code.code));
        print(&format!("{link}\n"), caller)?;
        let has_display = ["DISPLAY", "WAYLAND_DISPLAY"]
            .iter()
            .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
        if !args.print && has_display && std::io::stdout().is_terminal() {
            open(&link);
        }
        Ok(0)
    })
}

/// Without `xdg-open` the link is printed all the same. What it opens lives on when this command was the first of its terminal, which hangs up.
fn open(link: &str) {
    let mut opener = Command::new("xdg-open");
    opener.arg(link).process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _ = opener.spawn().map(drop);
}
