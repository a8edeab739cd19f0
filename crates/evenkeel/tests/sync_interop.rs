//! `tokio::sync`, which needs no runtime, across tasks of this one.

mod support;

use std::sync::Arc;

use support::within;
use tokio::sync::{Barrier, Mutex, Notify, Semaphore, broadcast, mpsc, oneshot, watch};

#[evenkeel::test]
async fn a_bounded_channel_makes_its_senders_wait() {
    support::watch_descriptors();
    let (sender, mut receiver) = mpsc::channel(2);
    for first in 0..4u32 {
        let sender = sender.clone();
        evenkeel::spawn(async move {
            for number in 0..100 {
                sender.send(first * 100 + number).await.unwrap();
            }
        });
    }
    drop(sender);
    let mut seen = Vec::new();
    while let Some(number) = within(receiver.recv()).await {
        seen.push(number);
    }
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..400));
}

#[evenkeel::test]
async fn answers_come_through_oneshots() {
    support::watch_descriptors();
    let (questions, mut inbox) = mpsc::unbounded_channel::<(u32, oneshot::Sender<u32>)>();
    evenkeel::spawn(async move {
        while let Some((number, answer)) = inbox.recv().await {
            answer.send(number * 2).unwrap();
        }
    });
    for number in 0..50 {
        let (answer, answered) = oneshot::channel();
        questions.send((number, answer)).unwrap();
        assert_eq!(within(answered).await.unwrap(), number * 2);
    }
    let (answer, answered) = oneshot::channel::<u32>();
    drop(answer);
    within(answered).await.unwrap_err();
}

#[evenkeel::test]
async fn locks_exclude_and_semaphores_count() {
    support::watch_descriptors();
    let total = Arc::new(Mutex::new(0));
    let seats = Arc::new(Semaphore::new(3));
    let mut tasks = Vec::new();
    for _ in 0..16 {
        let (total, seats) = (total.clone(), seats.clone());
        tasks.push(evenkeel::spawn(async move {
            let _seat = seats.acquire().await.unwrap();
            for _ in 0..50 {
                let mut total = total.lock().await;
                let before = *total;
                evenkeel::task::yield_now().await;
                *total = before + 1;
            }
        }));
    }
    for task in tasks {
        within(task).await.unwrap();
    }
    assert_eq!(*total.lock().await, 16 * 50);
    assert_eq!(seats.available_permits(), 3);
}

#[evenkeel::test]
async fn news_reach_everyone() {
    support::watch_descriptors();
    let (news, _) = broadcast::channel(16);
    let (state, watched) = watch::channel(0);
    let ready = Arc::new(Barrier::new(5));
    let done = Arc::new(Notify::new());
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let mut news = news.subscribe();
        let (mut watched, ready, done) = (watched.clone(), ready.clone(), done.clone());
        tasks.push(evenkeel::spawn(async move {
            let notified = done.notified();
            ready.wait().await;
            let mut heard = Vec::new();
            while heard.len() < 10 {
                heard.push(news.recv().await.unwrap());
            }
            watched.wait_for(|state| *state == 7).await.unwrap();
            notified.await;
            heard
        }));
    }
    within(ready.wait()).await;
    for number in 0..10 {
        news.send(number).unwrap();
        state.send(number).unwrap();
    }
    state.send(7).unwrap();
    done.notify_waiters();
    for task in tasks {
        assert!(within(task).await.unwrap().into_iter().eq(0..10));
    }
}
