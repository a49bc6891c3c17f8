//! Numbers for Prometheus. Every label comes from a list of ours; nothing that a caller named becomes one.

use crate::app::App;
use crate::auth;
use crate::errors::Failure;
use crate::extract::NoQuery;
use axum::extract::State;
use axum::http::{Extensions, HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use paddock_fleet::Actor;
use paddock_model::api::PoolMaker;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Creates whose time is kept for the median.
const CREATES_KEPT: usize = 500;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(read_metrics))
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    /// The pattern, such as `/v1/sandboxes/{id}`.
    route: String,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PoolLabels {
    template: String,
    made_by: &'static str,
    state: &'static str,
}

pub struct HttpMetrics {
    requests: Family<RequestLabels, Counter>,
    latency: Family<RouteLabels, Histogram>,
    /// Milliseconds of the last creates that succeeded.
    creates: Mutex<VecDeque<f64>>,
}

impl HttpMetrics {
    pub fn new() -> HttpMetrics {
        HttpMetrics {
            requests: Family::default(),
            latency: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.0005, 2.0, 16))),
            creates: Mutex::default(),
        }
    }

    pub fn count(&self, method: &Method, route: &str, status: StatusCode, took: Duration) {
        let labels = RequestLabels { method: known(method), route: route.into(), status: status.as_u16() };
        self.requests.get_or_create(&labels).inc();
        self.latency.get_or_create(&RouteLabels { route: route.into() }).observe(took.as_secs_f64());
        if route == "/v1/sandboxes" && *method == Method::POST && status.is_success() {
            let mut creates = self.creates.lock().unwrap_or_else(PoisonError::into_inner);
            if creates.len() == CREATES_KEPT {
                creates.pop_front();
            }
            creates.push_back(took.as_secs_f64() * 1000.0);
        }
    }

    /// The time of half of the last creates, and of 95 % of them, in milliseconds.
    pub fn create_times(&self) -> Option<(f64, f64)> {
        let creates = self.creates.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sorted: Vec<f64> = creates.iter().copied().collect();
        drop(creates);
        sorted.sort_by(f64::total_cmp);
        let at =
            |percent: usize| sorted.get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1)));
        Some((*at(50)?, *at(95)?))
    }
}

/// Numbers of the server, in the text format of OpenMetrics
///
/// For the owner by the unix socket, and for an admin token of the owner's tenant.
#[utoipa::path(get, path = "/metrics", tag = "server",
    responses((status = 200, content_type = "application/openmetrics-text", body = String)))]
async fn read_metrics(
    State(app): State<App>,
    extensions: Extensions,
    headers: HeaderMap,
    _: NoQuery,
) -> Result<Response, Failure> {
    if !app.options().open_metrics {
        let actor = auth::identify_bearer(&app, &extensions, &headers).await?.actor;
        if !actor.sees_server() {
            return Err(Failure::forbidden("the numbers of the whole server are for its owner")
                .hint("Use the unix socket, or an admin token of the tenant `owner`."));
        }
    }
    let text = render(&app).map_err(|_| Failure::internal())?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response())
}

fn render(app: &App) -> Result<String, std::fmt::Error> {
    let mut registry = Registry::with_prefix("paddock");
    let http = app.metrics();
    registry.register("http_requests", "Requests by route and status", http.requests.clone());
    registry.register("http_request_seconds", "Time until an answer begins", http.latency.clone());

    let fleet = app.fleet().metrics();
    let states = Family::<StateLabels, Gauge<u64, AtomicU64>>::default();
    let counts = [
        ("creating", fleet.creating),
        ("running", fleet.running),
        ("paused", fleet.paused),
        ("hibernated", fleet.hibernated),
    ];
    for (state, count) in counts {
        states.get_or_create(&StateLabels { state }).set(count);
    }
    registry.register("sandboxes", "Sandboxes by state", states);
    pools(app, &mut registry);
    let totals = [
        ("sandboxes_created", "Sandboxes created", fleet.created_total),
        ("sandboxes_failed", "Creates that failed", fleet.create_failed_total),
        ("execs_started", "Commands started", fleet.execs_total),
        ("output_bytes", "Bytes of output taken from sandboxes", fleet.output_bytes_total),
        ("sandboxes_shed", "Sandboxes hibernated for want of memory", fleet.shed_total),
    ];
    for (name, help, total) in totals {
        let counter: Counter = Counter::default();
        counter.inc_by(total);
        registry.register(name, help, counter);
    }
    registry.register(
        "creates_waiting",
        "Creates that wait for room",
        ConstGauge::new(fleet.waiting_creates),
    );
    let requests = app.activity().requests() as u64;
    registry.register("http_requests_active", "Requests that are being answered", ConstGauge::new(requests));
    if let Some(bytes) = resident_bytes() {
        registry.register("resident_memory_bytes", "Memory of the server process", ConstGauge::new(bytes));
    }
    if let Some(memory) = fleet.memory {
        let available = ConstGauge::new(memory.available_bytes);
        registry.register(
            "memory_available_bytes",
            "Memory that the server and its sandboxes can still have",
            available,
        );
        let keep_free = ConstGauge::new(memory.keep_free_bytes);
        registry.register("memory_keep_free_bytes", "Below so much available memory load is shed", keep_free);
    }
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

/// The names of templates are the owner's, not a caller's.
fn pools(app: &App, registry: &mut Registry) {
    let counts = Family::<PoolLabels, Gauge<u64, AtomicU64>>::default();
    let creates = Family::<PoolLabels, Counter>::default();
    for pool in app.fleet().pools(&Actor::owner()).unwrap_or_default() {
        let made_by = match pool.made_by {
            PoolMaker::Owner => "owner",
            PoolMaker::Job => "job",
            PoolMaker::Demand => "demand",
        };
        let labels = |state: &'static str| PoolLabels { template: pool.template.clone(), made_by, state };
        let now = [
            ("ready", pool.ready),
            ("making", pool.making),
            ("wanted", pool.wanted),
            ("in_use", pool.in_use),
        ];
        for (state, count) in now {
            // Demand may have made several for one template.
            counts.get_or_create(&labels(state)).inc_by(count.into());
        }
        creates.get_or_create(&labels("hit")).inc_by(pool.hits);
        creates.get_or_create(&labels("miss")).inc_by(pool.misses);
    }
    registry.register(
        "pool_sandboxes",
        "Sandboxes that wait in a pool, are being made, should be, or were given away and live",
        counts,
    );
    registry.register(
        "parent_vms",
        "VMs that others are copied from",
        ConstGauge::new(app.fleet().parent_vms() as u64),
    );
    registry.register("pool_creates", "Creates that found a sandbox ready in the pool, or did not", creates);
}

pub fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

fn known(method: &Method) -> &'static str {
    const KNOWN: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    KNOWN.into_iter().find(|known| *known == method.as_str()).unwrap_or("other")
}
