//! Prometheus scrapes a server, with a token if it has to, and every query of the dashboard and of
//! the autoscaler has an answer. Alerts fire as their tests say. Passes without looking where
//! Prometheus is not installed.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use evenkeel::Class;
use evenkeel::net::TcpStream;
use evenkeel_admin::{Admin, listen};
use support::{LIMIT, runtime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");

/// A Prometheus with a directory of its own; ends when this is dropped.
struct Prometheus {
    process: Child,
    directory: PathBuf,
    address: String,
}

/// A directory of its own.
fn directory(name: &str) -> PathBuf {
    let name = format!("evenkeel-prometheus-{name}-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// The configuration that scrapes this server.
fn scrapes(target: &str) -> String {
    format!("scrape_configs: [{{job_name: app, static_configs: [{{targets: ['{target}']}}]}}]\n")
}

impl Prometheus {
    fn start(directory: PathBuf, scrapes: &str) -> Option<Self> {
        let address = free_address();
        let rules = Path::new(DEPLOY).join("alerts.yml");
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
             rule_files: ['{}']\n\
             {scrapes}",
            rules.display()
        );
        let file = directory.join("prometheus.yml");
        fs::write(&file, config).unwrap();
        let started = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                directory.join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match started {
            Ok(process) => Some(Self {
                process,
                directory,
                address,
            }),
            Err(error) => {
                eprintln!("prometheus cannot be started, so nothing is scraped: {error}");
                let _ = fs::remove_dir_all(directory);
                None
            }
        }
    }

    /// The series that a query has; `None` while there is no answer.
    async fn series(&self, query: &str) -> Option<Vec<serde_json::Value>> {
        let query: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let path = format!("/api/v1/query?query={query}");
        let text = self.get(&path).await.ok()?;
        let json: serde_json::Value = serde_json::from_str(&text).ok()?;
        assert_eq!(json["status"], "success", "{json}");
        json["data"]["result"].as_array().cloned()
    }

    async fn get(&self, path: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(&*self.address).await?;
        let request = format!("GET {path} HTTP/1.0\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        let (_, body) = text.split_once("\r\n\r\n").unwrap_or_default();
        Ok(body.to_owned())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// One that was free a moment ago.
fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

/// The queries of the dashboard, over all jobs and a window that a short test fills.
fn dashboard() -> Vec<String> {
    let text = fs::read_to_string(Path::new(DEPLOY).join("grafana.json")).unwrap();
    let board: serde_json::Value = serde_json::from_str(&text).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap());
    let queries = targets.map(|target| target["expr"].as_str().unwrap().to_owned());
    let fill = |query: String| {
        let query = query.replace("$__rate_interval", "10s");
        query.replace("$job", ".*").replace("$instance", ".*")
    };
    queries.map(fill).collect()
}

/// What the autoscaler's rules ask.
fn autoscaling() -> Vec<String> {
    let text = fs::read_to_string(Path::new(DEPLOY).join("autoscaling.yml")).unwrap();
    let rules = text.split("metricsQuery: |\n").skip(1);
    let queries = rules.map(|rule| {
        let end = rule.find("\n      - series").or_else(|| rule.find("\n---"));
        let query = rule[..end.unwrap()]
            .replace(",<<.LabelMatchers>>", "")
            .replace("<<.LabelMatchers>>", "");
        query
            .replace("<<.GroupBy>>", "job")
            .replace("[1m]", "[10s]")
    });
    queries.collect()
}

/// Work of each sort, so that each query has something to say.
async fn work() {
    loop {
        evenkeel::spawn_in(Class::BULK, async {}).await.unwrap();
        evenkeel::spawn_blocking(|| ()).await.unwrap();
        evenkeel::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn all_answer(admin: &Admin) {
    let scrapes = scrapes(&admin.address());
    let Some(prometheus) = Prometheus::start(directory("queries"), &scrapes) else {
        return;
    };
    let mut missing = dashboard();
    assert!(missing.len() > 20, "{missing:?}");
    let autoscaling = autoscaling();
    assert_eq!(autoscaling.len(), 2, "utilisation and occupancy");
    missing.extend(autoscaling);
    let began = Instant::now();
    while !missing.is_empty() {
        assert!(began.elapsed() < LIMIT, "no series for {missing:#?}");
        evenkeel::time::sleep(Duration::from_millis(500)).await;
        let mut still = Vec::new();
        for query in missing {
            let series = prometheus.series(&query).await;
            if series.is_none_or(|series| series.is_empty()) {
                still.push(query);
            }
        }
        missing = still;
    }
    let rules = prometheus.get("/api/v1/rules").await.unwrap();
    assert!(rules.contains("EvenkeelStarvation"), "{rules}");
    assert!(!rules.contains("\"health\":\"err\""), "{rules}");
}

#[test]
fn each_query_of_the_dashboard_and_of_the_autoscaler_has_an_answer() {
    runtime().block_on(async {
        let admin = listen("127.0.0.1:0").await.unwrap();
        evenkeel::spawn(work());
        all_answer(&admin).await;
    });
}

/// The block of YAML in the page on deployment.
fn configuration() -> String {
    let page = fs::read_to_string(Path::new(DEPLOY).join("README.md")).unwrap();
    let (_, block) = page.split_once("```yaml\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    block.to_owned()
}

/// Runs `promtool`. `None` where it is not installed.
fn promtool(arguments: &[&str]) -> Option<Output> {
    match Command::new("promtool").args(arguments).output() {
        Ok(output) => Some(output),
        Err(error) => {
            eprintln!("promtool cannot be started, so nothing is checked: {error}");
            None
        }
    }
}

#[test]
fn a_server_with_a_token_is_scraped_by_who_sends_it() {
    const TOKEN: &str = "correct-horse";
    let directory = directory("token");
    let token = directory.join("token");
    fs::write(&token, TOKEN).unwrap();
    let in_cluster = "/etc/prometheus/secrets/admin/token";
    let whole = configuration().replace(in_cluster, token.to_str().unwrap());
    // Some distributions leave Kubernetes out of Prometheus.
    let in_kubernetes = "    kubernetes_sd_configs:\n      - role: pod\n";
    let parts = whole.split_once(in_kubernetes);
    let (scrapes, relabels) = parts.expect("pods of Kubernetes");
    let file = directory.join("rest.yml");
    fs::write(&file, format!("{scrapes}{relabels}")).unwrap();
    if let Some(checked) = promtool(&["check", "config", file.to_str().unwrap()]) {
        assert!(checked.status.success(), "{checked:?}");
    }
    runtime().block_on(async {
        let builder = evenkeel_admin::Builder::new().token(TOKEN);
        let admin = builder.listen("127.0.0.1:0").await.unwrap();
        // The server is here, and not where Kubernetes says.
        let target = admin.address();
        let here = format!("{scrapes}    static_configs: [{{targets: ['{target}']}}]\n");
        let Some(prometheus) = Prometheus::start(directory, &here) else {
            return;
        };
        let began = Instant::now();
        // Whether the last scrape came through.
        let up = async || {
            let series = prometheus.series("up").await.unwrap_or_default();
            series.first().map(|it| it["value"][1].clone())
        };
        // A scrape may come too late on a busy machine; one without the token never comes through.
        while up().await.is_none_or(|up| up != "1") {
            assert!(began.elapsed() < LIMIT, "it was not scraped");
            evenkeel::time::sleep(Duration::from_millis(100)).await;
        }
    });
}

#[test]
fn the_alerts_fire_as_their_tests_say() {
    let tests = Path::new(DEPLOY).join("alerts_test.yml");
    if let Some(tested) = promtool(&["test", "rules", tests.to_str().unwrap()]) {
        assert!(tested.status.success(), "{tested:?}");
    }
}
