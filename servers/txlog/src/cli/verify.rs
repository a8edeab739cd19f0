//! `txlog verify`.

use std::process::ExitCode;

use txlog::advice;
use txlog::log::cursors::count_cursors;
use txlog::log::{LocalDisk, damaged_rosters, verify};

use super::{Outcome, VerifyArguments};

pub(crate) async fn run(arguments: VerifyArguments) -> Outcome {
    let disk = LocalDisk::borrow(&arguments.dir);
    let is_live = disk.is_live().await;
    let is_live = is_live.map_err(|error| {
        let shown = arguments.dir.display();
        format!("cannot use {shown}: {}", advice::of_files(&error))
    })?;
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
    let cursors = count_cursors(&disk).await;
    let cursors = cursors.map_err(|error| super::of_directory(&arguments.dir, &error))?;
    if cursors > 0 {
        println!("named cursors: {cursors}");
    }
    let damaged = damaged_rosters(&disk).await;
    for name in damaged.map_err(|error| super::of_directory(&arguments.dir, &error))? {
        println!(
            "{name} is damaged, which a crash can do; no record is lost by it: the next `serve` \
             learns of the producers from the other file, or from the records"
        );
    }
    println!("whole in all: {}", super::numbers(found.first, found.next));
    if is_live {
        println!(
            "a server has this log: its newest file grows while it is read. Records before {} are \
             known to be durable; those behind, and a torn end, may be a write under way",
            found.durable
        );
    } else if let Some(torn) = &found.torn {
        println!(
            "{torn}; the next `serve` cuts it off, as the rest of a write that a crash interrupted"
        );
    }
    Ok(ExitCode::SUCCESS)
}
