//! GraphQL over HTTP: queries whose fields are resolved at once, mutations, and errors.

use std::time::Duration;

use async_graphql::{Context, EmptySubscription, Object, Schema, SimpleObject};
use async_graphql_axum::GraphQL;
use axum::Router;
use axum::routing::post_service;
use programs::{Error, end, listen};
use tokio::sync::Mutex;

#[derive(Clone, SimpleObject)]
struct Note {
    id: usize,
    text: String,
}

#[derive(Default)]
struct Notes(Mutex<Vec<Note>>);

struct Query;

#[Object]
impl Query {
    async fn notes(&self, context: &Context<'_>) -> async_graphql::Result<Vec<Note>> {
        Ok(context.data::<Notes>()?.0.lock().await.clone())
    }

    /// A sum that takes its time: several in one request wait at once.
    async fn sum(&self, left: i32, right: i32) -> i32 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        left.saturating_add(right)
    }

    async fn blocked(&self) -> async_graphql::Result<u64> {
        let work = || (1..=1_000_u64).sum();
        Ok(tokio::task::spawn_blocking(work).await?)
    }
}

struct Mutation;

#[Object]
impl Mutation {
    async fn add(&self, context: &Context<'_>, text: String) -> async_graphql::Result<Note> {
        if text.is_empty() {
            return Err("a note needs a text".into());
        }
        let mut notes = context.data::<Notes>()?.0.lock().await;
        let id = notes.len() + 1;
        let note = Note { id, text };
        notes.push(note.clone());
        Ok(note)
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let port = std::env::args().nth(1);
    let schema = Schema::build(Query, Mutation, EmptySubscription)
        .data(Notes::default())
        .finish();
    let router = Router::new().route("/", post_service(GraphQL::new(schema)));
    let listener = listen(port.as_deref()).await?;
    Ok(axum::serve(listener, router)
        .with_graceful_shutdown(end())
        .await?)
}
