//! The agent as a service of launchd: start it, stop it, ask it. Only what `launchctl print`, `ps` and the agent's own
//! report say is believed; exit codes of `bootout` and `bootstrap` are not (FAILURES: they fail and have worked).

use std::time::{Duration, Instant};

use super::runtime::{RuntimeNode, StepError};
use crate::agent::report::Report;
use crate::agent::status::{EngineError, State, Status};
use crate::model::Output;
use crate::model::command::printable;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(300);
/// From `bootout` to launchd having forgotten the agent: its engine has 15 s to stop.
const BOOTOUT_LIMIT: Duration = Duration::from_secs(40);
/// Processes that are still there after that.
const LEFTOVER_LIMIT: Duration = Duration::from_secs(20);
/// For a process that was killed to be gone.
const KILL_LIMIT: Duration = Duration::from_secs(5);
/// An agent that lives reports every second, also while its engine loads for half an hour; one that cannot be asked for so
/// long, or reports nothing, is not coming back by being waited for.
const SILENCE_LIMIT: Duration = Duration::from_secs(120);
/// launchd may still be busy with the agent that was just stopped.
const BOOTSTRAP_TRIES: u32 = 10;

/// What the agent of a node reports; none when nothing is deployed there.
///
/// # Errors
/// In words.
pub async fn report(node: &RuntimeNode) -> Result<Option<Report>, String> {
    let output = node.step("read-status").answer().await.map_err(|e| e.to_string())?;
    match output.exit {
        Some(0) => serde_json::from_slice(&output.stdout)
            .map(Some)
            .map_err(|e| format!("its report cannot be read ({e}): {}", printable(&first_line(&output)))),
        // No such program: there is no active release.
        Some(127) => Ok(None),
        _ => Err(format!("its report failed: {}", output.describe())),
    }
}

fn first_line(output: &Output) -> String {
    output.text().lines().next().unwrap_or_default().chars().take(200).collect()
}

/// One row of `ps -axo pid,ppid,etime,command`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Its parent.
    pub parent: u32,
    /// `[[dd-]hh:]mm:ss` since its start.
    pub elapsed: String,
    /// Command line.
    pub command: String,
}

/// Reads the table; rows that are none are left out.
pub fn processes(text: &str) -> Vec<Process> {
    let row = |line: &str| {
        let (pid, rest) = line.trim_start().split_once(char::is_whitespace)?;
        let (parent, rest) = rest.trim_start().split_once(char::is_whitespace)?;
        let (elapsed, command) = rest.trim_start().split_once(char::is_whitespace)?;
        Some(Process {
            pid: pid.parse().ok()?,
            parent: parent.parse().ok()?,
            elapsed: printable(elapsed),
            command: printable(command.trim()),
        })
    };
    text.lines().filter_map(row).collect()
}

/// The processes of the runtime on a node: its agent, its engine, the engine's worker.
///
/// # Errors
/// In words.
pub async fn runtime_processes(node: &RuntimeNode) -> Result<Vec<Process>, StepError> {
    let output = node.step("list-processes").ok().await?;
    let base = format!("{}/", node.layout.base());
    let mut all = processes(&output.text());
    // The agent may be shown by its release or by the link that leads there.
    all.retain(|p| {
        let agent = p.command.starts_with(&base) && p.command.contains("/bin/macluster agent ");
        agent || (p.command.contains("macluster_inference.") && p.command.contains(&base))
    });
    Ok(all)
}

/// Waits until no installation of an earlier deploy is left: when the desk is cut off, uv goes on by itself.
///
/// # Errors
/// Names the process that does not end.
pub async fn wait_for_installers(node: &RuntimeNode, limit: Duration) -> Result<(), String> {
    let base = format!("{}/", node.layout.base());
    let started = Instant::now();
    loop {
        let output = node.step("list-processes").ok().await.map_err(|e| e.to_string())?;
        let all = processes(&output.text());
        let Some(uv) = all.iter().find(|p| p.command.starts_with(&base) && p.command.contains("/bin/uv ")) else {
            return Ok(());
        };
        if started.elapsed() >= limit {
            return Err(format!("process {} of an earlier deploy is still installing: {}", uv.pid, uv.command));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// launchd knows the agent.
async fn loaded(node: &RuntimeNode) -> Result<bool, StepError> {
    let output = node.step("ask-launchd").answer().await?;
    match output.exit {
        Some(0) => Ok(true),
        Some(113) => Ok(false),
        // Other releases may have another number for it.
        _ if output.err_text().contains("Could not find service") => Ok(false),
        _ => Err(StepError::Ended { line: "launchctl print".to_owned(), output }),
    }
}

/// What stopping found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stopped {
    /// Something ran.
    pub ran: bool,
    /// Processes that had to be killed.
    pub killed: Vec<u32>,
}

/// Stops agent and engine and proves that they are gone. Nothing running is fine.
///
/// # Errors
/// In words; the process that is left is named.
pub async fn stop(node: &RuntimeNode) -> Result<Stopped, String> {
    let words = |e: StepError| e.to_string();
    let mut stopped = Stopped { ran: loaded(node).await.map_err(words)?, killed: Vec::new() };
    if stopped.ran {
        let output = node.step("retire").answer().await.map_err(words)?;
        let started = Instant::now();
        while loaded(node).await.map_err(words)? {
            if started.elapsed() >= BOOTOUT_LIMIT {
                return Err(format!(
                    "launchd still has the agent after {} s (bootout: {})",
                    BOOTOUT_LIMIT.as_secs(),
                    output.describe()
                ));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
    // An agent that was killed cannot take its engine along; the engine then ends by itself, within seconds.
    let left = wait_gone(node, LEFTOVER_LIMIT).await.map_err(words)?;
    stopped.ran |= !left.is_empty();
    for process in left {
        node.step("end-leftover").with("pid", process.pid.to_string()).ok().await.map_err(words)?;
        stopped.killed.push(process.pid);
    }
    if let Some(process) = wait_gone(node, KILL_LIMIT).await.map_err(words)?.first() {
        return Err(format!("process {} cannot be ended ({}): restart the node", process.pid, process.command));
    }
    Ok(stopped)
}

/// The processes of the runtime that are left after the limit.
async fn wait_gone(node: &RuntimeNode, limit: Duration) -> Result<Vec<Process>, StepError> {
    let started = Instant::now();
    loop {
        let left = runtime_processes(node).await?;
        if left.is_empty() || started.elapsed() >= limit {
            return Ok(left);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Starts the agent.
///
/// # Errors
/// In words.
pub async fn start(node: &RuntimeNode) -> Result<(), String> {
    for attempt in 1.. {
        let output = node.step("launch").answer().await.map_err(|e| e.to_string())?;
        if loaded(node).await.map_err(|e| e.to_string())? {
            return Ok(());
        }
        // 37: still busy with the one before; 5: says so too, among other things.
        if attempt >= BOOTSTRAP_TRIES || !matches!(output.exit, Some(5 | 37)) {
            return Err(format!("launchd does not start the agent: {}", output.describe()));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

/// Waits until the engine of this launch is in one of these states; tells every change.
///
/// # Errors
/// Why it will not get there: it failed, it stopped, or the limit is over.
pub async fn wait_for(
    node: &RuntimeNode,
    launch: &str,
    wanted: &[State],
    limit: Duration,
    tell: &(dyn Fn(State) + Sync),
) -> Result<Status, Trouble> {
    let started = Instant::now();
    let (mut seen, mut heard) = (None, started);
    loop {
        let silence = match report(node).await {
            Ok(Some(report)) => match report.believed().filter(|s| s.launch == launch) {
                Some(status) => {
                    heard = Instant::now();
                    if seen != Some(status.state) {
                        seen = Some(status.state);
                        tell(status.state);
                    }
                    // An engine that ended and was started again is no success either: the first end counts.
                    if !status.failures.is_empty() || status.state.ended() {
                        return Err(Trouble::of(status));
                    }
                    if wanted.contains(&status.state) {
                        return Ok(status.clone());
                    }
                    match waiting_for(status) {
                        Some(missing) => format!("waits for the agent of {missing}"),
                        None => format!("its engine is still {}", status.state.as_str()),
                    }
                }
                None => "its agent gives no sign of life".to_owned(),
            },
            Ok(None) => "it has no active release".to_owned(),
            Err(why) => why,
        };
        let over = |since: Instant, limit: Duration| {
            let message = format!("{silence} after {} s", limit.as_secs());
            (since.elapsed() >= limit).then_some(Trouble { kind: None, message })
        };
        if let Some(trouble) = over(started, limit).or_else(|| over(heard, SILENCE_LIMIT)) {
            return Err(trouble);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The nodes whose agents are missing, as rank 0's agent says.
fn waiting_for(status: &Status) -> Option<String> {
    let group = status.group.as_ref().filter(|g| !g.missing.is_empty() && status.state == State::Waiting)?;
    Some(group.missing.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
}

/// Why an engine did not get where it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Kind as the engine names it.
    pub kind: Option<String>,
    /// In words.
    pub message: String,
}

impl Trouble {
    fn of(status: &Status) -> Self {
        let exit = status.exit.as_deref().map(|e| format!(" ({e})")).unwrap_or_default();
        let first = status.failures.first().map(|f| &f.error).or(status.error.as_ref());
        if let Some(error) = first {
            return Trouble { kind: Some(error.kind.clone()), message: format!("{}: {}", error.kind, error.message) };
        }
        let reason = status.reason.as_deref().unwrap_or("nobody says why");
        Trouble { kind: None, message: format!("its engine stopped{exit}: {reason}") }
    }

    /// Only a consequence of what another rank did.
    pub fn is_consequence(&self) -> bool {
        let error = |kind: &str| EngineError { kind: kind.to_owned(), message: String::new() };
        self.kind.as_deref().is_none_or(|kind| error(kind).is_consequence())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_table_is_read_with_blanks_in_commands() {
        let text = "  PID  PPID     ELAPSED COMMAND\n87070     1    19:02:11 /Applications/My App/run --x\n87139 87070       18:58 (zombie)\nnonsense\n    7     1 123-04:05:06 x\u{1b}[0m\n";
        let all = processes(text);
        assert_eq!(all.len(), 3);
        assert_eq!(all[0].command, "/Applications/My App/run --x");
        assert_eq!((all[1].pid, all[1].parent, all[1].elapsed.as_str()), (87139, 87070, "18:58"));
        assert_eq!(all[2].command, "x\\u{1b}[0m");
    }
}
