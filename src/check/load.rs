//! `host`: memory, firewall and environment, as a launch finds them.

use std::collections::BTreeMap;

use super::Context;
use super::say::{About, Row, Say, Trouble, at_machine, unknown};
use crate::model::host_facts::{FAST_SYNCH, Firewall};
use crate::model::{Category, NodeFacts, NodeName, Verdict};

pub(super) const CHECKS: &[Row] = &[
    Row {
        id: "host.wired-limit",
        category: Category::Host,
        title: "the GPU's share of memory is the same everywhere and leaves macOS enough",
        run: wired_limit,
    },
    Row { id: "host.swap", category: Category::Host, title: "no node swaps", run: swap },
    Row { id: "host.firewall", category: Category::Host, title: "no firewall stands between the nodes", run: firewall },
    Row {
        id: "host.fast-synch",
        category: Category::Host,
        title: "MLX_METAL_FAST_SYNCH is not set by accident",
        run: fast_synch,
    },
];

const WIRED: &str = "iogpu.wired_limit_mb";

/// What macOS keeps for itself, MiB: about 28 GiB on a Mac of 128 GiB (FAILURES G7, after panics), less on smaller ones.
fn reserve(memory: u64) -> u64 {
    (28 * 1024).min(memory * 22 / 100)
}

fn number(facts: &NodeFacts, name: &str) -> Result<u64, String> {
    let all = facts.sysctl.as_ref().map_err(unknown)?;
    let value = all.get(name).ok_or_else(|| format!("not checked: the kernel does not know {name}"))?;
    value.parse().map_err(|_| format!("not checked: {name} is `{value}`"))
}

/// FAILURES G5 to G7.
fn wired_limit(ctx: &Context<'_>, say: &mut Say) {
    let mut limits: BTreeMap<u64, Vec<&NodeName>> = BTreeMap::new();
    ctx.each_node(say, |node, facts, say| {
        let about = About::Node(node);
        let label = ctx.label(node);
        let (limit, memory) = match (number(facts, WIRED), number(facts, "hw.memsize").map(|b| b >> 20)) {
            (Ok(limit), Ok(memory)) => (limit, memory),
            (Err(why), _) | (_, Err(why)) => return say.skip(about, why),
        };
        limits.entry(limit).or_default().push(node);
        let most = memory.saturating_sub(reserve(memory));
        if limit == 0 {
            say.pass(about, format!("{label} has macOS's own limit for the GPU's memory"));
        } else if limit <= most {
            say.pass(about, format!("the GPU of {label} may take {} of {} GiB", limit >> 10, memory >> 10));
        } else {
            say.trouble(
                Verdict::Warn,
                about,
                Trouble {
                    message: format!(
                        "the GPU of {label} may take {} of its {} GiB: macOS gets too little to live on, and panics were seen so",
                        limit >> 10,
                        memory >> 10
                    ),
                    observed: format!("{WIRED}: {limit}"),
                    expected: format!("{WIRED}: {most} or less (0: macOS's own limit)"),
                    remedy: at_machine([format!("on {label}, in Terminal: sudo sysctl {WIRED}={most}   # until the next restart")]),
                },
            );
        }
    });
    if limits.len() < 2 {
        return;
    }
    let told: Vec<String> = limits
        .iter()
        .map(|(limit, nodes)| {
            let names: Vec<String> = nodes.iter().map(ToString::to_string).collect();
            format!("{limit} on {}", names.join(", "))
        })
        .collect();
    say.trouble(
        Verdict::Warn,
        About::Rack,
        Trouble {
            message: "the nodes have different limits for the GPU's memory: a model that fits on one is refused by another (a limit set with sysctl is gone after a restart)".to_owned(),
            observed: format!("{WIRED}: {}", told.join("; ")),
            expected: "the same on every node".to_owned(),
            remedy: at_machine([format!("set {WIRED} to the same value on every node, or restart those that differ to get macOS's own")]),
        },
    );
}

/// Swap in use from which it is told, MiB: what an idle Mac leaves there stays below.
const SWAPS: u64 = 1024;

/// `total = 3072.00M  used = 1234.56M  free = 1837.44M  (encrypted)`: whole MiB in use.
fn used(text: &str) -> Option<u64> {
    text.split_once("used = ")?.1.split(['.', 'M']).next()?.trim().parse().ok()
}

/// FAILURES G5, G7.
fn swap(ctx: &Context<'_>, say: &mut Say) {
    ctx.each_node(say, |node, facts, say| {
        let about = About::Node(node);
        let label = ctx.label(node);
        let Some(all) = say.known(about, &facts.sysctl) else { return };
        let Some(text) = all.get("vm.swapusage") else {
            return say.skip(about, format!("not checked: the kernel of {node} does not tell vm.swapusage"));
        };
        match used(text) {
            None => say.skip(about, format!("not checked: vm.swapusage is `{text}`")),
            Some(used) if used < SWAPS => say.pass(about, format!("{label} does not swap")),
            Some(used) => say.trouble(
                Verdict::Warn,
                about,
                Trouble {
                    message: format!("{label} has swapped {used} MiB out: its memory was too small for what ran, and a model there is slow or takes the Mac down"),
                    observed: format!("vm.swapusage: {text}"),
                    expected: format!("less than {SWAPS} MiB in use"),
                    remedy: at_machine([
                        format!("on {label}: end what takes the memory (Activity Monitor, Memory); `host.foreign-engines` names other engines"),
                        format!("restart {label} to empty the swap before a large model is loaded"),
                    ]),
                },
            ),
        }
    });
}

/// FAILURES C26: nobody is there to answer the firewall's question.
fn firewall(ctx: &Context<'_>, say: &mut Say) {
    ctx.each_node(say, |node, facts, say| {
        let about = About::Node(node);
        let label = ctx.label(node);
        let Some(state) = say.known(about, &facts.host.firewall) else { return };
        let (verdict, message, observed) = match state {
            Firewall::Off => return say.pass(about, format!("the firewall of {label} is off")),
            Firewall::On => (
                Verdict::Warn,
                format!("the firewall of {label} is on: it asks on the screen before a new program may be reached, and nobody sees that on a Mac in a rack"),
                "State = 1",
            ),
            Firewall::BlockAll => (
                Verdict::Fail,
                format!("the firewall of {label} blocks everything that comes in: the ranks cannot reach each other"),
                "State = 2",
            ),
        };
        say.trouble(
            verdict,
            about,
            Trouble {
                message,
                observed: observed.to_owned(),
                expected: "State = 0, on a network of your own".to_owned(),
                remedy: at_machine([
                    format!("at {label}: System Settings > Network > Firewall: turn it off"),
                    "or keep it on and allow the runtime's python there (Options), and switch `Block all incoming connections` off".to_owned(),
                ]),
            },
        );
    });
}

/// FAILURES G2, G3: faster for some, a GPU that hangs until a restart for others. Ours never inherits it.
fn fast_synch(ctx: &Context<'_>, say: &mut Say) {
    ctx.each_node(say, |node, facts, say| {
        let about = About::Node(node);
        let label = ctx.label(node);
        let Some(set) = say.known(about, &facts.host.fast_synch) else { return };
        let on: Vec<_> = set.iter().filter(|s| s.value != "0").collect();
        if on.is_empty() {
            return say.pass(about, format!("{FAST_SYNCH} is not set on {label}"));
        }
        let places: Vec<String> = on.iter().map(|s| format!("{}={} ({})", FAST_SYNCH, s.value, s.place)).collect();
        let mut steps = Vec::new();
        if on.iter().any(|s| s.place == "launchd") {
            steps.push(format!("on {label}, in Terminal: launchctl unsetenv {FAST_SYNCH} (and with sudo), and find the job that sets it"));
        }
        if on.iter().any(|s| s.place != "launchd") {
            steps.push(format!("on {label}: take `export {FAST_SYNCH}` out of ~/.zshenv"));
        }
        say.trouble(
            Verdict::Warn,
            about,
            Trouble {
                message: format!(
                    "{FAST_SYNCH} is set on {label}: a fence that is never seen leaves the GPU at 100 % until a restart. The engine of macluster does not inherit it, mlx.launch does"
                ),
                observed: places.join(", "),
                expected: "not set, or set on purpose".to_owned(),
                remedy: at_machine(steps),
            },
        );
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swap_in_use_is_read_in_mib() {
        assert_eq!(used("total = 3072.00M  used = 1234.56M  free = 1837.44M  (encrypted)"), Some(1234));
        assert_eq!(used("total = 0.00M  used = 0.00M  free = 0.00M  (encrypted)"), Some(0));
        assert_eq!(used("none"), None);
    }

    #[test]
    fn macos_keeps_a_share_that_does_not_grow_for_ever() {
        assert_eq!(reserve(128 << 10), 28 << 10);
        assert_eq!(reserve(512 << 10), 28 << 10);
        assert!(reserve(64 << 10) < 16 << 10);
    }
}
