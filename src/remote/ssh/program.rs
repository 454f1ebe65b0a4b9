//! Finds programs on a node: at their macOS path below the node's root; if nothing is there, once through `PATH`.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::exec::{self, Job, Password, Watch};
use super::session::Session;
use crate::model::command::quote;
use crate::model::{Cmd, Output};
use crate::remote::RemoteError;

const SUDO: &str = "/usr/bin/sudo";

/// How programs are called on one node.
pub(super) struct Programs {
    /// Without a trailing slash.
    root: String,
    /// Programs that were not at their path but were found through `PATH`.
    elsewhere: Mutex<HashMap<String, String>>,
}

impl Programs {
    pub(super) fn new(root: &str) -> Self {
        Programs { root: root.trim_end_matches('/').to_owned(), elsewhere: Mutex::default() }
    }

    pub(super) fn root(&self) -> &str {
        &self.root
    }

    fn call(&self, program: &str) -> String {
        let elsewhere = self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner);
        elsewhere.get(program).cloned().unwrap_or_else(|| format!("{}{program}", self.root))
    }

    fn remember(&self, program: &str, call: &str) {
        let mut elsewhere = self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner);
        elsewhere.insert(program.to_owned(), call.to_owned());
    }

    /// Runs the command, through sudo with these options unless there are none.
    pub(super) async fn run(
        &self,
        session: &Session,
        cmd: &Cmd,
        sudo: &[&str],
        password: Option<&Password>,
        watch: &mut Watch,
    ) -> Result<Output, RemoteError> {
        let mut calls: Vec<(&str, String)> = Vec::new();
        if !sudo.is_empty() {
            calls.push((SUDO, self.call(SUDO)));
        }
        calls.push((&cmd.program, self.call(&cmd.program)));
        let mut output = exec::run(session, job(cmd, &calls, sudo, password), watch).await?;
        // Sudo and the program can each be elsewhere.
        while let Some(index) = missing(&output, &calls) {
            let Some((program, call)) = calls.get_mut(index) else { break };
            let bare = program.rsplit('/').next().unwrap_or(program).to_owned();
            if *call == bare {
                break;
            }
            let (program, call) = (*program, std::mem::replace(call, bare));
            let again = exec::run(session, job(cmd, &calls, sudo, password), watch).await?;
            if missing(&again, &calls) == Some(index) {
                // Nowhere. The first answer names the path where it should be.
                break;
            }
            let found = calls.get(index).map_or(call, |(_, call)| call.clone());
            self.remember(program, &found);
            output = again;
        }
        Ok(output)
    }
}

fn job(cmd: &Cmd, calls: &[(&str, String)], sudo: &[&str], password: Option<&Password>) -> Job {
    let mut calls = calls.iter().map(|(_, call)| call.as_str());
    let mut words = Vec::new();
    if !sudo.is_empty() {
        words.extend(calls.next());
        words.extend(sudo);
    }
    words.extend(calls);
    words.extend(cmd.args.iter().map(String::as_str));
    Job {
        line: words.into_iter().map(quote).collect::<Vec<_>>().join(" "),
        shown: cmd.display(),
        stdin: cmd.stdin.clone(),
        password: password.cloned(),
        timeout: cmd.timeout,
        max_output: cmd.max_output,
    }
}

/// Which of the calls (sudo, program) was not found, so that nothing ran. The login shell says 127 and names it;
/// sudo says 1 and names it.
fn missing(output: &Output, calls: &[(&str, String)]) -> Option<usize> {
    let text = output.err_text();
    let by_shell = |call: &str| output.exit == Some(127) && text.contains(call.rsplit('/').next().unwrap_or(call));
    match calls {
        [(_, program)] => by_shell(program).then_some(0),
        [(_, sudo), (_, program)] => {
            let by_sudo = output.exit == Some(1)
                && (text.contains(&format!("sudo: {program}: command not found"))
                    || text.contains(&format!("sudo: unable to execute {program}:")));
            if by_sudo { Some(1) } else { by_shell(sudo).then_some(0) }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(exit: i32, stderr: &str) -> Output {
        Output { exit: Some(exit), stderr: stderr.as_bytes().to_vec(), ..Output::default() }
    }

    #[test]
    fn only_a_program_that_is_not_there_is_missing() {
        let plain = [("/sbin/ifconfig", "/r/sbin/ifconfig".to_owned())];
        for (exit, stderr, expected) in [
            (127, "zsh:1: no such file or directory: /r/sbin/ifconfig\n", Some(0)),
            (127, "bash: line 1: /r/sbin/ifconfig: No such file or directory\n", Some(0)),
            (127, "zsh:1: command not found: ifconfig\n", Some(0)),
            // A script of that name that ends with 127 because of something else.
            (127, "zsh: command not found: frobnicate\n", None),
            (126, "zsh:1: permission denied: /r/sbin/ifconfig\n", None),
            (1, "ifconfig: interface en9 does not exist\n", None),
        ] {
            assert_eq!(missing(&ended(exit, stderr), &plain), expected, "{stderr}");
        }
        let sudo = [(SUDO, "/r/usr/bin/sudo".to_owned()), ("/sbin/ifconfig", "/r/sbin/ifconfig".to_owned())];
        for (exit, stderr, expected) in [
            (127, "zsh:1: no such file or directory: /r/usr/bin/sudo\n", Some(0)),
            (1, "sudo: /r/sbin/ifconfig: command not found\n", Some(1)),
            (1, "sudo: a password is required\n", None),
        ] {
            assert_eq!(missing(&ended(exit, stderr), &sudo), expected, "{stderr}");
        }
    }
}
