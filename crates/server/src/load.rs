//! The server and its host in numbers, as JSON.

use crate::app::App;
use crate::auth::Caller;
use crate::errors::Failure;
use crate::extract::NoQuery;
use crate::metrics::resident_bytes;
use axum::Json as Answer;
use axum::extract::State;
use paddock_model::api::{
    ApiError, CreateNumbers, HostLoad, MinuteOfCreates, ProcessLoad, SandboxCounts, ServerLoad,
};
use std::time::{SystemTime, UNIX_EPOCH};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(server_load))
}

/// Work of the server now, and the resources that its host has left
///
/// For the owner by the unix socket, and for an admin token of the owner's tenant.
#[utoipa::path(get, path = "/v1/server/load", tag = "server",
    responses((status = 200, body = ServerLoad), (status = 403, body = ApiError)))]
async fn server_load(
    State(app): State<App>,
    Caller(actor): Caller,
    _: NoQuery,
) -> Result<Answer<ServerLoad>, Failure> {
    if !actor.sees_server() {
        return Err(Failure::forbidden("the numbers of the whole server are for its owner")
            .hint("Use the unix socket, or an admin token of the tenant `owner`."));
    }
    let counted = app.fleet().metrics();
    let times = app.metrics().create_times();
    let minutes = app.fleet().recent_creates();
    Ok(Answer(ServerLoad {
        at_ms: now_ms(),
        started_at_ms: app.started_at_ms(),
        addresses: app.addresses().to_vec(),
        sandboxes: SandboxCounts {
            creating: counted.creating,
            running: counted.running,
            paused: counted.paused,
            hibernated: counted.hibernated,
        },
        creates: CreateNumbers {
            created_total: counted.created_total,
            failed_total: counted.create_failed_total,
            waiting: counted.waiting_creates,
            median_ms: times.map(|(median, _)| median),
            p95_ms: times.map(|(_, p95)| p95),
            minutes: minutes
                .into_iter()
                .map(|minute| MinuteOfCreates {
                    at_ms: minute.at_ms,
                    created: minute.created,
                    failed: minute.failed,
                })
                .collect(),
        },
        execs_total: counted.execs_total,
        host: HostLoad {
            processors: processors(),
            processor_busy_ms: read("/proc/stat").and_then(|text| busy_ms(&text)),
            memory_bytes: host_memory_bytes(),
            memory_available_bytes: counted.memory.as_ref().map(|memory| memory.available_bytes),
            memory_keep_free_bytes: counted.memory.as_ref().map(|memory| memory.keep_free_bytes),
        },
        server: ProcessLoad { memory_bytes: resident_bytes(), cpu_ms: own_cpu_ms() },
    }))
}

pub fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX))
}

pub fn host_memory_bytes() -> Option<u64> {
    read("/proc/meminfo").and_then(|text| memory_bytes(&text))
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// User, nice, system, interrupts and stolen time of all processors; not idle, and not waiting for disks.
fn busy_ms(stat: &str) -> Option<u64> {
    let words = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = words.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let busy = ticks.get(..3)?.iter().chain(ticks.get(5..8)?).sum::<u64>();
    Some(busy * 1000 / rustix::param::clock_ticks_per_second())
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn own_cpu_ms() -> Option<u64> {
    let stat = read("/proc/self/stat")?;
    // The name may hold blanks and parentheses; the numbers stand behind its end.
    let rest = stat.rsplit_once(')')?.1;
    let mut words = rest.split_whitespace().skip(11);
    let ticks = words.next()?.parse::<u64>().ok()? + words.next()?.parse::<u64>().ok()?;
    Some(ticks * 1000 / rustix::param::clock_ticks_per_second())
}

pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_the_kernel_are_read() {
        let tick = 1000 / rustix::param::clock_ticks_per_second();
        assert_eq!(busy_ms("cpu  1 2 3 100 200 4 5 6 0 0\ncpu0 9 9 9 9\n"), Some(21 * tick));
        assert_eq!(busy_ms("cpu  1 2\n"), None);
        assert_eq!(memory_bytes("MemTotal:       8388608 kB\nMemFree: 1 kB\n"), Some(8 << 30));
        assert!(own_cpu_ms().is_some());
    }
}
