//! What the format cannot say: names, values out of range, and what does not go together.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::Range;

use servers_common::config::Found;
use toml::Spanned;

use super::account::is_user_name;
use super::{Camera, Config, Rtsp};

/// Everything that is wrong.
pub(super) fn problems(config: &Config) -> Vec<Found> {
    let mut examiner = Examiner {
        config,
        found: Vec::new(),
    };
    examiner.process();
    examiner.numbers();
    if let Some(rtsp) = &config.rtsp {
        examiner.rtsp(rtsp.span(), rtsp.get_ref());
    }
    if let Some(watch) = &config.watch
        && let Err(error) = crate::watch::server::check(watch.get_ref())
    {
        examiner.say(watch.span(), error.to_string());
    }
    examiner.addresses();
    examiner.users();
    for hook in &config.webhooks {
        if let Err(error) = crate::events::webhook::Hook::new(hook.get_ref()) {
            examiner.say(hook.span(), error.to_string());
        }
    }
    examiner.volumes();
    for (name, camera) in &config.cameras {
        examiner.camera(name, camera.span(), camera.get_ref());
    }
    examiner.found
}

/// What is wrong with a camera's name, which stands in addresses, commands and directories.
pub fn name_problem(name: &str) -> Option<String> {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let is_good = (1..=64).contains(&name.len())
        && name.bytes().all(is_of_name)
        && name.as_bytes()[0].is_ascii_alphanumeric();
    (!is_good).then(|| {
        format!(
            "{name:?} is no name for a camera: take 1 to 64 letters, digits, `_`, `-` and `.`, \
             beginning with a letter or a digit"
        )
    })
}

/// Whether the system gives only one of them to a listener.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let is_all = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port() && (one.ip() == other.ip() || is_all)
}

struct Examiner<'a> {
    config: &'a Config,
    found: Vec<Found>,
}

impl Examiner<'_> {
    fn say(&mut self, at: Range<usize>, message: impl Into<String>) {
        self.found.push(Found::new(at, message.into()));
    }

    fn process(&mut self) {
        if let Some(workers) = &self.config.process.workers
            && !(1..=1_024).contains(workers.get_ref())
        {
            self.say(
                workers.span(),
                "process.workers has to be between 1 and 1024",
            );
        }
    }

    fn numbers(&mut self) {
        let (limits, ingest) = (&self.config.limits, &self.config.ingest);
        let wrong = [
            (
                limits.camera_memory > limits.memory,
                "limits.camera_memory is more than limits.memory, which is for all cameras",
            ),
            (
                limits.camera_memory < 1 << 20,
                "limits.camera_memory has to be 1MiB or more: a key frame has to fit into half \
                 of it",
            ),
            (
                ingest.connects_max == 0,
                "ingest.connects_max has to be 1 or more: no camera would be connected to",
            ),
            (
                ingest.retry_first > ingest.retry_max,
                "ingest.retry_first is longer than ingest.retry_max",
            ),
        ];
        for (_, message) in wrong.into_iter().filter(|(is_wrong, _)| *is_wrong) {
            self.say(0..0, message);
        }
    }

    fn volumes(&mut self) {
        let mut paths = BTreeSet::new();
        for (name, volume) in &self.config.volumes {
            let path = &volume.get_ref().path;
            if !path.get_ref().is_absolute() {
                let said = "the path of a volume begins with `/`";
                self.say(path.span(), said);
            }
            if let Some(tier) = &volume.get_ref().tier
                && !self.config.tiers.contains_key(tier.get_ref())
            {
                let tier_name = tier.get_ref();
                let said = format!(
                    "there is no tier {tier_name:?}: add [tier.{tier_name}] with endpoint and \
                     bucket"
                );
                self.say(tier.span(), said);
            }
            if !paths.insert(path.get_ref()) {
                let said = format!("volume {name:?} has the path of another one");
                self.say(path.span(), said);
            }
        }
        for (name, tier) in &self.config.tiers {
            let settings = crate::record::tier::Settings::from(tier.get_ref());
            if let Err(error) = crate::record::tier::Tier::new(name, &settings) {
                self.say(tier.span(), error.to_string());
            }
        }
        let recording = &self.config.recording;
        if recording.camera_memory > recording.memory {
            let said = "recording.camera_memory is more than recording.memory, which is for all \
                        cameras";
            self.say(0..0, said);
        }
    }

    fn rtsp(&mut self, at: Range<usize>, rtsp: &Rtsp) {
        if rtsp.addresses() == [None, None] {
            self.say(
                at.clone(),
                "nothing listens: add listen, or listen_tls, to [rtsp]",
            );
        }
        for listen in rtsp.listen.iter().chain(&rtsp.listen_tls) {
            self.listens(listen, rtsp);
        }
        let has_certificate =
            (self.config.watch.as_ref()).is_some_and(|watch| watch.get_ref().tls.is_some());
        if let Some(listen) = &rtsp.listen_tls
            && !has_certificate
        {
            let said = "rtsp.listen_tls needs a certificate: add [watch.tls] with certificate and \
                        key";
            self.say(listen.span(), said);
        }
        if rtsp.sessions_max == 0 || rtsp.sessions_per_client_max == 0 {
            self.say(
                at,
                "rtsp.sessions_max and sessions_per_client_max have to be 1 or more",
            );
        }
        let mut names = BTreeSet::new();
        for user in &rtsp.users {
            let (at, user) = (user.span(), user.get_ref());
            if user.name.is_empty() || user.name.contains([':', '"']) || user.password.is_empty() {
                let said = "a user has a name, without `:` and quotes, and a password";
                self.say(at.clone(), said);
            }
            if !names.insert(&user.name) {
                self.say(
                    at.clone(),
                    format!("there are two users named {:?}", user.name),
                );
            }
            for camera in user.view.iter().chain(&user.publish) {
                if camera != "*" && !self.config.cameras.contains_key(camera) {
                    let said = format!("there is no camera {camera:?}: add [camera.{camera}]");
                    self.say(at.clone(), said);
                }
            }
        }
    }

    fn listens(&mut self, listen: &Spanned<String>, rtsp: &Rtsp) {
        let (at, listen) = (listen.span(), listen.get_ref());
        let has_no_users = rtsp.users.is_empty() && self.config.users.is_empty();
        match listen.parse::<SocketAddr>() {
            Err(_) => self.say(
                at,
                format!("{listen:?} is no address: write it as \"127.0.0.1:8554\""),
            ),
            Ok(address) if !address.ip().is_loopback() && has_no_users => self.say(
                at,
                "without users only a loopback address is taken, since anybody could watch: add \
                 [[user]], or [[rtsp.user]] with name, password and view = [\"*\"], or listen on \
                 127.0.0.1",
            ),
            Ok(_) => {}
        }
    }

    /// Two listeners at one address: the system would refuse the second at the start alone.
    fn addresses(&mut self) {
        let config = self.config;
        let mut taken: Vec<(&str, SocketAddr)> = Vec::new();
        let rtsp = config.rtsp.iter().flat_map(|it| {
            let Rtsp {
                listen, listen_tls, ..
            } = it.get_ref();
            [("rtsp.listen", listen), ("rtsp.listen_tls", listen_tls)]
        });
        let rtsp = rtsp.filter_map(|(name, it)| it.as_ref().map(|it| (name, it)));
        let rtsp = rtsp.map(|(name, it)| (name, it.span(), &**it.get_ref()));
        let watch = config.watch.iter();
        let watch = watch.map(|it| ("watch.listen", it.span(), &*it.get_ref().listen));
        let admin = config.process.admin_page.iter();
        let admin = admin.map(|it| ("process.admin_page", it.span(), &**it.get_ref()));
        for (name, at, address) in rtsp.chain(watch).chain(admin) {
            // What is no address is said elsewhere; at port 0 each gets another one.
            let Some(address) = address
                .parse()
                .ok()
                .filter(|it: &SocketAddr| it.port() != 0)
            else {
                continue;
            };
            if let Some((other, _)) = taken.iter().find(|(_, it)| overlap(*it, address)) {
                let said = format!("{name} has the address of {other}: give each another port");
                self.say(at, said);
            }
            taken.push((name, address));
        }
    }

    fn users(&mut self) {
        let rtsp = self.config.rtsp.iter();
        let rtsp = rtsp.flat_map(|rtsp| &rtsp.get_ref().users);
        let mut names: BTreeSet<&str> = rtsp.map(|user| &*user.get_ref().name).collect();
        for user in &self.config.users {
            let (at, user) = (user.span(), user.get_ref());
            if !is_user_name(&user.name) {
                self.say(
                    at.clone(),
                    "a user has a name, without `:`, `\\` and quotes",
                );
            }
            if !names.insert(&user.name) {
                let said = format!("there are two users named {:?}", user.name);
                self.say(at.clone(), said);
            }
            let is_hex = |digest: &String| {
                digest.len() == 32 && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
            };
            if !crate::users::is_hash(&user.password_hash)
                || !user.digest.as_ref().is_none_or(is_hex)
            {
                let said = "password_hash and digest are what `evenkeel-cameras hash-password` \
                            prints";
                self.say(at.clone(), said);
            }
            for camera in &user.cameras {
                let kept = self.config.process.cameras_file.is_some();
                if !kept && !self.config.cameras.contains_key(camera) {
                    let said = format!("there is no camera {camera:?}: add [camera.{camera}]");
                    self.say(at.clone(), said);
                }
            }
        }
    }

    fn camera(&mut self, name: &str, at: Range<usize>, camera: &Camera) {
        if let Some(problem) = name_problem(name) {
            self.say(at.clone(), problem);
        }
        if let Some(problem) = camera.address_problem() {
            self.say(at.clone(), problem);
        }
        if !camera.is_asked() && self.config.rtsp.is_none() {
            let said = "a camera without a url publishes by itself, and nothing listens: add its \
                        url, or [rtsp] with listen";
            self.say(at.clone(), said);
        }
        if let Some(record) = &camera.record
            && !self.config.volumes.contains_key(&record.get_ref().volume)
        {
            let volume = &record.get_ref().volume;
            let said = format!("there is no volume {volume:?}: add [volume.{volume}] with a path");
            self.say(record.span(), said);
        }
        if let Some(problem) = camera.delivery_problem(self.config.ingest.silence) {
            // What is not written stands with the camera.
            let of_delivery = camera.delivery.span();
            let is_written = !of_delivery.is_empty();
            self.say(if is_written { of_delivery } else { at.clone() }, problem);
        }
        if camera.user.is_some() != camera.password.is_some() {
            self.say(at, "user and password go together");
        }
    }
}
