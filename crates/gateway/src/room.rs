//! The room in front of the server: what is about sandboxes goes to the nodes.

use crate::asked::Words;
use crate::create;
use crate::forward::{self, Pass};
use crate::gateway::Gateway;
use crate::lists::{self, List};
use crate::ports::{self, Place};
use crate::resolve::{self, Kind};
use crate::routes::{self, Route};
use crate::who::{self, Who};
use crate::{e2b, events, failures, own, signed};
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use paddock_server::front::{self, Answering, App, E2B_SANDBOX, Failure, Front};
use std::sync::Arc;

impl Gateway {
    fn route(app: &App, request: &Request) -> Option<Route> {
        let host = app.guard().port_name(request.uri(), request.headers());
        // A value that is no text is nobody's id.
        let header = request.headers().get(E2B_SANDBOX).map(|value| value.to_str().unwrap_or_default());
        routes::route(request.method(), request.uri(), host.as_ref(), header)
    }

    async fn answered(&self, app: &App, route: Route, mut request: Request) -> Result<Response, Failure> {
        match route {
            Route::Ready => return Ok(own::ready(self, app)),
            Route::PortByPath { sandbox, prefix, rest } => {
                return ports::through(self, app, Place { sandbox, port: None, prefix, rest }, request).await;
            }
            Route::PortByHost { sandbox, port } => {
                let rest = request.uri().path().to_string();
                return ports::through(
                    self,
                    app,
                    Place { sandbox, port: Some(port), prefix: String::new(), rest },
                    request,
                )
                .await;
            }
            Route::Signed(right) => return signed::pass(self, app, &right, request).await,
            _ => {}
        }
        let who = who::of_api(app, &mut request).await?;
        match route {
            Route::Create => {
                let creating = create::create(self, app, &who, Words::Own, request);
                let creating = async { creating.await.unwrap_or_else(IntoResponse::into_response) };
                Ok(front::bounded(who.leash.clone(), creating).await)
            }
            Route::Sandboxes => lists::list(self, &who, List::Sandboxes, request).await,
            Route::Snapshots => lists::list(self, &who, List::Snapshots, request).await,
            Route::Sandbox(id) => self.pass(app, &who, Kind::Sandbox, &id, request).await,
            Route::Snapshot(id) => self.pass(app, &who, Kind::Snapshot, &id, request).await,
            Route::Events => events::follow(self, app, &who, request).await,
            Route::Nodes => own::nodes(self, &who),
            Route::Cordon { node, take_new } => own::cordon(self, &who, &node, take_new).await,
            Route::Server => Ok(own::server(self, app, &who)),
            Route::Refused { operation, .. } => Err(failures::not_in_cluster(operation)),
            _ => Err(Failure::internal()),
        }
    }

    async fn pass(
        &self,
        app: &App,
        who: &Who,
        kind: Kind,
        id: &str,
        request: Request,
    ) -> Result<Response, Failure> {
        let node = resolve::node_of(&self.nodes, Some(&who.header), kind, id).await?;
        Ok(forward::pass(app, &node, request, Pass::of(who)).await)
    }
}

impl Front for Gateway {
    fn takes(&self, app: &App, request: &Request) -> Option<&'static str> {
        Gateway::route(app, request).map(|route| route.name())
    }

    fn answer(self: Arc<Self>, app: App, request: Request) -> Answering {
        Box::pin(async move {
            let Some(route) = Gateway::route(&app, &request) else {
                return Failure::internal().into_response();
            };
            match route {
                Route::E2bCreate
                | Route::E2bSandboxes
                | Route::E2bSandbox(_)
                | Route::E2bSnapshots
                | Route::E2bData(_)
                | Route::Refused { e2b: true, .. } => e2b::answer(&self, &app, route, request).await,
                route => {
                    self.answered(&app, route, request).await.unwrap_or_else(IntoResponse::into_response)
                }
            }
        })
    }
}
