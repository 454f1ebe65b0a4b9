//! A daemon of another program that sets the same interfaces (FAILURES C8).

use super::super::Context;
use super::super::judge::Purpose;
use super::super::say::{About, Say, Trouble, run, unknown};
use crate::model::network_facts::EXO_JOB;

pub(super) fn foreign_daemon(ctx: &Context<'_>, say: &mut Say) {
    for node in ctx.nodes() {
        let Some(facts) = ctx.facts_or_skip(node, say) else { continue };
        let about = About::Node(node);
        let label = ctx.label(node);
        match facts.network.job(EXO_JOB) {
            Err(error) => say.skip(about, unknown(error)),
            Ok(None) => say.pass(about, format!("no other program's daemon sets the links of {label}")),
            Ok(Some(job)) => say.trouble(
                Purpose::of(ctx.inventory).for_links(),
                about,
                Trouble {
                    message: format!(
                        "exo's network daemon {} is loaded on {label}: every half hour it asks for new addresses on all \
                         Thunderbolt interfaces, and `network apply` does not start against it",
                        job.label
                    ),
                    observed: format!("launchd has {} ({})", job.label, job.state),
                    expected: "no such job".to_owned(),
                    remedy: run([
                        "macluster network plan --replace-foreign-daemon",
                        "macluster network apply --replace-foreign-daemon",
                    ]),
                },
            ),
        }
    }
}
