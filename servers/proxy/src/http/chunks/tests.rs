//! Bodies in chunks that are taken, and those that are refused.

use proptest::prelude::*;

use super::*;

/// What is passed on, and what is left; nothing, if the body is not complete.
type Decoded = Result<Option<(Vec<u8>, Vec<u8>)>, BadChunk>;

/// Decodes pieces that are cut here, and returns what is passed on and what is left.
fn decode(text: &[u8], cuts: &[usize], recode: Recode) -> Decoded {
    let mut decoder = Decoder::new(recode, 100);
    let (mut input, mut out) = (BytesMut::new(), Vec::new());
    let mut before = 0;
    for cut in cuts.iter().copied().chain([text.len()]) {
        let cut = cut.min(text.len());
        input.extend_from_slice(&text[before..cut.max(before)]);
        before = cut.max(before);
        if decoder.decode(&mut input, &mut out)? {
            input.extend_from_slice(&text[before..]);
            return Ok(Some((out, input.to_vec())));
        }
    }
    Ok(None)
}

#[test]
fn what_other_programs_might_read_otherwise_is_refused() {
    for (text, wrong) in [
        ("5\nhello\r\n0\r\n\r\n", BadChunk::Size),
        ("5 \r\nhello\r\n0\r\n\r\n", BadChunk::Size),
        (" 5\r\nhello\r\n0\r\n\r\n", BadChunk::Size),
        ("+5\r\nhello\r\n0\r\n\r\n", BadChunk::Size),
        ("-5\r\nhello\r\n0\r\n\r\n", BadChunk::Size),
        ("0x5\r\nhello\r\n0\r\n\r\n", BadChunk::Size),
        ("5_0\r\nhello\r\n0\r\n\r\n", BadChunk::Size),
        ("\r\nhello\r\n0\r\n\r\n", BadChunk::Size),
        ("5\rX\nhello\r\n0\r\n\r\n", BadChunk::Size),
        ("5;a\nb\r\nhello\r\n0\r\n\r\n", BadChunk::Size),
        ("5;a\0b\r\nhello\r\n0\r\n\r\n", BadChunk::Size),
        ("10000000000000005\r\nhello\r\n0\r\n\r\n", BadChunk::Size),
        ("0000000000000005\r\nhello\r\n0\r\n\r\n", BadChunk::Size),
        ("5\r\nhello0\r\n\r\n", BadChunk::End),
        ("5\r\nhello\n0\r\n\r\n", BadChunk::End),
        ("5\r\nhello\rX0\r\n\r\n", BadChunk::End),
        ("4\r\nhello\r\n0\r\n\r\n", BadChunk::End),
        ("0\r\ncontent-Length: 5\r\n\r\n", BadChunk::Forbidden),
        ("0\r\nX_Forwarded-For: a\r\n\r\n", BadChunk::Forbidden),
        ("0\r\nTE: a\r\n\r\n", BadChunk::Forbidden),
        (
            "0\r\nX: a\r\nTransfer-encoding: chunked\r\n\r\n",
            BadChunk::Forbidden,
        ),
    ] {
        let found = decode(text.as_bytes(), &[], Recode::Chunks);
        assert_eq!(found, Err(wrong), "{text:?}");
    }
    for text in [
        "0\r\nX: a\n\r\n",
        "0\r\n\n",
        "0\r\nX : a\r\n\r\n",
        "0\r\n X: a\r\n\r\n",
        "0\r\nX\r\n\r\n",
    ] {
        let found = decode(text.as_bytes(), &[], Recode::Chunks);
        assert!(
            matches!(found, Err(BadChunk::Trailers(_))),
            "{text:?}: {found:?}"
        );
    }
    let long = format!("5;{}\r\nhello\r\n0\r\n\r\n", "a".repeat(300));
    assert_eq!(
        decode(long.as_bytes(), &[], Recode::Chunks),
        Err(BadChunk::Size)
    );
    let long = format!("0\r\nX: {}\r\n\r\n", "a".repeat(100));
    assert_eq!(
        decode(long.as_bytes(), &[], Recode::Chunks),
        Err(BadChunk::TooLong)
    );
    let endless = format!("0\r\nX: {}", "a".repeat(100));
    assert_eq!(
        decode(endless.as_bytes(), &[], Recode::Chunks),
        Err(BadChunk::TooLong)
    );
}

#[test]
fn extensions_are_dropped_and_trailers_passed_on() {
    let text = b"5;name=\"value\"\r\nhello\r\n00000A\r\n0123456789\r\n0;x\r\nX: y\r\n\r\nGET";
    let (out, left) = decode(text, &[], Recode::Chunks).unwrap().unwrap();
    assert_eq!(out, b"5\r\nhello\r\na\r\n0123456789\r\n0\r\nX: y\r\n\r\n");
    assert_eq!(left, b"GET");
    let (out, left) = decode(text, &[], Recode::Plain).unwrap().unwrap();
    assert_eq!(
        (&out[..], &left[..]),
        (&b"hello0123456789"[..], &b"GET"[..])
    );
}

proptest! {
    #[test]
    fn the_same_comes_out_wherever_the_bytes_are_cut(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
        cuts in prop::collection::vec(any::<usize>(), 0..12), tail: Vec<u8>,
    ) {
        let mut text = Vec::new();
        for chunk in &chunks {
            text.extend(format!("{:X};ext\r\n", chunk.len()).into_bytes());
            text.extend(chunk);
            text.extend(b"\r\n");
        }
        text.extend(b"0\r\nX: y\r\n\r\n");
        text.extend(&tail);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % text.len()).collect();
        cuts.sort_unstable();
        let (plain, left) = decode(&text, &cuts, Recode::Plain).unwrap().unwrap();
        prop_assert_eq!(plain, chunks.concat());
        prop_assert_eq!(left, tail);
        // What is passed on means the same, and is passed on as it is.
        let (again, _) = decode(&text, &cuts, Recode::Chunks).unwrap().unwrap();
        let (twice, left) = decode(&again, &[], Recode::Chunks).unwrap().unwrap();
        prop_assert_eq!(&again, &twice);
        prop_assert!(left.is_empty());
        let (plain, _) = decode(&again, &[], Recode::Plain).unwrap().unwrap();
        prop_assert_eq!(plain, chunks.concat());
    }

    #[test]
    fn no_bytes_make_it_panic(bytes: Vec<u8>, digits in "[0-9a-f]{0,16}") {
        let text = [digits.as_bytes(), b"\r\n", &bytes].concat();
        let _ = decode(&text, &[3], Recode::Chunks);
    }
}
