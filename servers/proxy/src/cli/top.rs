//! `evenkeel-proxy top`: a live view of a proxy, by what its admin socket says.

use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Outcome, TopArguments, ctl};

/// What is asked each time.
const QUESTIONS: &str = "show info json; show stat json; show cpu json";

/// Clears the screen, and begins at its top.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// What was answered, and when.
struct Answer {
    at: Instant,
    info: Value,
    stat: Vec<Value>,
    cpu: Vec<Value>,
}

pub(super) fn run(arguments: &TopArguments) -> Outcome {
    let pause = Duration::try_from_secs_f64(arguments.seconds.clamp(0.01, 3_600.0))?;
    let mut output = std::io::stdout();
    let is_screen = output.is_terminal() && !arguments.plain;
    let mut before = ask(&arguments.socket.socket)?;
    let mut left = arguments.times;
    loop {
        std::thread::sleep(pause);
        let now = ask(&arguments.socket.socket)?;
        let text = page(&before, &now);
        let shown = if is_screen {
            format!("{CLEAR}{text}")
        } else {
            text
        };
        // Who reads it may have gone.
        if writeln!(output, "{shown}")
            .and_then(|()| output.flush())
            .is_err()
        {
            return Ok(ExitCode::SUCCESS);
        }
        before = now;
        match &mut left {
            Some(1) => return Ok(ExitCode::SUCCESS),
            Some(left) => *left = left.saturating_sub(1),
            None => {}
        }
    }
}

fn ask(socket: &Path) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
    let text = ctl::answer(socket, QUESTIONS)?;
    let mut answers = text.lines().filter(|line| !line.is_empty());
    let mut next = || -> Result<Value, String> {
        let line = answers.next().ok_or("the proxy has answered too little")?;
        serde_json::from_str(line).map_err(|error| format!("the proxy's answer: {error}"))
    };
    let list = |value: Value| match value {
        Value::Array(rows) => rows,
        _ => Vec::new(),
    };
    Ok(Answer {
        at: Instant::now(),
        info: next()?,
        stat: list(next()?),
        cpu: list(next()?),
    })
}

/// What is shown of two answers, one after the other.
fn page(before: &Answer, now: &Answer) -> String {
    let seconds = now.at.duration_since(before.at).as_secs_f64().max(1e-3);
    let info = |key: &str| now.info[key].to_string().trim_matches('"').to_owned();
    let mut text = format!(
        "{} {} pid {}, up {} s: connections {} of {}, busy {} %\n",
        info("Name"),
        info("Version"),
        info("Pid"),
        info("Uptime_sec"),
        info("CurrConns"),
        info("Maxconn"),
        info("Utilisation_pct")
    );
    text += &cpu(before, now, seconds);
    text += &rows(before, now, seconds);
    text
}

fn cpu(before: &Answer, now: &Answer, seconds: f64) -> String {
    let mut text = format!(
        "\n{:<16} {:>5} {:>9} {:>11} {:>11}  {}\n",
        "class", "share", "cpu %", "wait p50 us", "wait p99 us", "used by"
    );
    for class in &now.cpu {
        let name = word(&class["class"]);
        let earlier = before
            .cpu
            .iter()
            .find(|earlier| earlier["class"] == class["class"]);
        let ms = number(&class["run_ms"]) - earlier.map_or(0.0, |one| number(&one["run_ms"]));
        let users = word(&class["used_by"]);
        if number(&class["run_ms"]) == 0.0 && users.is_empty() {
            continue;
        }
        text += &format!(
            "{name:<16} {:>5} {:>9.1} {:>11} {:>11}  {users}\n",
            number(&class["share"]),
            ms / seconds / 10.0,
            number(&class["wait_p50_us"]),
            number(&class["wait_p99_us"])
        );
    }
    text
}

fn rows(before: &Answer, now: &Answer, seconds: f64) -> String {
    let key = |row: &Value| (word(&row["pxname"]), word(&row["svname"]));
    let earlier: HashMap<_, _> = before.stat.iter().map(|row| (key(row), row)).collect();
    let mut text = format!(
        "\n{:<28} {:>8} {:>7} {:>9} {:>9} {:>9} {:>7}\n",
        "", "status", "now", "a second", "MB/s in", "MB/s out", "errors"
    );
    for row in &now.stat {
        let (of, name) = key(row);
        let was = earlier.get(&(of.clone(), name.clone()));
        let rate = |column: &str| {
            let before = was.map_or(0.0, |was| number(&was[column]));
            // After `clear counters` it is less.
            (number(&row[column]) - before).max(0.0) / seconds
        };
        let is_front = name == "FRONTEND";
        let has_requests = is_front && number(&row["req_tot"]) > 0.0;
        let work = if has_requests { "req_tot" } else { "stot" };
        let errors: f64 = ["ereq", "econ", "eresp"]
            .iter()
            .map(|one| number(&row[*one]))
            .sum();
        let shown = if is_front || name == "BACKEND" {
            format!("{of} {name}")
        } else {
            format!("  {of}/{name}")
        };
        text += &format!(
            "{shown:<28} {:>8} {:>7} {:>9.0} {:>9.2} {:>9.2} {errors:>7}\n",
            word(&row["status"]),
            number(&row["scur"]),
            rate(work),
            rate("bin") / 1e6,
            rate("bout") / 1e6
        );
    }
    text
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

/// A text without what would move the cursor.
fn word(value: &Value) -> String {
    let text = value.as_str().unwrap_or_default();
    text.chars().filter(|c| !c.is_control()).collect()
}
