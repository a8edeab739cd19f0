//! Dropping a future at any time leaks no descriptor. A process of its own, as it counts them.

#[path = "support/hang.rs"]
mod hang;
#[path = "support/scratch.rs"]
mod scratch;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll};

use evenkeel::fs::{self, File};
use evenkeel::runtime::Runtime;
use hang::{until, watched};
use scratch::Scratch;
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Polls a future until it is ready or was polled this often, and drops it.
async fn for_a_while<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    std::future::poll_fn(move |cx: &mut Context<'_>| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(cx).map(Some)
    })
    .await
}

async fn all_kinds(scratch: &Scratch, name: &str) -> std::io::Result<()> {
    let path = scratch.path(name);
    let mut file = File::create(&path).await?;
    file.write_all(b"some text").await?;
    file.flush().await?;
    file.sync_data().await?;
    file.rewind().await?;
    let clone = file.try_clone().await?;
    clone.write_all_at(vec![1; 5_000], 100).await?;
    drop(clone);
    let mut file = File::open(&path).await?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).await?;
    file.read_exact_at(vec![0; 100], 3).await?;
    fs::replace(&path, "new").await?;
    let mut entries = fs::read_dir(scratch.root()).await?;
    while entries.next_entry().await?.is_some() {}
    fs::sync_dir(scratch.root()).await?;
    fs::remove_file(&path).await
}

#[test]
fn wherever_work_is_given_up_no_descriptor_and_no_draft_is_left() {
    watched("descriptors", || {
        let scratch = Scratch::new("descriptors");
        let runtime = Runtime::new().unwrap();
        runtime.block_on(all_kinds(&scratch, "first")).unwrap();
        let before = descriptors();
        let mut finished = 0;
        for polls in 1..60 {
            let done = runtime.block_on(async {
                let name = format!("file-{polls}");
                for_a_while(all_kinds(&scratch, &name), polls).await
            });
            finished += usize::from(done.is_some());
        }
        assert!(finished > 0, "the last of them are polled often enough");
        until("all closed", || descriptors() == before);
        until("no draft", || {
            let names = std::fs::read_dir(scratch.root()).unwrap();
            let mut names = names.map(|entry| entry.unwrap().file_name());
            names.all(|name| name.to_string_lossy().starts_with("file-"))
        });
        drop(runtime);
    });
}
