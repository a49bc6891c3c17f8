//! `paddock quota`: the limits of tenants, and their use.

use super::remote::with_client;
use super::{CommandError, print, print_json};
use crate::args::host::QuotaArgs;
use crate::caller::Caller;
use crate::client::{Call, Target};
use crate::render;
use paddock_client::Method;
use paddock_model::api::{Quota, Tenant};
use paddock_model::parse_bytes;

pub fn execute(args: QuotaArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    // Bad values are refused before anything is asked.
    change(&args, Quota::default())?;
    with_client(caller, async |client, caller| {
        let mut tenants = client.tenants().await?;
        if let Some(name) = &args.tenant {
            let known = tenants.iter().find(|tenant| tenant.name == *name).map(|tenant| tenant.quota.clone());
            if sets_something(&args) {
                let quota = change(&args, known.unwrap_or_default())?;
                let target = Target::new("/v1/tenants").part(name).part("quota");
                let tenant: Tenant = client.json(Call::new(Method::PUT, target).json(&quota)?).await?;
                tenants = vec![tenant];
            } else {
                tenants.retain(|tenant| tenant.name == *name);
            }
        }
        match args.json {
            true => print_json(&tenants, caller)?,
            false => print(&render::access::tenants(&tenants, caller.colour_on_stdout()), caller)?,
        }
        Ok(0)
    })
}

fn sets_something(args: &QuotaArgs) -> bool {
    let access = [&args.sandboxes, &args.cpus, &args.memory, &args.creates_per_minute];
    let given = [access.as_slice(), &[&args.volumes, &args.volume_bytes]].concat();
    args.unlimited || given.iter().any(|value| value.is_some())
}

/// A call replaces the whole quota, so a value without a flag is sent again.
fn change(args: &QuotaArgs, mut quota: Quota) -> Result<Quota, CommandError> {
    if args.unlimited {
        return Ok(Quota::default());
    }
    let count = |text: &str| text.parse::<u32>().ok();
    set(&mut quota.live_sandboxes, "sandboxes", &args.sandboxes, count)?;
    set(&mut quota.creates_per_minute, "creates-per-minute", &args.creates_per_minute, count)?;
    set(&mut quota.memory_bytes, "memory", &args.memory, |text| parse_bytes(text).ok())?;
    set(&mut quota.volumes, "volumes", &args.volumes, count)?;
    set(&mut quota.volume_bytes, "volume-bytes", &args.volume_bytes, |text| parse_bytes(text).ok())?;
    let processors = |text: &str| text.parse::<f64>().ok().filter(|cpus| cpus.is_finite() && *cpus > 0.0);
    set(&mut quota.cpus, "cpus", &args.cpus, processors)?;
    Ok(quota)
}

fn set<T>(
    limit: &mut Option<T>,
    flag: &'static str,
    text: &Option<String>,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<(), CommandError> {
    match text.as_deref() {
        None => {}
        Some("none") => *limit = None,
        Some(text) => match parse(text) {
            Some(value) => *limit = Some(value),
            None => return Err(CommandError::QuotaValue { flag, value: text.to_string() }),
        },
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> QuotaArgs {
        QuotaArgs {
            tenant: Some("a".into()),
            sandboxes: None,
            cpus: None,
            memory: None,
            creates_per_minute: None,
            volumes: None,
            volume_bytes: None,
            unlimited: false,
            json: false,
        }
    }

    #[test]
    fn what_is_not_named_stays_and_none_removes() {
        let known = Quota { live_sandboxes: Some(3), cpus: Some(2.0), ..Quota::default() };
        let args = QuotaArgs { cpus: Some("none".into()), memory: Some("1GiB".into()), ..args() };
        let expected = Quota { live_sandboxes: Some(3), memory_bytes: Some(1 << 30), ..Quota::default() };
        assert_eq!(change(&args, known).unwrap(), expected);
    }

    #[test]
    fn a_bad_value_is_named_with_its_flag() {
        for value in ["-1", "lots", "NaN", ""] {
            let args = QuotaArgs { cpus: Some(value.into()), ..args() };
            let message = change(&args, Quota::default()).unwrap_err().to_string();
            assert_eq!(message, format!("--cpus `{value}` is not a quota"));
        }
    }
}
