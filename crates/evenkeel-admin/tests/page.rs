//! The page in a real browser. Passes without looking where no chromium is installed.

mod support;

use std::process::{Command, Output};
use std::time::Duration;

use evenkeel::Class;
use evenkeel_admin::{Admin, listen};
use support::runtime;

/// The page as the browser has it, some seconds of its time after it was opened. What is behind a
/// `#` opens parts of it.
async fn look(admin: &Admin, parts: &str) -> Option<String> {
    let url = format!("http://{}/{parts}", admin.address());
    let name = format!(
        "evenkeel-admin-{}-{}",
        std::process::id(),
        admin.address().replace(':', "-")
    );
    let profile = std::env::temp_dir().join(name);
    let directory = format!("--user-data-dir={}", profile.display());
    let run = move || -> Option<Output> {
        let ran = Command::new("chromium")
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--dump-dom",
            ])
            .args(["--virtual-time-budget=8000", "--timeout=60000"])
            .args([&directory, &url])
            .output();
        match ran {
            Ok(output) => Some(output),
            Err(error) => {
                eprintln!("chromium cannot be started, so the page is not looked at: {error}");
                None
            }
        }
    };
    let output = evenkeel::spawn_blocking(run).await.unwrap()?;
    let _ = std::fs::remove_dir_all(profile);
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    Some(page)
}

async fn work() {
    loop {
        evenkeel::spawn_in(Class::BULK, async {}).await.unwrap();
        evenkeel::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn the_page_shows_workers_classes_hogs_and_lanes() {
    runtime().block_on(async {
        let admin = listen("127.0.0.1:0").await.unwrap();
        evenkeel::spawn(work());
        let hog = evenkeel::task::Builder::new()
            .name("computes")
            .spawn(async {
                let began = std::time::Instant::now();
                while began.elapsed() < Duration::from_millis(100) {
                    std::hint::spin_loop();
                }
            });
        hog.await.unwrap();
        let Some(page) = look(&admin, "").await else {
            return;
        };
        for part in [
            "2 workers, utilisation",
            " %, occupancy ",
            "class=\"worker\"",
            "aria-label=\"share of bulk\"",
            "<td>urgent</td>",
            "computes (crates/evenkeel-admin/tests/page.rs:",
            "<td>blocking</td>",
            "<path d=\"M",
        ] {
            assert!(page.contains(part), "{part} is not in\n{page}");
        }
        assert!(!page.contains("no figures"), "{page}");
        assert!(
            !page.contains("NaN") && !page.contains("undefined"),
            "{page}"
        );
    });
}

#[test]
fn the_page_shows_tasks_and_settings_to_who_opens_them() {
    runtime().block_on(async {
        let admin = listen("127.0.0.1:0").await.unwrap();
        let waits = evenkeel::task::Builder::new()
            .name("waits-for-ever")
            .spawn(std::future::pending::<()>());
        evenkeel::spawn(work());
        let Some(page) = look(&admin, "#tasks,settings").await else {
            return;
        };
        for part in [
            "waits-for-ever crates/evenkeel-admin/tests/page.rs:",
            "<td>waiting</td>",
            "aria-label=\"busy wait\"",
            "Hand-off after",
            "aria-label=\"delivery\"",
        ] {
            assert!(page.contains(part), "{part} is not in\n{page}");
        }
        let Some(page) = look(&admin, "").await else {
            return;
        };
        for part in ["waits-for-ever", "Hand-off after"] {
            assert!(!page.contains(part), "{part} is in\n{page}");
        }
        waits.abort();
    });
}

#[test]
fn the_page_asks_for_a_token_where_one_is_needed() {
    runtime().block_on(async {
        let builder = evenkeel_admin::Builder::new().token("correct-horse");
        let admin = builder.listen("127.0.0.1:0").await.unwrap();
        let Some(page) = look(&admin, "").await else {
            return;
        };
        assert!(page.contains("a token is needed"), "{page}");
        assert!(page.contains("<form id=\"login\">"), "it is shown: {page}");
    });
}
