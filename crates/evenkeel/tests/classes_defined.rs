//! Classes that a program defines for all of its runtimes: one test, as each process has its own
//! first runtime.

use evenkeel::runtime::{Builder, Runtime};
use evenkeel::{Class, ClassConfig, ClassError, task};

/// The classes of a runtime beside the built-in ones, with their shares.
fn own(runtime: &Runtime) -> Vec<(Class, String, u32)> {
    let classes = runtime.handle().classes().into_iter().skip(3);
    classes
        .map(|info| (info.class, info.name, info.share))
        .collect()
}

#[test]
fn every_runtime_has_the_classes_that_were_defined_before_the_first() {
    let video = Class::define("video", ClassConfig::new().share(40)).unwrap();
    let twice = Class::define("video", ClassConfig::new());
    assert_eq!(twice, Err(ClassError::Defined("video".into())));
    let audio = Class::define("audio", ClassConfig::new()).unwrap();

    let one = || {
        let mut builder = Builder::new();
        builder.workers(1);
        builder
    };
    let defined = [(video, "video".into(), 40), (audio, "audio".into(), 50)];
    let first = one().build().unwrap();
    assert_eq!(own(&first), defined);
    let class = first.block_on(first.spawn_in(video, async { task::class() }));
    assert_eq!(class.unwrap(), Some(video));

    // One of the builder's own comes after them, and what it says of theirs holds for it alone.
    let config = ClassConfig::new().share(9);
    let second = one().class("own", config).class("video", config).build();
    let second = own(&second.unwrap());
    assert_eq!(
        second[..2],
        [(video, "video".into(), 9), defined[1].clone()]
    );
    assert_eq!(second[2].1, "own");
    assert_eq!(own(&one().build().unwrap()), defined);

    let late = Class::define("late", ClassConfig::new()).unwrap_err();
    assert_eq!(late, ClassError::TooLate("late".into()));
    let said = late.to_string();
    assert!(
        said.contains("`late`") && said.contains("first in `main`"),
        "{said}"
    );
    let twice = Class::define("video", ClassConfig::new()).unwrap_err();
    let said = twice.to_string();
    assert!(said.contains("`video` already"), "{said}");
}
