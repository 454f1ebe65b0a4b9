//! `host`: whether a Mac stays up, comes back by itself, and stays what it was when it was set up.

use super::Context;
use super::say::{About, Row, Say, Trouble, at_machine, gib};
use crate::model::host_facts::FileVault;
use crate::model::{Category, Verdict};

pub(super) const CHECKS: &[Row] = &[
    Row { id: "host.auto-update", category: Category::Host, title: "no node updates itself", run: auto_update },
    Row { id: "host.sleep", category: Category::Host, title: "no node falls asleep", run: sleep },
    Row {
        id: "host.restart-after-power-loss",
        category: Category::Host,
        title: "every node starts again after a power failure",
        run: power_loss,
    },
    Row {
        id: "host.filevault",
        category: Category::Host,
        title: "no node waits for a password at start",
        run: filevault,
    },
    Row { id: "host.disk-space", category: Category::Host, title: "every node has room on its disk", run: disk },
];

/// FAILURES B7: one node that updates overnight no longer sees the others over RDMA.
fn auto_update(ctx: &Context<'_>, say: &mut Say) {
    ctx.each_node(say, |node, facts, say| {
        let about = About::Node(node);
        let label = ctx.label(node);
        let Some(installs) = say.known(about, &facts.host.installs_updates) else { return };
        let (message, observed) = match installs {
            Some(false) => {
                say.pass(about, format!("{label} installs no macOS update by itself"));
                return;
            }
            Some(true) => (
                format!(
                    "{label} installs macOS updates by itself: after the next one it runs another build than the others, and RDMA needs the identical build"
                ),
                "AutomaticallyInstallMacOSUpdates is on",
            ),
            // What macOS does where nothing was ever set is not told by Apple: attention, not a fault.
            None => (
                format!(
                    "{label} was never told whether to install macOS updates by itself: if it does, it runs another build than the others one morning"
                ),
                "AutomaticallyInstallMacOSUpdates is not set",
            ),
        };
        say.trouble(
            Verdict::Warn,
            about,
            Trouble {
                message,
                observed: observed.to_owned(),
                expected: "AutomaticallyInstallMacOSUpdates is off".to_owned(),
                remedy: at_machine([
                    format!("at {label}: System Settings > General > Software Update > (i) beside Automatic Updates: switch `Install macOS updates` off"),
                    "or there in Terminal: sudo defaults write /Library/Preferences/com.apple.SoftwareUpdate AutomaticallyInstallMacOSUpdates -bool false".to_owned(),
                ]),
            },
        );
    });
}

/// FAILURES B11: a Mac that fell asleep is not woken over Thunderbolt, and its ports may not come back.
fn sleep(ctx: &Context<'_>, say: &mut Say) {
    ctx.each_node(say, |node, facts, say| {
        let about = About::Node(node);
        let label = ctx.label(node);
        let Some(power) = say.known(about, &facts.host.power) else { return };
        let value = |name: &str| power.get(name).map(String::as_str);
        match (value("SleepDisabled"), value("sleep")) {
            (Some("1"), _) => say.pass(about, format!("sleep is disabled on {label}")),
            (_, Some("0")) => say.pass(about, format!("{label} never falls asleep")),
            (_, Some(minutes)) if minutes.parse::<u32>().is_ok() => {
                say.trouble(
                    Verdict::Warn,
                    about,
                    Trouble {
                        message: format!(
                            "{label} falls asleep when nothing keeps it awake: nothing wakes a Mac over Thunderbolt, and RDMA ports may need a restart after it"
                        ),
                        observed: format!("pmset: sleep {minutes} (minutes)"),
                        expected: "pmset: sleep 0".to_owned(),
                        remedy: at_machine([format!("on {label}, in Terminal: sudo pmset -a sleep 0 disksleep 0")]),
                    },
                );
            }
            (_, other) => {
                say.skip(about, format!("not checked: pmset says `sleep {}`", other.unwrap_or("")));
            }
        }
    });
}

/// FAILURES B10.
fn power_loss(ctx: &Context<'_>, say: &mut Say) {
    ctx.each_node(say, |node, facts, say| {
        let about = About::Node(node);
        let label = ctx.label(node);
        let Some(power) = say.known(about, &facts.host.power) else { return };
        match power.get("autorestart").map(String::as_str) {
            Some("1") => say.pass(about, format!("{label} starts again after a power failure")),
            Some("0") => say.trouble(
                Verdict::Warn,
                about,
                Trouble {
                    message: format!("{label} stays off after a power failure, until somebody presses its button"),
                    observed: "pmset: autorestart 0".to_owned(),
                    expected: "pmset: autorestart 1".to_owned(),
                    remedy: at_machine([format!("on {label}, in Terminal: sudo pmset -a autorestart 1")]),
                },
            ),
            Some(other) => say.skip(about, format!("not checked: pmset says `autorestart {other}`")),
            // Laptops do not have the setting.
            None => say.skip(about, format!("not checked: pmset of {node} knows no autorestart")),
        }
    });
}

/// FAILURES B8: before the password nobody can log in over the network.
fn filevault(ctx: &Context<'_>, say: &mut Say) {
    ctx.each_node(say, |node, facts, say| {
        let about = About::Node(node);
        let label = ctx.label(node);
        let Some(state) = say.known(about, &facts.host.filevault) else { return };
        let (message, observed) = match state {
            FileVault::Off => {
                say.pass(about, format!("FileVault is off on {label}: it comes back from a restart by itself"));
                return;
            }
            FileVault::On => (
                format!(
                    "FileVault is on on {label}: after every restart it waits for a password at the machine, and nothing reaches it before"
                ),
                "FileVault is On",
            ),
            FileVault::Coming => (
                format!("FileVault is being switched on on {label}: from then on it waits for a password after every restart"),
                "FileVault is Off, but on its way",
            ),
        };
        say.trouble(
            Verdict::Warn,
            about,
            Trouble {
                message,
                observed: observed.to_owned(),
                expected: "FileVault is Off, or somebody at hand at every restart".to_owned(),
                remedy: at_machine([
                    format!("if nobody is at {label} at every restart: System Settings > Privacy & Security > FileVault: turn it off"),
                    "else keep it, and restart it only while somebody is there".to_owned(),
                ]),
            },
        );
    });
}

/// Below this a deploy cannot be unpacked, KiB: the runtime alone takes most of it.
const NO_ROOM: u64 = 2 << 20;
/// Below this macOS itself begins to suffer, KiB.
const LITTLE_ROOM: u64 = 20 << 20;

fn disk(ctx: &Context<'_>, say: &mut Say) {
    ctx.each_node(say, |node, facts, say| {
        let about = About::Node(node);
        let label = ctx.label(node);
        let Some(disk) = say.known(about, &facts.host.disk) else { return };
        let free = gib(disk.available_kib << 10);
        if disk.available_kib >= LITTLE_ROOM {
            say.pass(about, format!("{label} has {free} free"));
            return;
        }
        let (verdict, why) = if disk.available_kib < NO_ROOM {
            (Verdict::Fail, "the runtime does not fit")
        } else {
            (Verdict::Warn, "the runtime fits, a model of any size does not, and macOS needs room to swap")
        };
        say.trouble(
            verdict,
            about,
            Trouble {
                message: format!("only {free} are free on the disk of {label}: {why}"),
                observed: format!("{free} free of {} ({})", gib(disk.total_kib << 10), disk.mount),
                expected: format!("{} free or more", gib(LITTLE_ROOM << 10)),
                remedy: at_machine([
                    format!("at {label}: System Settings > General > Storage: remove what is not needed"),
                    format!("releases and models of macluster are in {}", ctx.inventory.paths.install),
                ]),
            },
        );
    });
}
