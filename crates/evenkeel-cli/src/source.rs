//! Where snapshots come from: a process, or a file.

use std::collections::VecDeque;

use evenkeel::runtime::{Builder, Runtime};
use evenkeel::stats::TaskInfo;
use evenkeel_admin::Snapshot;

use crate::busy::ASKED;
use crate::client::Client;
use crate::error::TopError;
use crate::recording::{self, Recorder};
use crate::top::Options;

#[derive(Debug)]
pub(crate) enum Source {
    Process {
        client: Client,
        runtime: Runtime,
        recorder: Option<Recorder>,
    },
    File {
        name: String,
        snapshots: VecDeque<Snapshot>,
    },
}

impl Source {
    pub(crate) fn open(options: &Options) -> Result<Self, TopError> {
        if let Some(path) = &options.replay {
            return Ok(Self::File {
                name: path.display().to_string(),
                snapshots: recording::read(path)?.into(),
            });
        }
        let recorder = options
            .record
            .as_deref()
            .map(Recorder::create)
            .transpose()?;
        Ok(Self::Process {
            client: Client::new(&options.address, options.token.as_deref())?,
            runtime: Builder::new().workers(1).build()?,
            recorder,
        })
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Process { client, .. } => client.address(),
            Self::File { name, .. } => name,
        }
    }

    pub(crate) fn is_live(&self) -> bool {
        matches!(self, Self::Process { .. })
    }

    /// Each snapshot that is taken is kept.
    pub(crate) fn is_recording(&self) -> bool {
        matches!(
            self,
            Self::Process {
                recorder: Some(_),
                ..
            }
        )
    }

    /// The next snapshot; `None` after the last of a file.
    pub(crate) fn next(&mut self) -> Result<Option<Snapshot>, TopError> {
        match self {
            Self::Process {
                client,
                runtime,
                recorder,
            } => {
                let snapshot = runtime.block_on(client.snapshot())?;
                if let Some(recorder) = recorder {
                    recorder.add(&snapshot)?;
                }
                Ok(Some(snapshot))
            }
            Self::File { snapshots, .. } => Ok(snapshots.pop_front()),
        }
    }

    /// The tasks with the most run time; `None` if that is not known.
    pub(crate) fn tasks(&self) -> Result<Option<Vec<TaskInfo>>, TopError> {
        match self {
            Self::Process {
                client, runtime, ..
            } => runtime.block_on(client.tasks(ASKED)),
            Self::File { .. } => Ok(None),
        }
    }

    pub(crate) fn set_share(&self, class: &str, share: u32) -> Result<(), TopError> {
        match self {
            Self::Process {
                client, runtime, ..
            } => runtime.block_on(client.set_share(class, share)),
            Self::File { .. } => Ok(()),
        }
    }
}
