//! Alerts on what a server says of itself.

use std::path::Path;
use std::process::Command;

/// Fewer names in a file would mean that they were not found there.
const NAMES_MIN: usize = 4;

/// Requires that `alerts.yml` and `alerts_test.yml` in a directory are about metrics that there
/// are, and, where `promtool` is installed, that the rules fire as their tests say. `page` is a
/// table of the metrics; their names begin with `prefix`.
///
/// # Panics
///
/// If that is not so, or a file cannot be read.
pub fn hold(deploy: &Path, page: &str, prefix: &str) {
    for file in ["alerts.yml", "alerts_test.yml"] {
        let path = deploy.join(file);
        let text = std::fs::read_to_string(&path);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let names = text.split(|c: char| !(c.is_ascii_lowercase() || c == '_'));
        let mut count = 0;
        for name in names.filter(|name| name.starts_with(prefix)) {
            assert!(page.contains(&format!("| `{name}` |")), "{file}: {name}");
            count += 1;
        }
        assert!(count >= NAMES_MIN, "{file} has {count}");
    }
    let mut promtool = Command::new("promtool");
    promtool.args(["test", "rules"]);
    match promtool.arg(deploy.join("alerts_test.yml")).output() {
        Ok(tested) => assert!(tested.status.success(), "{tested:?}"),
        Err(error) => {
            eprintln!("promtool cannot be started, so it is not seen what fires: {error}");
        }
    }
}
