//! E2B's control plane: the same as `/v1` in other words, with the caller's API key in the place of a token.

use crate::asked::Words;
use crate::create;
use crate::e2b_lists;
use crate::failures;
use crate::forward::{self, Pass};
use crate::gateway::Gateway;
use crate::resolve::{self, Kind};
use crate::routes::Route;
use crate::who;
use axum::extract::Request;
use axum::response::Response;
use paddock_server::front::{self, App, Failure};

pub async fn answer(gateway: &Gateway, app: &App, route: Route, request: Request) -> Response {
    answered(gateway, app, route, request).await.unwrap_or_else(front::e2b_refusal)
}

async fn answered(
    gateway: &Gateway,
    app: &App,
    route: Route,
    mut request: Request,
) -> Result<Response, Failure> {
    if let Route::E2bData(id) = &route {
        return crate::ports::data_plane(gateway, app, id, None, request).await;
    }
    let who = who::of_e2b(app, &mut request).await?;
    match route {
        Route::E2bCreate => {
            let creating = create::create(gateway, app, &who, Words::E2b, request);
            let leash = who.leash.clone();
            let creating = async { creating.await.unwrap_or_else(front::e2b_refusal) };
            Ok(front::bounded(leash, creating).await)
        }
        Route::E2bSandboxes => e2b_lists::sandboxes(gateway, &who, request).await,
        Route::E2bSnapshots => e2b_lists::snapshots(gateway, &who, request).await,
        Route::E2bSandbox(id) => {
            let node = resolve::node_of(&gateway.nodes, Some(&who.header), Kind::Sandbox, &id).await?;
            Ok(forward::pass(app, &node, request, Pass::of(&who)).await)
        }
        Route::Refused { operation, .. } => Err(failures::not_in_cluster(operation)),
        _ => Err(Failure::internal()),
    }
}
