//! `txlog verify`.

use std::process::ExitCode;

use txlog::log::{LocalDisk, verify};

use super::{Outcome, VerifyArguments};

pub(crate) async fn run(arguments: VerifyArguments) -> Outcome {
    let disk = LocalDisk::borrow(&arguments.dir);
    let found = verify(&disk, |segment, first, records| {
        let records = super::numbers(first, first + records);
        println!("{segment}: {records}, all whole");
    })
    .await;
    let found = found.map_err(|error| super::of_directory(&arguments.dir, &error))?;
    if found.segments == 0 {
        let directory = arguments.dir.display();
        let what = "holds no log; give the directory that `txlog serve --dir` has";
        return Err(format!("{directory} {what}").into());
    }
    println!("whole in all: {}", super::numbers(found.first, found.next));
    if let Some(torn) = &found.torn {
        println!(
            "{torn}; the next `serve` cuts it off, as the rest of a write that a crash interrupted"
        );
    }
    Ok(ExitCode::SUCCESS)
}
