//! The files of a log: its segments in order, and its mark.

use std::sync::Arc;

use super::cursors::{CURSORS_NAME, NEW_NAME};
use super::error::DIRECTORY;
use super::head::NEWER;
use super::mark::{Kind, MARK_NAME, MarkDefect, MarkFile};
use super::record::{Damage, HEAD_BYTES, Head};
use super::roster::ROSTER_NAMES;
use super::scan::Window;
use super::segment::{Segment, first_of, is_cut, name_of};
use super::{Disk, DiskFile, LogError, local};

/// How often the files are listed again, if a server removes or creates some meanwhile.
const TRIES: u32 = 10;

/// The files of a log, before its records are read.
pub(super) struct Listed<F> {
    /// 0 if there is no segment.
    pub(super) log_id: u32,
    pub(super) segments: Vec<Segment<F>>,
    /// A last segment whose creation was interrupted by a crash.
    pub(super) unfinished: Option<Unfinished>,
    /// A last segment, by its first record, whose head is damaged.
    pub(super) headless: Option<(u64, Damage)>,
    /// The mark, or why it cannot be used. `None` if there is none, and there need not be one.
    pub(super) mark: Result<Option<MarkFile<F>>, MarkDefect>,
}

pub(super) struct Unfinished {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) damage: Damage,
}

impl<F> Listed<F> {
    /// The mark, if the files can be used as they are.
    pub(super) fn take_mark(&mut self) -> Result<Option<MarkFile<F>>, LogError> {
        if let Some((first, damage)) = self.headless {
            return Err(headless((first, None), damage, self.segments.is_empty()));
        }
        let mark = std::mem::replace(&mut self.mark, Ok(None));
        mark.map_err(|defect| LogError::Mark { defect })
    }
}

/// Whether a name may be in a log's directory. The last one is in the root of some file systems.
pub(super) fn is_known(name: &str) -> bool {
    let others = [
        MARK_NAME,
        CURSORS_NAME,
        NEW_NAME,
        local::LOCK_NAME,
        "lost+found",
    ];
    let is_other = others.contains(&name) || ROSTER_NAMES.contains(&name);
    is_other || first_of(name).is_some() || is_cut(name)
}

/// Lists the files, of which all but the last have valid heads. Only the last one is kept open.
pub(super) async fn list<D: Disk>(disk: &D) -> Result<Listed<D::File>, LogError> {
    for _ in 1..TRIES {
        match try_list(disk).await {
            // Retention has removed it, or a server that begins has just made the mark.
            Err(LogError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
            Ok(Listed {
                mark: Err(MarkDefect::Missing),
                ..
            }) => {}
            listed => return listed,
        }
    }
    try_list(disk).await
}

async fn try_list<D: Disk>(disk: &D) -> Result<Listed<D::File>, LogError> {
    // Before the segments, so that records which are appended meanwhile are not missed in them.
    let mark = MarkFile::read(disk).await;
    let mark = mark.map_err(LogError::io("read", MARK_NAME))?;
    // Whatever else may be wrong with its files, nothing is to be mended there.
    if let Some(Ok(mark)) = &mark
        && mark.last().kind == Kind::Unfinished
    {
        let kind = Kind::Unfinished;
        return Err(LogError::Copy { kind });
    }
    let failed = LogError::io("list", DIRECTORY);
    let names = disk.list().await.map_err(failed)?;
    if let Some(name) = names.iter().find(|name| !is_known(name)) {
        let name = name.clone();
        return Err(LogError::Foreign { name });
    }
    let mut firsts: Vec<u64> = names.iter().filter_map(|name| first_of(name)).collect();
    firsts.sort_unstable();
    let mut listed = Listed {
        log_id: 0,
        segments: Vec::with_capacity(firsts.len()),
        unfinished: None,
        headless: None,
        mark: Ok(None),
    };
    let mut is_marked = false;
    for (at, &first) in firsts.iter().enumerate() {
        let following = firsts.get(at + 1).copied();
        is_marked |= add(disk, first, following, &mut listed).await?;
    }
    listed.mark = match mark {
        Some(Ok(mark)) if listed.log_id != 0 && mark.last().log_id != listed.log_id => {
            Err(MarkDefect::OtherLog)
        }
        Some(Ok(mark)) => Ok(Some(mark)),
        None if is_marked => Err(MarkDefect::Missing),
        None => Ok(None),
        // It is made before the first segment that says so: its making was interrupted.
        Some(Err(MarkDefect::Damaged)) if !is_marked => Ok(None),
        Some(Err(defect)) => Err(defect),
    };
    Ok(listed)
}

/// Reads the head of a segment. Returns whether that says that there is a mark.
async fn add<D: Disk>(
    disk: &D,
    first: u64,
    following: Option<u64>,
    listed: &mut Listed<D::File>,
) -> Result<bool, LogError> {
    let name = name_of(first);
    let failed = LogError::io("open", &name);
    let file = disk.open(&name).await.map_err(&failed)?;
    let bytes = Window::with_bytes(&file, 0, HEAD_BYTES)
        .at(0, HEAD_BYTES)
        .await
        .map_err(&failed)?;
    let (is_first, is_last) = (listed.segments.is_empty(), following.is_none());
    let head = Head::decode(&bytes).and_then(|head| match head {
        Head { first: is, .. } if is != first => Err(Damage::Head("of another segment")),
        Head { log_id, .. } if !is_first && log_id != listed.log_id => {
            Err(Damage::OtherLog { id: log_id })
        }
        head => Ok(head),
    });
    let bytes = file.size().await.map_err(&failed)?;
    match head {
        Ok(head) => {
            listed.log_id = head.log_id;
            let kept = is_last.then(|| Arc::new(file));
            listed.segments.push(Segment::new(head, kept, bytes));
            return Ok(head.marked);
        }
        // The first segment of all, or one behind others: no other is ever created.
        Err(damage) if is_last && (!is_first || first == 1) && is_unfinished(damage, bytes) => {
            listed.unfinished = Some(Unfinished {
                name,
                bytes,
                damage,
            });
        }
        Err(damage) if is_last && damage != Damage::Head(NEWER) => {
            listed.headless = Some((first, damage));
        }
        Err(damage) => return Err(headless((first, following), damage, is_first)),
    }
    Ok(false)
}

/// A segment's head is made durable before any record is written behind it. So if a last segment
/// has no head, and nothing behind it, a crash interrupted its creation.
fn is_unfinished(damage: Damage, bytes: u64) -> bool {
    let is_whole = matches!(
        damage,
        Damage::OtherLog { .. } | Damage::Head("of another segment") | Damage::Head(NEWER)
    );
    !is_whole && bytes <= HEAD_BYTES as u64
}

fn headless((first, following): (u64, Option<u64>), damage: Damage, is_first: bool) -> LogError {
    let later = if is_first {
        " (it is the log's first)"
    } else {
        ""
    };
    LogError::Corrupt {
        segment: name_of(first),
        offset: 0,
        sequence: first,
        damage,
        later: later.to_owned(),
        following,
    }
}

/// The end of the log in its last segment is before its mark.
pub(super) fn lost_tail<F: DiskFile>(
    mark: Option<&MarkFile<F>>,
    next: u64,
    damage: Option<Damage>,
) -> Result<(), LogError> {
    let Some(mark) = mark.map(MarkFile::last).filter(|mark| next < mark.next) else {
        return Ok(());
    };
    Err(LogError::LostTail {
        next,
        marked: mark.next,
        segment: name_of(mark.segment),
        bytes: mark.bytes,
        damage: damage.map_or_else(String::new, |damage| format!(" ({damage})")),
    })
}
