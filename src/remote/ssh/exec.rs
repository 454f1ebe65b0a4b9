//! One command over one channel: output gathered and capped, input fed, time limited.

use std::sync::Arc;
use std::time::Duration;

use russh::client::Msg;
use russh::{Channel, ChannelMsg, ChannelReadHalf, ChannelWriteHalf, Sig};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::noise::{Noise, Skip};
use super::say;
use super::session::Session;
use super::stdin::{FeedError, feed};
use crate::model::{Output, Stdin};
use crate::remote::{OnOutput, OnSent, RemoteError};

/// A process left in the background may keep the streams open after the command itself ended.
const AFTER_EXIT: Duration = Duration::from_secs(5);
/// How long sudo's question for the password is waited for, after the same command was just refused without one.
const PROMPT_GRACE: Duration = Duration::from_secs(3);

/// A command line, ready to be sent.
pub(super) struct Job {
    /// The quoted line.
    pub(super) line: String,
    /// The line for messages.
    pub(super) shown: String,
    pub(super) stdin: Stdin,
    /// Sent as a line of its own before `stdin`, once the marker appears on standard error.
    pub(super) password: Option<Password>,
    pub(super) timeout: Duration,
    pub(super) max_output: usize,
}

/// A password and what asks for it. Not `Debug`: it must not end up in a message.
#[derive(Clone)]
pub(super) struct Password {
    pub(super) marker: &'static str,
    pub(super) secret: Arc<str>,
}

/// Callbacks of one command.
#[derive(Default)]
pub(super) struct Watch {
    pub(super) on_sent: Option<OnSent>,
    pub(super) on_output: Option<OnOutput>,
    /// Taken off the beginning of both streams.
    pub(super) noise: Noise,
}

/// Runs it to its end.
pub(super) async fn run(session: &Session, mut job: Job, watch: &mut Watch) -> Result<Output, RemoteError> {
    let too_late = || RemoteError::Timeout { command: job.shown.clone(), after: job.timeout };
    // Others that hold the channels have limits of their own, so this wait ends as well.
    let permit = timeout(job.timeout, Arc::clone(&session.channels).acquire_owned()).await;
    let Ok(_permit) = permit.map_err(|_| too_late())? else {
        return Err(RemoteError::Lost(session.end()));
    };
    let deadline = Instant::now() + job.timeout;
    let opened = timeout_at(deadline, open(session)).await.map_err(|_| too_late())?;
    let channel = opened.map_err(|e| match e {
        russh::Error::ChannelOpenFailure(_) => RemoteError::Refused(format!(
            "no channel for `{}` ({}): commands that hang on the node may hold them all",
            job.shown,
            say::broken(&e)
        )),
        _ => RemoteError::Lost(session.end()),
    })?;
    let (mut from, to) = channel.split();
    let mut open = Open { to: Some(to) };
    let stdin = std::mem::take(&mut job.stdin);
    let talk = talk(session, &job, stdin, &mut from, &open, watch);
    let result = match timeout_at(deadline, talk).await {
        Ok(result) => result,
        Err(_) => Err(too_late()),
    };
    if result.is_ok() {
        open.done();
    }
    result
}

/// Opens a channel. sshd counts a session until it has cleaned up after it, which may be later than its last word:
/// a refusal may be over in a moment, and nothing has run yet.
async fn open(session: &Session) -> Result<Channel<Msg>, russh::Error> {
    let mut pause = Duration::from_millis(20);
    loop {
        match session.handle.channel_open_session().await {
            Err(russh::Error::ChannelOpenFailure(_)) if pause < Duration::from_secs(2) => {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            other => return other,
        }
    }
}

/// An open channel. Dropped before the command ended, it ends the command.
struct Open {
    to: Option<ChannelWriteHalf<Msg>>,
}

impl Open {
    fn done(&mut self) {
        self.to = None;
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let (Some(to), Ok(runtime)) = (self.to.take(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        runtime.spawn(async move {
            let end = async {
                // Closing alone would leave the process running, and sshd counting its session.
                let _ = to.signal(Sig::TERM).await;
                let _ = to.close().await;
            };
            let _ = timeout(Duration::from_secs(2), end).await;
        });
    }
}

async fn talk(
    session: &Session,
    job: &Job,
    stdin: Stdin,
    from: &mut ChannelReadHalf,
    open: &Open,
    watch: &mut Watch,
) -> Result<Output, RemoteError> {
    let Some(to) = &open.to else {
        return Err(RemoteError::Lost(session.end()));
    };
    let lost = |_| RemoteError::Lost(session.end());
    // Servers may refuse the variable; every tool used here prints the same in any locale, as far as is known.
    to.set_env(false, "LC_ALL", "C").await.map_err(lost)?;
    to.exec(true, job.line.as_bytes()).await.map_err(lost)?;

    let asked = Notify::new();
    let Watch { on_sent, on_output, noise } = watch;
    let writing = async {
        if let Some(password) = &job.password {
            let _ = timeout(PROMPT_GRACE, asked.notified()).await;
            let line = format!("{}\n", password.secret);
            to.data_bytes(line.into_bytes()).await.map_err(|_| FeedError::Closed)?;
        }
        let (stays, cue) = match &stdin {
            Stdin::Lifeline(_) => (true, None),
            Stdin::Until(_, cue) => (false, Some((cue.clone(), Vec::new()))),
            Stdin::Cued(_, cue, then) => (true, Some((cue.clone(), then.clone()))),
            _ => (false, None),
        };
        feed(stdin, to, on_sent).await?;
        if let Some((cue, then)) = cue {
            cue.cancelled().await;
            if !then.is_empty() {
                to.data_bytes(then).await.map_err(|_| FeedError::Closed)?;
            }
        }
        if stays {
            // The channel's end is the end of file, or this desk's.
            std::future::pending::<()>().await;
        }
        to.eof().await.map_err(|_| FeedError::Closed)
    };
    tokio::pin!(writing);
    let mut written = false;
    let mut gathered = Gathered::new(job.max_output, on_output.as_mut(), noise);
    let mut asked_times = 0;
    let mut give_up: Option<Instant> = None;
    loop {
        tokio::select! {
            fed = &mut writing, if !written => {
                written = true;
                if let Err(FeedError::Local(why)) = fed {
                    return Err(RemoteError::Local(why));
                }
            }
            () = sleep_until(give_up.unwrap_or_else(Instant::now)), if give_up.is_some() => return Ok(gathered.done()),
            message = from.wait() => match message {
                Some(ChannelMsg::Data { data }) => gathered.stdout(&data),
                Some(ChannelMsg::ExtendedData { data, ext: 1 }) => {
                    gathered.stderr(&data);
                    if let Some(password) = &job.password {
                        let times = gathered.questions(password.marker);
                        if times > asked_times {
                            asked_times = times;
                            asked.notify_one();
                        }
                        if times > 1 {
                            // Asked again: the password was wrong, and whatever followed would be taken for one.
                            return Err(RemoteError::Sudo(WRONG_PASSWORD.to_owned()));
                        }
                    }
                }
                Some(ChannelMsg::Failure) => {
                    return Err(RemoteError::Refused(format!("its SSH server does not run `{}`", job.shown)));
                }
                Some(ChannelMsg::ExitStatus { exit_status }) => {
                    gathered.output.exit = Some(i32::try_from(exit_status).unwrap_or(i32::MAX));
                }
                Some(ChannelMsg::ExitSignal { signal_name, error_message, .. }) => {
                    gathered.output.signal = Some(signal(&signal_name));
                    gathered.stderr(error_message.as_bytes());
                }
                Some(ChannelMsg::Close) => return Ok(gathered.done()),
                None if gathered.ended() => return Ok(gathered.done()),
                None => return Err(RemoteError::Lost(session.end())),
                Some(_) => {}
            }
        }
        if gathered.ended() {
            give_up = Some(Instant::now() + AFTER_EXIT);
        }
    }
}

/// Marks a wrong password between here and `sudo`.
pub(super) const WRONG_PASSWORD: &str = "the password was wrong";

/// `KILL` and the like.
fn signal(signal: &Sig) -> String {
    match signal {
        Sig::Custom(name) => crate::model::command::printable(name),
        known => format!("{known:?}"),
    }
}

/// Output so far.
struct Gathered<'a> {
    output: Output,
    cap: usize,
    on_output: Option<&'a mut OnOutput>,
    skip_stdout: Skip,
    skip_stderr: Skip,
}

impl<'a> Gathered<'a> {
    fn new(cap: usize, on_output: Option<&'a mut OnOutput>, noise: &Noise) -> Self {
        Gathered {
            output: Output::default(),
            cap,
            on_output,
            skip_stdout: Skip::new(Arc::clone(&noise.stdout)),
            skip_stderr: Skip::new(Arc::clone(&noise.stderr)),
        }
    }

    fn ended(&self) -> bool {
        self.output.exit.is_some() || self.output.signal.is_some()
    }

    fn stdout(&mut self, data: &[u8]) {
        let Gathered { output, cap, on_output, skip_stdout, .. } = self;
        skip_stdout.pass(data, |data| match on_output {
            Some(on_output) => on_output(data),
            None => output.truncated |= keep(&mut output.stdout, data, *cap),
        });
    }

    fn stderr(&mut self, data: &[u8]) {
        let Gathered { output, cap, skip_stderr, .. } = self;
        skip_stderr.pass(data, |data| output.truncated |= keep(&mut output.stderr, data, *cap));
    }

    /// All there is, once nothing more comes.
    fn done(mut self) -> Output {
        let Gathered { output, cap, on_output, skip_stdout, skip_stderr } = &mut self;
        skip_stdout.end(|data| match on_output {
            Some(on_output) => on_output(data),
            None => output.truncated |= keep(&mut output.stdout, data, *cap),
        });
        skip_stderr.end(|data| output.truncated |= keep(&mut output.stderr, data, *cap));
        self.output
    }

    /// How often a password was asked for: by our own words, or by those of a sudo that insists on its own.
    fn questions(&self, marker: &str) -> usize {
        let stderr = &self.output.stderr;
        // Questions come first; what the command says later may be long.
        let start = String::from_utf8_lossy(stderr.get(..16 * 1024).unwrap_or(stderr));
        match start.matches(marker).count() {
            0 => start.matches("assword:").count(),
            ours => ours,
        }
    }
}

/// Keeps what fits below the cap; says whether something was dropped.
fn keep(stream: &mut Vec<u8>, data: &[u8], cap: usize) -> bool {
    let room = cap.saturating_sub(stream.len());
    stream.extend_from_slice(data.get(..room).unwrap_or(data));
    data.len() > room
}
