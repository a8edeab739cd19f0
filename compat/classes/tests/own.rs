//! Classes of the program's own beneath Tokio. With `EVENKEEL=off` in the environment, there are
//! none.

use std::process::{Command, Output};
use std::sync::LazyLock;
use std::time::Duration;

use classes::{answer, own_routes};
use evenkeel::runtime::Handle;
use evenkeel::{Class, ClassConfig, ClassError, task};
use tokio::runtime::{Builder, Runtime};

/// Longer than any test takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Defined before the first runtime of the process, whichever test that is in.
static VIDEO: LazyLock<Class> = LazyLock::new(|| {
    let video = Class::define("video", ClassConfig::new().share(40));
    video.expect("there is no runtime yet")
});

fn is_on() -> bool {
    std::env::var_os("EVENKEEL").is_none_or(|value| value != "off")
}

/// The class, and a runtime that has it: a current-thread one, where these are Evenkeel's, too.
fn prepare() -> (Class, Runtime) {
    let video = *VIDEO;
    let is_forced = std::env::var_os("EVENKEEL_FORCE").is_some_and(|value| value == "1");
    let mut builder = match is_forced {
        true => Builder::new_current_thread(),
        false => Builder::new_multi_thread(),
    };
    (video, builder.enable_all().build().unwrap())
}

/// Runs the program with these settings.
fn run(settings: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_classes"));
    command.env("EVENKEEL_SETTINGS", settings).output().unwrap()
}

#[test]
fn a_route_is_in_a_class_that_the_program_has_defined() {
    let (video, runtime) = prepare();
    let asked = async {
        let answer = answer(own_routes(video), "/video", "");
        let answer = tokio::time::timeout(LIMIT, answer).await.unwrap();
        assert_eq!(answer.unwrap(), format!("{:?}", is_on().then_some(video)));
        is_on().then(|| Handle::current().stats().classes.swap_remove(video.index()))
    };
    if let Some(accounts) = runtime.block_on(asked) {
        assert_eq!((accounts.class, &*accounts.name), (video, "video"));
        assert!(accounts.polls > 0, "{accounts:?}");
    }
}

#[test]
fn every_runtime_has_it() {
    let runtimes = [(); 2].map(|()| prepare());
    if !is_on() {
        return;
    }
    for (video, runtime) in &runtimes {
        let infos = runtime.block_on(async { Handle::current().classes() });
        let own = &infos[video.index()];
        assert_eq!((infos.len(), &*own.name, own.share), (4, "video", 40));
        let spawned = runtime.block_on(async {
            let spawned = evenkeel::spawn_in(*video, async {
                tokio::spawn(async { task::class() }).await.unwrap()
            });
            tokio::time::timeout(LIMIT, spawned).await.unwrap().unwrap()
        });
        assert_eq!(spawned, Some(*video));
    }
}

#[test]
fn once_there_is_a_runtime_none_is_defined() {
    let (_, runtime) = prepare();
    let late = Class::define("late", ClassConfig::new());
    assert_eq!(
        late.err(),
        is_on().then(|| ClassError::TooLate("late".into()))
    );
    drop(runtime);
}

#[test]
fn whoever_operates_the_program_adds_classes() {
    let output = run("class.gold.share=80, classes=gold");
    let said = String::from_utf8_lossy(&output.stdout);
    let [video, gold] = match is_on() {
        true => ["Some(class 3)", "Some(class 4)"],
        false => ["None"; 2],
    };
    let expected = format!("/video: {video}\n/plan: {gold}\n");
    assert!(said.ends_with(&expected), "{output:?}");
}

#[test]
fn the_programs_classes_can_be_set_and_not_be_added_again() {
    let set = run("class.video.share=7");
    assert!(set.status.success(), "{set:?}");
    if !is_on() {
        return;
    }
    let again = run("classes=video");
    let said = String::from_utf8_lossy(&again.stderr);
    let parts = ["EVENKEEL_SETTINGS cannot be used", "class `video` already"];
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
}
