//! Finds out what the nodes are, by running a program there, and gets the bundle for them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use futures::future::BoxFuture;
use serde::Deserialize;

use super::{Cause, Deploy, Phase, PhaseFailure, Target, lock};
use crate::agent::layout::PROBE;
use crate::agent::python::NodePython;
use crate::event::Event;
use crate::exit::Exit;
use crate::model::Stdin;
use crate::model::command::TarEntry;
use crate::phase::bundle::{self, Built, Manifest, Platform};
use crate::phase::folders;
use crate::phase::runtime::StepError;
use crate::phase::service;

pub(super) struct Provide;

impl Phase for Provide {
    fn id(&self) -> &'static str {
        "bundle"
    }

    fn title(&self) -> &'static str {
        "Get the bundle for the nodes' platform"
    }

    fn run<'a>(&'a self, deploy: &'a mut Deploy) -> BoxFuture<'a, Result<(), PhaseFailure>> {
        Box::pin(provide(deploy))
    }

    fn undo<'a>(&'a self, deploy: &'a mut Deploy) -> BoxFuture<'a, Vec<String>> {
        Box::pin(async move {
            let deploy: &Deploy = deploy;
            if !deploy.staging_is_ours {
                return Vec::new();
            }
            let clear = |t: &'a Target| async move {
                // It cannot be asked any more, and what it has is worth keeping.
                if deploy.cut_off.contains(&t.node.name) {
                    return Ok(());
                }
                t.node.step("clear-arrivals").ok().await.map(drop).map_err(|e| e.to_string())
            };
            let mut remarks = deploy.each_back("removing what arrived", clear).await;
            remarks.extend(deploy.cut_off.iter().map(|node| {
                let label = deploy.inventory.label(node);
                format!("{label}: what has arrived stays there; the next deploy sends only the rest")
            }));
            remarks
        })
    }
}

/// What `macluster node platform` prints.
#[derive(Deserialize)]
struct Answer {
    platform: Option<Platform>,
    os: String,
    arch: String,
    uid: u32,
    gid: u32,
}

async fn provide(deploy: &mut Deploy) -> Result<(), PhaseFailure> {
    let given = match &deploy.options.bundle {
        Some(dir) => Some(given(dir)?),
        None => None,
    };
    let program = match (&given, &deploy.options.agent) {
        (Some(built), _) => built.dir.join("bin/macluster"),
        (None, Some(path)) => path.clone(),
        (None, None) => std::env::current_exe()
            .map_err(|e| PhaseFailure::new(Exit::Unexpected, format!("cannot find this program's own file: {e}")))?,
    };
    // Where a release is there already, nothing is sent before the lock is ours.
    lock::take(deploy, "hold", None).await?;
    deploy.staging_is_ours = deploy.holds.len() == deploy.targets.len();
    let answers = prove(deploy, &program).await?;
    if deploy.holds.len() < deploy.targets.len() {
        // Whoever is refused here, or gives up waiting, must not clear what the other desk copies.
        deploy.staging_is_ours = false;
        lock::take(deploy, "hold-with", Some(PROBE)).await?;
        deploy.staging_is_ours = true;
    }
    let platform = agree(deploy, &answers)?;
    deploy.platform = Some(platform);
    for (target, answer) in deploy.targets.iter_mut().zip(&answers) {
        target.owner = Some((answer.uid, answer.gid));
        if answer.uid == 0 {
            let text = "the engine runs as root here, because the SSH session does".to_owned();
            deploy.events.emit(Event::Warning { node: Some(target.node.name.clone()), text });
        }
    }
    pythons(deploy).await?;
    let built = match given {
        Some(built) => built,
        None => build(deploy, platform).await?,
    };
    fits(deploy, &built.manifest, platform)?;
    deploy.bundle = Some(built);
    let previous = deploy
        .each("asking what runs", |t| async move {
            // A report that cannot be read says that something is there, but not what: as good as nothing to go back to.
            Ok(service::report(&t.node).await.unwrap_or(None))
        })
        .await?;
    for (target, report) in deploy.targets.iter_mut().zip(previous) {
        target.previous = report;
    }
    Ok(())
}

fn given(dir: &Path) -> Result<Built, PhaseFailure> {
    let manifest = Manifest::read(dir).and_then(|m| m.verify(dir, &[], &mut |_| {}).map(|()| m)).map_err(|why| {
        PhaseFailure::new(Exit::DeployFailed, format!("{} is no intact bundle: {why}", dir.display()))
    })?;
    Ok(Built { dir: dir.to_owned(), manifest, reused: true })
}

/// Runs the program on every node.
async fn prove(deploy: &Deploy, program: &PathBuf) -> Result<Vec<Answer>, PhaseFailure> {
    let size = std::fs::metadata(program)
        .map_err(|e| PhaseFailure::new(Exit::Unexpected, format!("cannot read {}: {e}", program.display())))?
        .len();
    let entry = TarEntry { path: "bin/macluster".into(), source: program.clone().into(), mode: 0o755, size };
    deploy
        .each("finding out the platform", |t| {
            let entry = entry.clone();
            async move {
                let words = |e: StepError| e.to_string();
                folders::make(&t.node, "make-folders").await.map_err(words)?;
                t.node.step("clear-staging").release(PROBE).ok().await.map_err(words)?;
                let archive = Stdin::Tar(vec![entry]);
                t.node.step("receive").release(PROBE).stdin(archive).ok().await.map_err(words)?;
                let output = t.node.step("prove-platform").release(PROBE).answer().await.map_err(words)?;
                if output.ok() {
                    return serde_json::from_slice(&output.stdout)
                        .map_err(|e| format!("the pushed program answered something else: {e}"));
                }
                // It does not run: what is this node then?
                let uname = t.node.step("ask-platform").ok().await.map_err(words)?;
                Err(does_not_run(&uname.text(), &output.describe()))
            }
        })
        .await
        .map_err(|f| f.hint("a bundle for another platform: `macluster bundle build --platform P --agent PATH`, then deploy --bundle DIR"))
}

fn does_not_run(uname: &str, how: &str) -> String {
    let ours = Platform::host().map_or("another platform", Platform::as_str);
    match Platform::from_uname(uname) {
        Some(platform) if Some(platform) != Platform::host() => {
            format!("this node is {platform}, and the program that was sent is for {ours} ({how})")
        }
        // Apple silicon kills programs without a signature, an ad-hoc one at least.
        Some(Platform::MacosArm64) => {
            format!(
                "the program that was sent does not run ({how}); is it signed? `codesign -s - PATH` signs it ad hoc"
            )
        }
        _ => format!(
            "the program that was sent does not run ({how}); the node says it is {}",
            uname.trim().escape_debug()
        ),
    }
}

/// The one platform of all nodes.
fn agree(deploy: &Deploy, answers: &[Answer]) -> Result<Platform, PhaseFailure> {
    let mut platforms = BTreeSet::new();
    let mut causes = Vec::new();
    for (target, answer) in deploy.targets.iter().zip(answers) {
        match answer.platform {
            Some(platform) => {
                platforms.insert(platform.as_str());
            }
            None => causes.push(Cause {
                node: Some(target.node.name.clone()),
                message: format!("bundles are not built for {} {}", answer.os, answer.arch),
            }),
        }
    }
    if !causes.is_empty() {
        return Err(PhaseFailure::of(Exit::DeployFailed, causes));
    }
    if platforms.len() > 1 {
        let causes = deploy.targets.iter().zip(answers).map(|(target, answer)| Cause {
            node: Some(target.node.name.clone()),
            message: format!("is {} {}; all nodes must be the same", answer.os, answer.arch),
        });
        return Err(PhaseFailure::of(Exit::DeployFailed, causes.collect()));
    }
    answers
        .iter()
        .find_map(|a| a.platform)
        .ok_or_else(|| PhaseFailure::new(Exit::Unexpected, "the inventory has no nodes"))
}

/// Asks the Python that the inventory names, on every node.
async fn pythons(deploy: &mut Deploy) -> Result<(), PhaseFailure> {
    let Some(path) = deploy.inventory.runtime.python.clone() else { return Ok(()) };
    let found: Vec<NodePython> = deploy
        .each("asking Python", |t| {
            let path = path.clone();
            async move {
                let output = t.node.step("ask-python").release(PROBE).with("python", path).ok().await;
                let output = output.map_err(|e| e.words())?;
                serde_json::from_slice(&output.stdout).map_err(|e| format!("its answer cannot be read: {e}"))
            }
        })
        .await
        .map_err(|f| f.hint("runtime.python in the inventory is the Python of every node"))?;
    let minors: BTreeMap<&str, &str> =
        found.iter().zip(&deploy.targets).map(|(p, t)| (p.minor.as_str(), t.node.name.as_str())).collect();
    if minors.len() > 1 {
        let causes = deploy.targets.iter().zip(&found).map(|(target, python)| Cause {
            node: Some(target.node.name.clone()),
            message: format!("{} is Python {}; all nodes must have the same minor", python.path, python.minor),
        });
        return Err(PhaseFailure::of(Exit::DeployFailed, causes.collect()));
    }
    for (target, python) in deploy.targets.iter_mut().zip(found) {
        target.python = Some(python);
    }
    Ok(())
}

async fn build(deploy: &Deploy, platform: Platform) -> Result<Built, PhaseFailure> {
    let minor = deploy.targets.first().and_then(|t| t.python.as_ref()).map(|p| p.minor.clone());
    if minor.is_none() {
        return Err(no_python());
    }
    let request = bundle::Request {
        platform,
        out: deploy.options.cache.join("bundles"),
        cache: deploy.options.cache.clone(),
        agent: deploy.options.agent.clone(),
        python: None,
        minor,
        pip_python: deploy.options.pip_python.clone(),
    };
    let built = bundle::build(&request, &deploy.events).await?;
    let text = format!("bundle {} ({})", built.manifest.id, built.dir.display());
    deploy.events.emit(Event::Note { node: None, text });
    Ok(built)
}

fn no_python() -> PhaseFailure {
    PhaseFailure::new(Exit::DeployFailed, "there is no Python for the nodes: a stock Mac has none that can be used")
        .hint("carry one in the bundle: `macluster bundle build --python ARCHIVE --python-sha256 HEX`, then deploy --bundle DIR")
        .hint("or name one that every node has: runtime.python in the inventory")
}

/// Whether the bundle is for these nodes.
fn fits(deploy: &Deploy, manifest: &Manifest, platform: Platform) -> Result<(), PhaseFailure> {
    if manifest.platform != platform {
        let message = format!("bundle {} is for {}, the nodes are {platform}", manifest.id, manifest.platform);
        return Err(PhaseFailure::new(Exit::DeployFailed, message));
    }
    let wanted = &manifest.python_minor;
    let wrong = |t: &Target| t.python.as_ref().filter(|p| p.minor != *wanted).map(|p| (t.node.name.clone(), p.clone()));
    // The bundle's own interpreter is used unless the inventory names another.
    let causes: Vec<Cause> = deploy
        .targets
        .iter()
        .filter_map(wrong)
        .map(|(node, python)| Cause {
            node: Some(node),
            message: format!("{} is Python {}, but the bundle's packages are for {wanted}", python.path, python.minor),
        })
        .collect();
    if !causes.is_empty() {
        return Err(
            PhaseFailure::of(Exit::DeployFailed, causes).hint("build the bundle for the nodes' Python: --python-minor")
        );
    }
    if manifest.python.is_none() && deploy.targets.iter().any(|t| t.python.is_none()) {
        return Err(no_python());
    }
    Ok(())
}
