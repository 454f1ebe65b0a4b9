//! What happened during a login, in words.

use std::collections::BTreeSet;
use std::path::PathBuf;

use russh::client::AuthResult;

use crate::model::FailureKind;
use crate::model::command::quote;
use crate::remote::ConnectError;
use crate::remote::known_hosts::listed_name;
use crate::remote::target::{Identity, Target};

/// Everything that happened, for the error message.
#[derive(Default)]
pub(super) struct Report {
    pub(super) tried: Vec<String>,
    pub(super) offered: BTreeSet<&'static str>,
    pub(super) remarks: Vec<String>,
    pub(super) partial: bool,
    /// A key that stays locked, and why.
    pub(super) locked: Option<(PathBuf, String)>,
    /// What to do about a key file that cannot be used: of the first that was named, and of any.
    pub(super) named: Option<String>,
    pub(super) any: Option<String>,
}

impl Report {
    /// Says that a key file cannot be used, and what to do about it.
    pub(super) fn unusable(&mut self, identity: &Identity, what: String, action: String) {
        self.remarks.push(what);
        if identity.named {
            self.named.get_or_insert_with(|| action.clone());
        }
        self.any.get_or_insert(action);
    }

    pub(super) fn failed(&mut self, result: &AuthResult) {
        if let AuthResult::Failure { remaining_methods, partial_success } = result {
            self.offered.extend(remaining_methods.iter().map(<&'static str>::from));
            self.partial |= partial_success;
        }
    }
}

fn list(items: &[String]) -> String {
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}

/// No key was accepted.
pub(super) fn refused(target: &Target, report: &Report) -> ConnectError {
    if let Some((path, why)) = &report.locked {
        let at = listed_name(&target.host, target.port);
        let path = path.display().to_string();
        return ConnectError {
            kind: FailureKind::OwnKey,
            message: format!("cannot log in to {at} as `{}` with {path}: {why}", target.user.escape_debug()),
            hint: Some(format!("unlock it once with `ssh-add {}`, or run macluster in a terminal", quote(&path))),
        };
    }
    let offered: Vec<String> = report.offered.iter().map(|m| (*m).to_owned()).collect();
    let what = if report.partial { "wants more than a key from" } else { "does not let in" };
    let mut message = format!(
        "{} {what} `{}`; keys tried: {}; the server takes: {}",
        listed_name(&target.host, target.port),
        target.user.escape_debug(),
        list(&report.tried),
        list(&offered)
    );
    if !report.remarks.is_empty() {
        message = format!("{message}; {}", report.remarks.join("; "));
    }
    // A file that was named is the key that was meant, whatever else was tried in its place.
    let own = report.named.as_ref().or(report.any.as_ref().filter(|_| report.tried.is_empty()));
    if let Some(action) = own {
        return ConnectError { kind: FailureKind::OwnKey, message, hint: Some(action.clone()) };
    }
    let mut kind = FailureKind::Authentication;
    let hint = if report.tried.is_empty() {
        kind = FailureKind::OwnKey;
        "name a key with `ssh.identity` in the inventory or IdentityFile in ~/.ssh/config, or add one to the agent"
            .to_owned()
    } else if report.offered.is_empty() || report.offered.contains("publickey") {
        format!(
            "append the public key to ~{}/.ssh/authorized_keys on the node (ssh-copy-id), or name another user or key",
            target.user.escape_debug()
        )
    } else {
        "allow public keys on the node (PubkeyAuthentication yes); macluster logs in with keys only".to_owned()
    };
    ConnectError { kind, message, hint: Some(hint) }
}

/// The server hung up.
pub(super) fn closed(target: &Target, report: &Report) -> ConnectError {
    let at = listed_name(&target.host, target.port);
    if report.tried.is_empty() {
        let message = format!("{at} closed the connection during the login");
        return ConnectError { kind: FailureKind::Unreachable, message, hint: None };
    }
    ConnectError {
        kind: FailureKind::Authentication,
        message: format!("{at} closed the connection during the login; keys tried: {}", list(&report.tried)),
        hint: Some(
            "servers give up after a few keys (MaxAuthTries): name the right one with `ssh.identity`, or IdentityFile \
             with IdentitiesOnly yes"
                .to_owned(),
        ),
    }
}
