//! A lane that gets no thread.

use crate::blocking::Lane;
use crate::runtime::Runtime;
use crate::time::timeout;

use super::*;

/// The other threads may hang, and then nobody else checks how long work has waited.
#[test]
fn work_whose_thread_was_not_to_be_had_waits_no_longer_than_it_may() {
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let lane = Lane::builder("lonely")
            .wait_limit(Duration::from_millis(50))
            .build()
            .unwrap();
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let hanging = lane.run(move || _ = held.recv());
        let (core, shared) = lane.parts();
        while core.stats().busy == 0 {
            crate::time::sleep(Duration::from_millis(1)).await;
        }
        let (task, join) = crate::blocking::new_work(core, Location::caller(), None, || ());
        let job = Job {
            task,
            kept: false,
            patient: false,
            busy: Busy::new(shared),
        };
        // As if a second one had been called.
        {
            let mut state = core.state.lock();
            let now = shared.clock.cycles();
            assert!(state.order.push(now, Class::NORMAL, job).is_ok());
            state.threads += 1;
        }
        core.give_up_thread(shared, std::io::ErrorKind::WouldBlock);
        let failed = timeout(Duration::from_secs(30), join).await;
        let error = LaneError::from_join(failed.unwrap().unwrap_err(), core.name());
        assert!(matches!(error, LaneError::WaitedTooLong { .. }), "{error}");
        drop(hold);
        hanging.await.unwrap();
    });
}

/// Such as the removal of a file: nobody else would do it.
#[test]
fn cleanup_is_done_even_if_there_is_no_thread() {
    let runtime = Runtime::new().unwrap();
    let lane = runtime.block_on(async { Lane::builder("lonely").build().unwrap() });
    let (core, shared) = lane.parts();
    // As if a thread had been called.
    {
        let mut state = core.state.lock();
        state.threads += 1;
        state.coming += 1;
    }
    let (tell, told) = std::sync::mpsc::channel();
    let tidy = move || tell.send(()).unwrap();
    let (task, _join) = crate::blocking::new_work(core, Location::caller(), None, tidy);
    core.submit_anyway(shared, task);
    core.state.lock().coming -= 1;
    core.give_up_thread(shared, std::io::ErrorKind::WouldBlock);
    told.recv().unwrap();
    assert!(core.is_empty());
}

/// The payload of a panic in a hook; its drop comes back to the lane.
struct Payload(Arc<Core>, std::sync::mpsc::Sender<bool>);

impl Drop for Payload {
    fn drop(&mut self) {
        let _ = self.1.send(self.0.state.try_lock().is_some());
    }
}

#[test]
fn what_a_thread_panicked_with_is_dropped_under_no_lock() {
    let runtime = Runtime::new().unwrap();
    let lane = runtime.block_on(async { Lane::builder("panics").build().unwrap() });
    let (core, _) = lane.parts();
    let (tell, told) = std::sync::mpsc::channel();
    let payload = Payload(Arc::clone(core), tell);
    let panics = thread::spawn(move || std::panic::resume_unwind(Box::new(payload)));
    while !panics.is_finished() {
        thread::yield_now();
    }
    core.keep_track(panics);
    core.keep_track(thread::spawn(|| ()));
    assert!(told.recv().unwrap(), "it was dropped under the lane's lock");
}
