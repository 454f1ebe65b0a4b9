//! What an acceptance run finds out, as it is filed away and read again by `--compare`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::compare::Comparison;
use crate::exit::Exit;
use crate::model::NodeName;

/// What the file is, so that no other JSON is taken for it.
pub const KIND: &str = "macluster-acceptance";
/// Version of the file.
pub const SCHEMA_VERSION: u32 = 1;
/// The step that judges what others measured: that it fails is a measurement, not a failure.
pub const OUTLIERS: &str = "link-outliers";
/// The step that brings the service back.
pub const RESTART: &str = "restart";

/// All of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`KIND`].
    pub report: String,
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Version of macluster that measured.
    pub tool_version: String,
    /// When it began.
    pub started_at: Timestamp,
    /// How long it took.
    pub seconds: f64,
    /// The rack.
    pub rack: String,
    /// Text of its inventory.
    pub inventory: String,
    /// `fail` when any step failed.
    pub verdict: Word,
    /// What served.
    pub service: Service,
    /// Every node, in the inventory's order.
    pub nodes: Vec<NodeRecord>,
    /// What was measured.
    pub figures: Figures,
    /// What was done, in order.
    pub steps: Vec<Step>,
    /// Against an older report.
    pub comparison: Option<Comparison>,
}

/// How something went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Word {
    /// As it must be.
    Pass,
    /// Not so.
    Fail,
    /// Left out, for a reason that is told.
    Skip,
}

impl Word {
    /// As in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Word::Pass => "pass",
            Word::Fail => "fail",
            Word::Skip => "skip",
        }
    }
}

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Stable id.
    pub step: String,
    /// How it went.
    pub verdict: Word,
    /// What came out, or one line for each cause.
    pub messages: Vec<String>,
    /// Next actions.
    pub hints: Vec<String>,
    /// How long it took.
    pub seconds: f64,
}

/// What served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// Release of all ranks.
    pub release: String,
    /// The deploy it belongs to.
    pub launch: String,
    /// `jaccl`, `jaccl-ring` or `ring`.
    pub backend: String,
    /// What tensors cross: `links`, `management`, or `none` for one rank.
    pub over: String,
    /// Name of the model.
    pub model: String,
    /// Number of ranks.
    pub ranks: usize,
}

/// A node's identity; what is not known is null.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Name.
    pub node: NodeName,
    /// Place in the rack.
    pub slot: Option<u32>,
    /// Its rank; null for an idle node.
    pub rank: Option<u32>,
    /// Model identifier, e.g. `Mac15,14`.
    pub model: Option<String>,
    /// Chip.
    pub chip: Option<String>,
    /// Memory as macOS prints it.
    pub memory: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// macOS version.
    pub macos: Option<String>,
    /// macOS build.
    pub build: Option<String>,
}

/// Everything with a number. Times are in seconds, rates in tokens per second or Gb/s.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// One streamed answer.
    pub answer: Option<Streamed>,
    /// The needle in the long prompt.
    pub needle: Option<Needle>,
    /// Several requests at once.
    pub requests: Vec<AtOnce>,
    /// A request after an idle time.
    pub idle: Option<Idle>,
    /// Every link that was measured.
    pub links: Vec<LinkFigure>,
    /// Sums over the whole group, by size.
    pub all_reduce: Vec<AllReduce>,
    /// The restart of the service.
    pub start: Option<Start>,
}

/// A streamed answer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Streamed {
    /// Tokens generated.
    pub tokens: u64,
    /// Over the whole answer.
    pub tokens_per_second: f64,
    /// From the request to the first text.
    pub first_token_s: f64,
}

/// A long prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeedleSize {
    /// Tokens that were asked for.
    pub wanted: u32,
    /// Tokens as the API counts them.
    pub prompt_tokens: u64,
}

/// What became of the needle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Needle {
    /// How long the prompt was.
    pub size: NeedleSize,
    /// The answer named the code word.
    pub found: bool,
    /// From the request to the end of the answer.
    pub seconds: f64,
    /// What was answered, cut short.
    pub answer: String,
}

/// Several requests at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AtOnce {
    /// How many.
    pub requests: usize,
    /// Of each, over its own time, which includes its waiting for the others.
    pub each_tokens_per_second: Vec<f64>,
    /// All tokens over the time from the first request to the last answer.
    pub tokens_per_second: f64,
    /// That time.
    pub seconds: f64,
}

/// A request after an idle time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Idle {
    /// Seconds without a request.
    pub idle_s: u64,
    /// From the request to the first text.
    pub first_token_s: f64,
    /// Over the whole answer.
    pub tokens_per_second: f64,
}

/// One end of what was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Node.
    pub node: NodeName,
    /// Receptacle as macOS numbers it; null over the management network.
    pub receptacle: Option<u32>,
    /// For people: `studio-1 (slot 1) receptacle 2 (en3)`.
    pub place: String,
}

impl End {
    /// `studio-1:2`, by which links of two reports are matched.
    pub fn key(&self) -> String {
        match self.receptacle {
            Some(receptacle) => format!("{}:{receptacle}", self.node),
            None => self.node.to_string(),
        }
    }
}

/// A group of two ranks over one link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkFigure {
    /// Smaller end.
    pub a: End,
    /// Greater end.
    pub b: End,
    /// Round in which it was measured, from 1.
    pub round: usize,
    /// Gb/s in each direction, by the median of the largest sum.
    pub gbps: f64,
    /// Of the smallest sum, there and back.
    pub latency_us: f64,
    /// Its worst time.
    pub worst_latency_us: f64,
    /// Why it is an outlier.
    pub outlier: Option<String>,
}

impl LinkFigure {
    /// For people.
    pub fn name(&self) -> String {
        format!("{} – {}", self.a.place, self.b.place)
    }
}

/// Sums of one size over all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AllReduce {
    /// Bytes of each rank's vector.
    pub bytes: u64,
    /// Median time of the slowest rank.
    pub median_s: f64,
    /// Worst time of any rank.
    pub worst_s: f64,
    /// What each link of a ring carries in each direction: 2 (n − 1) / n of the bytes, over the median.
    pub gbps: f64,
}

/// The restart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// Until nothing ran any more.
    pub stop_s: f64,
    /// From the start of the agents to all ranks serving.
    pub ready_s: f64,
    /// From the start of the agents to the end of the first answer.
    pub answer_s: f64,
}

impl Report {
    /// The exit code it stands for.
    pub fn exit(&self) -> Exit {
        let of_step = |s: &Step| match s.step.as_str() {
            OUTLIERS => Exit::ChecksFailed,
            RESTART => Exit::DeployFailed,
            _ => Exit::SomeNodesFailed,
        };
        let failed = self.steps.iter().filter(|s| s.verdict == Word::Fail).map(of_step);
        let slower = self.comparison.as_ref().is_some_and(|c| !c.slower.is_empty());
        Exit::worst(failed.chain(slower.then_some(Exit::ChecksFailed)))
    }
}
