//! Has the files of the configuration read again when they have changed.

use std::time::Duration;

use evenkeel::time::sleep;
use servers_common::watch::look;

use super::Book;

/// Looks at them again and again, for as long as the task is there.
pub async fn watch(book: Book, interval: Duration) {
    let inner = &book.0;
    let files = inner.state.lock().await.files.clone();
    inner.read.note_read(look(&files).await);
    loop {
        sleep(interval).await;
        let files = inner.state.lock().await.files.clone();
        let now = look(&files).await;
        if !inner.read.have_changed(&now) {
            continue;
        }
        match book.reload().await {
            Ok(changes) => {
                eprintln!("evenkeel-cameras: a file has changed, and was read again: {changes}");
            }
            Err(error) => {
                eprintln!(
                    "evenkeel-cameras: a file has changed: {error}\nevenkeel-cameras: nothing was \
                     changed"
                );
                inner.read.note_read(now);
            }
        }
    }
}
