//! `ssh`: what a session meets on a node: its shell and its clock.

use super::Context;
use super::say::{About, Row, Say, Trouble, at_machine};
use crate::model::{Category, NodeName, Verdict};

pub(super) const CHECKS: &[Row] = &[
    Row {
        id: "ssh.login-shell",
        category: Category::Ssh,
        title: "the login shell is one that tools expect",
        run: login_shell,
    },
    Row {
        id: "ssh.clock-skew",
        category: Category::Ssh,
        title: "every node's clock agrees with this desk's",
        run: clock_skew,
    },
];

/// Shells that understand what MLX's launcher sends (FAILURES E9).
const SHELLS: [&str; 4] = ["zsh", "bash", "sh", "ksh"];

fn login_shell(ctx: &Context<'_>, say: &mut Say) {
    ctx.each_node(say, |node, facts, say| {
        let about = About::Node(node);
        let label = ctx.label(node);
        let Some(path) = say.known(about, &facts.host.login_shell) else { return };
        let shell = path.rsplit('/').next().unwrap_or(path);
        if SHELLS.contains(&shell) {
            return say.pass(about, format!("the login shell of {label} is {shell}"));
        }
        let user = facts.session.user.as_deref().unwrap_or("the user");
        say.trouble(
            Verdict::Warn,
            about,
            Trouble {
                message: format!(
                    "the login shell of {label} is {shell}: macluster works with it, scripts that are sent to a node (mlx.launch, mlx.distributed_config) fail with syntax errors"
                ),
                observed: format!("SHELL={path}"),
                expected: "/bin/zsh, as macOS sets it".to_owned(),
                remedy: at_machine([format!("on {label}, in Terminal, as {user}: chsh -s /bin/zsh")]),
            },
        );
    });
}

/// Difference from which logs can no longer be put side by side, milliseconds.
const SKEWED: i64 = 5_000;

/// How far the node's clock is ahead of this desk's for sure, milliseconds; negative when it is behind. The way there
/// and back, and the second that `date` rounds to, are in doubt.
fn ahead(ctx: &Context<'_>, node: &NodeName) -> Option<i64> {
    let facts = ctx.snapshot.facts(node)?;
    let (clock, asked) = (facts.host.clock.as_ref().ok()?, facts.session.clock_asked?);
    let (earliest, latest) = (asked.before.as_millisecond(), asked.after.as_millisecond());
    let (from, to) = (clock.as_millisecond(), clock.as_millisecond() + 1_000);
    Some(if from > latest {
        from - latest
    } else if to < earliest {
        to - earliest
    } else {
        0
    })
}

fn clock_skew(ctx: &Context<'_>, say: &mut Say) {
    let mut skewed = Vec::new();
    let mut right = 0;
    ctx.each_node(say, |node, facts, say| {
        let about = About::Node(node);
        let label = ctx.label(node);
        if say.known(about, &facts.host.clock).is_none() {
            return;
        }
        match ahead(ctx, node) {
            None => {
                say.skip(about, format!("not checked: the recording does not tell when {node} was asked for its time"));
            }
            Some(by) if by.abs() < SKEWED => {
                right += 1;
                say.pass(about, format!("the clock of {label} agrees with this desk's"));
            }
            Some(by) => skewed.push((node, by)),
        }
    });
    // All of them off, and alike: then it is this desk that is wrong.
    let alike = skewed.len() > 1
        && right == 0
        && skewed
            .iter()
            .map(|(_, by)| *by)
            .max()
            .zip(skewed.iter().map(|(_, by)| *by).min())
            .is_some_and(|(a, b)| a - b < SKEWED);
    for (node, by) in skewed {
        let label = ctx.label(node);
        let words = format!("{} {}", span(by.abs()), if by > 0 { "ahead of" } else { "behind" });
        let steps = if alike {
            vec!["the clocks of the nodes agree with each other: set the clock of this desk".to_owned()]
        } else {
            vec![
                format!(
                    "at {label}: System Settings > General > Date & Time: switch `Set time and date automatically` on"
                ),
                format!("or there in Terminal: sudo sntp -sS time.apple.com   # {label} must reach a time server"),
            ]
        };
        say.trouble(
            Verdict::Warn,
            About::Node(node),
            Trouble {
                message: format!("the clock of {label} is {words} this desk's: logs cannot be put side by side, and certificates may seem not valid"),
                observed: format!("{words} this desk's"),
                expected: format!("within {} s", SKEWED / 1000),
                remedy: at_machine(steps),
            },
        );
    }
}

/// `42 s`, `3 min`, `5 h`, `12 days`.
fn span(milliseconds: i64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        ..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}
