//! What happened during a login, in words.

use std::collections::BTreeSet;
use std::path::PathBuf;

use russh::client::AuthResult;

use crate::model::FailureKind;
use crate::remote::ConnectError;
use crate::remote::known_hosts::listed_name;
use crate::remote::target::Target;

/// Everything that happened, for the error message.
#[derive(Default)]
pub(super) struct Report {
    pub(super) tried: Vec<String>,
    pub(super) offered: BTreeSet<&'static str>,
    pub(super) remarks: Vec<String>,
    pub(super) partial: bool,
    /// A key that stays locked, and why.
    pub(super) locked: Option<(PathBuf, String)>,
}

impl Report {
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
        let path = path.display();
        return ConnectError {
            kind: FailureKind::Authentication,
            message: format!("cannot log in to {at} as `{}` with {path}: {why}", target.user.escape_debug()),
            hint: Some(format!("unlock it once with `ssh-add {path}`, or run macluster in a terminal")),
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
    let hint = if report.tried.is_empty() {
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
    ConnectError { kind: FailureKind::Authentication, message, hint: Some(hint) }
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
