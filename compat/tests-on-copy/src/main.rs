//! Builds a runtime as a service would, and prints what there is to see of it, a fact a line.

use std::time::Duration;

fn main() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("probe")
        .enable_all()
        .build()?;
    println!("workers: {}", runtime.metrics().num_workers());
    let names = runtime.block_on(async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let tasks = std::fs::read_dir("/proc/self/task")?;
        let names = tasks
            .flatten()
            .map(|task| std::fs::read_to_string(task.path().join("comm")));
        names.collect::<Result<Vec<_>, _>>()
    })?;
    for name in names {
        println!("thread: {}", name.trim());
    }
    // More work than one thread of the pool may do at once, if it may have only one.
    let most = runtime.block_on(async {
        let running = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
        let pieces = [(); 3].map(|()| {
            let running = running.clone();
            tokio::task::spawn_blocking(move || {
                running.add_permits(1);
                std::thread::sleep(Duration::from_millis(100));
                let at_once = running.available_permits();
                running.forget_permits(1);
                at_once
            })
        });
        let mut most = 0;
        for piece in pieces {
            most = most.max(piece.await.unwrap_or(0));
        }
        most
    });
    println!("blocking at once: {most}");
    Ok(())
}
