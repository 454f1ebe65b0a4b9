//! The acceptance run: what `macluster accept` measures of a serving rack, while it serves and while it is stopped.

pub mod compare;
pub mod links;
pub mod measure;
pub mod report;
mod requests;
mod stopped;

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use self::links::{Crosses, RankConfig};
use self::measure::Costs;
use self::report::{Figures, Idle, KIND, NodeRecord, Report, SCHEMA_VERSION, Service, Step, Word};
use self::requests::{Api, NoNeedle};
use crate::agent::status::Status;
use crate::event::{Event, Events};
use crate::mesh::LinkGraph;
use crate::model::{Inventory, NodeName, Snapshot};
use crate::phase::inspect::NodeStatus;
use crate::phase::ops::Ops;
use crate::phase::runtime::RuntimeNode;
use crate::phase::smoke;

/// What the operator asked for.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Tokens of the long prompt, at least.
    pub needle_tokens: u32,
    /// How long nothing is asked.
    pub idle: Duration,
    /// Whether the service is asked anything before it is stopped.
    pub requests: bool,
    /// Whether the service may be stopped for what needs that.
    pub stop: bool,
}

/// A run under way.
pub struct Acceptance<'a> {
    ops: &'a Ops<'a>,
    inventory: &'a Inventory,
    snapshot: &'a Snapshot,
    graph: LinkGraph,
    events: Events,
    options: Options,
    /// In the order of ranks.
    statuses: Vec<(NodeName, Status)>,
    configs: Vec<RankConfig>,
    crosses: Crosses,
    began: (Timestamp, Instant),
    figures: Figures,
    costs: Costs,
    steps: Vec<Step>,
    stop_s: f64,
}

/// How a step ended: one line, or one for each cause with what to do.
type Ended = Result<String, (Vec<String>, String)>;

/// A failed step with one cause.
fn failed(why: impl Into<String>, hint: &str) -> Ended {
    Err((vec![why.into()], hint.to_owned()))
}

/// The rank statuses of one whole service, in the order of ranks.
///
/// # Errors
/// One line for each reason why there is none.
pub fn serving(inventory: &Inventory, nodes: &[NodeStatus]) -> Result<Vec<(NodeName, Status)>, Vec<String>> {
    let mut ranks = smoke::ranks(nodes);
    smoke::one_service(inventory, nodes, &ranks)?;
    ranks.sort_by_key(|(_, status)| status.rank);
    Ok(ranks)
}

impl<'a> Acceptance<'a> {
    /// Reads what the ranks were told. Nothing is changed yet.
    ///
    /// # Errors
    /// Names the node whose configuration cannot be read.
    pub async fn prepare(
        ops: &'a Ops<'a>,
        snapshot: &'a Snapshot,
        events: &Events,
        statuses: Vec<(NodeName, Status)>,
        options: Options,
    ) -> Result<Self, String> {
        let inventory = ops.inventory;
        let began = (Timestamp::now(), Instant::now());
        let mut configs = Vec::new();
        for (name, _) in &statuses {
            let told = |why: String| format!("{}: {why}", inventory.label(name));
            let node = ops.node(name).ok_or_else(|| told("it was not reached".into()))?;
            configs.push(stopped::read_config(node).await.map_err(told)?);
        }
        let graph = LinkGraph::build(snapshot);
        let crosses = Crosses::of(&configs, &graph, snapshot);
        let costs = Costs::default();
        for (node, status) in &statuses {
            costs.note(node, status.debits);
        }
        Ok(Acceptance {
            ops,
            inventory,
            snapshot,
            graph,
            events: Arc::clone(events),
            options,
            statuses,
            configs,
            crosses,
            began,
            figures: Figures::default(),
            costs,
            steps: Vec::new(),
            stop_s: 0.0,
        })
    }

    /// The deploy that serves, and its ranks.
    pub fn launch(&self) -> (&str, usize) {
        (self.statuses.first().map_or("", |(_, s)| s.launch.as_str()), self.statuses.len())
    }

    fn begin(&self, id: &'static str, title: impl Into<String>) -> Instant {
        self.events.emit(Event::PhaseStarted { id, title: title.into() });
        Instant::now()
    }

    fn end(&mut self, id: &'static str, began: Instant, ended: Ended) {
        let (verdict, messages, hints) = match ended {
            Ok(text) => (Word::Pass, vec![text], Vec::new()),
            Err((causes, hint)) => (Word::Fail, causes, vec![hint]),
        };
        self.push(id, began, verdict, messages, hints);
    }

    fn skip(&mut self, id: &'static str, began: Instant, why: String) {
        self.push(id, began, Word::Skip, vec![why], Vec::new());
    }

    fn push(&mut self, id: &'static str, began: Instant, verdict: Word, messages: Vec<String>, hints: Vec<String>) {
        for text in &messages {
            let (node, text) = (None, format!("{id}: {text}"));
            let event = if verdict == Word::Fail { Event::Warning { node, text } } else { Event::Note { node, text } };
            self.events.emit(event);
        }
        self.events.emit(Event::PhaseDone { id, ok: verdict != Word::Fail });
        let seconds = began.elapsed().as_secs_f64();
        self.steps.push(Step { step: id.to_owned(), verdict, messages, hints, seconds });
    }

    fn rank0(&self) -> Option<&'a RuntimeNode> {
        self.ops.node(&self.statuses.first()?.0)
    }

    /// Everything that is asked of the service while it serves. Changes nothing.
    pub async fn while_serving(&mut self) {
        if !self.options.requests {
            self.leave_out(&["answer", "needle", "requests-2", "requests-8", "idle"], "--no-requests");
            return;
        }
        let Some(node) = self.rank0() else { return };
        let api = Api { inventory: self.inventory, node };
        let logs = format!("`macluster logs {}` shows what the engine says", node.name);

        let began = self.begin("answer", "Ask for one answer");
        let ended = match api.streamed().await {
            Ok(s) => {
                self.figures.answer = Some(s);
                let rate = s.tokens_per_second;
                Ok(format!("{} tokens at {rate:.1} tokens/s, the first after {:.2} s", s.tokens, s.first_token_s))
            }
            Err(why) => failed(why, &logs),
        };
        self.end("answer", began, ended);

        self.needle(&api, &logs).await;
        for (id, count) in [("requests-2", 2), ("requests-8", 8)] {
            let began = self.begin(id, format!("Send {count} requests at once"));
            let ended = match api.at_once(count).await {
                Ok(done) => {
                    let text = format!(
                        "all {count} were answered in {:.1} s, {:.1} tokens/s in sum; the engine serves one after the other",
                        done.seconds, done.tokens_per_second
                    );
                    self.figures.requests.push(done);
                    Ok(text)
                }
                Err(causes) => Err((causes, logs.clone())),
            };
            self.end(id, began, ended);
        }

        let idle_s = self.options.idle.as_secs();
        let began = self.begin("idle", format!("Ask nothing for {idle_s} s, then once"));
        tokio::time::sleep(self.options.idle).await;
        let ended = match api.streamed().await {
            Ok(s) => {
                self.figures.idle =
                    Some(Idle { idle_s, first_token_s: s.first_token_s, tokens_per_second: s.tokens_per_second });
                Ok(format!("after {idle_s} s the first token came after {:.2} s", s.first_token_s))
            }
            Err(why) => failed(why, &logs),
        };
        self.end("idle", began, ended);
    }

    async fn needle(&mut self, api: &Api<'_>, logs: &str) {
        let wanted = self.options.needle_tokens;
        let began = self.begin("needle", format!("Find a needle in a prompt of {wanted} tokens"));
        let needle = match api.needle(wanted).await {
            Ok(needle) => needle,
            Err(NoNeedle::TooLong(why)) => {
                self.skip("needle", began, format!("the model's context is too small for {wanted} tokens: {why}"));
                return;
            }
            Err(NoNeedle::Failed(why)) => {
                self.end("needle", began, failed(why, logs));
                return;
            }
        };
        let tokens = needle.size.prompt_tokens;
        let ended = if needle.found {
            Ok(format!("found in a prompt of {tokens} tokens, in {:.1} s", needle.seconds))
        } else {
            let hint = "a small model cannot do this: try --needle-tokens with fewer; a large one that fails at 4,000 \
                        tokens and not at 500 is not sound on this rack";
            let why = format!("not found in a prompt of {tokens} tokens; the answer was {:?}", needle.answer);
            failed(why, hint)
        };
        self.figures.needle = Some(needle);
        self.end("needle", began, ended);
    }

    /// The steps that need the service stopped, left out.
    pub fn leave_it_running(&mut self) {
        self.leave_out(&["stop", "links", report::OUTLIERS, "all-reduce", report::RESTART], "--no-stop");
    }

    fn leave_out(&mut self, steps: &[&'static str], option: &str) {
        for id in steps {
            self.skip(id, Instant::now(), format!("left out with {option}"));
        }
    }

    /// Everything, to be filed away.
    pub fn report(self) -> Report {
        let first = self.statuses.first().map(|(_, s)| s);
        let word = |of: fn(&Status) -> &String| first.map(of).cloned().unwrap_or_default();
        let fail = self.steps.iter().any(|s| s.verdict == Word::Fail);
        Report {
            report: KIND.to_owned(),
            schema_version: SCHEMA_VERSION,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: self.began.0,
            seconds: self.began.1.elapsed().as_secs_f64(),
            rack: self.inventory.rack.clone(),
            inventory: self.inventory.text.clone(),
            verdict: if fail { Word::Fail } else { Word::Pass },
            service: Service {
                release: word(|s| &s.release),
                launch: word(|s| &s.launch),
                backend: word(|s| &s.backend),
                over: self.crosses.as_str().to_owned(),
                model: word(|s| &s.model),
                ranks: self.statuses.len(),
            },
            nodes: self.inventory.nodes.iter().map(|n| self.node(&n.name, n.slot)).collect(),
            figures: self.figures,
            steps: self.steps,
            comparison: None,
        }
    }

    fn node(&self, name: &NodeName, slot: Option<u32>) -> NodeRecord {
        let facts = self.snapshot.facts(name);
        let hardware = facts.and_then(|f| f.hardware.as_ref().ok());
        let os = facts.and_then(|f| f.os.as_ref().ok());
        NodeRecord {
            node: name.clone(),
            slot,
            rank: self.statuses.iter().find(|(n, _)| n == name).map(|(_, s)| s.rank),
            model: hardware.map(|h| h.model.clone()),
            chip: hardware.map(|h| h.chip.clone()),
            memory: hardware.map(|h| h.memory.clone()),
            serial: hardware.map(|h| h.serial.clone()),
            macos: os.map(|o| format!("{} {}", o.version, o.extra).trim_end().to_owned()),
            build: os.map(|o| o.build.clone()),
        }
    }
}
