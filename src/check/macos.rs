//! `host`: that the macOS of every Mac is new enough, and the same on all.

use super::Context;
use super::say::{About, Say, Trouble, at_machine, unknown};
use crate::model::facts::OsVersion;
use crate::model::{NodeName, Verdict};

/// RDMA over Thunderbolt came with macOS 26.2 (Apple TN3205); the runtime's kernels need 26 anyway.
pub(super) const MACOS_MIN: (u32, u32) = (26, 2);

pub(super) fn minimum(ctx: &Context<'_>, say: &mut Say) {
    let (major, minor) = MACOS_MIN;
    for node in ctx.nodes() {
        let Some(facts) = ctx.facts_or_skip(node, say) else { continue };
        let about = About::Node(node);
        let label = ctx.label(node);
        match facts.os.as_ref().map(|os| (os, os.major_minor())) {
            Ok((os, Some(version))) if version >= MACOS_MIN => say.pass(about, format!("{label} runs macOS {os}")),
            Ok((os, Some(_))) => say.trouble(
                Verdict::Fail,
                about,
                Trouble {
                    message: format!("{label} runs macOS {os}: RDMA over Thunderbolt came with {major}.{minor}"),
                    observed: format!("macOS {os}"),
                    expected: format!("macOS {major}.{minor} or newer"),
                    remedy: at_machine([format!(
                        "at {label}: System Settings > General > Software Update (an update cannot be finished over SSH)"
                    )]),
                },
            ),
            Ok((os, None)) => {
                say.skip(about, format!("not checked: sw_vers names the version {:?}", os.version));
            }
            Err(error) => say.skip(about, unknown(error)),
        }
    }
}

/// Old to new; at equal versions a beta is older than a release, whatever its number (27.0: 26A5421a came before
/// 26A428).
fn age(os: &OsVersion) -> (Vec<u32>, bool, String, String) {
    let numbers = os.version.split('.').map(|n| n.parse().unwrap_or(0)).collect();
    (numbers, !beta(os), os.extra.clone(), os.build.clone())
}

/// A beta's build ends in a number of four digits that begins with 5, and a small letter.
fn beta(os: &OsVersion) -> bool {
    let tail = os.build.trim_start_matches(|c: char| c.is_ascii_digit());
    let mut chars = tail.chars();
    let train = chars.next().is_some_and(|c| c.is_ascii_uppercase());
    let rest = chars.as_str();
    let digits = rest.trim_end_matches(|c: char| c.is_ascii_lowercase());
    train && digits.len() == 4 && digits.starts_with('5') && rest.len() == digits.len() + 1
}

fn describe(os: &OsVersion) -> String {
    if beta(os) { format!("{os}, a beta") } else { os.to_string() }
}

pub(super) fn identical(ctx: &Context<'_>, say: &mut Say) {
    let mut groups: Vec<(&OsVersion, Vec<&NodeName>)> = Vec::new();
    for node in ctx.nodes() {
        let Some(facts) = ctx.facts_or_skip(node, say) else { continue };
        match &facts.os {
            Ok(os) => match groups.iter_mut().find(|(g, _)| *g == os) {
                Some((_, nodes)) => nodes.push(node),
                None => groups.push((os, vec![node])),
            },
            Err(error) => say.skip(About::Node(node), unknown(error)),
        }
    }
    let known: usize = groups.iter().map(|(_, n)| n.len()).sum();
    if let [(os, nodes)] = groups.as_slice() {
        if known == 1 && ctx.inventory.nodes.len() > 1 {
            say.skip(About::Rack, format!("not checked: only {} could be read, nothing to compare", nodes[0]));
        } else {
            say.pass(About::Rack, format!("{known} of {known} run macOS {}", describe(os)));
        }
        return;
    }
    for (os, nodes) in &groups {
        for node in nodes {
            if let Some(trouble) = odd_one(ctx, &groups, os, node) {
                say.trouble(Verdict::Fail, About::Node(node), trouble);
            }
        }
    }
}

type Builds<'a> = [(&'a OsVersion, Vec<&'a NodeName>)];

fn names<'a>(nodes: impl IntoIterator<Item = &'a &'a NodeName>) -> String {
    nodes.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// What is said of a node on a build that is not the one of most nodes. Every remedy names the same target: the newest
/// release in the rack, since macOS only updates upwards; never a beta, which cannot be installed at will.
fn odd_one(ctx: &Context<'_>, builds: &Builds<'_>, os: &OsVersion, node: &NodeName) -> Option<Trouble> {
    let releases = || builds.iter().filter(|(os, _)| !beta(os));
    let target = releases().map(|(os, _)| *os).max_by_key(|os| age(os));
    // The build of most nodes is the usual one; without a majority the newest. A beta is not when there is a release.
    let candidates: Vec<_> = if target.is_some() { releases().collect() } else { builds.iter().collect() };
    let most = candidates.iter().map(|(_, n)| n.len()).max()?;
    let (usual, usual_nodes) = candidates.iter().filter(|(_, n)| n.len() == most).max_by_key(|(os, _)| age(os))?;
    if os == *usual {
        return None;
    }
    let majority = candidates.iter().filter(|(_, n)| n.len() == most).count() == 1;
    let label = ctx.label(node);
    let whom = if majority { "the others run" } else { "no build has a majority, the newest is" };
    let (step, observed, expected) = match target {
        Some(target) if os == target => {
            let behind = names(builds.iter().filter(|(os, _)| *os != target).flat_map(|(_, nodes)| nodes));
            let step = format!(
                "update {behind} to macOS {target}: {label} is ahead, and macOS cannot go back without being erased"
            );
            (step, format!("{os}, and {usual} on {}", names(usual_nodes)), format!("{target} on every node"))
        }
        Some(target) if beta(os) && age(os) > age(target) => (
            format!("erase {label} and install macOS {target}: a beta that is ahead cannot go back otherwise"),
            os.to_string(),
            format!("{target} on every node"),
        ),
        Some(target) => (
            format!("at {label}: System Settings > General > Software Update, to macOS {target}"),
            os.to_string(),
            format!("{target} on every node"),
        ),
        None => (
            "install the same release of macOS on every node: betas cannot be installed at will".to_owned(),
            os.to_string(),
            "one release of macOS on every node".to_owned(),
        ),
    };
    Some(Trouble {
        message: format!(
            "{label} is the odd one out: it runs macOS {}, {whom} {}; Macs on different builds do not see each other over RDMA",
            describe(os),
            describe(usual)
        ),
        observed,
        expected,
        remedy: at_machine([step]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn os(version: &str, build: &str) -> OsVersion {
        OsVersion { version: version.to_owned(), extra: String::new(), build: build.to_owned() }
    }

    #[test]
    fn betas_are_known_by_their_build_and_older_than_the_release() {
        assert!(beta(&os("27.0", "26A5421a")));
        for release in ["26A428", "25D771280a", "25D2128", "25F80", ""] {
            assert!(!beta(&os("27.0", release)), "{release}");
        }
        assert!(age(&os("27.0", "26A428")) > age(&os("27.0", "26A5421a")));
        assert!(age(&os("26.10", "25X1")) > age(&os("26.9", "25X1")));
    }
}
