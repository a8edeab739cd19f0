//! The experiments from end to end, as short as they go: that they measure, report, and leave
//! nothing behind. What they measure is not looked at.

mod common;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{eventually, is_gone, lab};

/// Who takes part when the only other peer is the one linked in.
const LINKED: [&str; 2] = ["evenkeel", "tokio"];

fn report(name: &str) -> serde_json::Value {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.json"));
    let mut command = lab();
    command.args([
        name,
        "--seconds",
        "0.1",
        "--rounds",
        "1",
        "--peers",
        "tokio",
        "--json",
    ]);
    let output = command.arg(&file).output().expect("the lab starts");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    let text = std::fs::read_to_string(&file).expect("the report is written");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn responsive_measures_every_cell() {
    let report = report("responsive");
    let cells = report["experiments"][0]["raw"]
        .as_array()
        .expect("raw figures");
    // Eight rows; the lone thread has no futures, and so only six of them.
    let is_real_time = |cell: &&serde_json::Value| cell["peer"] == "evenkeel, real time";
    let real_time = cells.iter().filter(is_real_time).count();
    assert_eq!(cells.len(), 8 * LINKED.len() + 6 + real_time);
    // As the system allows it or not.
    assert!([0, 8].contains(&real_time), "{real_time}");
    for cell in cells {
        assert!(cell["error"].is_null(), "{cell}");
        assert!(
            cell["found"]["requests"].as_u64().is_some_and(|n| n > 0),
            "{cell}"
        );
        // Also what never returns is counted, as it goes.
        let alone = cell["hog_work_cores"]["alone"].as_f64();
        match cell["beside"] == "nothing" {
            true => assert_eq!(alone, None, "{cell}"),
            false => assert!(alone.is_some_and(|cores| cores > 0.0), "{cell}"),
        }
    }
}

#[test]
fn only_what_is_asked_for_is_measured() {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("only.json");
    let only = |text: &str| {
        let mut command = lab();
        command.args(["responsive", "--seconds", "0.1", "--rounds", "1"]);
        command.args(["--peers", "tokio", "--only", text, "--json"]);
        command.arg(&file).output().expect("the lab starts")
    };
    assert!(only(", tokio").status.success());
    let text = std::fs::read_to_string(&file).expect("the report is written");
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let cells = &report["experiments"][0]["raw"];
    let cells = cells.as_array().expect("raw figures");
    assert_eq!(cells.len(), 8);
    assert!(cells.iter().all(|cell| cell["peer"] == "tokio"));
    let nothing = only("no such name");
    assert!(!nothing.status.success());
    let words = String::from_utf8_lossy(&nothing.stderr);
    let expected = "no measurement has \"no such name\" in its name";
    assert!(words.contains(expected), "{words}");
}

#[test]
fn services_measures_every_scene() {
    let report = report("services");
    let cells = report["experiments"][0]["raw"]
        .as_array()
        .expect("raw figures");
    assert_eq!(cells.len(), 13 * LINKED.len());
    for cell in cells {
        assert!(cell["error"].is_null(), "{cell}");
        let latencies = cell["found"]["latencies"].as_object().expect("latencies");
        assert!(latencies.len() >= 2, "{cell}");
        for found in latencies.values() {
            assert!(found["requests"].as_u64().is_some_and(|n| n > 0), "{cell}");
        }
    }
}

#[test]
fn busywait_measures_every_level() {
    let report = report("busywait");
    let samples = report["experiments"][0]["raw"]
        .as_array()
        .expect("raw figures");
    // Seven of evenkeel, and Tokio, which has none.
    assert_eq!(samples.len(), 7 + 1);
    for sample in samples {
        assert!(sample["error"].is_null(), "{sample}");
        assert!(
            sample["cpu_cores"]
                .as_f64()
                .is_some_and(|cores| cores > 0.0),
            "{sample}"
        );
        assert!(
            sample["stats"]["wall_us"].as_u64().is_some_and(|us| us > 0),
            "{sample}"
        );
    }
}

#[test]
fn storm_measures_every_server() {
    let report = report("storm");
    let raw = &report["experiments"][0]["raw"];
    let samples = raw["storms"].as_array().expect("raw figures");
    let servers = 7;
    // Even, from four times the cameras, in bursts twice, and, where the machine lets it, over
    // Ethernet.
    assert!(samples.len() == 4 * servers || samples.len() == 5 * servers);
    for sample in samples {
        assert!(sample["error"].is_null(), "{sample}");
        let found = &sample["found"];
        assert!(
            found["end"]["frames"].as_u64().is_some_and(|n| n > 0),
            "{sample}"
        );
        assert_eq!(found["end"]["broken"], 0, "{sample}");
        let calls = found["api_us"].as_array().expect("calls");
        assert!(!calls.is_empty(), "{sample}");
    }
    let breeze = &raw["breeze"];
    let turns = breeze["turns"].as_array().expect("raw figures");
    assert!(!turns.is_empty() && breeze["failure"].is_null(), "{breeze}");
}

#[test]
fn fsync_measures_every_kind_of_disk_work() {
    let report = report("fsync");
    let raw = &report["experiments"][0]["raw"];
    let cells = raw["beside"].as_array().expect("raw figures");
    // Nothing, four sizes by three numbers of writers, opens that hang, and, where the machine lets
    // it, a slow disk; of runtimes, and of none.
    let rows = cells.len() / (LINKED.len() + 1);
    assert!(rows == 14 || rows == 15, "{rows} rows");
    for cell in cells {
        assert!(cell["error"].is_null(), "{cell}");
        let pings = cell["found"]["echo"]["requests"].as_u64();
        assert!(pings.is_some_and(|n| n > 0), "{cell}");
    }
    let within = raw["within"].as_array().expect("raw figures");
    assert!(!within.is_empty());
    for log in within {
        assert!(log["error"].is_null(), "{log}");
        for way in ["each", "together"] {
            assert!(
                log["found"][way]["per_second"].as_f64() > Some(0.0),
                "{log}"
            );
        }
    }
    let logs = raw["log"].as_array().expect("raw figures");
    assert!(logs.len() >= LINKED.len());
    for log in logs {
        assert!(log["error"].is_null(), "{log}");
        assert_eq!(log["found"]["clients_lost"], 0, "{log}");
    }
}

#[test]
fn proxy_measures_every_scenario() {
    let report = report("proxy");
    let samples = report["experiments"][0]["raw"]["scenarios"].as_array();
    let samples = samples.expect("raw figures");
    // For HTTP/2, another program's load is needed; HAProxy and nginx may be missing.
    let ours = samples
        .iter()
        .filter(|sample| sample["proxy"] == "evenkeel-proxy");
    assert!([6, 7].contains(&ours.count()), "{samples:?}");
    for sample in samples {
        assert!(sample["error"].is_null(), "{sample}");
        let found = &sample["found"];
        let count = |what: &str| found[what].as_u64().expect("a number");
        assert!(count("small") + count("megabytes") > 0, "{sample}");
        assert_eq!(count("unanswered"), 0, "{sample}");
        assert!(found["cpu_us"].as_f64() > Some(0.0), "{sample}");
        assert!(found["admin"]["max_us"].as_f64() > Some(0.0), "{sample}");
    }
}

#[test]
fn proxy_measures_the_program_that_is_asked_for() {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let [program, file] = ["own-proxy", "own-proxy.json"].map(|name| directory.join(name));
    let lab_path = env!("CARGO_BIN_EXE_evenkeel-lab");
    let started = directory.join("own-proxy.started");
    // An earlier run has left them, and made the program one that may be run.
    let _ = std::fs::remove_file(&started);
    let _ = std::fs::remove_file(&program);
    let mark = format!("[ \"$1\" = run ] && touch '{}'", started.display());
    let script = format!("#!/bin/sh\n{mark}\nexec '{lab_path}' evenkeel-proxy \"$@\"\n");
    std::fs::write(&program, script).expect("the script is written");
    let run = || {
        let mut command = lab();
        command.args(["proxy", "--seconds", "0.1", "--rounds", "1"]);
        command.args(["--only", "kept connections, evenkeel-proxy", "--proxy"]);
        command.arg(&program).arg("--json").arg(&file);
        command.output().expect("the lab starts")
    };
    let words = String::from_utf8_lossy(&run().stderr).into_owned();
    assert!(words.contains("does not run"), "{words}");
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, all).expect("it may be run");
    assert!(run().status.success());
    assert!(started.exists());
    let text = std::fs::read_to_string(&file).expect("the report is written");
    assert!(text.contains("evenkeel-proxy: the program"), "{text}");
}

#[test]
fn cameras_measures_each_server() {
    let report = report("cameras");
    let samples = report["experiments"][0]["raw"].as_array();
    let samples = samples.expect("raw figures");
    // MediaMTX may be missing.
    assert!([1, 2].contains(&samples.len()), "{samples:?}");
    for sample in samples {
        assert!(sample["error"].is_null(), "{sample}");
        let found = &sample["found"];
        assert!(found["memory_mib"].as_f64() > Some(0.0), "{sample}");
        assert!(found["usual"]["pictures"].as_u64() > Some(0), "{sample}");
        assert_eq!(found["usual"]["without"], 0, "{sample}");
        assert_eq!(found["unanswered"], 0, "{sample}");
        for calls in ["loaded", "idle"] {
            assert!(found[calls]["max_us"].as_f64() > Some(0.0), "{sample}");
        }
    }
}

#[test]
fn a_split_is_read_every_tenth_of_a_second() {
    for runtime in LINKED {
        let args = ["split", runtime, "--weights", "1,2", "--seconds", "0.3"];
        let hogs = ["--hogs", "1", "--hog-poll-us", "never", "--hogs-in", "0"];
        // A hog that never returns keeps the only worker of a runtime without hand-off.
        for (more, workers) in [(&[][..], "1"), (&hogs[..], "2")] {
            let mut split = lab();
            split.args(args).args(more).args(["--workers", workers]);
            let output = split.output().expect("the lab starts");
            let words = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{runtime}: {words}");
            let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
            let readings = found["readings"].as_array().expect("readings");
            assert!(readings.len() >= 2, "{found}");
            let work = |reading: &serde_json::Value| -> u64 {
                let classes = reading["work_us"].as_array().expect("classes");
                assert_eq!(classes.len(), 2);
                classes
                    .iter()
                    .map(|us| us.as_u64().expect("a number"))
                    .sum()
            };
            // Also what never returns is counted as it goes.
            assert!(
                work(&readings[readings.len() - 1]) > work(&readings[0]),
                "{found}"
            );
            assert_eq!(readings[0]["run_us"].is_array(), runtime == "evenkeel");
        }
    }
}

#[test]
fn a_split_that_cannot_be_is_said_clearly() {
    for (args, complaint) in [
        (
            &["tokio", "--weights", "0"][..],
            "`0` is not a weight from 1 to 10000",
        ),
        (
            &["tokio", "--weights", "1,1", "--hogs-in", "2"],
            "there are 2 classes",
        ),
        (&["os-thread"], "has no runtime"),
    ] {
        let output = lab()
            .arg("split")
            .args(args)
            .output()
            .expect("the lab starts");
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{args:?}");
        assert!(words.contains(complaint), "{args:?}: {words}");
    }
}

#[test]
fn an_interrupted_run_leaves_no_process_behind() {
    for signal in ["TERM", "INT", "KILL"] {
        let mut command = lab();
        command.args(["responsive", "--seconds", "30", "--peers", "tokio"]);
        let mut run = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        let mut seen = BTreeSet::new();
        eventually("a server and its load run", || {
            seen = descendants(run.id());
            seen.len() >= 2
        });
        // Between two measurements the lab may be starting the next pair.
        std::thread::sleep(Duration::from_millis(50));
        seen.extend(descendants(run.id()));
        let sent = Command::new("kill")
            .args(["-s", signal, &run.id().to_string()])
            .status();
        assert!(sent.is_ok_and(|status| status.success()));
        assert!(!common::wait(&mut run).success(), "SIG{signal}");
        for pid in seen {
            eventually(&format!("SIG{signal} ends process {pid}"), || is_gone(pid));
        }
    }
}

/// The processes that `ancestor` has started, and those that these have.
fn descendants(ancestor: u32) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut ask = vec![ancestor];
    while let Some(pid) = ask.pop() {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task"))
            .into_iter()
            .flatten()
            .flatten();
        for thread in threads {
            let children = std::fs::read_to_string(thread.path().join("children"));
            for child in children.unwrap_or_default().split_whitespace() {
                let child = child.parse().expect("a number");
                if found.insert(child) {
                    ask.push(child);
                }
            }
        }
    }
    found
}
