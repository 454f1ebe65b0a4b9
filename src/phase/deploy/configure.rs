//! Ranks and their files, made for every node and laid beside what runs. Nothing that runs is touched.

use futures::future::BoxFuture;
use jiff::Timestamp;
use serde::Serialize;

use super::{Deploy, Phase, PhaseFailure, Target};
use crate::agent::Layout;
use crate::agent::certify::{self, Identity};
use crate::agent::config::{AgentAt, AgentFile, Api, CONFIG_VERSION, ModelRef, RankFile};
use crate::agent::layout::AGENT_LABEL;
use crate::event::Event;
use crate::exit::Exit;
use crate::mesh::LinkGraph;
use crate::mesh::ranks::{self, Rank, RankPlan};
use crate::mesh::usable::live_addresses;
use crate::model::command::{TarEntry, TarSource};
use crate::model::host_facts::FileVault;
use crate::model::{Backend, NodeName, Stdin};
use crate::phase::bundle::Platform;
use crate::phase::runtime::StepError;

/// Seconds between the meetings of idle ranks.
const IDLE_SYNC: f64 = 0.5;
/// launchd waits this long for the agent, which gives its engine 15 s.
const EXIT_TIMEOUT: u32 = 25;
/// What the engine alone may read.
const PRIVATE: [&str; 3] = ["rank.json", "hostfile.json", "devices.json"];
/// What root alone may read.
const SECRET: [&str; 1] = ["agent.key"];

pub(super) struct Configure;

impl Phase for Configure {
    fn id(&self) -> &'static str {
        "configure"
    }

    fn title(&self) -> &'static str {
        "Assign ranks and write the configuration"
    }

    fn run<'a>(&'a self, deploy: &'a mut Deploy) -> BoxFuture<'a, Result<(), PhaseFailure>> {
        Box::pin(configure(deploy))
    }

    fn undo<'a>(&'a self, deploy: &'a mut Deploy) -> BoxFuture<'a, Vec<String>> {
        Box::pin(async move {
            let drop_it = |t: &'a Target| async move {
                t.node.step("drop-configuration").ok().await.map(drop).map_err(|e| e.to_string())
            };
            deploy.each_back("removing the new configuration", drop_it).await
        })
    }
}

async fn configure(deploy: &mut Deploy) -> Result<(), PhaseFailure> {
    let plan = plan(deploy)?;
    for note in &plan.notes {
        deploy.events.emit(Event::Warning { node: None, text: note.clone() });
    }
    let id = deploy.built()?.manifest.id;
    let count = u32::try_from(plan.ranks.len()).unwrap_or(u32::MAX);
    let (identities, until) =
        certify::issue(count, Timestamp::now()).map_err(|why| PhaseFailure::new(Exit::Unexpected, why))?;
    let mut rank_of = Vec::new();
    for target in &deploy.targets {
        if deploy.is_idle(&target.node.name) {
            rank_of.push(Files::new());
            continue;
        }
        let rank = plan.ranks.iter().find(|r| r.node == target.node.name);
        let rank = rank.ok_or_else(|| PhaseFailure::on(&target.node.name, "has no rank"))?;
        let own = identities.get(rank.rank).cloned();
        let own = own.ok_or_else(|| PhaseFailure::on(&target.node.name, "has no certificate"))?;
        let files = files(deploy, &plan, rank, target, &id, Issued { own, until });
        rank_of.push(files.map_err(|why| PhaseFailure::on(&target.node.name, why))?);
    }
    let work = |t: &'_ Target| {
        let files =
            rank_of.iter().zip(&deploy.targets).find(|(_, o)| o.node.name == t.node.name).map(|(f, _)| f.clone());
        let (node, owner) = (t.node.clone(), t.owner);
        async move {
            let words = |e: StepError| e.to_string();
            let files = files.unwrap_or_default();
            let entries = entries(&files);
            let (uid, gid) = owner.ok_or("nobody knows whose the engine is")?;
            node.step("clear-configuration").ok().await.map_err(words)?;
            if files.is_empty() {
                return Ok(());
            }
            node.step("receive-configuration").stdin(Stdin::Tar(entries)).ok().await.map_err(words)?;
            for (name, _) in files.iter().filter(|(n, _)| PRIVATE.contains(&n.as_str())) {
                let own = node.step("own-configuration").with("file", name.as_str());
                own.with("uid", uid.to_string()).with("gid", gid.to_string()).ok().await.map_err(words)?;
            }
            Ok(())
        }
    };
    deploy.each("writing the configuration", work).await?;
    deploy.plan = Some(plan);
    Ok(())
}

fn plan(deploy: &Deploy) -> Result<RankPlan, PhaseFailure> {
    let graph = LinkGraph::build(&deploy.snapshot);
    let addresses = |link: &_| graph.links.get(link).and_then(|l| live_addresses(l, &deploy.snapshot));
    let etc = |node: &NodeName| {
        let target = deploy.targets.iter().find(|t| &t.node.name == node);
        target.map(|t| t.node.layout.etc()).unwrap_or_default()
    };
    let runtime = &deploy.inventory.runtime;
    ranks::plan(&ranks::Request {
        graph: &graph,
        inventory: &deploy.rank_inventory(),
        snapshot: &deploy.snapshot,
        backend: runtime.backend,
        over: runtime.over,
        jaccl_available: deploy.platform == Some(Platform::MacosArm64),
        addresses: &addresses,
        etc: &etc,
    })
    .map_err(|e| PhaseFailure { hints: e.hints, ..PhaseFailure::new(Exit::DeployFailed, e.message) })
}

/// Every file of a node's configuration: name, content.
type Files = Vec<(String, Vec<u8>)>;

/// A rank's certificate.
struct Issued {
    own: Identity,
    until: Timestamp,
}

/// Where every rank's agent is.
fn agents(deploy: &Deploy, plan: &RankPlan) -> Result<Vec<AgentAt>, String> {
    let one = |rank: &Rank| {
        let node = deploy.inventory.node(&rank.node).ok_or_else(|| format!("{} is not in the inventory", rank.node))?;
        let ip = ranks::management_address(&deploy.snapshot, &rank.node)
            .ok_or_else(|| format!("{} has no known IPv4 address on its management network", rank.node))?;
        let facts = deploy.snapshot.facts(&rank.node);
        let filevault = facts.and_then(|f| f.host.filevault.as_ref().ok()).map(|f| *f != FileVault::Off);
        Ok(AgentAt { node: rank.node.clone(), address: (ip, node.agent_port).into(), filevault })
    };
    plan.ranks.iter().map(one).collect()
}

fn files(
    deploy: &Deploy,
    plan: &RankPlan,
    rank: &Rank,
    target: &Target,
    id: &str,
    identity: Issued,
) -> Result<Files, String> {
    let inventory = &deploy.inventory;
    let layout = &target.node.layout;
    let model = inventory.runtime.model.as_deref().unwrap_or_default();
    let number = u32::try_from(rank.rank).map_err(|e| e.to_string())?;
    let api = inventory.runtime.api;
    let rank_file = RankFile {
        schema_version: CONFIG_VERSION,
        rack: inventory.rack.clone(),
        node: rank.node.clone(),
        release: id.to_owned(),
        rank: number,
        world_size: u32::try_from(plan.ranks.len()).map_err(|e| e.to_string())?,
        backend: announced(plan.backend).to_owned(),
        mlx_backend: plan.mlx_backend.to_owned(),
        env: rank.env.clone(),
        model: ModelRef { path: super::model::path(model, layout.root()), id: model_id(model) },
        trust_remote_code: inventory.runtime.trust_remote_code,
        parallel: deploy.parallel,
        api: (number == 0).then(|| Api { host: api.ip().to_string(), port: api.port() }),
        start_timeout_s: deploy.start_timeout,
        idle_sync_s: IDLE_SYNC,
    };
    let (uid, gid) = target.owner.ok_or("nobody knows whose the engine is")?;
    let agent = AgentFile {
        schema_version: CONFIG_VERSION,
        launch: deploy.launch.clone(),
        uid,
        gid,
        agents: agents(deploy, plan)?,
        certificates_until: identity.until,
    };
    let mut files = vec![
        ("rank.json".to_owned(), json(&rank_file)?),
        ("agent.json".to_owned(), json(&agent)?),
        (format!("{AGENT_LABEL}.plist"), property_list(layout)?),
        ("ca.pem".to_owned(), identity.own.authority.into_bytes()),
        ("agent.pem".to_owned(), identity.own.certificate.into_bytes()),
        ("agent.key".to_owned(), identity.own.key.into_bytes()),
    ];
    for (name, content) in &rank.files {
        files.push((name.clone(), json(content)?));
    }
    Ok(files)
}

fn json<T: Serialize>(value: &T) -> Result<Vec<u8>, String> {
    let mut bytes = serde_json::to_vec_pretty(value).map_err(|e| e.to_string())?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// The word for a backend in files and reports.
pub(super) fn announced(backend: Backend) -> &'static str {
    match backend {
        Backend::Jaccl => "jaccl",
        Backend::JacclRing => "jaccl-ring",
        // A plan never announces `auto`.
        Backend::Ring | Backend::Auto => "ring",
    }
}

/// The name clients use: the model folder's.
pub(super) fn model_id(path: &str) -> String {
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or(path);
    name.to_owned()
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct LaunchDaemon {
    label: &'static str,
    program_arguments: Vec<String>,
    run_at_load: bool,
    keep_alive: bool,
    exit_time_out: u32,
    process_type: &'static str,
    standard_out_path: String,
    standard_error_path: String,
}

/// The agent's property list, see launchd.plist(5).
fn property_list(layout: &Layout) -> Result<Vec<u8>, String> {
    let program = format!("{}/bin/macluster", layout.current());
    let daemon = LaunchDaemon {
        label: AGENT_LABEL,
        program_arguments: [&program, "agent", "--root", layout.root(), "--install", layout.install()]
            .map(str::to_owned)
            .into(),
        run_at_load: true,
        // An agent that died is started again; it then finds out by itself what became of its engine.
        keep_alive: true,
        exit_time_out: EXIT_TIMEOUT,
        // Not throttled as background work would be.
        process_type: "Interactive",
        standard_out_path: layout.agent_log(),
        standard_error_path: layout.agent_log(),
    };
    let mut bytes = Vec::new();
    plist::to_writer_xml(&mut bytes, &daemon).map_err(|e| format!("cannot write the property list: {e}"))?;
    Ok(bytes)
}

/// The files as they go into the archive: from memory, for a key has no business on the desk's disk.
fn entries(files: &Files) -> Vec<TarEntry> {
    let entry = |(name, content): &(String, Vec<u8>)| {
        let closed = PRIVATE.contains(&name.as_str()) || SECRET.contains(&name.as_str());
        TarEntry {
            path: name.clone(),
            source: TarSource::Bytes(content.clone()),
            mode: if closed { 0o600 } else { 0o644 },
            size: content.len() as u64,
        }
    };
    files.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_property_list_starts_the_agent_of_the_current_release() {
        let bytes = property_list(&Layout::new("/", "/opt/macluster")).expect("written");
        let value: plist::Value = plist::from_bytes(&bytes).expect("a property list");
        let dict = value.as_dictionary().expect("a dictionary");
        let arguments: Vec<&str> = dict
            .get("ProgramArguments")
            .and_then(plist::Value::as_array)
            .expect("arguments")
            .iter()
            .filter_map(plist::Value::as_string)
            .collect();
        let expected = ["/opt/macluster/current/bin/macluster", "agent", "--root", "/", "--install", "/opt/macluster"];
        assert_eq!(arguments, expected);
        assert_eq!(dict.get("Label").and_then(plist::Value::as_string), Some("com.macluster.agent"));
        assert_eq!(dict.get("RunAtLoad").and_then(plist::Value::as_boolean), Some(true));
        assert_eq!(dict.get("KeepAlive").and_then(plist::Value::as_boolean), Some(true));
        assert_eq!(dict.get("ExitTimeOut").and_then(plist::Value::as_unsigned_integer), Some(25));
    }

    #[test]
    fn keys_are_sent_from_memory_and_closed_to_others() {
        let files: Files =
            ["agent.json", "agent.key", "rank.json"].map(|n| (n.to_owned(), n.as_bytes().to_vec())).into();
        let entries = entries(&files);
        assert_eq!(entries.iter().map(|e| e.mode).collect::<Vec<_>>(), [0o644, 0o600, 0o600]);
        assert!(entries.iter().all(|e| e.source == TarSource::Bytes(e.path.clone().into_bytes())));
        assert!(!format!("{entries:?}").contains("[97, "), "a key is not shown");
    }

    #[test]
    fn a_model_is_called_as_its_folder() {
        assert_eq!(model_id("/opt/models/SmolLM2-135M/"), "SmolLM2-135M");
        assert_eq!(model_id("x"), "x");
    }
}
