//! What is open: the sockets of listeners, with the tasks that take connections from them, and the
//! socket for operators.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::Class;
use evenkeel::task::JoinHandle;
use evenkeel::time::timeout;
use tokio::sync::watch;

use super::accept::{self, Stop};
use super::{Context, Place, ServerError, Site};
use crate::admin;
use crate::config::{self, Config};
use crate::listener::Listener;

/// How long a listener may take to end: a little longer than it takes those that wait in its
/// backlog. One whose connection waits for a place of the process ends later, by itself.
const END_MAX: Duration = Duration::from_secs(2);

/// What is open.
#[derive(Debug, Default)]
pub(super) struct Open {
    pub(super) listeners: BTreeMap<Place, Running>,
    pub(super) admin: Option<admin::Socket>,
    /// What still takes connections of listeners that are gone.
    ending: Vec<JoinHandle<()>>,
}

/// A listener at work.
#[derive(Debug)]
pub(super) struct Running {
    shown: String,
    /// One, or one for each worker.
    pub(super) sockets: Vec<Arc<Listener>>,
    /// Tasks that have not seen what it says yet may outlive this.
    stop: watch::Sender<Stop>,
    accepting: Vec<JoinHandle<()>>,
}

impl Open {
    /// The names of the listeners, and where they listen.
    pub(super) fn listening(&self, site: &Site) -> Vec<(String, String)> {
        let shown = |(place, running): (&Place, &Running)| {
            let front = site.fronts.get(place)?;
            Some((front.name.to_string(), running.shown.clone()))
        };
        self.listeners.iter().filter_map(shown).collect()
    }

    /// Has connections that come use the congestion control that this configuration says.
    pub(super) fn set_congestion_control(&self, config: &Config) -> Result<(), ServerError> {
        self.controlled(config).try_for_each(|set| set)
    }

    /// The same for each of them that the system lets have it, after a change that came to nothing.
    /// Those that went by the system's keep the one that it has now, until a reload.
    pub(super) fn restore_congestion_control(&self, config: &Config) {
        self.controlled(config).for_each(drop);
    }

    fn controlled(&self, config: &Config) -> impl Iterator<Item = Result<(), ServerError>> {
        config.listeners.iter().filter_map(|(name, listener)| {
            let listener = listener.get_ref();
            let place = Place::new(name, listener.bind.get_ref());
            let sockets = &self.listeners.get(&place)?.sockets;
            Some(set_congestion_control(name, sockets, listener))
        })
    }

    /// Closes those of which this is not so, and waits for what they still take.
    pub(super) async fn retain(&mut self, stays: impl Fn(&Place) -> bool) {
        let gone: Vec<Running> = self
            .listeners
            .extract_if(.., |place, _| !stays(place))
            .map(|(_, running)| running)
            .collect();
        // All at the same time.
        for running in &gone {
            running.stop(Stop::Close);
        }
        for running in gone {
            let left = running.ended().await;
            self.ending.extend(left);
        }
        self.ending.retain(|accepting| !accepting.is_finished());
    }

    /// Lets another process have a listener, with its sockets and the files of Unix sockets.
    pub(super) fn hand_over(&mut self, running: Running) {
        for socket in &running.sockets {
            socket.leave_file();
        }
        running.stop(Stop::HandOver);
        self.ending.extend(running.accepting);
    }

    /// What may still have a connection for which it waits for a place.
    pub(super) fn take_ending(&mut self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut self.ending)
    }

    /// Closes all.
    pub(super) async fn close_listeners(&mut self) {
        self.retain(|_| false).await;
    }
}

pub(super) fn set_congestion_control<S: Borrow<Listener>>(
    name: &str,
    sockets: &[S],
    listener: &config::Listener,
) -> Result<(), ServerError> {
    let control = &listener.congestion_control;
    let mut sockets = sockets.iter().map(S::borrow);
    let set = sockets.try_for_each(|socket| socket.set_congestion_control(control));
    set.map_err(|error| ServerError::CongestionControl {
        name: name.to_owned(),
        error,
    })
}

impl Running {
    /// Takes connections from these sockets.
    pub(super) fn begin(context: &Arc<Context>, place: &Place, sockets: Vec<Listener>) -> Self {
        let shown = sockets.first().map(Listener::shown).unwrap_or_default();
        sockets.iter().for_each(Listener::take_file);
        let sockets: Vec<Arc<Listener>> = sockets.into_iter().map(Arc::new).collect();
        let stop = watch::Sender::new(Stop::Not);
        let accept = |socket: &Arc<Listener>| {
            let (context, socket) = (Arc::clone(context), Arc::clone(socket));
            let accepting = accept::run(context, place.clone(), socket, stop.subscribe());
            // In no class of an operator's, who may have asked for it.
            evenkeel::spawn_in(Class::NORMAL, accepting)
        };
        Self {
            shown,
            accepting: sockets.iter().map(accept).collect(),
            sockets,
            stop,
        }
    }

    fn stop(&self, how: Stop) {
        self.stop.send_replace(how);
    }

    /// Returns those that have not ended in time.
    async fn ended(mut self) -> Vec<JoinHandle<()>> {
        // The last one that has it closes it.
        drop(self.sockets);
        let all = async {
            for accepting in &mut self.accepting {
                let _ = accepting.await;
            }
        };
        let _ = timeout(END_MAX, all).await;
        self.accepting.retain(|accepting| !accepting.is_finished());
        self.accepting
    }
}
