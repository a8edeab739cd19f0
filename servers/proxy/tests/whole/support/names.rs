//! A server of names.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hickory_resolver::proto::op::{Message, MessageType, OpCode, ResponseCode};
use hickory_resolver::proto::rr::rdata::{A, SRV};
use hickory_resolver::proto::rr::{Name, RData, Record};

/// Answers by what a test says, on a thread that ends with it.
pub(crate) struct Names {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
    answering: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    ends: AtomicBool,
    asked: AtomicUsize,
    is_silent: AtomicBool,
    unanswered: Mutex<Option<Name>>,
    asked_for: Mutex<BTreeMap<Name, usize>>,
    ttl: AtomicUsize,
    known: Mutex<BTreeMap<Name, Vec<RData>>>,
}

impl Names {
    /// One that knows no name yet. Its answers hold for so many seconds.
    pub(crate) fn new(ttl: usize) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(20)))
            .unwrap();
        let address = socket.local_addr().unwrap();
        let state = Arc::new(State::default());
        state.ttl.store(ttl, Ordering::SeqCst);
        let shared = Arc::clone(&state);
        let answering = thread::spawn(move || {
            let mut buffer = [0; 4_096];
            while !shared.ends.load(Ordering::SeqCst) {
                let Ok((length, from)) = socket.recv_from(&mut buffer) else {
                    continue;
                };
                shared.asked.fetch_add(1, Ordering::SeqCst);
                if let Some(answer) = shared.answer(&buffer[..length]) {
                    socket.send_to(&answer, from).unwrap();
                }
            }
        });
        Self {
            address,
            state,
            answering: Some(answering),
        }
    }

    /// How it stands in a configuration, with more of the table.
    pub(crate) fn config(&self, more: &str) -> String {
        let address = self.address.to_string();
        format!("[resolver]\nservers = [{address:?}]\ntimeout = \"1s\"\n{more}\n")
    }

    /// A host has this address, or there is none.
    pub(crate) fn host(&self, name: &str, address: Option<Ipv4Addr>) {
        let record = address.map(|address| RData::A(A(address)));
        self.set(name, record.into_iter().collect());
    }

    /// A service has these ports of this host, each with its priority.
    pub(crate) fn service(&self, name: &str, host: &str, ports: &[(u16, u16)]) {
        let of_host = |&(priority, port)| (host, priority, port);
        self.hosts(name, &ports.iter().map(of_host).collect::<Vec<_>>());
    }

    /// A service has these hosts, each with its priority and its port.
    pub(crate) fn hosts(&self, name: &str, hosts: &[(&str, u16, u16)]) {
        let record = |&(host, priority, port): &(&str, u16, u16)| {
            let host = Name::from_ascii(host).unwrap();
            RData::SRV(SRV::new(priority, 1, port, host))
        };
        self.set(name, hosts.iter().map(record).collect());
    }

    /// It answers nothing to questions for this name.
    pub(crate) fn silent_for(&self, name: &str) {
        let name = Name::from_ascii(name).unwrap();
        *self.state.unanswered.lock().unwrap() = Some(name);
    }

    /// Whether it answers nothing.
    pub(crate) fn silent(&self, is_silent: bool) {
        self.state.is_silent.store(is_silent, Ordering::SeqCst);
    }

    /// How often it was asked.
    pub(crate) fn asked(&self) -> usize {
        self.state.asked.load(Ordering::SeqCst)
    }

    /// How often it was asked for this name.
    pub(crate) fn asked_for(&self, name: &str) -> usize {
        let name = Name::from_ascii(name).unwrap();
        let asked_for = self.state.asked_for.lock().unwrap();
        asked_for.get(&name).copied().unwrap_or_default()
    }

    fn set(&self, name: &str, records: Vec<RData>) {
        let name = Name::from_ascii(name).unwrap();
        self.state.known.lock().unwrap().insert(name, records);
    }
}

impl State {
    fn answer(&self, question: &[u8]) -> Option<Vec<u8>> {
        let question = Message::from_vec(question).unwrap();
        let mut answer = Message::new(question.metadata.id, MessageType::Response, OpCode::Query);
        let query = question.queries[0].clone();
        let known = self.known.lock().unwrap();
        let mut name = query.name().to_lowercase();
        name.set_fqdn(false);
        *(self.asked_for.lock().unwrap().entry(name.clone())).or_default() += 1;
        let is_silent = self.is_silent.load(Ordering::SeqCst);
        if is_silent || self.unanswered.lock().unwrap().as_ref() == Some(&name) {
            return None;
        }
        let records = known.get(&name).cloned().unwrap_or_default();
        if records.is_empty() {
            answer.metadata.response_code = ResponseCode::NXDomain;
        }
        let ttl = u32::try_from(self.ttl.load(Ordering::SeqCst)).unwrap();
        for record in records {
            if record.record_type() == query.query_type() {
                answer.add_answer(Record::from_rdata(query.name().clone(), ttl, record));
            }
        }
        answer.add_query(query);
        Some(answer.to_vec().unwrap())
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.state.ends.store(true, Ordering::SeqCst);
        if let Some(answering) = self.answering.take() {
            let _ = answering.join();
        }
    }
}
