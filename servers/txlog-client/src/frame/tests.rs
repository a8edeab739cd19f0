//! Frames decode to what was encoded, and no bytes make the decoder panic.
//!
//! Each property runs a few thousand times, or as often as `PROPTEST_CASES` says.

use proptest::prelude::*;

use bytes::{BufMut, BytesMut};

use super::fields::framed;
use super::*;
use crate::cursor::{Cursor, Identity};

fn payload() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..200).prop_map(Bytes::from)
}

fn identity() -> impl Strategy<Value = Option<Identity>> {
    any::<Option<(u64, u64)>>().prop_map(|of| of.map(|(log, epoch)| Identity { log, epoch }))
}

fn access() -> impl Strategy<Value = Option<Access>> {
    prop::option::of(
        ("[a-z]{0,64}", any::<bool>(), payload()).prop_map(|(log, create, token)| Access {
            log,
            create,
            token,
        }),
    )
}

fn cursor() -> impl Strategy<Value = Cursor> {
    any::<(u64, u64, u64)>().prop_map(|(log, epoch, sequence)| Cursor {
        log,
        epoch,
        sequence,
    })
}

fn produced() -> impl Strategy<Value = Option<Produced>> {
    any::<Option<(u128, u64)>>()
        .prop_map(|of| of.map(|(producer, number)| Produced { producer, number }))
}

fn change() -> impl Strategy<Value = CursorChange> {
    prop_oneof![
        Just(CursorChange::Keep),
        cursor().prop_map(CursorChange::Set),
        Just(CursorChange::Remove),
    ]
}

fn newer_request() -> impl Strategy<Value = Request> {
    prop_oneof![
        (
            any::<(u64, Option<u64>, Option<u64>)>(),
            produced(),
            prop::collection::vec(payload(), 0..5)
        )
            .prop_map(|((id, expected, not_before), producer, records)| {
                Request::Batch {
                    id,
                    expected,
                    producer,
                    not_before: producer.and(not_before),
                    records: records.iter().collect(),
                }
            }),
        any::<(u64, u64)>().prop_map(|(id, time_ms)| Request::Seek { id, time_ms }),
        (any::<u64>(), ".{0,40}").prop_map(|(id, after)| Request::Logs { id, after }),
        (any::<u64>(), ".{0,40}").prop_map(|(id, after)| Request::Cursors { id, after }),
        any::<(u64, u64, bool, bool)>().prop_map(|(id, before, is_dry_run, is_forced)| {
            let trim = Trim::before(before).dry_run(is_dry_run).force(is_forced);
            Request::Trim { id, trim }
        }),
        (any::<u64>(), ".{0,40}", change()).prop_map(|(id, name, change)| Request::Cursor {
            id,
            name,
            change
        }),
    ]
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        (any::<(u16, u16)>(), access()).prop_map(|((min, max), access)| Request::Hello {
            min,
            max,
            access
        }),
        newer_request(),
        (any::<u64>(), payload()).prop_map(|(id, payload)| Request::Append { id, payload }),
        (any::<(u64, u64, u32, u32, u32)>(), identity()).prop_map(
            |((id, from, records_max, bytes_max, wait_ms), of)| Request::Read {
                id,
                from,
                records_max,
                bytes_max,
                wait_ms,
                of
            }
        ),
        any::<u64>().prop_map(|id| Request::Ping { id }),
        any::<(u64, u32)>().prop_map(|(id, within_ms)| Request::Health { id, within_ms }),
    ]
}

fn record() -> impl Strategy<Value = Record> {
    (any::<u64>(), any::<u64>(), payload()).prop_map(|(sequence, time_ms, payload)| Record {
        sequence,
        time_ms,
        payload,
    })
}

fn log() -> impl Strategy<Value = LogInfo> {
    ("[a-z]{0,64}", any::<(bool, Option<(u64, u64)>)>(), cursor()).prop_map(
        |(name, (is_open, bounds), of)| LogInfo {
            name,
            is_open,
            bounds: bounds.map(|(first, next)| LogBounds {
                first,
                next,
                of: of.identity(),
            }),
        },
    )
}

fn newer_response() -> impl Strategy<Value = Response> {
    prop_oneof![
        any::<(u64, u64, u32, bool)>().prop_map(|(id, first, count, repeated)| {
            Response::Stored {
                id,
                first,
                count,
                repeated,
            }
        }),
        any::<(u64, u64)>().prop_map(|(id, sequence)| Response::Sought { id, sequence }),
        any::<(u64, u64)>().prop_map(|(id, first)| Response::Trimmed { id, first }),
        (any::<u64>(), prop::option::of(cursor()))
            .prop_map(|(id, cursor)| Response::Cursor { id, cursor }),
        (any::<(u64, bool)>(), prop::collection::vec(log(), 0..5))
            .prop_map(|((id, more), logs)| Response::Logs { id, more, logs }),
        (
            any::<(u64, bool)>(),
            prop::collection::vec(("[a-z]{0,64}", cursor()), 0..5)
        )
            .prop_map(|((id, more), cursors)| Response::Cursors { id, more, cursors }),
    ]
}

fn response() -> impl Strategy<Value = Response> {
    prop_oneof![
        (
            any::<(u16, u32, u32, u64, u64)>(),
            identity(),
            any::<Option<u32>>()
        )
            .prop_map(
                |((version, record_bytes_max, appends_max, first, next), of, batch)| {
                    Response::Welcome {
                        version,
                        record_bytes_max,
                        appends_max,
                        first,
                        next,
                        of,
                        batch_bytes_max: batch.filter(|_| of.is_some()),
                    }
                }
            ),
        newer_response(),
        (any::<(u64, u16, [u64; 2])>(), ".{0,40}").prop_map(|((id, code, numbers), text)| {
            Response::RefusedAt {
                id,
                code: Code::of(code),
                numbers,
                text,
            }
        }),
        (any::<(u64, bool, u32, u32, u32)>(), ".{0,40}").prop_map(
            |((id, writable, pending_ms, took_ms, ago_ms), text)| Response::Health {
                id,
                writable,
                pending_ms,
                took_ms,
                ago_ms,
                text
            }
        ),
        any::<(u64, u64)>().prop_map(|(id, sequence)| Response::Appended { id, sequence }),
        (
            any::<u64>(),
            any::<u64>(),
            prop::collection::vec(record(), 0..5)
        )
            .prop_map(|(id, next, records)| Response::Records { id, next, records }),
        any::<u64>().prop_map(|id| Response::Pong { id }),
        (any::<u64>(), any::<u16>(), ".{0,40}").prop_map(|(id, code, text)| Response::Refused {
            id,
            code: Code::of(code),
            text
        }),
        (any::<u16>(), ".{0,40}").prop_map(|(code, text)| Response::Fault {
            code: Code::of(code),
            text
        }),
    ]
}

/// The frame without its length, which has to be right.
fn body(buffer: BytesMut) -> Bytes {
    let mut frame = buffer.freeze();
    let first = frame.split_to(LENGTH_BYTES);
    let first = [first[0], first[1], first[2], first[3]];
    assert_eq!(length(first, usize::MAX), Ok(frame.len()));
    frame
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_096, ..ProptestConfig::default() })]

    #[test]
    fn requests_come_back_as_they_were(request in request()) {
        let mut buffer = BytesMut::new();
        request.encode(&mut buffer);
        prop_assert_eq!(Request::decode(body(buffer)), Ok(request));
    }

    #[test]
    fn responses_come_back_as_they_were(response in response()) {
        let mut buffer = BytesMut::new();
        response.encode(&mut buffer);
        prop_assert_eq!(Response::decode(body(buffer)), Ok(response));
    }

    /// Malformed frames are errors; well-formed ones decode to the same after encoding them again.
    #[test]
    fn any_bytes_are_a_frame_or_an_error(
        kind in prop_oneof![0..13_u8, 0x80..0x90_u8, any::<u8>()],
        rest in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let mut bytes = vec![kind];
        bytes.extend(rest);
        let frame = Bytes::from(bytes);
        if let Ok(request) = Request::decode(frame.clone()) {
            let mut buffer = BytesMut::new();
            request.encode(&mut buffer);
            prop_assert_eq!(&body(buffer), &frame);
        }
        // Text that is not UTF-8 is repaired, so only the meaning is the same.
        if let Ok(response) = Response::decode(frame) {
            let mut buffer = BytesMut::new();
            response.encode(&mut buffer);
            prop_assert_eq!(Response::decode(body(buffer)), Ok(response));
        }
    }

    #[test]
    fn a_frame_that_is_cut_or_changed_never_panics(
        response in response(),
        cut in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        flip in 1..=255_u8,
    ) {
        let mut buffer = BytesMut::new();
        response.encode(&mut buffer);
        let frame = body(buffer);
        let _ = Response::decode(frame.slice(..cut.index(frame.len())));
        let mut changed = frame.to_vec();
        let at = at.index(changed.len());
        changed[at] ^= flip;
        let _ = Response::decode(Bytes::from(changed));
    }
}

#[test]
fn lengths_are_bounded() {
    assert_eq!(length([0; 4], 10), Err(FrameError::Empty));
    assert_eq!(length([10, 0, 0, 0], 10), Ok(10));
    for too_long in [[11, 0, 0, 0], [0xff; 4]] {
        let error = length(too_long, 10).unwrap_err();
        assert_eq!(error.code(), Code::FrameTooLong);
    }
}

#[test]
fn every_code_has_a_number_of_its_own() {
    for (code, number) in code::CODES {
        assert_eq!(Code::of(number), code);
        assert_eq!(code.number(), number);
    }
}

#[test]
fn a_count_of_records_takes_no_memory_by_itself() {
    let mut buffer = BytesMut::new();
    framed(&mut buffer, 0x83, 20, |buffer| {
        buffer.put_u64_le(1);
        buffer.put_u64_le(1);
        buffer.put_u32_le(u32::MAX);
    });
    assert!(matches!(
        Response::decode(body(buffer)),
        Err(FrameError::Short { .. })
    ));
}

/// The bytes of frames, by another encoder. Those of earlier versions stay as they are.
fn early_requests() -> Vec<(Request, &'static str)> {
    let read = |of| Request::Read {
        id: 6,
        from: 7,
        records_max: 8,
        bytes_max: 9,
        wait_ms: 10,
        of,
    };
    vec![
        (
            Request::Hello {
                min: 1,
                max: 3,
                access: None,
            },
            "0900000001454b544c01000300",
        ),
        (
            Request::Hello {
                min: 3,
                max: 3,
                access: Some(Access {
                    log: "orders".to_owned(),
                    create: true,
                    token: Bytes::from_static(b"secret"),
                }),
            },
            "1700000001454b544c0300030001066f7264657273736563726574",
        ),
        (
            Request::Append {
                id: 5,
                payload: Bytes::from_static(b"record"),
            },
            "0f0000000205000000000000007265636f7264",
        ),
        (
            read(None),
            "1d000000030600000000000000070000000000000008000000090000000a000000",
        ),
        (
            read(Some(Identity { log: 11, epoch: 12 })),
            "2d000000030600000000000000070000000000000008000000090000000a0000000b0000\
             00000000000c00000000000000",
        ),
        (Request::Ping { id: 13 }, "09000000040d00000000000000"),
        (
            Request::Health {
                id: 14,
                within_ms: 15,
            },
            "0d000000050e000000000000000f000000",
        ),
    ]
}

fn later_requests() -> Vec<(Request, &'static str)> {
    vec![
        (
            Request::Batch {
                id: 16,
                expected: Some(17),
                producer: Some(Produced {
                    producer: 18,
                    number: 19,
                }),
                not_before: Some(20),
                records: [&b"one"[..], b""].iter().collect(),
            },
            "410000000610000000000000000711000000000000001200000000000000000000000000\
             00001300000000000000140000000000000002000000030000006f6e6500000000",
        ),
        (
            Request::Seek {
                id: 21,
                time_ms: 22,
            },
            "110000000715000000000000001600000000000000",
        ),
        (
            Request::Cursor {
                id: 23,
                name: "billing".to_owned(),
                change: CursorChange::Set(Cursor {
                    log: 24,
                    epoch: 25,
                    sequence: 26,
                }),
            },
            "29000000081700000000000000011a000000000000001800000000000000190000000000\
             000062696c6c696e67",
        ),
        (
            Request::Logs {
                id: 27,
                after: "a".to_owned(),
            },
            "0a000000091b0000000000000061",
        ),
        (
            Request::Cursors {
                id: 28,
                after: "b".to_owned(),
            },
            "0a0000000a1c0000000000000062",
        ),
        (
            Request::Trim {
                id: 29,
                trim: Trim::before(30).force(true),
            },
            "120000000b1d000000000000001e0000000000000002",
        ),
    ]
}

fn answers_about_the_log() -> Vec<(Response, &'static str)> {
    vec![
        (
            Response::Sought {
                id: 13,
                sequence: 14,
            },
            "110000008a0d000000000000000e00000000000000",
        ),
        (
            Response::Health {
                id: 15,
                writable: true,
                pending_ms: 16,
                took_ms: 17,
                ago_ms: 18,
                text: "why".to_owned(),
            },
            "19000000870f0000000000000001100000001100000012000000776879",
        ),
        (
            Response::Cursor {
                id: 19,
                cursor: None,
            },
            "0a0000008b130000000000000000",
        ),
        (
            Response::Welcome {
                version: 3,
                record_bytes_max: 4,
                appends_max: 5,
                first: 6,
                next: 7,
                of: Some(Identity { log: 8, epoch: 9 }),
                batch_bytes_max: Some(10),
            },
            "2f0000008103000400000005000000060000000000000007000000000000000800000000000000\
             09000000000000000a000000",
        ),
    ]
}

fn responses() -> Vec<(Response, &'static str)> {
    vec![
        (
            Response::Appended { id: 1, sequence: 2 },
            "110000008201000000000000000200000000000000",
        ),
        (
            Response::Stored {
                id: 3,
                first: 4,
                count: 5,
                repeated: true,
            },
            "1600000089030000000000000004000000000000000500000001",
        ),
        (Response::Pong { id: 6 }, "09000000840600000000000000"),
        (
            Response::Refused {
                id: 7,
                code: Code::Trimmed,
                text: "why".to_owned(),
            },
            "0e0000008507000000000000001100776879",
        ),
        (
            Response::RefusedAt {
                id: 8,
                code: Code::OutOfRange,
                numbers: [9, 10],
                text: "why".to_owned(),
            },
            "1e000000880800000000000000140009000000000000000a00000000000000776879",
        ),
        (
            Response::Fault {
                code: Code::Closing,
                text: "why".to_owned(),
            },
            "06000000860700776879",
        ),
        (
            Response::Trimmed { id: 11, first: 12 },
            "110000008e0b000000000000000c00000000000000",
        ),
    ]
}

#[test]
fn frames_have_the_bytes_that_the_protocol_says() {
    let hex = |buffer: &BytesMut| -> String {
        let digits = buffer.iter().map(|byte| format!("{byte:02x}"));
        digits.collect()
    };
    for (request, bytes) in early_requests().into_iter().chain(later_requests()) {
        let mut buffer = BytesMut::new();
        request.encode(&mut buffer);
        assert_eq!(hex(&buffer), bytes, "{request:?}");
    }
    for (response, bytes) in responses().into_iter().chain(answers_about_the_log()) {
        let mut buffer = BytesMut::new();
        response.encode(&mut buffer);
        assert_eq!(hex(&buffer), bytes, "{response:?}");
    }
}
