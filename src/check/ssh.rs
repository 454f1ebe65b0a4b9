//! `ssh`: reaching the nodes and becoming root there.

use super::Context;
use super::say::{About, Row, Say, Trouble, at_machine, run, unknown, unread};
use crate::model::facts::Sudo;
use crate::model::{Category, CollectFailure, FailureKind, Node, NodeName, Remedy, Verdict};

pub(super) const CHECKS: &[Row] = &[
    Row { id: "ssh.reachable", category: Category::Ssh, title: "every node answers over SSH", run: reachable },
    Row { id: "ssh.host-key", category: Category::Ssh, title: "every host key is the known one", run: host_key },
    Row { id: "ssh.login", category: Category::Ssh, title: "every node accepts the login", run: login },
    Row { id: "ssh.sudo", category: Category::Ssh, title: "root can be had through sudo", run: sudo },
    Row { id: "ssh.login-noise", category: Category::Ssh, title: "the login shell prints nothing", run: login_noise },
];

/// The failure with its own next action.
fn with_hint(failure: &CollectFailure) -> String {
    match &failure.hint {
        Some(hint) => format!("{} ({hint})", failure.message),
        None => failure.message.clone(),
    }
}

fn failure<'a>(ctx: &Context<'a>, node: &NodeName) -> Option<&'a CollectFailure> {
    ctx.snapshot.nodes.get(node)?.facts.as_ref().err()
}

fn reachable(ctx: &Context<'_>, say: &mut Say) {
    for node in ctx.nodes() {
        let about = About::Node(node);
        let label = ctx.label(node);
        let Some(failure) = failure(ctx, node) else {
            match ctx.snapshot.facts(node) {
                Some(_) => say.pass(about, format!("{label} answers")),
                None => say.skip(about, format!("not checked: the snapshot holds nothing of {node}")),
            }
            continue;
        };
        match failure.kind {
            FailureKind::Unreachable | FailureKind::Lost => say.trouble(
                Verdict::Fail,
                about,
                Trouble {
                    message: format!("{label} does not answer: {}", with_hint(failure)),
                    observed: failure.message.clone(),
                    expected: "an answer over SSH".to_owned(),
                    remedy: at_machine([
                        format!("at {label}: check that it is switched on and past the login window (a Mac with FileVault waits for its password after every restart)"),
                        "check its cable to the management network and its address".to_owned(),
                        "check System Settings > General > Sharing > Remote Login".to_owned(),
                    ]),
                },
            ),
            _ => say.pass(about, format!("{label} answers")),
        }
    }
}

fn host_key(ctx: &Context<'_>, say: &mut Say) {
    for node in ctx.nodes() {
        let about = About::Node(node);
        let label = ctx.label(node);
        let Some(failure) = failure(ctx, node) else {
            if ctx.facts_or_skip(node, say).is_some() {
                say.pass(about, format!("the host key of {label} is the known one"));
            }
            continue;
        };
        let observed = failure.message.clone();
        match failure.kind {
            FailureKind::Unreachable | FailureKind::Lost => say.skip(about, unread(ctx, node)),
            FailureKind::Authentication | FailureKind::OwnKey => say.pass(about, format!("the host key of {label} is the known one")),
            FailureKind::UnknownHostKey => say.trouble(
                Verdict::Fail,
                about,
                Trouble {
                    message: format!("the host key of {label} is not known yet: {}", with_hint(failure)),
                    observed,
                    expected: "a host key that stands in the known hosts file".to_owned(),
                    remedy: run(["macluster --accept-new-host-keys doctor"]),
                },
            ),
            FailureKind::ChangedHostKey => say.trouble(
                Verdict::Fail,
                about,
                Trouble {
                    message: format!("the host key of {label} cannot be trusted: {}", with_hint(failure)),
                    observed,
                    expected: "the host key that was recorded".to_owned(),
                    remedy: at_machine(if failure.message.contains("revoked") {
                        [
                            format!("at {label}, in Terminal, as root: remove /etc/ssh/ssh_host_*_key*, restart Remote Login"),
                            "keep the @revoked line: the old key must never be accepted again".to_owned(),
                            "run `macluster doctor` again and compare the new fingerprint at the Mac".to_owned(),
                        ]
                    } else {
                        [
                        format!("at {label}, in Terminal: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub"),
                        "compare the fingerprint with the offered one above; if they differ, somebody stands between"
                            .to_owned(),
                        "only if they are equal (the Mac was erased or replaced): remove the old line from the known hosts file and run `macluster doctor` again".to_owned(),
                        ]
                    }),
                },
            ),
        }
    }
}

fn login(ctx: &Context<'_>, say: &mut Say) {
    for node in &ctx.inventory.nodes {
        let about = About::Node(&node.name);
        let label = ctx.label(&node.name);
        match failure(ctx, &node.name) {
            None => {
                if let Some(facts) = ctx.facts_or_skip(&node.name, say) {
                    let user = facts.session.user.as_deref().unwrap_or("the user");
                    say.pass(about, format!("{label} accepts {user}"));
                }
            }
            Some(failure) => match failure.kind {
                FailureKind::Unreachable
                | FailureKind::Lost
                | FailureKind::UnknownHostKey
                | FailureKind::ChangedHostKey => say.skip(about, unread(ctx, &node.name)),
                FailureKind::OwnKey => say.trouble(
                    Verdict::Fail,
                    about,
                    Trouble {
                        message: format!("there is no key to log in to {label} with: {}", failure.message),
                        observed: failure.message.clone(),
                        expected: "a key that can be used without a question".to_owned(),
                        remedy: at_machine([format!(
                            "at this desk: {}",
                            failure.hint.as_deref().unwrap_or("name a key with `ssh.identity` in the inventory")
                        )]),
                    },
                ),
                FailureKind::Authentication => say.trouble(
                    Verdict::Fail,
                    about,
                    Trouble {
                        message: format!("{label} does not accept the login: {}", with_hint(failure)),
                        observed: failure.message.clone(),
                        expected: "a login with a key, without a question".to_owned(),
                        remedy: copy_id(ctx, node),
                    },
                ),
            },
        }
    }
}

fn copy_id(ctx: &Context<'_>, node: &Node) -> Remedy {
    let ssh = &ctx.inventory.ssh;
    let mut words = vec!["ssh-copy-id".to_owned()];
    if let Some(identity) = node.identity.as_ref().or(ssh.identity.as_ref()) {
        words.extend(["-i".to_owned(), identity.display().to_string()]);
    }
    if let Some(port) = node.port.or(ssh.port) {
        words.extend(["-p".to_owned(), port.to_string()]);
    }
    words.push(match node.user.as_ref().or(ssh.user.as_ref()) {
        Some(user) => format!("{user}@{}", node.host),
        None => node.host.clone(),
    });
    run([words.iter().map(|w| crate::model::command::quote(w)).collect::<Vec<_>>().join(" ")])
}

fn sudo(ctx: &Context<'_>, say: &mut Say) {
    for node in ctx.nodes() {
        let Some(facts) = ctx.facts_or_skip(node, say) else { continue };
        let about = About::Node(node);
        let label = ctx.label(node);
        let user = facts.session.user.as_deref().unwrap_or("the user");
        match &facts.sudo {
            Ok(Sudo::Passwordless) => say.pass(about, format!("{user} becomes root on {label} without a password")),
            Ok(Sudo::Root) => say.pass(about, format!("the session on {label} is root's own")),
            Ok(Sudo::NeedsPassword) => say.trouble(
                Verdict::Warn,
                about,
                Trouble {
                    message: format!(
                        "sudo on {label} asks for a password (or {user} may not use it, which shows only then): macluster asks you for it, an unattended run cannot"
                    ),
                    observed: "sudo -n: a password is required".to_owned(),
                    expected: format!("sudo without a password for {user}"),
                    remedy: at_machine([
                        format!("at {label}, in Terminal: sudo visudo -f /etc/sudoers.d/macluster"),
                        format!("add the line: {user} ALL=(root) NOPASSWD: ALL"),
                    ]),
                },
            ),
            Ok(Sudo::NotAllowed) => say.trouble(
                Verdict::Fail,
                about,
                Trouble {
                    message: format!("{user} may not use sudo on {label}: nothing can be configured there"),
                    observed: "sudo refuses the user".to_owned(),
                    expected: "an administrator's account".to_owned(),
                    remedy: at_machine([format!(
                        "at {label}: System Settings > Users & Groups, make {user} an administrator"
                    )]),
                },
            ),
            Err(error) => say.skip(about, unknown(error)),
        }
    }
}

fn login_noise(ctx: &Context<'_>, say: &mut Say) {
    for node in ctx.nodes() {
        let Some(facts) = ctx.facts_or_skip(node, say) else { continue };
        let label = ctx.label(node);
        let first = facts.login_noise.lines().find(|l| !l.trim().is_empty());
        let Some(first) = first else {
            say.pass(About::Node(node), format!("the login shell of {label} prints nothing"));
            continue;
        };
        let shown: String = first.trim().chars().take(80).collect();
        say.trouble(
            Verdict::Warn,
            About::Node(node),
            Trouble {
                message: format!(
                    "the login shell of {label} prints text before every command's output: macluster removes it, other tools (scp, rsync, mlx.launch) trip over it"
                ),
                observed: format!("{shown:?}"),
                expected: "nothing".to_owned(),
                remedy: at_machine([format!(
                    "on {label}: move whatever prints this from ~/.zshenv (or ~/.bashrc) to ~/.zprofile, or print it only if the shell is interactive"
                )]),
            },
        );
    }
}
