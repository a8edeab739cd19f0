//! Models of the line.
//!
//! A file whose turn nobody passes on waits for ever, which loom reports: waits have no bound here,
//! but where a model lets time pass.

use super::{LEASE_MS, Turns};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::models::{Role, model, model_with_twins, role, roles, waker_of_this_thread};
use crate::sync::thread;

struct World {
    turns: Turns,
    /// How many files write. Relaxed throughout, so that all order comes from the line.
    writing: AtomicUsize,
}

fn world() -> Arc<World> {
    Arc::new(World {
        turns: Turns::new(1),
        writing: AtomicUsize::new(0),
    })
}

fn part(world: &Arc<World>, act: impl FnOnce(&World) + Send + 'static) -> Role<()> {
    let world = Arc::clone(world);
    role(move || act(&world))
}

fn wait(world: &World, number: u64) {
    let waker = waker_of_this_thread();
    while world.turns.waits(number, &waker) {
        thread::park();
    }
}

/// Waits for a turn, and gives it back.
fn write(world: &World) {
    let number = world.turns.join(0);
    wait(world, number);
    // Relaxed: see `World`.
    let others = world.writing.fetch_add(1, Ordering::Relaxed);
    assert_eq!(others, 0, "two write at a time");
    world.turns.go_on(number);
    world.writing.fetch_sub(1, Ordering::Relaxed);
    world.turns.leave(number, 0);
}

/// Asks once and leaves.
fn give_up(world: &World) {
    let number = world.turns.join(0);
    let _ = world.turns.waits(number, &waker_of_this_thread());
    world.turns.leave(number, 0);
}

#[test]
fn writers_take_turns() {
    model_with_twins(|| {
        let world = world();
        let parts = [part(&world, write), part(&world, write)];
        roles(parts, move |_| assert_eq!(world.turns.taken(), (0, 0)))
    });
}

#[test]
fn who_gives_up_passes_on_what_it_was_given() {
    model(|| {
        let world = world();
        let parts = [
            part(&world, write),
            part(&world, give_up),
            part(&world, write),
        ];
        roles(parts, move |_| assert_eq!(world.turns.taken(), (0, 0)))
    });
}

#[test]
fn what_is_overdue_is_passed_on_by_who_comes() {
    model(|| {
        let world = world();
        // Hangs: its turn is never given back.
        let hung = world.turns.join(0);
        world.turns.go_on(hung);
        let first = world.turns.join(0);
        let parts = [
            part(&world, move |world| {
                wait(world, first);
                world.turns.leave(first, LEASE_MS);
            }),
            part(&world, |world| {
                let late = world.turns.join(LEASE_MS);
                wait(world, late);
                world.turns.leave(late, LEASE_MS);
            }),
        ];
        roles(parts, move |_| assert_eq!(world.turns.taken(), (0, 0)))
    });
}
