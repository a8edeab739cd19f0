//! What the tasks have cost, and where they wait.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRef, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use evenkeel::runtime::Handle;
use evenkeel::stats::{DumpOptions, TaskDump, TaskInfo, TaskOrder};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::routes::Problem;
use crate::snapshot::cut;
use crate::{DUMP_TIMEOUT_MAX, TASKS_MAX};

/// How many tasks are listed unless the request says it.
const LISTED: usize = 100;

/// What is served.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    runtime: Handle,
    /// Held while a dump is made.
    dumping: Arc<Mutex<()>>,
}

impl Served {
    pub(crate) fn new(runtime: Handle) -> Self {
        Self {
            runtime,
            dumping: Arc::default(),
        }
    }
}

impl FromRef<Served> for Handle {
    fn from_ref(served: &Served) -> Self {
        served.runtime.clone()
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    limit: Option<usize>,
    #[serde(default)]
    sort: TaskOrder,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DumpQuery {
    limit: Option<usize>,
    timeout_ms: Option<u64>,
    #[serde(default)]
    long: bool,
}

type Asked<T> = Result<Query<T>, QueryRejection>;

pub(crate) async fn list(
    State(runtime): State<Handle>,
    query: Asked<ListQuery>,
) -> Result<Response, Problem> {
    let (sort, limit) = wanted(query)?;
    Ok(json_in_place(|| read(&runtime, sort, limit)))
}

pub(crate) async fn list_text(
    State(runtime): State<Handle>,
    query: Asked<ListQuery>,
) -> Result<String, Problem> {
    let (sort, limit) = wanted(query)?;
    Ok(evenkeel::block_in_place(|| {
        let tasks = read(&runtime, sort, limit);
        tasks.iter().fold(String::new(), |mut text, task| {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{task}");
            text
        })
    }))
}

fn wanted(query: Asked<ListQuery>) -> Result<(TaskOrder, usize), Problem> {
    let query = understood(query)?;
    let limit = bounded("limit", query.limit.unwrap_or(LISTED), TASKS_MAX)?;
    Ok((query.sort, limit))
}

/// To look at all tasks of a large program takes some milliseconds: for `block_in_place`.
fn read(runtime: &Handle, sort: TaskOrder, limit: usize) -> Vec<TaskInfo> {
    let mut tasks = runtime.tasks(sort, limit);
    tasks.iter_mut().for_each(|task| cut(&mut task.future));
    tasks
}

/// An answer that takes long to make and to write: the worker does other things meanwhile. It must
/// not wait for a lane, which may be full when somebody looks for the reason.
fn json_in_place<T: Serialize>(make: impl FnOnce() -> T) -> Response {
    evenkeel::block_in_place(|| Json(make()).into_response())
}

pub(crate) async fn dump(
    State(served): State<Served>,
    query: Asked<DumpQuery>,
) -> Result<Json<TaskDump>, Problem> {
    make(&served, &understood(query)?).await.map(Json)
}

pub(crate) async fn dump_text(
    State(served): State<Served>,
    query: Asked<DumpQuery>,
) -> Result<String, Problem> {
    let query = understood(query)?;
    let dump = make(&served, &query).await?;
    Ok(if query.long {
        format!("{dump:#}\n")
    } else {
        format!("{dump}\n")
    })
}

async fn make(served: &Served, query: &DumpQuery) -> Result<TaskDump, Problem> {
    let mut options = DumpOptions::new();
    if let Some(limit) = query.limit {
        options = options.limit(bounded("limit", limit, TASKS_MAX)?);
    }
    if let Some(millis) = query.timeout_ms {
        let most = DUMP_TIMEOUT_MAX.as_millis();
        let millis = bounded(
            "timeout_ms",
            millis,
            u64::try_from(most).unwrap_or(u64::MAX),
        )?;
        options = options.timeout(Duration::from_millis(millis));
    }
    let busy = || {
        let message = "a dump is being made; ask again when it is done".to_owned();
        Problem(StatusCode::TOO_MANY_REQUESTS, message)
    };
    let _alone = served.dumping.try_lock().map_err(|_| busy())?;
    let made = served.runtime.dump(options).await;
    let made = made.map(|mut dump| {
        for group in &mut dump.groups {
            cut(&mut group.future);
            group
                .tasks
                .iter_mut()
                .for_each(|it| cut(&mut it.task.future));
        }
        dump
    });
    made.map_err(|error| match error.is_refused() {
        true => busy(),
        false => Problem(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    })
}

fn understood<T>(query: Asked<T>) -> Result<T, Problem> {
    match query {
        Ok(Query(query)) => Ok(query),
        Err(error) => Err(Problem(error.status(), error.body_text())),
    }
}

fn bounded<T: Ord + std::fmt::Display>(name: &str, value: T, most: T) -> Result<T, Problem> {
    if value <= most {
        return Ok(value);
    }
    let message = format!("{name} is {value}; the most is {most}");
    Err(Problem(StatusCode::BAD_REQUEST, message))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use evenkeel::runtime::Builder;
    use serde::Serializer;

    use super::*;

    /// While it is written, another task has to get on.
    struct WaitsForAnother(Handle);

    impl Serialize for WaitsForAnother {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let (ran, waits) = channel();
            drop(self.0.spawn(async move { ran.send(()) }));
            let got_on = waits.recv_timeout(Duration::from_secs(20)).is_ok();
            serializer.serialize_bool(got_on)
        }
    }

    #[test]
    fn while_a_long_list_is_written_the_worker_does_other_things() {
        let mut builder = Builder::new();
        let runtime = builder.workers(1).hand_off_after(None).build().unwrap();
        let handle = runtime.handle().clone();
        let answer = runtime.spawn(async move {
            let answer = json_in_place(|| WaitsForAnother(handle));
            axum::body::to_bytes(answer.into_body(), 100).await.unwrap()
        });
        assert_eq!(&*runtime.block_on(answer).unwrap(), b"true");
    }
}
