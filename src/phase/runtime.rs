//! One node while the runtime is brought to it: playbook steps with this node's paths filled in.

use std::sync::Arc;

use crate::agent::Layout;
use crate::agent::layout::{AGENT_LABEL, PROBE};
use crate::event::{Event, Events};
use crate::model::{Access, Cmd, Inventory, NodeName, Output, Stdin};
use crate::playbook::{Playbook, Vars};
use crate::remote::{OnOutput, OnSent, RemoteError, SharedRemote};

/// The playbook of all steps here.
pub const PLAYBOOK: &str = "deploy";

/// A connected node and where things lie on it.
#[derive(Clone)]
pub struct RuntimeNode {
    /// Its name.
    pub name: NodeName,
    /// The connection.
    pub remote: SharedRemote,
    /// Node-side paths.
    pub layout: Layout,
    book: Arc<Playbook>,
    events: Events,
}

/// Why a step did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepError {
    /// It ran and said no.
    Ended {
        /// The command line.
        line: String,
        /// How.
        output: Output,
    },
    /// It has no end that could be seen.
    Remote(RemoteError),
    /// The playbook cannot be filled in.
    Playbook(String),
    /// It ended well, and what it said cannot be used.
    Answer(String),
}

impl std::fmt::Display for StepError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StepError::Ended { line, output } => write!(f, "`{line}`: {}", output.describe()),
            StepError::Remote(e) => e.fmt(f),
            StepError::Playbook(why) | StepError::Answer(why) => f.write_str(why),
        }
    }
}

impl StepError {
    /// What the program itself said, without the command line: for programs of ours that explain themselves.
    pub fn words(&self) -> String {
        match self {
            StepError::Ended { output, .. } => {
                let text = output.err_text();
                let last = text.lines().rev().find(|l| l.starts_with("error: "));
                match last.and_then(|l| l.strip_prefix("error: ")) {
                    Some(said) => crate::model::command::printable(said),
                    None => self.to_string(),
                }
            }
            _ => self.to_string(),
        }
    }
}

/// A step about to be done.
#[must_use]
pub struct Call<'a> {
    node: &'a RuntimeNode,
    step: &'a str,
    id: Option<&'a str>,
    extra: Vec<(&'a str, String)>,
    stdin: Stdin,
    on_sent: Option<OnSent>,
    on_output: Option<OnOutput>,
}

impl RuntimeNode {
    /// A node of the inventory with its connection.
    pub fn new(inventory: &Inventory, book: &Arc<Playbook>, remote: &SharedRemote, events: &Events) -> Self {
        RuntimeNode {
            name: remote.node().clone(),
            remote: Arc::clone(remote),
            layout: Layout::new(remote.root(), &inventory.paths.install),
            book: Arc::clone(book),
            events: Arc::clone(events),
        }
    }

    /// The same node over another connection.
    #[must_use]
    pub fn over(&self, remote: SharedRemote) -> Self {
        RuntimeNode { remote, ..self.clone() }
    }

    /// A step of the playbook.
    pub fn step<'a>(&'a self, step: &'a str) -> Call<'a> {
        Call { node: self, step, id: None, extra: Vec::new(), stdin: Stdin::Empty, on_sent: None, on_output: None }
    }

    /// Values of placeholders. Programs get them without the root: the remote itself puts it in front.
    fn vars(&self, layout: &Layout, id: Option<&str>, extra: &[(&str, String)]) -> Vars {
        let mut vars = Vars::new()
            .with("node", self.name.as_str())
            .with("root", layout.root())
            .with("install", layout.install())
            .with("base", layout.base())
            .with("current", layout.current())
            .with("tools", layout.tools())
            .with("probe", layout.staging(PROBE))
            .with("plist", layout.plist())
            .with("label", AGENT_LABEL);
        if let Some(id) = id {
            vars = vars.with("id", id).with("release", layout.release(id)).with("staging", layout.staging(id));
        }
        extra.iter().fold(vars, |vars, (name, value)| vars.with(name, value.as_str()))
    }

    fn commands(&self, step: &str, id: Option<&str>, extra: &[(&str, String)]) -> Result<Vec<Cmd>, StepError> {
        let wrong = |e: crate::playbook::PlaybookError| StepError::Playbook(e.to_string());
        let step = self.book.step(step).map_err(wrong)?;
        let rooted = step.commands(&self.vars(&self.layout, id, extra)).map_err(wrong)?;
        let plain = step.commands(&self.vars(&self.layout.unrooted(), id, extra)).map_err(wrong)?;
        Ok(rooted.into_iter().zip(plain).map(|(cmd, plain)| Cmd { program: plain.program, ..cmd }).collect())
    }
}

impl<'a> Call<'a> {
    /// About this release.
    pub fn release(mut self, id: &'a str) -> Self {
        self.id = Some(id);
        self
    }

    /// With this value of a placeholder.
    pub fn with(mut self, name: &'a str, value: impl Into<String>) -> Self {
        self.extra.push((name, value.into()));
        self
    }

    /// With this standard input, given to the step's last command.
    pub fn stdin(mut self, stdin: Stdin) -> Self {
        self.stdin = stdin;
        self
    }

    /// Tells how much of the standard input was sent.
    pub fn on_sent(mut self, on_sent: OnSent) -> Self {
        self.on_sent = Some(on_sent);
        self
    }

    /// Hands on standard output as it comes.
    pub fn on_output(mut self, on_output: OnOutput) -> Self {
        self.on_output = Some(on_output);
        self
    }

    /// Runs its commands in order until one does not end with 0, and gives the last one's output.
    ///
    /// # Errors
    /// The first command that failed.
    pub async fn ok(self) -> Result<Output, StepError> {
        let (last, line) = self.run().await?;
        if last.ok() { Ok(last) } else { Err(StepError::Ended { line, output: last }) }
    }

    /// As [`Call::ok`], but an exit status is an answer.
    ///
    /// # Errors
    /// Only when a command has no end that can be seen.
    pub async fn answer(self) -> Result<Output, StepError> {
        self.run().await.map(|(output, _)| output)
    }

    async fn run(mut self) -> Result<(Output, String), StepError> {
        let node = self.node;
        let commands = node.commands(self.step, self.id, &self.extra)?;
        let count = commands.len();
        let mut last = (Output { exit: Some(0), ..Output::default() }, String::new());
        for (n, mut cmd) in commands.into_iter().enumerate() {
            let line = cmd.display();
            if cmd.access == Access::Write {
                node.events.emit(Event::Detail { node: node.name.clone(), line: line.clone() });
            }
            let output = if n + 1 == count {
                cmd.stdin = std::mem::take(&mut self.stdin);
                node.remote.exec_with(cmd, self.on_sent.take(), self.on_output.take()).await
            } else {
                node.remote.exec(cmd).await
            };
            last = (output.map_err(StepError::Remote)?, line);
            if !last.0.ok() {
                break;
            }
        }
        Ok(last)
    }
}
