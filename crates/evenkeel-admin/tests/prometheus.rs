//! Prometheus scrapes a server, and every query of the dashboard and of the autoscaler has an
//! answer. Passes without looking where it is not installed.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
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

impl Prometheus {
    fn start(target: &str) -> Option<Self> {
        let name = format!("evenkeel-prometheus-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).unwrap();
        let address = free_address();
        let rules = Path::new(DEPLOY).join("alerts.yml");
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
             rule_files: ['{}']\n\
             scrape_configs: [{{job_name: app, static_configs: [{{targets: ['{target}']}}]}}]\n",
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
    async fn series(&self, query: &str) -> Option<usize> {
        let query: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let path = format!("/api/v1/query?query={query}");
        let text = self.get(&path).await.ok()?;
        let json: serde_json::Value = serde_json::from_str(&text).ok()?;
        assert_eq!(json["status"], "success", "{json}");
        json["data"]["result"].as_array().map(Vec::len)
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
    let Some(prometheus) = Prometheus::start(&admin.address()) else {
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
            if prometheus
                .series(&query)
                .await
                .is_none_or(|series| series == 0)
            {
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
