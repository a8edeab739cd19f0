//! Why a request or a connection failed, as a number.

/// Why a request or a connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Code {
    /// The first frame is not a hello of this protocol.
    NotTxlog,
    /// The server speaks none of the client's versions.
    Version,
    /// A frame is malformed.
    BadFrame,
    /// A frame is too long.
    FrameTooLong,
    /// The server has as many connections as it may have.
    TooManyConnections,
    /// The hello, the rest of a frame, or reading the answers took too long.
    TooSlow,
    /// The server is shutting down.
    Closing,
    /// The record is larger than the server takes.
    RecordTooLarge,
    /// The records asked for are no longer kept.
    Trimmed,
    /// The log has failed, or it is unknown whether the record is durable.
    LogFailed,
    /// The log had failed before the record came, which is not in it. Since version 3; earlier ones
    /// are told [`Code::LogFailed`].
    LogFailedBefore,
    /// The connection has too many pending reads.
    TooManyReads,
    /// The records asked for are beyond the end of the log.
    OutOfRange,
    /// The server has another log than the reader expects.
    OtherLog,
    /// The log has lost or replaced durable records since the reader was there.
    NewEpoch,
    /// The server had no memory left for this read in time.
    Busy,
    /// The server has no log of this name.
    NoSuchLog,
    /// The token does not allow this, or is needed and missing.
    NotAllowed,
    /// The log's next number is not the one that a batch expected.
    NotExpected,
    /// A producer left out records: it is to send those first.
    ProducerGap,
    /// The server no longer knows this producer, and cannot tell what it has stored.
    ProducerUnknown,
    /// The server has as many logs, cursors or producers as it may have.
    TooMany,
    /// The store cannot do this.
    Unsupported,
    /// Consumers have yet to read records that would be removed, by their named cursors. Since
    /// version 4.
    CursorsBehind,
    /// A code that this version does not know.
    Other(u16),
}

/// Codes and their numbers.
pub(super) const CODES: [(Code, u16); 24] = [
    (Code::NotTxlog, 1),
    (Code::Version, 2),
    (Code::BadFrame, 3),
    (Code::FrameTooLong, 4),
    (Code::TooManyConnections, 5),
    (Code::TooSlow, 6),
    (Code::Closing, 7),
    (Code::RecordTooLarge, 16),
    (Code::Trimmed, 17),
    (Code::LogFailed, 18),
    (Code::TooManyReads, 19),
    (Code::OutOfRange, 20),
    (Code::OtherLog, 21),
    (Code::NewEpoch, 22),
    (Code::Busy, 24),
    (Code::NoSuchLog, 25),
    (Code::NotAllowed, 26),
    (Code::NotExpected, 27),
    (Code::ProducerGap, 28),
    (Code::ProducerUnknown, 29),
    (Code::TooMany, 30),
    (Code::Unsupported, 31),
    (Code::LogFailedBefore, 32),
    (Code::CursorsBehind, 33),
];

/// The numbers of a refusal with [`Code::LogFailed`] or [`Code::LogFailedBefore`] if that may pass
/// by itself, as when the server that keeps the records is away.
pub const MAY_PASS: [u64; 2] = [1, 0];

impl Code {
    /// Whether it says that the log takes no records.
    pub fn is_of_failed_log(self) -> bool {
        matches!(self, Code::LogFailed | Code::LogFailedBefore)
    }

    /// The number in the frame.
    pub fn number(self) -> u16 {
        match self {
            Code::Other(number) => number,
            known => CODES
                .iter()
                .find(|(code, _)| *code == known)
                .map_or(0, |(_, number)| *number),
        }
    }

    /// The code with this number.
    pub fn of(number: u16) -> Self {
        CODES
            .iter()
            .find(|(_, known)| *known == number)
            .map_or(Code::Other(number), |(code, _)| *code)
    }
}
