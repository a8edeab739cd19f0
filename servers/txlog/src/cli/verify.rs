//! `txlog verify`.

use std::process::ExitCode;

use txlog::log::{LocalDisk, verify};

use super::{Outcome, VerifyArguments};

pub(crate) async fn run(arguments: VerifyArguments) -> Outcome {
    let disk = LocalDisk::borrow(&arguments.dir);
    let found = verify(&disk, |segment, first, records| {
        println!("{segment}: {records} records from {first} on, all whole");
    })
    .await?;
    if found.segments == 0 {
        return Err(format!("{} holds no log", arguments.dir.display()).into());
    }
    println!(
        "{} records, from {} to before {}",
        found.next - found.first,
        found.first,
        found.next
    );
    if let Some(torn) = &found.torn {
        println!(
            "{torn}; the next `serve` cuts it off, as what a crash left of an unfinished write"
        );
    }
    Ok(ExitCode::SUCCESS)
}
