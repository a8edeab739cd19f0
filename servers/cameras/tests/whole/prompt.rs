//! Workers of real-time priority: they have it, or the operator is told what to do.

use std::fs;

use servers_common::testing::{self, real_time};

use super::support::Program;

#[test]
fn workers_have_real_time_priority_if_it_is_asked_for() {
    if !real_time::may_have_it() {
        return;
    }
    let in_real_time = |program: &Program| real_time::threads_with_it(program.id()).len();
    assert_eq!(in_real_time(&Program::start("")), 0);
    let program = Program::start_of("real_time = true", "", "");
    // A worker that has been busy for long has it again when it has slept.
    super::support::until("workers have it", || in_real_time(&program) > 0);
}

#[test]
fn where_real_time_priority_is_not_allowed_the_key_and_a_remedy_are_named() {
    let Some(mut command) = real_time::without_leave() else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("cameras.toml");
    fs::write(&file, "[process]\nworkers = 1\nreal_time = true\n").unwrap();
    command.args([env!("CARGO_BIN_EXE_evenkeel-cameras"), "run"]);
    let (is_good, _, said) = testing::Program::run(command.arg(file));
    assert!(!is_good && said.contains("process.real_time"), "{said}");
    assert!(
        said.contains("ulimit -r 2") && said.contains("CAP_SYS_NICE"),
        "{said}"
    );
}
