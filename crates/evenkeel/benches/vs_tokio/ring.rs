//! Echo without a runtime, on a completion queue: one thread, one ring, no tasks. What a runtime
//! could gain by leaving readiness, as `bare` is what it could gain by doing less.
//!
//! The kernel accepts, receives into buffers that it picks, and keeps doing so until told
//! otherwise; the server only has sends to ask for, all those of a turn in one system call, which
//! also awaits what comes next. Descriptors are the ring's own. A connection has no state here.
#![allow(
    unsafe_code,
    reason = "the kernel reads requests and writes buffers of the ring"
)]

mod buffers;
#[deny(unsafe_code)]
mod gather;

use std::io::{self, PipeReader, PipeWriter};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::sync::mpsc;
use std::thread::JoinHandle;

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};
use socket2::SockRef;

use buffers::Buffers;
use gather::Gather;

/// How many connections the ring has descriptors for. The process has to be allowed as many files.
const CONNECTIONS_MAX: u32 = 1024;
/// Several for each connection.
const REQUESTS: u32 = 4096;
/// Several completions for each request.
const COMPLETIONS: u32 = 4 * REQUESTS;

/// A server that runs until it is dropped.
pub(crate) struct Ring {
    port: u16,
    /// Closed when the thread shall end.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Ring {
    /// What the names of its threads begin with; the second are the kernel's own, which work for
    /// a ring when a request cannot be done where it was made.
    pub(crate) const THREADS: [&'static str; 2] = ["ring-", "iou-"];

    /// Starts the server on the processors of the calling thread.
    ///
    /// # Errors
    ///
    /// Also where the kernel has no such ring, or forbids it.
    pub(crate) fn start() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        // Its connections inherit it.
        SockRef::from(&listener).set_tcp_nodelay(true)?;
        let port = listener.local_addr()?.port();
        let (stopped, stop) = io::pipe()?;
        let (tell, told) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name(format!("{}0", Self::THREADS[0]))
            .spawn(move || {
                // By the thread that will use it: the ring is for that one alone.
                let mut server = match Server::new(listener, stopped) {
                    Ok(server) => server,
                    Err(error) => {
                        let _ = tell.send(Err(error));
                        return Ok(());
                    }
                };
                let _ = tell.send(Ok(()));
                server.run()
            })?;
        told.recv().map_err(io::Error::other)??;
        Ok(Self {
            port,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        drop(self.stop.take());
        match self.thread.take().map(JoinHandle::join) {
            None | Some(Ok(Ok(()))) => {}
            Some(Ok(Err(error))) => eprintln!("vs_tokio: the ring server broke off: {error}"),
            Some(Err(_)) => eprintln!("vs_tokio: the ring server panicked"),
        }
    }
}

/// What a completion is about.
#[derive(Clone, Copy)]
enum Subject {
    Stop,
    Listener,
    /// What came on the connection with this descriptor of the ring's, or that nothing will.
    Received(u32),
    /// A send that went wrong. Of others nothing is heard.
    NotSent(u32),
    /// An attempt to end a connection that had ended.
    Ended,
}

impl Subject {
    /// As the number that goes through the kernel: what, and in the lower half on which.
    fn number(self) -> u64 {
        let (what, descriptor) = match self {
            Self::Stop => (0, 0),
            Self::Listener => (1, 0),
            Self::Received(descriptor) => (2, descriptor),
            Self::NotSent(descriptor) => (3, descriptor),
            Self::Ended => (4, 0),
        };
        what << 32 | u64::from(descriptor)
    }

    fn of(completion: &cqueue::Entry) -> Self {
        let number = completion.user_data();
        #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
        let descriptor = number as u32;
        match number >> 32 {
            0 => Self::Stop,
            1 => Self::Listener,
            2 => Self::Received(descriptor),
            3 => Self::NotSent(descriptor),
            _ => Self::Ended,
        }
    }
}

struct Server {
    ring: IoUring,
    buffers: Buffers,
    gather: Gather,
    /// Kept open for the ring.
    _listener: TcpListener,
    _stopped: PipeReader,
}

impl Server {
    fn new(listener: TcpListener, stopped: PipeReader) -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_cqsize(COMPLETIONS)
            // All that was asked for is begun, even if a part of it is refused.
            .setup_submit_all()
            // The kernel does its part in this thread, and only when this thread asks.
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(REQUESTS)?;
        ring.submitter().register_files_sparse(CONNECTIONS_MAX)?;
        let mut buffers = Buffers::new();
        buffers.register(&ring.submitter())?;
        let stop = opcode::PollAdd::new(Fd(stopped.as_raw_fd()), libc::POLLIN as u32).build();
        let accept = opcode::AcceptMulti::new(Fd(listener.as_raw_fd()))
            .allocate_file_index(true)
            .build();
        let mut server = Self {
            ring,
            buffers,
            gather: Gather::new(),
            _listener: listener,
            _stopped: stopped,
        };
        server.ask(&stop.user_data(Subject::Stop.number()))?;
        server.ask(&accept.user_data(Subject::Listener.number()))?;
        Ok(server)
    }

    fn run(&mut self) -> io::Result<()> {
        let mut completions = Vec::with_capacity(COMPLETIONS as usize);
        loop {
            self.wait()?;
            // The sends are through with their buffers: one that would have to wait fails.
            self.buffers.take_back();
            completions.extend(self.ring.completion());
            self.gather.learn(completions.len());
            for completion in completions.drain(..) {
                let result = completion.result();
                match Subject::of(&completion) {
                    Subject::Stop => return Ok(()),
                    Subject::Listener => self.receive(descriptor(result)?)?,
                    Subject::Received(from) => self.echo(from, &completion)?,
                    // Its receive then ends. It cannot have ended, and its descriptor be another
                    // connection's, as sends are done before anything is received.
                    Subject::NotSent(to) => self.ask(
                        &opcode::Shutdown::new(Fixed(to), libc::SHUT_RDWR)
                            .build()
                            .flags(Flags::SKIP_SUCCESS)
                            .user_data(Subject::Ended.number()),
                    )?,
                    Subject::Ended => {}
                }
            }
        }
    }

    /// Begins all that was asked for, and awaits as many completions as lately came together.
    fn wait(&self) -> io::Result<()> {
        let submitter = self.ring.submitter();
        let waited = match self.gather.want() {
            0 | 1 => submitter.submit_and_wait(1),
            many => {
                let patience = Timespec::from(gather::PATIENCE);
                submitter.submit_with_args(many, &SubmitArgs::new().timespec(&patience))
            }
        };
        match waited {
            Err(error) if error.raw_os_error() == Some(libc::ETIME) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            waited => waited.map(drop),
        }
    }

    /// Asks for all that will come on a connection.
    fn receive(&mut self, from: u32) -> io::Result<()> {
        let receive = opcode::RecvMulti::new(Fixed(from), buffers::GROUP).build();
        self.ask(&receive.user_data(Subject::Received(from).number()))
    }

    /// Sends back what came, out of the buffer in which it lies.
    fn echo(&mut self, from: u32, completion: &cqueue::Entry) -> io::Result<()> {
        let result = completion.result();
        let buffer = cqueue::buffer_select(completion.flags());
        if let (Ok(len @ 1..), Some(buffer)) = (u32::try_from(result), buffer) {
            // The load awaits each response, so that one always fits into the socket, at once
            // and as a whole. A connection that breaks is the client's way to end.
            let flags = libc::MSG_DONTWAIT | libc::MSG_WAITALL | libc::MSG_NOSIGNAL;
            let send = opcode::Send::new(Fixed(from), self.buffers.lend(buffer), len)
                .flags(flags)
                .build()
                .flags(Flags::SKIP_SUCCESS);
            self.ask(&send.user_data(Subject::NotSent(from).number()))?;
        }
        match result {
            _ if cqueue::more(completion.flags()) => Ok(()),
            // It ends for want of buffers, or for reasons of the kernel's, and not the client's.
            1.. => self.receive(from),
            error if error == -libc::ENOBUFS => self.receive(from),
            _ => self.ask(
                &opcode::Close::new(Fixed(from))
                    .build()
                    .flags(Flags::SKIP_SUCCESS)
                    .user_data(Subject::Ended.number()),
            ),
        }
    }

    /// Notes a request, which is begun by the next `wait`, or now if there are too many.
    fn ask(&mut self, request: &Entry) -> io::Result<()> {
        loop {
            // SAFETY: the only memory that requests name is that of the buffers, which is freed
            // when the ring no longer knows it, or never.
            if unsafe { self.ring.submission().push(request) }.is_ok() {
                return Ok(());
            }
            self.ring.submit()?;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.buffers.unregister(&self.ring.submitter());
    }
}

/// The result of an accept.
fn descriptor(result: i32) -> io::Result<u32> {
    u32::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}
