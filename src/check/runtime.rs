//! `runtime`: what is deployed: the same everywhere, and able to run.

use std::collections::BTreeMap;

use super::Context;
use super::say::{About, Row, Say, Trouble, at_machine, run, unknown};
use crate::model::runtime_facts::{RankFacts, RuntimeFacts};
use crate::model::{Category, Node, NodeFacts, NodeName, Verdict};

pub(super) const CHECKS: &[Row] = &[
    Row {
        id: "runtime.release-identical",
        category: Category::Runtime,
        title: "all nodes have the same release, whole",
        run: release_identical,
    },
    Row {
        id: "runtime.python",
        category: Category::Runtime,
        title: "the release's Python starts and imports MLX",
        run: python,
    },
    Row {
        id: "runtime.ports-free",
        category: Category::Runtime,
        title: "nobody else has the runtime's ports",
        run: ports_free,
    },
    Row {
        id: "runtime.certificates",
        category: Category::Runtime,
        title: "the agents' certificates hold for a month and more",
        run: certificates,
    },
];

/// `runtime.certificates` warns from then on.
const RENEW_BEFORE_DAYS: i64 = 30;

/// A node with a release.
pub(super) struct Deployed<'a> {
    pub(super) node: &'a NodeName,
    pub(super) facts: &'a NodeFacts,
    pub(super) runtime: &'a RuntimeFacts,
}

/// Every node that has a release; says `skip` where that is not known, and once that there is nothing to judge.
pub(super) fn deployed<'a>(ctx: &Context<'a>, say: &mut Say) -> Vec<Deployed<'a>> {
    let mut all = Vec::new();
    ctx.each_node(say, |node, facts, say| match &facts.runtime {
        Ok(Some(runtime)) => all.push(Deployed { node, facts, runtime }),
        Ok(None) => {}
        Err(why) => say.skip(About::Node(node), unknown(why)),
    });
    // A rack that is made ready for its first deploy lacks nothing yet.
    if all.is_empty() && say.silent() {
        say.pass(About::Rack, "nothing is deployed yet");
    }
    all
}

/// The nodes that are ranks, with their configuration.
pub(super) fn ranks<'a>(ctx: &Context<'a>, say: &mut Say) -> Vec<(Deployed<'a>, &'a RankFacts)> {
    let all = deployed(ctx, say);
    let none = all.iter().all(|d| d.runtime.rank.is_none());
    if none && say.silent() {
        say.pass(About::Rack, "no node is configured as a rank yet");
    }
    all.into_iter().filter_map(|d| d.runtime.rank.as_ref().map(|rank| (d, rank))).collect()
}

/// FAILURES E2, H4: ranks of different releases hang or crash without a word.
fn release_identical(ctx: &Context<'_>, say: &mut Say) {
    let all = deployed(ctx, say);
    let mut launches: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for Deployed { node, runtime, .. } in &all {
        let (about, label) = (About::Node(node), ctx.label(node));
        let deploy = || run(["macluster deploy"]);
        if !runtime.damaged.is_empty() {
            say.trouble(
                Verdict::Fail,
                about,
                Trouble {
                    message: format!(
                        "release {} on {label} is damaged: files of it are missing or have another size",
                        runtime.release
                    ),
                    observed: runtime.damaged.join(", "),
                    expected: "every file of its manifest".to_owned(),
                    remedy: deploy(),
                },
            );
            continue;
        }
        let Some(rank) = &runtime.rank else {
            say.pass(about, format!("{label} has release {} and stays idle", runtime.release));
            continue;
        };
        launches.entry((&rank.launch, &runtime.release)).or_default().push(label.clone());
        if rank.release == runtime.release {
            say.pass(about, format!("{label} has release {}", runtime.release));
        } else {
            say.trouble(
                Verdict::Fail,
                about,
                Trouble {
                    message: format!("{label} is configured for another release than the one that is active there"),
                    observed: format!("active {}, configured {}", runtime.release, rank.release),
                    expected: "one and the same".to_owned(),
                    remedy: deploy(),
                },
            );
        }
    }
    incomplete(ctx, &all, say);
    if launches.len() > 1 {
        let told = launches
            .iter()
            .map(|((launch, release), nodes)| format!("release {release}, launch {launch}: {}", nodes.join(", ")));
        say.trouble(
            Verdict::Fail,
            About::Rack,
            Trouble {
                message: "the ranks belong to different deploys: they never become one group".to_owned(),
                observed: told.collect::<Vec<_>>().join("; "),
                expected: "one release and one launch on all ranks".to_owned(),
                remedy: run(["macluster deploy"]),
            },
        );
    }
}

/// A node that has lost its release, or its configuration, says nothing itself: the others say how many they should be.
fn incomplete(ctx: &Context<'_>, all: &[Deployed<'_>], say: &mut Say) {
    let known = |n: &Node| ctx.snapshot.facts(&n.name).is_some_and(|f| f.runtime.is_ok());
    let ranks = || all.iter().filter_map(|d| d.runtime.rank.as_ref());
    let Some(wanted) = ranks().map(|r| r.world_size).max().filter(|_| ctx.inventory.nodes.iter().all(known)) else {
        return;
    };
    let missing: Vec<String> = (0..wanted).filter(|n| !ranks().any(|r| r.rank == *n)).map(|n| n.to_string()).collect();
    if missing.is_empty() {
        return;
    }
    say.trouble(
        Verdict::Fail,
        About::Rack,
        Trouble {
            message: format!("no node is configured as rank {}: the others wait for it", missing.join(", ")),
            observed: format!("{} of {wanted} ranks", ranks().count()),
            expected: "every rank on a node".to_owned(),
            remedy: run(["macluster deploy"]),
        },
    );
}

fn python(ctx: &Context<'_>, say: &mut Say) {
    for Deployed { node, runtime, .. } in deployed(ctx, say) {
        let (about, label) = (About::Node(node), ctx.label(node));
        match &runtime.python {
            Ok(version) => say.pass(about, format!("the runtime's Python on {label} imports MLX {version}")),
            Err(why) => say.trouble(
                Verdict::Fail,
                about,
                Trouble {
                    message: format!("the runtime's Python on {label} does not work: no engine can start there"),
                    observed: why.clone(),
                    expected: "it starts and imports mlx, mlx_lm and the engine".to_owned(),
                    remedy: run(["macluster deploy"]),
                },
            ),
        }
    }
}

fn ports_free(ctx: &Context<'_>, say: &mut Say) {
    for (Deployed { node, .. }, rank) in ranks(ctx, say) {
        let (about, label) = (About::Node(node), ctx.label(node));
        let taken: Vec<_> = rank.ports.iter().filter_map(|p| Some((p, p.taken.as_ref()?))).collect();
        if taken.is_empty() {
            say.pass(about, format!("the runtime's ports on {label} are its own, or free"));
        }
        for (port, why) in taken {
            let number = port.at.rsplit(':').next().unwrap_or_default();
            say.trouble(
                Verdict::Fail,
                about,
                Trouble {
                    message: format!(
                        "the {} cannot listen at {} on {label}: another program is there",
                        port.what, port.at
                    ),
                    observed: why.clone(),
                    expected: "nobody else listens there".to_owned(),
                    remedy: at_machine([
                        format!(
                            "on {label}, in Terminal: sudo lsof -nP -iTCP:{number} -sTCP:LISTEN   # shows who it is"
                        ),
                        "stop that program, or give the runtime another port in macluster.yaml and deploy again"
                            .to_owned(),
                    ]),
                },
            );
        }
    }
}

fn certificates(ctx: &Context<'_>, say: &mut Say) {
    for (Deployed { node, runtime, .. }, rank) in ranks(ctx, say) {
        let (about, label) = (About::Node(node), ctx.label(node));
        let left = (rank.certificates_until.as_second() - runtime.now.as_second()).div_euclid(86_400);
        let until = rank.certificates_until.strftime("%Y-%m-%d");
        if left >= RENEW_BEFORE_DAYS {
            say.pass(about, format!("the certificates on {label} hold until {until}"));
            continue;
        }
        let (verdict, message) = if left < 0 {
            (
                Verdict::Fail,
                format!(
                    "the agents' certificates on {label} have ended: after the next restart the ranks do not find each other"
                ),
            )
        } else {
            (Verdict::Warn, format!("the agents' certificates on {label} end in {left} days"))
        };
        say.trouble(
            verdict,
            about,
            Trouble {
                message,
                observed: format!("until {until}"),
                expected: format!("{RENEW_BEFORE_DAYS} days and more"),
                remedy: run(["macluster deploy"]),
            },
        );
    }
}
