//! Decides whether an offered host key is the host's.

use std::sync::{Arc, Mutex, PoisonError};

use russh::keys::PublicKeyBase64;
use russh::keys::PublicKeyOrCertificate;

use crate::event::{Event, Events};
use crate::model::FailureKind;
use crate::remote::ConnectError;
use crate::remote::known_hosts::{HostKey, KnownHosts, Verdict, listed_name, record};
use crate::remote::prompt::{Asker, Limit};
use crate::remote::ssh_config::Strict;
use crate::remote::target::Target;

/// What to do about a host that is not known yet.
const COMPARE: &str = "compare the fingerprint with the one shown at the machine \
                       (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub), then run again with --accept-new-host-keys";

/// How unknown keys are treated; the same for all connections of a run.
#[derive(Clone)]
pub(crate) struct HostKeyPolicy {
    /// `--accept-new-host-keys`.
    pub(crate) accept_new: bool,
    pub(crate) asker: Asker,
    pub(crate) events: Events,
    /// A host whose key is only looked at.
    pub(crate) meeting: Option<Meeting>,
}

/// A host that is met for the first time, whatever is recorded for it: its key is kept for a person to decide on. All
/// other hosts, jump hosts included, are checked as ever.
#[derive(Clone, Debug)]
pub(crate) struct Meeting {
    listed: (String, u16),
    seen: Arc<Mutex<Option<HostKey>>>,
}

impl Meeting {
    pub(crate) fn with(target: &Target) -> Self {
        Meeting { listed: target.listed.clone(), seen: Arc::default() }
    }

    /// The key that the host offered.
    pub(crate) fn seen(&self) -> Option<HostKey> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Reads the files anew each time: another node of this run may just have added a line.
fn known(target: &Target) -> KnownHosts {
    KnownHosts::load(target.user_known_hosts.iter().chain(&target.global_known_hosts))
}

/// Key types recorded for this host.
pub(super) fn known_types(target: &Target) -> Vec<String> {
    let (host, port) = &target.listed;
    known(target).types(host, *port)
}

impl HostKeyPolicy {
    /// Ok: the key is the host's.
    pub(super) async fn decide(
        &self,
        target: &Target,
        offered: &PublicKeyOrCertificate,
        limit: &Limit,
    ) -> Result<(), ConnectError> {
        let Some(key) = HostKey::from_blob(offered.public_key().public_key_bytes()) else {
            return Err(refusal(FailureKind::Unreachable, "the host offers a key that is none".to_owned(), None));
        };
        let (host, port) = &target.listed;
        let name = listed_name(host, *port);
        let files = known(target);
        let verdict = files.check(host, *port, &key);
        if let Some(meeting) = self.meeting.as_ref().filter(|m| m.listed == target.listed)
            && !matches!(verdict, Verdict::Revoked { .. })
        {
            *meeting.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(key);
            return Ok(());
        }
        match verdict {
            Verdict::Known => Ok(()),
            Verdict::Unknown => self.unknown(target, key, &files, limit).await,
            Verdict::Changed { at, recorded } => Err(refusal(
                FailureKind::ChangedHostKey,
                format!(
                    "the host key of {name} has CHANGED: {at} records {recorded}, the host offers {key}; \
                     either this is another machine (or someone in between), or it was installed anew"
                ),
                Some(forget(&name, &at.file.display().to_string(), &key)),
            )),
            Verdict::OtherType { at, recorded } => Err(refusal(
                FailureKind::ChangedHostKey,
                format!(
                    "{name} is known by another type of key: {at} records {recorded}, the host offers {key}; \
                     either this is another machine (or someone in between), or it was installed anew"
                ),
                Some(forget(&name, &at.file.display().to_string(), &key)),
            )),
            Verdict::Revoked { at } => Err(refusal(
                FailureKind::ChangedHostKey,
                format!("{name} offers {key}, which {at} marks as @revoked: the key was stolen or retired"),
                Some("give the host a new key at its keyboard; a revoked key is never accepted".to_owned()),
            )),
        }
    }

    async fn unknown(
        &self,
        target: &Target,
        key: HostKey,
        files: &KnownHosts,
        limit: &Limit,
    ) -> Result<(), ConnectError> {
        let (host, port) = &target.listed;
        let name = listed_name(host, *port);
        let mut note = match files.authority(host, *port) {
            Some(place) => {
                format!(" ({place} trusts a certificate authority, but host certificates are not supported)")
            }
            None => String::new(),
        };
        for why in &files.unreadable {
            // It may well be known there.
            note = format!("{note} ({why})");
        }
        // Said for this run, the option counts for more than the configuration.
        if self.accept_new || target.strict == Strict::AcceptNew {
            self.remember(target, key).await;
            return Ok(());
        }
        if target.strict == Strict::Yes {
            return Err(refusal(
                FailureKind::UnknownHostKey,
                format!("{name} is not known yet{note}, and StrictHostKeyChecking is `yes`; its key is {key}"),
                Some(COMPARE.to_owned()),
            ));
        }
        let question = format!(
            "{name} is not known yet{note}. Its key is\n  {key}\nCompare it with the one shown at the machine. Trust it \
             from now on?"
        );
        let answer = limit.paused(async {
            let turn = self.asker.turn().await;
            // Two nodes may be one host: the second question is settled by the first answer.
            if known(target).check(host, *port, &key) == Verdict::Known {
                return Some(true);
            }
            let answer = turn.confirm(question).await;
            if answer == Some(true) {
                self.remember(target, key.clone()).await;
            }
            answer
        });
        match answer.await {
            Some(true) => Ok(()),
            Some(false) => {
                let message = format!("the key of {name} was not accepted: {key}");
                Err(refusal(FailureKind::UnknownHostKey, message, None))
            }
            None => Err(refusal(
                FailureKind::UnknownHostKey,
                format!("{name} is not known yet{note}; its key is {key}"),
                Some(COMPARE.to_owned()),
            )),
        }
    }

    /// Records the key. Failing to is no reason to refuse: the person did accept it.
    async fn remember(&self, target: &Target, key: HostKey) {
        let (host, port) = target.listed.clone();
        let name = listed_name(&host, port);
        let text = key.to_string();
        let Some(file) = target.user_known_hosts.first().cloned() else {
            let text = format!("{name} was accepted ({text}) but there is no known_hosts file to record it in");
            self.events.emit(Event::Warning { node: None, text });
            return;
        };
        let shown = file.display().to_string();
        let listing = target.listing;
        let done = tokio::task::spawn_blocking(move || record(&file, &host, port, &key, listing)).await;
        let event = match done {
            Ok(Ok(())) => Event::Note { node: None, text: format!("recorded the key of {name} in {shown}: {text}") },
            Ok(Err(e)) => {
                Event::Warning { node: None, text: format!("could not record the key of {name} in {shown}: {e}") }
            }
            Err(e) => Event::Warning { node: None, text: format!("could not record the key of {name}: {e}") },
        };
        self.events.emit(event);
    }
}

fn forget(name: &str, file: &str, key: &HostKey) -> String {
    use crate::model::command::quote;
    format!(
        "compare {} with the fingerprint shown at the machine (ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub); \
         only if they agree, remove the old line: ssh-keygen -f {} -R {}",
        key.fingerprint(),
        quote(file),
        quote(name)
    )
}

fn refusal(kind: FailureKind, message: String, hint: Option<String>) -> ConnectError {
    ConnectError { kind, message, hint }
}
