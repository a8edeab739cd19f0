//! The traits of I/O and their buffer, as Evenkeel's sockets have them.

pub use evenkeel_traits::io::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};
