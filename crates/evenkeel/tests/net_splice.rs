//! Bytes that move between two streams: whole, in order, with their ends and their errors.

mod support;

use std::future::Future;
use std::io::ErrorKind;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use evenkeel::net::splice::{
    BYTES_PER_POLL, Meter, Moved, Step, TransferError, Way, copy_bidirectional,
    copy_bidirectional_metered, splice, splice_behind, splice_bidirectional,
    splice_bidirectional_closing, splice_bidirectional_metered, splice_metered,
};
use evenkeel::net::{TcpListener, TcpStream, UnixStream};
use evenkeel::runtime::{Builder, Handle};
use support::{alone, within};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufStream, ReadBuf, duplex};

async fn tcp() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let client = within(TcpStream::connect(address)).await.unwrap();
    let (server, _) = within(listener.accept()).await.unwrap();
    (client, server)
}

/// Bytes that show whether some are lost, doubled or out of order.
fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| ((i + seed) % 251) as u8).collect()
}

/// Sends while it receives, then ends its direction, and returns all that came.
async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, sent: Vec<u8>) -> Vec<u8> {
    let (mut read, mut write) = tokio::io::split(&mut stream);
    let mut heard = Vec::new();
    let send = async {
        write.write_all(&sent).await.unwrap();
        write.shutdown().await.unwrap();
    };
    let (_, came) = futures_util::future::join(send, read.read_to_end(&mut heard)).await;
    came.unwrap();
    heard
}

async fn check<C, O, R>(client: C, origin: O, relay: R, forth: usize, back: usize)
where
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    O: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    R: Future<Output = Result<Moved, TransferError>> + Send + 'static,
{
    let relay = evenkeel::spawn(relay);
    let client = evenkeel::spawn(exchange(client, pattern(forth, 0)));
    let origin = evenkeel::spawn(exchange(origin, pattern(back, 7)));
    assert!(within(client).await.unwrap() == pattern(back, 7));
    assert!(within(origin).await.unwrap() == pattern(forth, 0));
    let moved = within(relay).await.unwrap().unwrap();
    assert_eq!((moved.forth, moved.back), (forth as u64, back as u64));
}

const LENS: [(usize, usize); 6] = [
    (0, 0),
    (1, 0),
    (100, 20_000),
    (3_000_001, 1),
    (70_000, 2_500_003),
    (2_000_000, 2_000_000),
];

#[evenkeel::test]
async fn bytes_are_whole_between_sockets_of_any_sort() {
    support::watch_descriptors();
    for (forth, back) in LENS {
        let ((client, mut a), (mut b, origin)) = (tcp().await, tcp().await);
        let relay = async move { splice_bidirectional(&mut a, &mut b).await };
        check(client, origin, relay, forth, back).await;

        let ((client, mut a), (mut b, origin)) = (tcp().await, UnixStream::pair().unwrap());
        let relay = async move { splice_bidirectional(&mut a, &mut b).await };
        check(client, origin, relay, forth, back).await;

        let ((client, mut a), (mut b, origin)) =
            (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        let relay = async move { splice_bidirectional(&mut a, &mut b).await };
        check(client, origin, relay, forth, back).await;

        let ((client, mut a), (mut b, origin)) = (tcp().await, tcp().await);
        let relay = async move { copy_bidirectional(&mut a, &mut b).await };
        check(client, origin, relay, forth, back).await;

        let ((client, mut a), (mut b, origin)) = (duplex(1_000), tcp().await);
        let relay = async move { copy_bidirectional(&mut a, &mut b).await };
        check(client, origin, relay, forth, back).await;
    }
    let spliced = Handle::current().stats().splice;
    if cfg!(target_os = "linux") {
        assert!(spliced.bytes > 5_000_000, "{spliced:?}");
        assert!(spliced.splices > 0 && spliced.refused == 0, "{spliced:?}");
    }
    assert_eq!(spliced.pipes, spliced.idle_pipes, "{spliced:?}");
}

/// The last end is sent by closing, and by a shutdown where a duplicate keeps the socket open.
#[evenkeel::test]
async fn the_last_end_is_passed_on_by_closing() {
    use std::os::fd::AsFd;

    for (forth, back) in LENS {
        let ((client, a), (b, origin)) = (tcp().await, tcp().await);
        let relay = async move { splice_bidirectional_closing(&a, &b, &Meter::new()).await };
        check(client, origin, relay, forth, back).await;

        let ((client, a), (b, origin)) = (tcp().await, UnixStream::pair().unwrap());
        let duplicates = [a.as_fd(), b.as_fd()].map(|fd| fd.try_clone_to_owned().unwrap());
        let relay = async move { splice_bidirectional_closing(&a, &b, &Meter::new()).await };
        check(client, origin, relay, forth, back).await;
        drop(duplicates);
    }
}

/// A thread that is ended with this, also if a test fails.
#[cfg(target_os = "linux")]
struct Ended(Arc<AtomicUsize>, Option<std::thread::JoinHandle<()>>);

#[cfg(target_os = "linux")]
impl Drop for Ended {
    fn drop(&mut self) {
        self.0.store(1, Ordering::SeqCst);
        let thread = self.1.take();
        let _ = thread.map(std::thread::JoinHandle::join);
    }
}

/// Linux ends a transfer before its time if the thread gets a signal, such as a profiler's: then
/// there is room, and no event comes.
#[cfg(target_os = "linux")]
#[test]
fn signals_amid_transfers_stop_none() {
    use evenkeel::signal::unix::{SignalKind, signal};
    use nix::sys::pthread::{pthread_kill, pthread_self};
    use nix::sys::signal::Signal;

    let is_over = Arc::new(AtomicUsize::new(0));
    let ends = Arc::clone(&is_over);
    let runtime = Builder::new().workers(1).build().unwrap();
    runtime.block_on(async move {
        let mut handled = signal(SignalKind::user_defined2()).unwrap();
        let worker = evenkeel::spawn(async { pthread_self() }).await.unwrap();
        // Ended before the worker, which it signals.
        let signals = std::thread::spawn(move || {
            while ends.load(Ordering::SeqCst) == 0 {
                pthread_kill(worker, Signal::SIGUSR2).unwrap();
                std::thread::sleep(std::time::Duration::from_micros(20));
            }
        });
        let signals = Ended(is_over, Some(signals));
        for _ in 0..4 {
            // Pieces that stay apart, so that the pipe has more of them than are sent in one go.
            let ((mut client, mut a), (mut b, mut origin)) =
                (UnixStream::pair().unwrap(), tcp().await);
            let relay = evenkeel::spawn(async move { splice_bidirectional(&mut a, &mut b).await });
            let sent = pattern(2_000_000, 0);
            let pieces = sent.clone();
            let sender = evenkeel::spawn(async move {
                for piece in pieces.chunks(500) {
                    client.write_all(piece).await.unwrap();
                }
                client.shutdown().await.unwrap();
                client
            });
            origin.shutdown().await.unwrap();
            let mut heard = Vec::new();
            within(origin.read_to_end(&mut heard)).await.unwrap();
            assert!(heard == sent);
            drop(within(sender).await.unwrap());
            within(relay).await.unwrap().unwrap();
        }
        drop(signals);
        within(handled.recv()).await.unwrap();
    });
}

/// Many at once share the pool. Receivers differ in speed, so that pipes are held for a while.
#[evenkeel::test]
async fn many_transfers_share_the_pipes() {
    support::watch_descriptors();
    let mut relays = Vec::new();
    for number in 0..24 {
        relays.push(evenkeel::spawn(async move {
            let ((client, mut a), (mut b, origin)) = (tcp().await, tcp().await);
            let relay = async move { splice_bidirectional(&mut a, &mut b).await };
            check(client, origin, relay, 400_000 + number, 300_000 - number).await;
        }));
    }
    for relay in relays {
        within(relay).await.unwrap();
    }
}

#[evenkeel::test]
async fn a_receiver_that_pauses_loses_nothing_and_stops_the_sender() {
    support::watch_descriptors();
    const LEN: usize = 16 << 20;
    let ((mut client, mut a), (mut b, mut origin)) = (tcp().await, tcp().await);
    let meter = Arc::new(Meter::new());
    let counted = Arc::clone(&meter);
    let relay =
        evenkeel::spawn(
            async move { splice_bidirectional_metered(&mut a, &mut b, &counted).await },
        );
    let sender = evenkeel::spawn(async move {
        client.write_all(&pattern(LEN, 0)).await.unwrap();
        client.shutdown().await.unwrap();
        client
    });
    // Until nothing moves any more, as the buffers are full.
    let mut before = Moved::default();
    loop {
        evenkeel::time::sleep(std::time::Duration::from_millis(50)).await;
        let now = meter.moved();
        if now == before && now.forth > 0 {
            break;
        }
        before = now;
    }
    assert!(before.forth < LEN as u64, "the receiver takes nothing");
    let mut heard = Vec::new();
    within(origin.read_to_end(&mut heard)).await.unwrap();
    assert!(heard == pattern(LEN, 0));
    drop((origin, within(sender).await.unwrap()));
    assert_eq!(within(relay).await.unwrap().unwrap().forth, LEN as u64);
}

#[evenkeel::test]
async fn each_direction_ends_for_itself() {
    support::watch_descriptors();
    let ((mut client, mut a), (mut b, mut origin)) = (tcp().await, tcp().await);
    let relay = evenkeel::spawn(async move { splice_bidirectional(&mut a, &mut b).await });
    // The client asks, ends, and is answered long after.
    client.write_all(b"question").await.unwrap();
    client.shutdown().await.unwrap();
    let mut heard = String::new();
    within(origin.read_to_string(&mut heard)).await.unwrap();
    assert_eq!(heard, "question");
    for part in ["a", "long", "answer"] {
        origin.write_all(part.as_bytes()).await.unwrap();
        let mut came = vec![0; part.len()];
        within(client.read_exact(&mut came)).await.unwrap();
        assert_eq!(came, part.as_bytes());
    }
    assert!(!relay.is_finished());
    drop(origin);
    assert_eq!(within(client.read(&mut [0])).await.unwrap(), 0);
    assert_eq!(within(relay).await.unwrap().unwrap().total(), 8 + 11);
}

#[evenkeel::test]
async fn an_error_says_which_stream_failed_and_how() {
    support::watch_descriptors();
    let ((client, mut a), (mut b, _origin)) = (tcp().await, tcp().await);
    client.set_zero_linger().unwrap();
    drop(client);
    let error = within(splice_bidirectional(&mut a, &mut b))
        .await
        .unwrap_err();
    assert_eq!((error.way(), error.step()), (Way::Forth, Step::Read));
    assert!(error.is_of_first() && error.moved() == Moved::default());
    assert_eq!(error.io_error().kind(), ErrorKind::ConnectionReset);
    let said = error.to_string();
    assert!(
        said.starts_with("reading from the first stream failed after 0"),
        "{said}"
    );
    assert_eq!(
        std::io::Error::from(error).kind(),
        ErrorKind::ConnectionReset
    );

    // The origin is gone, and what is written to it is refused: by an error, not by a signal.
    let ((mut client, mut a), (mut b, origin)) = (tcp().await, tcp().await);
    let sender = evenkeel::spawn(async move {
        let bytes = pattern(200_000, 0);
        while client.write_all(&bytes).await.is_ok() {}
    });
    let relay = evenkeel::spawn(async move { splice_bidirectional(&mut a, &mut b).await });
    drop(origin);
    let error = within(relay).await.unwrap().unwrap_err();
    assert!(!error.is_of_first(), "{error}");
    let kinds = [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset];
    assert!(kinds.contains(&error.io_error().kind()), "{error}");
    within(sender).await.unwrap();
}

#[evenkeel::test]
async fn some_bytes_are_moved_and_no_more() {
    support::watch_descriptors();
    for len in [1_u64, 20_000, 300_000] {
        let ((mut client, a), (b, mut origin)) = (tcp().await, tcp().await);
        let sent = pattern(len as usize + 5, 3);
        let sender = evenkeel::spawn(async move {
            client.write_all(&sent).await.unwrap();
            client
        });
        let moving = evenkeel::spawn(async move {
            let moved = splice(&a, &b, len).await.unwrap();
            (a, b, moved)
        });
        let mut heard = vec![0; len as usize];
        within(origin.read_exact(&mut heard)).await.unwrap();
        assert!(heard == pattern(len as usize, 3));
        let (mut a, b, moved) = within(moving).await.unwrap();
        assert_eq!(moved, len);
        let client = within(sender).await.unwrap();
        let mut rest = [0; 5];
        within(a.read_exact(&mut rest)).await.unwrap();
        assert_eq!(rest[..], pattern(len as usize + 5, 3)[len as usize..]);

        // The end of the stream comes first, and is not passed on.
        drop(client);
        assert_eq!(within(splice(&a, &b, 9)).await.unwrap(), 0);
        assert_eq!(
            origin.try_read(&mut [0]).unwrap_err().kind(),
            ErrorKind::WouldBlock
        );
    }
}

#[evenkeel::test]
async fn a_head_goes_first_and_does_not_wait_for_what_it_goes_before() {
    support::watch_descriptors();
    // Also one for which the receiver has no room yet.
    for (head, len) in [(200, 100_000), (9_000_000, 3_000_000), (17, 0)] {
        let ((mut client, a), (b, mut origin)) = (tcp().await, tcp().await);
        let sent = pattern(head + len, 1);
        let before = sent[..head].to_vec();
        let moving = evenkeel::spawn(async move {
            let meter = Meter::new();
            let moved = splice_behind(&before, &a, &b, len as u64, &meter).await;
            assert_eq!(meter.moved().forth, moved.unwrap());
            (a, b, meter)
        });
        let mut heard = vec![0; head + len];
        within(origin.read_exact(&mut heard[..head])).await.unwrap();
        let body = sent[head..].to_vec();
        let sender = evenkeel::spawn(async move {
            client.write_all(&body).await.unwrap();
            client
        });
        within(origin.read_exact(&mut heard[head..])).await.unwrap();
        assert!(heard == sent);
        let (a, b, meter) = within(moving).await.unwrap();
        assert_eq!(meter.moved().forth, sent.len() as u64);
        let mut client = within(sender).await.unwrap();

        // Behind it in the same packet, as it is there already.
        within(client.write_all(b"body")).await.unwrap();
        within(a.readable()).await.unwrap();
        assert_eq!(
            within(splice_behind(b"head", &a, &b, 4, &meter))
                .await
                .unwrap(),
            8
        );
        let mut heard = [0; 8];
        within(origin.read_exact(&mut heard)).await.unwrap();
        assert_eq!(&heard, b"headbody");

        // What it goes before does not come.
        client.set_zero_linger().unwrap();
        drop(client);
        let error = within(splice_behind(b"alone", &a, &b, 4, &meter)).await;
        let error = error.unwrap_err();
        assert_eq!((error.step(), error.moved().forth), (Step::Read, 5));
        let mut heard = [0; 5];
        within(origin.read_exact(&mut heard)).await.unwrap();
        assert_eq!(&heard, b"alone");
    }
}

/// What a transfer returns is its own, whatever else its meter has counted.
#[evenkeel::test]
async fn a_meter_counts_several_transfers() {
    support::watch_descriptors();
    let ((mut client, a), (b, mut origin)) = (tcp().await, tcp().await);
    let meter = Meter::new();
    let mut counted = 0;
    for len in [10_u64, 100_000, 20_000] {
        let sender = evenkeel::spawn(async move {
            client.write_all(&pattern(len as usize, 0)).await.unwrap();
            client
        });
        let mut heard = vec![0; len as usize];
        let moving = splice_metered(&a, &b, len, &meter);
        let (moved, heard_all) = within(futures_util::future::join(
            moving,
            origin.read_exact(&mut heard),
        ))
        .await;
        heard_all.unwrap();
        assert_eq!(moved.unwrap(), len);
        counted += len;
        assert_eq!((meter.moved().forth, meter.moved().back), (counted, 0));
        client = within(sender).await.unwrap();
    }
}

/// Small packets fill the places of a pipe with few bytes. No event comes for the rest, as the
/// sender is silent by then.
#[evenkeel::test]
async fn a_pipe_full_of_small_packets_does_not_mean_that_there_are_no_more() {
    support::watch_descriptors();
    const PACKETS: usize = 200;
    let ((mut client, mut a), (b, mut origin)) = (tcp().await, tcp().await);
    client.set_nodelay(true).unwrap();
    // It waits once, and hears of events from then on.
    let first = async {
        evenkeel::task::yield_now().await;
        client.write_all(b"x").await.unwrap();
    };
    let mut byte = [0];
    within(futures_util::future::join(a.read_exact(&mut byte), first))
        .await
        .0
        .unwrap();
    // The kernel takes bytes that lie side by side for one; here, another connection's are between.
    let (mut other, _other_end) = tcp().await;
    other.set_nodelay(true).unwrap();
    for _ in 0..PACKETS {
        client.write_all(&[7; 100]).await.unwrap();
        other.write_all(&[8; 100]).await.unwrap();
    }
    let mut all = vec![0; PACKETS * 100 + 1];
    while within(a.peek(&mut all)).await.unwrap() < PACKETS * 100 {
        evenkeel::task::yield_now().await;
    }
    // The event of the last packet may be on its way.
    evenkeel::time::sleep(std::time::Duration::from_millis(20)).await;
    let moved = within(splice(&a, &b, (PACKETS * 100) as u64))
        .await
        .unwrap();
    assert_eq!(moved, (PACKETS * 100) as u64);
    let mut heard = vec![0; PACKETS * 100];
    within(origin.read_exact(&mut heard)).await.unwrap();
    assert!(heard.iter().all(|&byte| byte == 7));
}

/// What a stream has gathered goes out before its writer waits.
#[evenkeel::test]
async fn streams_that_gather_are_flushed() {
    let (mut client, a) = duplex(64);
    let (b, mut origin) = duplex(64);
    let (mut a, mut b) = (BufStream::new(a), BufStream::new(b));
    let relay = evenkeel::spawn(async move { copy_bidirectional(&mut a, &mut b).await });
    for _ in 0..3 {
        client.write_all(b"ping").await.unwrap();
        let mut heard = [0; 4];
        within(origin.read_exact(&mut heard)).await.unwrap();
        origin.write_all(&heard).await.unwrap();
        within(client.read_exact(&mut heard)).await.unwrap();
        assert_eq!(&heard, b"ping");
    }
    drop((client, origin));
    let moved = within(relay).await.unwrap().unwrap();
    assert_eq!((moved.forth, moved.back), (12, 12));
}

/// Has always something to read, and takes everything.
struct Endless;

impl AsyncRead for Endless {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let room = buf.initialize_unfilled().len();
        buf.advance(room);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Endless {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

struct CountsWakes(AtomicUsize);

impl Wake for CountsWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_poll_moves_a_bounded_number_of_bytes_and_asks_for_another() {
    let (mut a, mut b) = (Endless, Endless);
    let meter = Meter::new();
    let mut relay = pin!(copy_bidirectional_metered(&mut a, &mut b, &meter));
    let wakes = Arc::new(CountsWakes(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&wakes));
    for poll in 1..=3 {
        assert!(
            relay
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
        assert!(
            wakes.0.load(Ordering::Relaxed) >= poll,
            "nobody would poll it again"
        );
        let bound = (poll * BYTES_PER_POLL) as u64;
        let moved = meter.moved();
        assert_eq!((moved.forth, moved.back), (bound, bound));
    }
}

/// A pipe that is dropped with bytes in it would give them to the next connection.
#[cfg(target_os = "linux")]
#[evenkeel::test]
async fn a_transfer_that_is_dropped_leaves_no_bytes_to_the_next() {
    support::watch_descriptors();
    let mut full = 0;
    for _ in 0..100 {
        let ((mut client, mut a), (mut b, mut origin)) = (tcp().await, tcp().await);
        let meter = Arc::new(Meter::new());
        let counted = Arc::clone(&meter);
        let relay =
            evenkeel::spawn(
                async move { splice_bidirectional_metered(&mut a, &mut b, &counted).await },
            );
        // Nobody reads, so it is stuck in the end.
        let sender =
            evenkeel::spawn(async move { while client.write_all(&[1; 100_000]).await.is_ok() {} });
        within(stands_still(&meter)).await;
        let pipes = Handle::current().stats().splice;
        if pipes.pipes > pipes.idle_pipes {
            full += 1;
        } else {
            // What it has read last is in a buffer. Once there is room, it goes on.
            let more = meter.moved().forth + 1;
            let mut taken = (&mut origin).take(more);
            let mut nowhere = tokio::io::sink();
            let read = tokio::io::copy(&mut taken, &mut nowhere);
            assert_eq!(within(read).await.unwrap(), more);
        }
        relay.abort();
        within(relay).await.unwrap_err();
        within(sender).await.unwrap();
        drop(origin);
        let pipes = Handle::current().stats().splice;
        assert_eq!(pipes.pipes, pipes.idle_pipes, "the full one is closed");

        let ((client, mut a), (mut b, origin)) = (tcp().await, tcp().await);
        let relay = async move { splice_bidirectional(&mut a, &mut b).await };
        check(client, origin, relay, 500_000, 500_000).await;
        if full == 4 {
            return;
        }
    }
    panic!("only {full} of 100 were stuck with a pipe");
}

/// Waits until some bytes have moved, and no more do.
#[cfg(target_os = "linux")]
async fn stands_still(meter: &Meter) {
    loop {
        let before = meter.moved();
        evenkeel::time::sleep(std::time::Duration::from_millis(20)).await;
        if before.forth > 0 && meter.moved() == before {
            return;
        }
    }
}

/// Where there are no pipes, everything is copied.
#[cfg(target_os = "linux")]
#[test]
fn without_pipes_bytes_are_copied() {
    alone("without_pipes_bytes_are_copied", || {
        let runtime = Builder::new().workers(2).build().unwrap();
        runtime.block_on(within(async {
            let before = Handle::current().stats().splice;
            let (client, mut a) = UnixStream::pair().unwrap();
            let (mut b, origin) = UnixStream::pair().unwrap();
            let _taken = support::take_every_descriptor();
            let relay = async move { splice_bidirectional(&mut a, &mut b).await };
            check(client, origin, relay, 2_000_000, 1_000_000).await;
            let after = Handle::current().stats().splice;
            assert_eq!((before.pipes, before.refused), (0, 0));
            assert_eq!((after.splices, after.pipes), (0, 0), "{after:?}");
            assert!(after.refused > 0, "{after:?}");
        }));
    });
}

/// At urgent data a splice says that nothing is there, or that the stream has ended.
#[cfg(target_os = "linux")]
#[evenkeel::test]
async fn bytes_behind_urgent_data_are_moved_as_well() {
    let ((mut client, mut a), (mut b, mut origin)) = (tcp().await, tcp().await);
    let sent = pattern(65_000, 0);
    let (before, behind) = sent.split_at(60_000);
    within(client.write_all(before)).await.unwrap();
    let urgent = socket2::SockRef::from(&client).send_out_of_band(b"!");
    assert_eq!(urgent.unwrap(), 1);
    within(client.write_all(behind)).await.unwrap();
    within(client.shutdown()).await.unwrap();
    within(origin.shutdown()).await.unwrap();
    // All of it has come by then, so the splice meets it on its way.
    let relay = evenkeel::spawn(async move { splice_bidirectional(&mut a, &mut b).await });
    let mut heard = Vec::new();
    within(origin.read_to_end(&mut heard)).await.unwrap();
    assert!(heard == sent, "{} bytes of {}", heard.len(), sent.len());
    let moved = within(relay).await.unwrap().unwrap();
    assert_eq!(moved.forth, sent.len() as u64);
}

/// The end is known before the first read, which stops at the urgent byte.
#[cfg(target_os = "linux")]
#[evenkeel::test]
async fn what_a_look_for_the_end_brings_is_moved_as_well() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut a = within(TcpStream::connect(listener.local_addr().unwrap()))
        .await
        .unwrap();
    let (mut sender, _) = listener.accept().unwrap();
    let (mut b, mut origin) = tcp().await;
    let sent = pattern(15_000, 0);
    let (before, behind) = sent.split_at(10_000);
    std::io::Write::write_all(&mut sender, before).unwrap();
    let urgent = socket2::SockRef::from(&sender).send_out_of_band(b"!");
    assert_eq!(urgent.unwrap(), 1);
    std::io::Write::write_all(&mut sender, behind).unwrap();
    sender.shutdown(std::net::Shutdown::Write).unwrap();
    within(origin.shutdown()).await.unwrap();
    let relay = evenkeel::spawn(async move { splice_bidirectional(&mut a, &mut b).await });
    let mut heard = Vec::new();
    within(origin.read_to_end(&mut heard)).await.unwrap();
    assert!(heard == sent, "{} bytes of {}", heard.len(), sent.len());
    assert_eq!(within(relay).await.unwrap().unwrap().forth, 15_000);
}

/// After a wait a splice goes on, and at urgent data it says that nothing is there.
#[cfg(target_os = "linux")]
#[evenkeel::test]
async fn bytes_behind_urgent_data_do_not_wait_for_more() {
    let ((mut client, mut a), (mut b, mut origin)) = (tcp().await, tcp().await);
    let sent = pattern(65_000, 0);
    let (before, behind) = sent.split_at(60_000);
    // So much that the relay splices, and then waits.
    within(client.write_all(before)).await.unwrap();
    let relay = evenkeel::spawn(async move { splice_bidirectional(&mut a, &mut b).await });
    let mut heard = vec![0; sent.len()];
    let (first, rest) = heard.split_at_mut(before.len());
    within(origin.read_exact(first)).await.unwrap();
    let urgent = socket2::SockRef::from(&client).send_out_of_band(b"!");
    assert_eq!(urgent.unwrap(), 1);
    within(client.write_all(behind)).await.unwrap();
    within(origin.read_exact(rest)).await.unwrap();
    assert!(heard == sent);
    drop((client, origin));
    within(relay).await.unwrap().unwrap();
}
