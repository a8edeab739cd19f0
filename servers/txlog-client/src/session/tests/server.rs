//! A server in the test, whose log outlives its connections, and which fails as it is told.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use evenkeel::net::{TcpListener, TcpStream};
use tokio::io::AsyncWriteExt;

use crate::cursor::{Cursor, Identity};
use crate::frame::{
    Batched, Code, CursorChange, MAY_PASS, Produced, Record, Request, Response, VERSION,
};
use crate::wire::FrameReader;

/// What the server's store supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Supports {
    Batches,
    Singles,
    /// Batches, but no producers.
    Unnamed,
    Appends,
    /// As servers before version 3.
    Old,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) identity: Identity,
    pub(super) records: Vec<Bytes>,
    /// The next number of each producer, and under which number each of its records is stored.
    pub(super) producers: HashMap<u128, (u64, HashMap<u64, u64>)>,
    /// No producer that was forgotten has records behind this one.
    pub(super) forgotten: u64,
    /// The next batch is stored, then its producer is forgotten, and the connection ends.
    pub(super) forget_next: bool,
    pub(super) batch_bytes_max: u32,
    pub(super) cursors: HashMap<String, Cursor>,
    /// How reads are refused.
    pub(super) refuse_reads: Option<Code>,
    /// How requests about cursors are refused.
    pub(super) refuse_cursors: Option<Code>,
    /// How this many further hellos are refused.
    pub(super) refuse_hellos: Option<(u32, Code)>,
    pub(super) supports: Supports,
    /// Of so many requests that append, one ends the connection; half of these are stored before.
    pub(super) cut_one_in: u64,
    /// The connection ends when the request that appends and comes as this one is stored.
    pub(super) cut_at: Option<usize>,
    /// Requests are neither stored nor answered.
    pub(super) is_hung: bool,
    /// Requests wait, and are then answered.
    pub(super) is_held: bool,
    /// But not before so many that append have come.
    pub(super) held_from: usize,
    /// Requests that append are not answered.
    pub(super) is_silent: bool,
    /// How many requests that append have come.
    pub(super) arrived: usize,
    /// How this many further batches are refused.
    pub(super) refuse: Option<(u32, Code)>,
    /// Whether such a refusal says that it may pass by itself.
    pub(super) is_away: bool,
    /// How often it was asked whether a record would be stored.
    pub(super) asked_whether_well: usize,
    /// How many records each request that appends had.
    pub(super) portions: Vec<usize>,
    chance: u64,
}

/// Clones share the log.
#[derive(Clone, Debug)]
pub(super) struct Fake(Arc<Mutex<State>>);

impl Fake {
    pub(super) fn new(supports: Supports) -> Self {
        Self(Arc::new(Mutex::new(State {
            identity: Identity { log: 7, epoch: 1 },
            records: Vec::new(),
            producers: HashMap::new(),
            forgotten: 0,
            forget_next: false,
            batch_bytes_max: 1 << 16,
            cursors: HashMap::new(),
            refuse_reads: None,
            refuse_cursors: None,
            refuse_hellos: None,
            supports,
            cut_one_in: 0,
            cut_at: None,
            is_hung: false,
            is_held: false,
            held_from: 0,
            is_silent: false,
            arrived: 0,
            refuse: None,
            is_away: false,
            asked_whether_well: 0,
            portions: Vec::new(),
            chance: 1,
        })))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state())
    }

    /// Serves until the listener's task ends; returns the address.
    pub(super) async fn serve(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let fake = self.clone();
        evenkeel::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                evenkeel::spawn(fake.clone().connection(stream));
            }
        });
        address
    }

    async fn connection(self, stream: TcpStream) -> Option<()> {
        let (read, mut write) = stream.into_split();
        let mut frames = FrameReader::new(read, 16 << 20);
        let mut buffer = BytesMut::new();
        frames.next().await.ok()??;
        self.welcome().encode(&mut buffer);
        write.write_all(&buffer).await.ok()?;
        while let Some(frame) = frames.next().await.ok()? {
            let request = Request::decode(frame).unwrap();
            if let Request::Read { wait_ms: 1.., .. } = request {
                // So that an end of the log is not asked for again and again.
                evenkeel::time::sleep(Duration::from_millis(2)).await;
            }
            while self.state().holds() {
                evenkeel::time::sleep(Duration::from_millis(1)).await;
            }
            let answer = self.state().answer(request)?;
            if let Some(answer) = answer {
                buffer.clear();
                answer.encode(&mut buffer);
                write.write_all(&buffer).await.ok()?;
            }
        }
        Some(())
    }

    fn welcome(&self) -> Response {
        let mut state = self.state();
        if let Some(code) = next_refusal(&mut state.refuse_hellos) {
            let text = "as the test wants".to_owned();
            return Response::Fault { code, text };
        }
        let is_old = state.supports == Supports::Old;
        Response::Welcome {
            version: if is_old { BEFORE_BATCHES } else { VERSION },
            record_bytes_max: 1_000,
            appends_max: 64,
            first: 1,
            next: state.records.len() as u64 + 1,
            of: Some(state.identity),
            batch_bytes_max: (!is_old).then_some(state.batch_bytes_max),
        }
    }
}

/// A version of the protocol that has no batches.
const BEFORE_BATCHES: u16 = 2;

/// How the next one is refused.
fn next_refusal(refuse: &mut Option<(u32, Code)>) -> Option<Code> {
    let (left, code) = refuse.as_mut()?;
    let code = *code;
    *left -= 1;
    if *left == 0 {
        *refuse = None;
    }
    Some(code)
}

impl State {
    pub(super) fn chance(&mut self, one_in: u64) -> bool {
        self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005);
        self.chance = self.chance.wrapping_add(1_442_695_040_888_963_407);
        one_in > 0 && (self.chance >> 33).is_multiple_of(one_in)
    }

    fn holds(&self) -> bool {
        self.is_held && self.arrived >= self.held_from
    }

    /// Forgets all producers, as if others had stored something since.
    pub(super) fn forget(&mut self) {
        self.producers.clear();
        self.forgotten = self.records.len() as u64;
    }

    /// The answer, or none if it is hung; the end of the connection if there is not even that.
    fn answer(&mut self, request: Request) -> Option<Option<Response>> {
        let appends = matches!(request, Request::Append { .. } | Request::Batch { .. });
        self.arrived += usize::from(appends);
        if appends && self.is_hung {
            return Some(None);
        }
        let is_cut_now = appends && self.cut_at == Some(self.arrived);
        let is_cut = appends && self.chance(self.cut_one_in);
        if is_cut && self.chance(2) {
            return None;
        }
        let answer = match request {
            Request::Append { id, payload } => {
                self.portions.push(1);
                self.records.push(payload);
                let sequence = self.records.len() as u64;
                Response::Appended { id, sequence }
            }
            Request::Batch {
                id,
                producer,
                not_before,
                records,
                ..
            } => match self.batch(id, producer.map(|it| (it, not_before)), records) {
                Ok(stored) => stored,
                Err(code) => {
                    let text = "as the test wants".to_owned();
                    let numbers = MAY_PASS;
                    match self.is_away {
                        false => Response::Refused { id, code, text },
                        true => Response::RefusedAt {
                            id,
                            code,
                            numbers,
                            text,
                        },
                    }
                }
            },
            Request::Read { id, from, of, .. } => self.read(id, from, of),
            Request::Ping { id } => Response::Pong { id },
            Request::Health { id, .. } => self.health(id),
            Request::Cursor { id, name, change } => self.cursor(id, name, change),
            other => panic!("{other:?} is not asked for"),
        };
        if appends && std::mem::take(&mut self.forget_next) {
            self.forget();
            return None;
        }
        if appends && self.is_silent {
            return Some(None);
        }
        (!is_cut && !is_cut_now).then_some(Some(answer))
    }

    fn batch(
        &mut self,
        id: u64,
        produced: Option<(Produced, Option<u64>)>,
        records: Batched,
    ) -> Result<Response, Code> {
        if let Some(code) = next_refusal(&mut self.refuse) {
            return Err(code);
        }
        match self.supports {
            Supports::Batches => {}
            Supports::Singles if records.count() == 1 && produced.is_some() => {}
            Supports::Unnamed if produced.is_none() => {}
            _ => return Err(Code::Unsupported),
        }
        self.portions.push(records.count() as usize);
        let count = records.count();
        let Some((Produced { producer, number }, not_before)) = produced else {
            let first = self.records.len() as u64 + 1;
            let all = records.iter().map(Bytes::copy_from_slice);
            self.records.extend(all);
            let repeated = false;
            return Ok(Response::Stored {
                id,
                first,
                count,
                repeated,
            });
        };
        // As NATS: it knows what it has, and sees no gaps.
        let sees_gaps = self.supports != Supports::Singles;
        let is_new = number == 0 && not_before.is_none_or(|number| number > self.forgotten);
        if sees_gaps && !is_new && !self.producers.contains_key(&producer) {
            return Err(Code::ProducerUnknown);
        }
        let (next, stored) = self.producers.entry(producer).or_default();
        let (first, repeated) = match stored.get(&number) {
            Some(&first) => (first, true),
            None if number == *next || !sees_gaps => (self.records.len() as u64 + 1, false),
            None => return Err(Code::ProducerGap),
        };
        if !repeated {
            let all = u64::from(count);
            stored.extend((number..number + all).zip(first..));
            *next = (*next).max(number + u64::from(count));
            let records = records.iter().map(Bytes::copy_from_slice);
            self.records.extend(records);
        }
        Ok(Response::Stored {
            id,
            first,
            count,
            repeated,
        })
    }

    fn health(&mut self, id: u64) -> Response {
        self.asked_whether_well += 1;
        Response::Health {
            id,
            writable: !self.is_away,
            pending_ms: u32::MAX,
            took_ms: u32::MAX,
            ago_ms: u32::MAX,
            text: "as the test wants".to_owned(),
        }
    }

    fn cursor(&mut self, id: u64, name: String, change: CursorChange) -> Response {
        if let Some(code) = self.refuse_cursors {
            let text = "as the test wants".to_owned();
            return Response::Refused { id, code, text };
        }
        match change {
            CursorChange::Keep => {}
            CursorChange::Set(cursor) => drop(self.cursors.insert(name.clone(), cursor)),
            CursorChange::Remove => drop(self.cursors.remove(&name)),
        }
        let cursor = self.cursors.get(&name).copied();
        Response::Cursor { id, cursor }
    }

    fn read(&self, id: u64, from: u64, of: Option<Identity>) -> Response {
        if let Some(code) = self.refuse_reads {
            let text = "as the test wants".to_owned();
            return Response::Refused { id, code, text };
        }
        let Identity { log, epoch } = self.identity;
        if of.is_some_and(|of| of != self.identity) {
            return Response::RefusedAt {
                id,
                code: Code::OtherLog,
                numbers: [log, epoch],
                text: "another log".to_owned(),
            };
        }
        let from = from.max(1);
        // A few at a time, so that a reader is cut in the middle.
        let there = self.records.iter().skip(from as usize - 1).take(3);
        let records: Vec<Record> = (from..)
            .zip(there)
            .map(|(sequence, payload)| Record {
                sequence,
                time_ms: 1,
                payload: payload.clone(),
            })
            .collect();
        let next = from + records.len() as u64;
        Response::Records { id, next, records }
    }
}
