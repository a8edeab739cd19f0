//! What earlier processes and failures left on a volume, and how much there is.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::super::disk::Disk;
use super::super::names::{day, is_camera};
use super::super::recover::{self, Listed, Recovered};
use super::super::segment::Progress;
use super::{Volume, forget};

/// Segments that could not be written to their end, and are completed later. Those beyond are left
/// to the next start.
const BROKEN_MAX: usize = 1_000;

impl<D: Disk> Volume<D> {
    /// Completes what an earlier process left of a camera: in its newest two days, as the last
    /// segment may have begun before midnight. Returns what is to be said of those that cannot be
    /// completed.
    pub(in super::super) async fn recover(&self, camera: &str) -> io::Result<Option<String>> {
        let (path, mut trouble) = (Path::new(camera), None);
        for day_ms in recover::days(&self.disk, path)
            .await?
            .into_iter()
            .rev()
            .take(2)
        {
            let directory = path.join(day(day_ms));
            let written = self.open_of(camera);
            let is_left = |start_ms| !written.iter().any(|it| it.start_ms == start_ms);
            let recovered = recover::recover(&self.disk, &directory, is_left).await?;
            trouble = trouble.or(said(&directory, &recovered));
            let day = Listed::of(&self.disk.list(&directory).await?).day();
            self.state().holdings.set_day(camera, day_ms, day);
        }
        Ok(trouble)
    }

    /// A segment is no longer written, and could not be ended. It is completed when the disk does
    /// what it is asked again.
    pub(in super::super) fn broke(&self, camera: &str, progress: &Arc<Progress>) {
        let mut state = self.state();
        if state.broken.len() < BROKEN_MAX {
            let broken = (camera.to_owned(), Arc::clone(progress));
            state.broken.push(broken);
        } else {
            forget(&mut state, camera, progress);
        }
    }

    /// Completes segments that could not be ended. Those of which that fails again are left to the
    /// next round.
    pub(super) async fn complete_broken(&self) {
        let broken = std::mem::take(&mut self.state().broken);
        for (camera, progress) in broken {
            let start_ms = progress.start_ms;
            let directory = Path::new(&camera).join(day(start_ms));
            let completed = recover::complete(&self.disk, &directory, start_ms).await;
            let mut state = self.state();
            match completed {
                Ok(closed) => {
                    forget(&mut state, &camera, &progress);
                    if let Some(closed) = closed {
                        state.holdings.add(&camera, closed);
                        drop(state);
                        if let Some(tier) = self.tier() {
                            tier.completed(&camera, closed.start_ms);
                        }
                        self.complete.notify_one();
                    }
                }
                // Somebody else has taken it away.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    forget(&mut state, &camera, &progress);
                }
                Err(error) => {
                    state.error = Some(format!("cannot complete a segment of {camera}: {error}"));
                    state.broken.push((camera, progress));
                }
            }
        }
    }

    /// Counts what is there and was not counted, of cameras that are configured and others. One
    /// that cannot be listed holds up no other one.
    pub(super) async fn count(&self) -> io::Result<()> {
        if self.state().is_counted {
            return Ok(());
        }
        let known = self.state().uncounted.clone();
        let cameras = match known {
            Some(cameras) => cameras,
            None => self.disk.list(Path::new("")).await?,
        };
        let (mut uncounted, mut failed) = (Vec::new(), None);
        for camera in cameras {
            if !is_camera(&camera) {
                continue;
            }
            if let Err(error) = self.count_one(&camera).await {
                failed.get_or_insert_with(|| named(&camera, &error));
                uncounted.push(camera);
            }
        }
        let mut state = self.state();
        state.is_counted = uncounted.is_empty();
        state.uncounted = Some(uncounted);
        failed.map_or(Ok(()), Err)
    }

    /// The newest two days of a camera that is configured are counted when they are recovered, as
    /// new segments come into them meanwhile. Of others, what an earlier process left is completed
    /// here.
    async fn count_one(&self, camera: &str) -> io::Result<()> {
        let path = Path::new(camera);
        let known = self.state().open.contains_key(camera);
        let days = recover::days(&self.disk, path).await?;
        let settled = if known {
            days.len().saturating_sub(2)
        } else {
            days.len()
        };
        for &day_ms in &days[..settled] {
            let directory = path.join(day(day_ms));
            let mut listed = Listed::of(&self.disk.list(&directory).await?);
            if !listed.open.is_empty() {
                // It may have been added since, and be written now.
                let written = self.open_of(camera);
                let is_left = |start_ms| {
                    start_ms < self.began_ms && !written.iter().any(|it| it.start_ms == start_ms)
                };
                recover::recover(&self.disk, &directory, is_left).await?;
                listed = Listed::of(&self.disk.list(&directory).await?);
            }
            self.state().holdings.set_day(camera, day_ms, listed.day());
        }
        if !known {
            self.set_limits(camera, self.others);
        }
        Ok(())
    }
}

/// What is to be said of segments that cannot be completed.
fn said(directory: &Path, recovered: &Recovered) -> Option<String> {
    let (first, error) = (recovered.failed.first()?, recovered.error.as_ref()?);
    Some(format!(
        "cannot complete {} segments in {}, of which the first begins at {first}: {error}; they \
         are left as they are",
        recovered.failed.len(),
        directory.display()
    ))
}

fn named(camera: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{camera}: {error}"))
}
