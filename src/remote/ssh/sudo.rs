//! Commands as root: `sudo -n` first; when that wants a password, it is asked for once per run and handed over on
//! standard input, never as an argument.
//!
//! What sudo prints is from captures on macOS (texts of 2021 to 2026) and sudo's own source; the exit status is 1 for
//! every refusal, so the text decides.

use std::sync::Arc;

use tokio::sync::Mutex;

use super::SshRemote;
use super::exec::{Password, WRONG_PASSWORD, Watch};
use crate::model::{Cmd, Output};
use crate::remote::RemoteError;
use crate::remote::prompt::Asker;

/// What sudo is told to ask with, so that its question is recognised.
const MARKER: &str = "[macluster] sudo password:";
/// How often a password may be asked for, in all, per run.
const TRIES: usize = 3;

/// The password of one run, shared by all nodes.
#[derive(Clone)]
pub(crate) struct SudoPassword {
    asker: Asker,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The latest password; its number says which one a node has tried.
    latest: Option<Arc<str>>,
    asked: usize,
    /// The person (or the lack of a terminal) said no: no more questions.
    given_up: bool,
}

impl SudoPassword {
    pub(crate) fn new(asker: Asker) -> Self {
        SudoPassword { asker, state: Arc::default() }
    }

    /// A password newer than number `tried`, asked for if there is none yet.
    async fn newer_than(&self, tried: usize, who: &str) -> Result<(usize, Arc<str>), RemoteError> {
        let mut state = self.state.lock().await;
        if let Some(latest) = state.latest.as_ref().filter(|_| state.asked > tried) {
            return Ok((state.asked, Arc::clone(latest)));
        }
        if state.asked >= TRIES {
            return Err(RemoteError::Sudo(format!("{WRONG_PASSWORD} {TRIES} times")));
        }
        let question = if tried > 0 {
            format!("Not accepted. sudo password of {who}: ")
        } else {
            format!("sudo password of {who}, used for all nodes: ")
        };
        let answer = if state.given_up { None } else { self.asker.secret(question).await };
        let Some(answer) = answer else {
            state.given_up = true;
            return Err(RemoteError::Sudo(
                "it needs a password and nobody gave one (no terminal, or no answer): run macluster in a terminal, or \
                 give the login user a NOPASSWD rule on the node (sudo visudo)"
                    .to_owned(),
            ));
        };
        let answer: Arc<str> = answer.into();
        state.asked += 1;
        state.latest = Some(Arc::clone(&answer));
        Ok((state.asked, answer))
    }
}

/// What one node knows of sudo: the password that worked there.
#[derive(Default)]
pub(super) struct NodeSudo {
    good: Mutex<Option<Arc<str>>>,
}

impl SshRemote {
    /// Runs a command as root.
    pub(super) async fn exec_as_root(&self, cmd: &Cmd, watch: &mut Watch) -> Result<Output, RemoteError> {
        // Always without a password first: a rule may exempt this very command, and a password that is not asked for
        // would end up in the command's own input.
        let output = self.exec_line(cmd, &["-n", "--"], None, watch).await?;
        match refusal(&output) {
            None => Ok(output),
            Some(Refusal::NeedsPassword) => {
                let password = self.good_password(cmd).await?;
                let output = self.with_password(cmd, &password, watch).await?;
                if refusal(&output).is_some() { Err(self.refused(&output)) } else { Ok(output) }
            }
            Some(_) => Err(self.refused(&output)),
        }
    }

    /// A password that sudo on this node takes. Found out with `true`, never with the command itself: after a wrong
    /// password, sudo would take the command's input for the next one.
    async fn good_password(&self, cmd: &Cmd) -> Result<Arc<str>, RemoteError> {
        let mut good = self.sudo.good.lock().await;
        if let Some(password) = good.as_ref() {
            return Ok(Arc::clone(password));
        }
        let who = format!("{} (first asked by {})", self.user, self.node);
        let test = Cmd::read("/usr/bin/true", [""; 0]).timeout(cmd.timeout);
        let mut tried = 0;
        loop {
            let (number, password) = self.passwords.newer_than(tried, &who).await?;
            let output = match self.with_password(&test, &password, &mut Watch::default()).await {
                Err(RemoteError::Sudo(why)) if why == WRONG_PASSWORD => {
                    tried = number;
                    continue;
                }
                other => other?,
            };
            match refusal(&output) {
                Some(Refusal::WrongPassword) => tried = number,
                // A rule may allow other commands only: the password was taken all the same.
                None | Some(Refusal::NotAllowed) => {
                    *good = Some(Arc::clone(&password));
                    return Ok(password);
                }
                Some(Refusal::NeedsPassword) => return Err(self.refused(&output)),
            }
        }
    }

    async fn with_password(&self, cmd: &Cmd, password: &Arc<str>, watch: &mut Watch) -> Result<Output, RemoteError> {
        let password = Password { marker: MARKER, secret: Arc::clone(password) };
        // -k: asked for even where an earlier answer is still remembered.
        let mut output = self.exec_line(cmd, &["-S", "-k", "-p", MARKER, "--"], Some(password), watch).await?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        if stderr.contains(MARKER) {
            output.stderr = stderr.replace(MARKER, "").into_bytes();
        }
        Ok(output)
    }

    fn refused(&self, output: &Output) -> RemoteError {
        RemoteError::Sudo(format!(
            "`{}` may not run this as root: {}; it needs an administrator of the Mac, or a rule in sudoers",
            self.user.escape_debug(),
            output.describe()
        ))
    }
}

/// Whether sudo refused, so that the command did not run.
fn refusal(output: &Output) -> Option<Refusal> {
    if output.exit != Some(1) {
        return None;
    }
    let text = output.err_text();
    let says = |words: &[&str]| words.iter().any(|w| text.contains(w));
    if says(&[
        "incorrect password attempt",
        "Sorry, try again",
        "no password was provided",
        "incorrect authentication attempt",
    ]) {
        Some(Refusal::WrongPassword)
    } else if says(&[
        "sudo: a password is required",
        "sudo: interactive authentication is required",
        "sudo: a terminal is required",
    ]) {
        Some(Refusal::NeedsPassword)
    } else if says(&[
        "is not in the sudoers file",
        "may not run sudo",
        "is not allowed to execute",
        "is not allowed to run sudo",
    ]) {
        Some(Refusal::NotAllowed)
    } else {
        None
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    NeedsPassword,
    WrongPassword,
    NotAllowed,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(exit: i32, stderr: &str) -> Output {
        Output { exit: Some(exit), stderr: stderr.as_bytes().to_vec(), ..Output::default() }
    }

    #[test]
    fn the_words_of_sudo_decide() {
        let wrong = "Password:Sorry, try again.\nPassword:\nsudo: no password was provided\nsudo: 1 incorrect password attempt\n";
        for (exit, stderr, expected) in [
            (0, "", None),
            (1, "sudo: a password is required\n", Some(Refusal::NeedsPassword)),
            (1, "sudo: interactive authentication is required\n", Some(Refusal::NeedsPassword)),
            (1, wrong, Some(Refusal::WrongPassword)),
            (1, "sudo: 3 incorrect password attempts\n", Some(Refusal::WrongPassword)),
            (1, "tech is not in the sudoers file.\n", Some(Refusal::NotAllowed)),
            (1, "Sorry, user tech is not allowed to execute '/bin/ls' as root on mac.\n", Some(Refusal::NotAllowed)),
            // The command's own failure, with the same status.
            (1, "ifconfig: interface en9 does not exist\n", None),
            (2, "sudo: a password is required\n", None),
        ] {
            assert_eq!(refusal(&ended(exit, stderr)), expected, "{stderr}");
        }
    }
}
