//! Settings as text, for operators: they change a program's environment, and not its source.

use std::collections::BTreeSet;
use std::env;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::class::{self, ClassConfig};
use crate::sched::BusyWait;

use super::builder::Builder;

/// The environment variable of [`Builder::settings_from_env`].
const VARIABLE: &str = "EVENKEEL_SETTINGS";
/// The setting that adds classes, and goes before those of a class.
const CLASSES: &str = "classes";

/// Gives a setting to a builder, or says what would be a value of it.
type Apply = fn(&mut Builder, &str) -> Result<(), String>;

/// Makes a row for each setting: its name, which is that of the setter, and how its text is read.
macro_rules! settings {
    ($($name:ident: $read:ident;)*) => {
        const SETTINGS: &[(&str, Apply)] = &[$(
            (stringify!($name), |builder, text| {
                builder.$name($read(text)?);
                Ok(())
            }),
        )*];
    };
}

settings! {
    workers: number;
    real_time_workers: switch;
    real_time_beside_hogs: switch;
    thread_name: text;
    busy_wait: level;
    io_check_bound: duration;
    io_check_events: number;
    hand_off_after: limit;
    hog_stacks: switch;
    heavy_threads: number;
    blocked_threads: number;
    max_blocking_threads: number;
    blocking_queue_limit: number;
    blocking_keep_alive: duration;
    disk_threads: number;
    disk_queue_limit: number;
    disk_ring: switch;
    disk_wait_limit: limit;
}

impl Builder {
    /// Takes over settings that are written as text: pairs of a name and a value, separated by
    /// spaces or commas, such as `workers=4 hand_off_after=2ms class.bulk.share=10`. They change
    /// what was set before, and what is set later changes them.
    ///
    /// | setting | value |
    /// |---|---|
    /// | `workers` | a number |
    /// | `real_time_workers` | `on` or `off` |
    /// | `real_time_beside_hogs` | `on` or `off` |
    /// | `thread_name` | a name without spaces and commas |
    /// | `busy_wait` | a level, such as `short`: see [`BusyWait`] |
    /// | `io_check_bound` | a duration: a whole number with `us`, `ms` or `s` |
    /// | `io_check_events` | a number |
    /// | `hand_off_after` | a duration, or `off` |
    /// | `hog_stacks` | `on` or `off` |
    /// | `heavy_threads` | a number |
    /// | `blocked_threads` | a number |
    /// | `max_blocking_threads` | a number |
    /// | `blocking_queue_limit` | a number |
    /// | `blocking_keep_alive` | a duration |
    /// | `disk_threads` | a number |
    /// | `disk_queue_limit` | a number |
    /// | `disk_ring` | `on` or `off` |
    /// | `disk_wait_limit` | a duration, or `off` |
    /// | `classes` | names of classes to add, separated by `+`, such as `gold+trial` |
    /// | `class.NAME.share` | a number |
    /// | `class.NAME.latency_target` | a duration |
    ///
    /// A class that is set has to be there: `urgent`, `normal`, `bulk`, one that
    /// [`class`](Builder::class) or [`define`](crate::Class::define) has added, or one in
    /// `classes`, wherever that stands in the text. A class that is added must not be there before.
    /// The program finds it by [`Handle::class`](super::Handle::class).
    ///
    /// Each of the others does the same as the builder's method of its name, which says what is
    /// allowed. An unknown name, a value that cannot be read or is not allowed, and a setting that
    /// is given twice are errors of [`build`](Builder::build): nothing is ignored.
    ///
    /// # Examples
    ///
    /// ```
    /// use evenkeel::runtime::Builder;
    ///
    /// let runtime = Builder::new().settings("workers=1, io_check_bound=200us").build()?;
    /// assert_eq!(runtime.stats().workers.len(), 1);
    ///
    /// let error = Builder::new().settings("worker=1").build().unwrap_err();
    /// assert!(error.to_string().contains("there is no setting `worker`"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn settings(&mut self, text: &str) -> &mut Self {
        self.take_settings("the settings", text)
    }

    /// Takes over the settings in the environment variable `EVENKEEL_SETTINGS`, if there is one, as
    /// [`settings`](Builder::settings) does. To be called last, so that whoever operates the
    /// program has the last word.
    pub fn settings_from_env(&mut self) -> &mut Self {
        match env::var(VARIABLE) {
            Ok(text) => self.take_settings(VARIABLE, &text),
            Err(env::VarError::NotPresent) => self,
            Err(error) => {
                let error = SettingsError::new(VARIABLE, error.to_string());
                self.refuse_settings(error);
                self
            }
        }
    }

    fn take_settings(&mut self, source: &'static str, text: &str) -> &mut Self {
        let mut changed = self.clone();
        match changed.apply_all(text) {
            Ok(()) => match (self.check(), changed.check()) {
                // What is wrong was given here.
                (Ok(()), Err(error)) => {
                    self.refuse_settings(SettingsError::new(source, error.to_string()));
                }
                // Else what is wrong was given before, and `build` says so.
                _ => *self = changed,
            },
            Err(reason) => self.refuse_settings(SettingsError::new(source, reason)),
        }
        self
    }

    fn apply_all(&mut self, text: &str) -> Result<(), String> {
        let mut given = BTreeSet::new();
        let mut pairs = pairs(text)?;
        pairs.sort_by_key(|(name, _)| *name != CLASSES);
        for (name, value) in pairs {
            if !given.insert(name) {
                return Err(format!("`{name}` is given twice"));
            }
            let wrong = |wanted| format!("`{name}` is {value:?}: {wanted}");
            match name.strip_prefix("class.") {
                Some(rest) => self.apply_to_class(rest, value).map_err(wrong)?,
                None if name == CLASSES => self.add_classes(value).map_err(wrong)?,
                None => {
                    let found = SETTINGS.iter().find(|(known, _)| *known == name);
                    let (_, apply) = found.ok_or_else(|| unknown(name))?;
                    apply(self, value).map_err(wrong)?;
                }
            }
        }
        Ok(())
    }

    fn add_classes(&mut self, names: &str) -> Result<(), String> {
        for name in names.split('+') {
            if self.has_class(name) {
                return Err(format!("there is a class `{name}` already; leave it out"));
            }
            self.class(name, ClassConfig::new());
            if let Some(error) = self.class_refusal() {
                return Err(error.to_string());
            }
        }
        Ok(())
    }

    /// Applies `NAME.share` or `NAME.latency_target`.
    fn apply_to_class(&mut self, name: &str, value: &str) -> Result<(), String> {
        let (class, setting) = name.rsplit_once('.').unwrap_or((name, ""));
        if !self.has_class(class) {
            class::check_name(class).map_err(|error| error.to_string())?;
            if let Some(meant) = self.class_but_for_case(class) {
                return Err(format!("there is no class `{class}`; there is `{meant}`"));
            }
            // It would be a new one, in which no task is.
            return Err(format!(
                "the program has no class `{class}`; `{CLASSES}={class}` adds it"
            ));
        }
        let config = match setting {
            "share" => ClassConfig::new().share(number(value)?),
            "latency_target" => ClassConfig::new().latency_target(duration(value)?),
            _ => return Err("a class has `share` and `latency_target`".into()),
        };
        self.class(class, config);
        Ok(())
    }
}

/// The names of the settings in the environment variable, which have been found valid.
#[cfg(feature = "drop-in")]
pub(crate) fn given_in_env() -> Vec<String> {
    let text = env::var(VARIABLE).unwrap_or_default();
    let names = pairs(&text).into_iter().flatten();
    names.map(|(name, _)| name.to_owned()).collect()
}

/// The settings of a text, in their order.
fn pairs(text: &str) -> Result<Vec<(&str, &str)>, String> {
    let parts = text.split(|c: char| c == ',' || c.is_whitespace());
    let parts = parts.filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let no_pair = || format!("{part:?} is no setting; write name=value");
            part.split_once('=').ok_or_else(no_pair)
        })
        .collect()
}

fn unknown(name: &str) -> String {
    let known: Vec<_> = SETTINGS.iter().map(|(name, _)| *name).collect();
    format!(
        "there is no setting `{name}`; there are {}, {CLASSES}, class.NAME.share and \
         class.NAME.latency_target",
        known.join(", ")
    )
}

fn text(text: &str) -> Result<&str, String> {
    Ok(text)
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| "use a whole number".into())
}

fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("use `on` or `off`".into()),
    }
}

fn level(text: &str) -> Result<BusyWait, String> {
    text.parse()
        .map_err(|error: crate::sched::ParseBusyWaitError| error.to_string())
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    const WANTED: &str = "use a whole number with `us`, `ms` or `s`, such as 2ms";
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number: u64 = (text[..text.len() - unit.len()].parse()).map_err(|_| WANTED)?;
    match unit {
        "us" => Ok(Duration::from_micros(number)),
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        _ => Err(WANTED.into()),
    }
}

fn limit(text: &str) -> Result<Option<Duration>, String> {
    match text {
        "off" => Ok(None),
        _ => duration(text)
            .map(Some)
            .map_err(|wanted| format!("{wanted}, or `off`")),
    }
}

/// Why settings that are written as text were refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError {
    /// Where they were written.
    source: &'static str,
    reason: String,
}

impl SettingsError {
    fn new(source: &'static str, reason: String) -> Self {
        Self { source, reason }
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be used: {}", self.source, self.reason)
    }
}

impl Error for SettingsError {}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let error = Builder::new().settings(text).build().expect_err(text);
        error.to_string()
    }

    #[test]
    fn every_setting_is_in_the_table() {
        let source = include_str!("settings.rs");
        for name in SETTINGS.iter().map(|(name, _)| *name).chain([CLASSES]) {
            assert!(source.contains(&format!("/// | `{name}` | ")), "{name}");
        }
    }

    #[test]
    fn what_is_refused_is_named_with_what_would_do() {
        let many: Vec<String> = (0..62).map(|number| format!("c{number}")).collect();
        let many = many.join("+");
        for (text, parts) in [
            ("workers", ["\"workers\" is no setting", "name=value"]),
            ("worker=2", ["no setting `worker`", "workers, real_time"]),
            ("workers=two", ["`workers` is \"two\"", "a whole number"]),
            ("workers=-1", ["`workers` is \"-1\"", "a whole number"]),
            ("workers=0", ["Builder::workers", "1 to 1024"]),
            ("workers=1,workers=1", ["`workers`", "twice"]),
            ("disk_ring=yes", ["`disk_ring` is \"yes\"", "`on` or `off`"]),
            ("io_check_bound=5", ["\"5\"", "`ms`"]),
            ("io_check_bound=1h", ["\"1h\"", "`ms`"]),
            ("io_check_bound=off", ["\"off\"", "`ms`"]),
            ("io_check_bound=2s", ["Builder::io_check_bound", "1 second"]),
            ("hand_off_after=never", ["\"never\"", "`off`"]),
            ("busy_wait=much", ["`busy_wait`", "very_long"]),
            ("thread_name=", ["thread_name", "at least one"]),
            ("class.bulk=1", ["`class.bulk`", "latency_target"]),
            (
                "class.video.share=1",
                ["no class `video`", "`classes=video` adds it"],
            ),
            (
                "classes=Gold class.gold.share=1",
                ["no class `gold`", "there is `Gold`"],
            ),
            (
                "classes=a.b class.a.b.share=3",
                ["\"a.b\" is no name", "1 to 32 letters"],
            ),
            (
                &format!("classes={many} class.c61.share=3"),
                ["class `c61` is one too many", "64 classes"],
            ),
            ("class..share=1", ["\"\" is no name", "1 to 32 letters"]),
            (
                "class.a:b.share=1",
                ["\"a:b\" is no name", "1 to 32 letters"],
            ),
            ("classes=bulk", ["class `bulk` already", "leave it out"]),
            ("classes=a+b+a", ["class `a` already", "`classes` is"]),
            ("classes=", ["\"\" is no name", "1 to 32 letters"]),
            ("classes=a;b", ["\"a;b\" is no name", "1 to 32 letters"]),
            ("classes=a classes=b", ["`classes`", "twice"]),
            (
                &format!("classes={many}"),
                ["class `c61` is one too many", "64 classes"],
            ),
            (
                "class.bulk.weight=1",
                ["`class.bulk.weight`", "latency_target"],
            ),
            ("class.bulk.share=0", ["a share of 0", "1 to 10000"]),
        ] {
            let message = refused(text);
            for part in parts.iter().chain(&["the settings cannot be used: "]) {
                assert!(message.contains(part), "`{part}` is not in: {message}");
            }
        }
    }

    #[test]
    fn what_is_given_changes_what_was_set_before() {
        let mut builder = Builder::new();
        builder.workers(7).class("video", ClassConfig::new());
        builder.settings("workers=3 , hand_off_after=off\n disk_wait_limit=5s");
        builder.settings("class.video.share=7 class.video.latency_target=9ms busy_wait=long");
        builder.settings("real_time_workers=off thread_name=t heavy_threads=5");
        builder.settings("");
        let config = builder.config().unwrap();
        assert_eq!((config.workers, config.heavy_threads), (3, 5));
        assert_eq!(config.hand_off_after, None);
        assert_eq!(config.disk_wait_limit, Duration::from_secs(5));
        assert_eq!(config.busy_wait, BusyWait::Long);
        assert_eq!(config.thread_name, "t");
        let video = config.classes.iter().find(|(_, row)| row.name == "video");
        let terms = video.expect("it was added").1.terms;
        assert_eq!((terms.share, terms.target), (7, Duration::from_millis(9)));
        assert_eq!(builder.workers(2).config().unwrap().workers, 2);
    }

    #[test]
    fn classes_are_added_before_they_are_set() {
        let mut builder = Builder::new();
        builder.settings("class.gold.share=80, classes=gold+trial, class.trial.share=5");
        let config = builder.config().unwrap();
        let rows: Vec<_> = config.classes.iter().skip(3).collect();
        let said = rows.iter().map(|(_, row)| (&*row.name, row.terms.share));
        assert_eq!(said.collect::<Vec<_>>(), [("gold", 80), ("trial", 5)]);
    }

    #[test]
    fn settings_that_are_refused_stay_refused() {
        let mut builder = Builder::new();
        builder.settings("workers=x").settings("workers=2");
        assert!(builder.build().is_err());
    }

    #[test]
    fn what_was_wrong_before_is_not_blamed_on_the_settings() {
        let error = Builder::new()
            .workers(0)
            .settings("heavy_threads=1")
            .build();
        let message = error.unwrap_err().to_string();
        assert!(message.starts_with("`Builder::workers`"), "{message}");
    }
}
