//! `runtime`: the model on the ranks: whole, the same, divisible, and not too large.

use std::collections::BTreeMap;

use super::Context;
use super::runtime::{Deployed, ranks};
use super::say::{About, Row, Say, Trouble, gib, needs, run};
use crate::model::runtime_facts::{FolderFacts, RankFacts};
use crate::model::{Category, NodeName, Verdict};
use crate::sizing::choose::wired_limit;

pub(super) const CHECKS: &[Row] = &[
    Row {
        id: "runtime.model-manifest",
        category: Category::Runtime,
        title: "all ranks have the same model, whole",
        run: manifest,
    },
    Row {
        id: "runtime.model-splits",
        category: Category::Runtime,
        title: "the model divides over the ranks",
        run: splits,
    },
    Row {
        id: "runtime.model-fits",
        category: Category::Runtime,
        title: "the model fits into the nodes' memory",
        run: fits,
    },
];

/// FAILURES H1 to H3: a file that is missing on one node ends all ranks; another file gives nonsense without an error.
fn manifest(ctx: &Context<'_>, say: &mut Say) {
    let mut kinds: BTreeMap<&str, Vec<&NodeName>> = BTreeMap::new();
    let mut whole: Vec<(&NodeName, &RankFacts, &FolderFacts)> = Vec::new();
    for (Deployed { node, .. }, rank) in ranks(ctx, say) {
        match &rank.folder {
            Ok(folder) => {
                kinds.entry(&folder.digest).or_default().push(node);
                whole.push((node, rank, folder));
            }
            Err(why) => say.trouble(
                Verdict::Fail,
                About::Node(node),
                Trouble {
                    message: format!("the model on {} is not whole: {why}", ctx.label(node)),
                    observed: why.clone(),
                    expected: format!("a complete model in {}", rank.model),
                    remedy: run(["macluster model check"]),
                },
            ),
        }
    }
    // The model of most ranks is taken for the right one; of two kinds that are equally common, rank 0's.
    let right = kinds
        .iter()
        .max_by_key(|(digest, nodes)| {
            let first = whole.iter().any(|(_, rank, folder)| rank.rank == 0 && folder.digest == **digest);
            (nodes.len(), first)
        })
        .map(|(digest, nodes)| ((*digest).to_owned(), nodes.clone()));
    let Some((right, good)) = right else { return };
    for (node, rank, folder) in whole {
        let (about, label) = (About::Node(node), ctx.label(node));
        if folder.digest == right {
            say.pass(
                about,
                format!("the model on {label} is whole: {}, {} of weights", folder.model_type, gib(folder.bytes)),
            );
            continue;
        }
        let others: Vec<String> = good.iter().map(|n| ctx.label(n)).collect();
        say.trouble(
            Verdict::Fail,
            about,
            Trouble {
                message: format!("the model on {label} is another one than on {}", others.join(", ")),
                observed: format!(
                    "{} {}, {} of weights",
                    folder.model_type,
                    folder.digest.get(..12).unwrap_or(""),
                    gib(folder.bytes)
                ),
                expected: format!("the same files in {} on every rank ({})", rank.model, right.get(..12).unwrap_or("")),
                remedy: run(["macluster model check"]),
            },
        );
    }
}

/// What a rank holds; says `skip` where it is not known.
fn shares<'a>(ctx: &Context<'a>, say: &mut Say) -> Vec<(Deployed<'a>, &'a RankFacts, &'a Result<u64, String>)> {
    let mut all = Vec::new();
    for (deployed, rank) in ranks(ctx, say) {
        let node = deployed.node;
        match &rank.folder {
            Err(_) => say.skip(About::Node(node), needs("runtime.model-manifest", node)),
            Ok(FolderFacts { share: None, model_type, .. }) => say.skip(
                About::Node(node),
                format!(
                    "not checked: how {model_type} divides is not known here; the engine says so itself when it starts"
                ),
            ),
            Ok(FolderFacts { share: Some(share), .. }) => all.push((deployed, rank, share)),
        }
    }
    all
}

fn splits(ctx: &Context<'_>, say: &mut Say) {
    for (Deployed { node, .. }, rank, share) in shares(ctx, say) {
        let (about, label) = (About::Node(node), ctx.label(node));
        match share {
            Ok(_) => say.pass(about, format!("the model on {label} divides over {} ranks", rank.world_size)),
            Err(why) => say.trouble(
                Verdict::Fail,
                about,
                Trouble {
                    message: format!("the model on {label} does not divide over {} ranks: {why}", rank.world_size),
                    observed: why.clone(),
                    expected: "a number of ranks that the model divides over".to_owned(),
                    remedy: run([
                        "macluster deploy   # takes as many nodes as it runs on, and says which stay idle".to_owned()
                    ]),
                },
            ),
        }
    }
}

/// FAILURES G4, G5: more than the GPU may wire is an error at load, or a panic later.
fn fits(ctx: &Context<'_>, say: &mut Say) {
    for (Deployed { node, facts, .. }, rank, share) in shares(ctx, say) {
        let (about, label) = (About::Node(node), ctx.label(node));
        let Ok(share) = share else {
            say.skip(about, needs("runtime.model-splits", node));
            continue;
        };
        let kernel = facts.sysctl.as_ref().ok();
        let Some(memory) = kernel.and_then(|k| k.get("hw.memsize")?.parse::<u64>().ok()) else {
            say.skip(about, format!("not checked: {node} does not say how much memory it has"));
            continue;
        };
        let set = facts.set_wired_limit();
        let limit = wired_limit(memory, set);
        let told = format!("{} of weights, {} of memory, {} for the GPU", gib(*share), gib(memory), gib(limit));
        // macOS's own limit is a guess (three quarters), and decides nothing; one that was set is known.
        let verdict = match set {
            _ if *share > memory => Verdict::Fail,
            Some(_) if *share > limit => Verdict::Fail,
            None if *share > limit => Verdict::Warn,
            _ => {
                say.pass(about, format!("its share of the model fits on {label}: {told}"));
                continue;
            }
        };
        say.trouble(
            verdict,
            about,
            Trouble {
                message: format!("rank {}'s share of the model is more than the GPU of {label} may take", rank.rank),
                observed: told,
                expected: "a share that leaves room for the cache of long requests too".to_owned(),
                remedy: run([
                    "macluster sizing MODEL   # with the folder it came from: says on how many nodes it fits"
                        .to_owned(),
                ]),
            },
        );
    }
}
