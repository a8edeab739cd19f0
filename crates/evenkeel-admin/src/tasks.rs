//! What the tasks have cost, and where they wait.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRef, Query, State};
use axum::http::StatusCode;
use evenkeel::runtime::Handle;
use evenkeel::stats::{DumpOptions, TaskDump, TaskInfo, TaskOrder};
use serde::Deserialize;
use tokio::sync::Mutex;

use crate::routes::Problem;
use crate::{DUMP_TIMEOUT_MAX, TASKS_MAX};

/// How much there is of the name of a future's type.
const FUTURE_MAX: usize = 500;
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
) -> Result<Json<Vec<TaskInfo>>, Problem> {
    read(&runtime, query).map(Json)
}

pub(crate) async fn list_text(
    State(runtime): State<Handle>,
    query: Asked<ListQuery>,
) -> Result<String, Problem> {
    let tasks = read(&runtime, query)?;
    Ok(tasks.iter().fold(String::new(), |mut text, task| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{task}");
        text
    }))
}

fn read(runtime: &Handle, query: Asked<ListQuery>) -> Result<Vec<TaskInfo>, Problem> {
    let query = understood(query)?;
    let limit = bounded("limit", query.limit.unwrap_or(LISTED), TASKS_MAX)?;
    // To look at all tasks of a large program takes some milliseconds. It must not wait for a lane,
    // which may be full when somebody looks for the reason.
    let mut tasks = evenkeel::block_in_place(|| runtime.tasks(query.sort, limit));
    tasks.iter_mut().for_each(|task| cut(&mut task.future));
    Ok(tasks)
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

/// Types may have names of many kilobytes, and an answer may have 10 000 of them.
fn cut(future: &mut Cow<'static, str>) {
    if let Some((end, _)) = future.char_indices().nth(FUTURE_MAX) {
        *future = format!("{}...", &future[..end]).into();
    }
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
