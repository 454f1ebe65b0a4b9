//! One node while its link networks change: steps of the playbook with this node's places filled in.

use std::sync::Arc;
use std::time::Duration;

use crate::event::{Event, Events};
use crate::model::{Access, Cmd, NodeName, Output, Stdin};
use crate::network::places;
use crate::phase::runtime::StepError;
use crate::playbook::{Playbook, Vars};
use crate::remote::SharedRemote;

/// Looks for a job to be gone, or to be loadable.
const JOB_TRIES: u32 = 40;
/// Between two looks.
pub(super) const PAUSE: Duration = Duration::from_millis(500);

/// A connected node.
#[derive(Clone)]
pub(super) struct NetNode {
    /// Its name.
    pub(super) name: NodeName,
    /// The connection.
    pub(super) remote: SharedRemote,
    book: Arc<Playbook>,
    vars: Vars,
    events: Events,
}

impl NetNode {
    pub(super) fn new(remote: &SharedRemote, book: &Arc<Playbook>, events: &Events) -> Self {
        NetNode {
            name: remote.node().clone(),
            remote: Arc::clone(remote),
            book: Arc::clone(book),
            vars: places(remote.node(), remote.root()),
            events: Arc::clone(events),
        }
    }

    /// Over another connection.
    pub(super) fn over(&self, remote: &SharedRemote) -> Self {
        NetNode { remote: Arc::clone(remote), ..self.clone() }
    }

    /// The node's root as an argument: `/` on a real one.
    pub(super) fn root(&self) -> &str {
        self.vars.get("root").unwrap_or("/")
    }

    pub(super) fn say(&self, text: impl Into<String>) {
        self.events.emit(Event::Note { node: Some(self.name.clone()), text: text.into() });
    }

    /// Does a step.
    ///
    /// # Errors
    /// The first command that fails.
    pub(super) async fn run(&self, step: &str) -> Result<Output, StepError> {
        self.run_with(step, &[], None).await
    }

    /// Does a step whose last command reads this text.
    ///
    /// # Errors
    /// As [`NetNode::run`].
    pub(super) async fn write(&self, step: &str, text: impl Into<Vec<u8>>) -> Result<Output, StepError> {
        self.run_with(step, &[], Some(text.into())).await
    }

    /// Does a step about a job.
    ///
    /// # Errors
    /// As [`NetNode::run`].
    pub(super) async fn job(&self, step: &str, label: &str) -> Result<Output, StepError> {
        self.run_with(step, &[("label", label)], None).await
    }

    /// Does a step with these values.
    ///
    /// # Errors
    /// As [`NetNode::run`].
    pub(super) async fn run_with(
        &self,
        step: &str,
        values: &[(&str, &str)],
        text: Option<Vec<u8>>,
    ) -> Result<Output, StepError> {
        let wrong = |e: crate::playbook::PlaybookError| StepError::Playbook(e.to_string());
        let vars = values.iter().fold(self.vars.clone(), |vars, (name, value)| vars.with(name, *value));
        let mut commands = self.book.step(step).map_err(wrong)?.commands(&vars).map_err(wrong)?;
        if let (Some(text), Some(last)) = (text, commands.last_mut()) {
            last.stdin = Stdin::Bytes(text);
        }
        let mut last = Output { exit: Some(0), ..Output::default() };
        for cmd in commands {
            last = self.exec(cmd, false).await?;
        }
        Ok(last)
    }

    /// Runs one command to success. Jobs of launchd are waited for: it answers before it has done what it is asked.
    ///
    /// # Errors
    /// It failed, or has no end that could be seen.
    pub(super) async fn exec(&self, cmd: Cmd, loud: bool) -> Result<Output, StepError> {
        let line = cmd.display();
        if cmd.access == Access::Write {
            let (node, line) = (self.name.clone(), line.clone());
            self.events.emit(if loud { Event::Command { node, line } } else { Event::Detail { node, line } });
        }
        let words: Vec<&str> = cmd.args.iter().map(String::as_str).collect();
        let verb = if cmd.program.ends_with("/launchctl") { words.first().copied() } else { None };
        match (verb, words.as_slice()) {
            (Some("bootout"), [_, target]) => {
                let label = target.trim_start_matches("system/").to_owned();
                let output = self.remote.exec(cmd).await.map_err(StepError::Remote)?;
                self.gone(&label, line, output).await
            }
            (Some("bootstrap"), [_, _, file]) => {
                let label = file.rsplit('/').next().unwrap_or(file).trim_end_matches(".plist").to_owned();
                self.there(&label, line, &cmd).await
            }
            _ => {
                let output = self.remote.exec(cmd).await.map_err(StepError::Remote)?;
                if output.ok() { Ok(output) } else { Err(StepError::Ended { line, output }) }
            }
        }
    }

    /// After `bootout`: whatever it said (not loaded, still stopping), what counts is that the job is gone.
    async fn gone(&self, label: &str, line: String, output: Output) -> Result<Output, StepError> {
        for _ in 0..JOB_TRIES {
            if !self.loaded(label).await? {
                return Ok(Output { exit: Some(0), ..output });
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(StepError::Ended { line, output })
    }

    /// `bootstrap`, again while launchd is still busy with the job's end.
    async fn there(&self, label: &str, line: String, cmd: &Cmd) -> Result<Output, StepError> {
        let mut output = self.remote.exec(cmd.clone()).await.map_err(StepError::Remote)?;
        for _ in 0..JOB_TRIES {
            // 37: operation already in progress.
            if output.ok() || output.exit != Some(37) {
                break;
            }
            tokio::time::sleep(PAUSE).await;
            output = self.remote.exec(cmd.clone()).await.map_err(StepError::Remote)?;
        }
        if output.ok() || self.loaded(label).await? { Ok(output) } else { Err(StepError::Ended { line, output }) }
    }

    /// Whether launchd has this job.
    ///
    /// # Errors
    /// The question has no answer.
    pub(super) async fn loaded(&self, label: &str) -> Result<bool, StepError> {
        let wrong = |e: crate::playbook::PlaybookError| StepError::Playbook(e.to_string());
        let vars = self.vars.clone().with("label", label);
        let commands = self.book.step("ask-job").map_err(wrong)?.commands(&vars).map_err(wrong)?;
        let mut loaded = false;
        for cmd in commands {
            loaded = self.remote.exec(cmd).await.map_err(StepError::Remote)?.ok();
        }
        Ok(loaded)
    }

    /// A question whose exit status is an answer.
    ///
    /// # Errors
    /// It has no end that could be seen.
    pub(super) async fn answer(&self, step: &str, values: &[(&str, &str)]) -> Result<Output, StepError> {
        match self.run_with(step, values, None).await {
            Err(StepError::Ended { output, .. }) => Ok(output),
            other => other,
        }
    }

    /// Names in the folder of the link networks; empty when there is none.
    ///
    /// # Errors
    /// As [`NetNode::answer`].
    pub(super) async fn state(&self) -> Result<Vec<String>, StepError> {
        let output = self.answer("ask-state", &[]).await?;
        Ok(output.text().split_whitespace().map(str::to_owned).collect())
    }
}

/// Whether the connection itself is gone, so that nothing more can be asked of the node.
pub(super) fn is_lost(error: &StepError) -> bool {
    use crate::remote::RemoteError;
    matches!(error, StepError::Remote(RemoteError::Lost(_) | RemoteError::Connect(_) | RemoteError::Refused(_)))
}
