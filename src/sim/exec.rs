//! Runs one command of an SSH session: tools on a thread, real programs as processes, both with the same streams.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::program::{Resolved, resolve};
use super::shell;
use super::store::Node;
use super::tools::{self, Call, Exec};

/// How often, and after which pause, a program is started that somebody may still write to.
const BUSY_TRIES: u32 = 250;
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// A chunk of output: `true` for standard error.
pub(super) type Chunk = (bool, Vec<u8>);

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// With this status.
    Status(u32),
    /// By this signal number.
    Signal(i32),
}

/// What a session gives every command.
#[derive(Clone, Debug)]
pub(super) struct Session {
    /// The node.
    pub node: Node,
    /// Environment.
    pub env: BTreeMap<String, String>,
    /// Working directory: the user's home.
    pub cwd: PathBuf,
}

/// Standard input as it arrives, for a thread or a task.
#[derive(Debug)]
pub(super) struct Input {
    queue: mpsc::Receiver<Vec<u8>>,
    rest: Vec<u8>,
    used: usize,
}

impl Input {
    /// Input that comes through a queue; its end is the end of the file.
    pub(super) fn new(queue: mpsc::Receiver<Vec<u8>>) -> Self {
        Input { queue, rest: Vec::new(), used: 0 }
    }

    async fn next(&mut self) -> Option<Vec<u8>> {
        if self.used < self.rest.len() {
            let rest = self.rest.split_off(self.used);
            self.used = 0;
            self.rest.clear();
            return Some(rest);
        }
        self.queue.recv().await
    }
}

impl Read for Input {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.used >= self.rest.len() {
            match self.queue.blocking_recv() {
                Some(chunk) => (self.rest, self.used) = (chunk, 0),
                None => return Ok(0),
            }
        }
        let n = Read::read(&mut &self.rest[self.used..], buf)?;
        self.used += n;
        Ok(n)
    }
}

/// One of the two output streams, for a thread. Small writes are gathered into chunks.
struct Output {
    queue: mpsc::Sender<Chunk>,
    error: bool,
    buffer: Vec<u8>,
}

impl Write for Output {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(buf);
        // A line at a time, so that both streams keep their order and `tail -f` is seen at once.
        if self.buffer.len() > 16 * 1024 || (self.error && buf.ends_with(b"\n")) {
            self.flush()?;
        }
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::take(&mut self.buffer);
        self.queue.blocking_send((self.error, chunk)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// Runs a command line to its end.
pub(super) async fn run_line(
    session: Arc<Session>,
    line: String,
    mut input: Input,
    output: mpsc::Sender<Chunk>,
    gone: CancellationToken,
) -> Ended {
    if let Some(noise) = session.node.load().ok().and_then(|s| s.quirks.login_noise) {
        let _ = output.send((false, noise.into_bytes())).await;
    }
    let words = match shell::split(&line) {
        Ok(words) if words.is_empty() => return Ended::Status(0),
        Ok(words) => words,
        Err(refusal) => {
            session.node.trip(&format!("line needs a shell: {line}"));
            let _ = output.send((true, format!("{}\n", refusal.message).into_bytes())).await;
            return Ended::Status(u32::try_from(refusal.status).unwrap_or(1));
        }
    };
    let mut exec = Exec { argv: words, script: false, uid: 501 };
    loop {
        let Some(word) = exec.argv.first().cloned() else { return Ended::Status(0) };
        if exec.script {
            return run_program(&session, std::path::Path::new(&word), &exec, input, &output).await;
        }
        match resolve(&session.node, &word, &session.cwd) {
            Resolved::Tool(name, tool) => {
                let task = Task { name, tool, exec, session: Arc::clone(&session), gone: gone.clone() };
                let queue = output.clone();
                let joined = tokio::task::spawn_blocking(move || task.run(input, queue)).await;
                let Ok((status, next, rest)) = joined else { return Ended::Status(1) };
                match next {
                    Some(next) => (exec, input) = (next, rest),
                    None => return Ended::Status(u32::try_from(status).unwrap_or(1) & 0xff),
                }
            }
            Resolved::Program(path) => return run_program(&session, &path, &exec, input, &output).await,
            missing => {
                let (text, status) = not_run(&missing, &word);
                let _ = output.send((true, text.into_bytes())).await;
                return Ended::Status(status);
            }
        }
    }
}

/// zsh's words for a command it cannot run.
pub(super) fn not_run(why: &Resolved, word: &str) -> (String, u32) {
    match why {
        Resolved::Denied => (format!("zsh:1: permission denied: {word}\n"), 126),
        _ if word.contains('/') => (format!("zsh:1: no such file or directory: {word}\n"), 127),
        _ => (format!("zsh:1: command not found: {word}\n"), 127),
    }
}

/// A tool about to run on a thread.
struct Task {
    name: String,
    tool: tools::Tool,
    exec: Exec,
    session: Arc<Session>,
    gone: CancellationToken,
}

impl Task {
    fn run(self, mut input: Input, queue: mpsc::Sender<Chunk>) -> (i32, Option<Exec>, Input) {
        let mut out = Output { queue: queue.clone(), error: false, buffer: Vec::new() };
        let mut err = Output { queue, error: true, buffer: Vec::new() };
        let gone = self.gone.clone();
        let mut call = Call {
            node: &self.session.node,
            name: &self.name,
            args: self.exec.argv.get(1..).unwrap_or_default(),
            stdin: &mut input,
            out: &mut out,
            err: &mut err,
            uid: self.exec.uid,
            cwd: self.session.cwd.clone(),
            env: &self.session.env,
            cancelled: &move || gone.is_cancelled(),
            next: None,
        };
        let result = (self.tool)(&mut call);
        let next = call.next.take();
        let status = match result {
            Ok(status) => status,
            // Nobody reads any more, as SIGPIPE would end it.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => 141,
            Err(e) => {
                let _ = writeln!(err, "macsim: {}: {e}", self.name);
                70
            }
        };
        let _ = out.flush();
        let _ = err.flush();
        (status, next, input)
    }
}

/// Runs a real program. When the session goes away its pipes break, as under OpenSSH; the rack ends it at the latest.
async fn run_program(
    session: &Session,
    path: &std::path::Path,
    exec: &Exec,
    mut input: Input,
    output: &mpsc::Sender<Chunk>,
) -> Ended {
    let mut command = tokio::process::Command::new(path);
    command
        .args(exec.argv.get(1..).unwrap_or_default())
        .env_clear()
        .envs(&session.env)
        .env("MACSIM_UID", exec.uid.to_string())
        .current_dir(&session.cwd)
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = match spawn(&mut command).await {
        Ok(child) => child,
        Err(e) => {
            let text = format!("zsh:1: {}: {}\n", super::tools::errno_text(&e).to_lowercase(), path.display());
            let _ = output.send((true, text.into_bytes())).await;
            return Ended::Status(126);
        }
    };
    let pid = child.id().unwrap_or(0);
    super::processes::started(&session.node, pid, exec.uid);
    let stdin = child.stdin.take();
    let feed = tokio::spawn(async move {
        let Some(mut stdin) = stdin else { return };
        while let Some(chunk) = input.next().await {
            if stdin.write_all(&chunk).await.is_err() {
                break;
            }
        }
    });
    let pumps = [
        tokio::spawn(pump(child.stdout.take(), output.clone(), false)),
        tokio::spawn(pump(child.stderr.take(), output.clone(), true)),
    ];
    let status = child.wait().await;
    super::processes::ended(&session.node, pid);
    feed.abort();
    // Like sshd: the channel stays until every holder of the pipes is gone.
    for pump in pumps {
        let _ = pump.await;
    }
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => Ended::Status(u32::try_from(code).unwrap_or(1)),
            (None, signal) => Ended::Signal(signal.unwrap_or(9)),
        },
        Err(_) => Ended::Status(255),
    }
}

/// Starts a program, also one that was written a moment ago.
///
/// `tar` runs on a thread of this process. A process that is started just then, for any node, holds the file that is being
/// written until it has become its own program, and Linux starts no program that somebody could still write to. On a real
/// node, `tar` is a process of its own.
async fn spawn(command: &mut tokio::process::Command) -> io::Result<tokio::process::Child> {
    for _ in 0..BUSY_TRIES {
        match command.spawn() {
            Err(e) if e.kind() == io::ErrorKind::ExecutableFileBusy => tokio::time::sleep(BUSY_PAUSE).await,
            done => return done,
        }
    }
    command.spawn()
}

async fn pump(stream: Option<impl tokio::io::AsyncRead + Unpin>, output: mpsc::Sender<Chunk>, error: bool) {
    let Some(mut stream) = stream else { return };
    let mut buffer = vec![0; 16 * 1024];
    loop {
        tokio::select! {
            read = stream.read(&mut buffer) => match read {
                Ok(0) | Err(_) => return,
                Ok(n) => {
                    if output.send((error, buffer[..n].to_vec())).await.is_err() {
                        return;
                    }
                }
            },
            () = output.closed() => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_program_starts_once_nobody_can_write_to_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let program = dir.path().join("true");
        std::fs::copy("/bin/true", &program).expect("copied");
        let writer = std::fs::OpenOptions::new().write(true).open(&program).expect("opened");
        let mut command = tokio::process::Command::new(&program);
        assert_eq!(command.spawn().expect_err("busy").kind(), io::ErrorKind::ExecutableFileBusy);
        // The first attempt comes before the file is closed.
        let (child, ()) = tokio::join!(spawn(&mut command), async { drop(writer) });
        assert!(child.expect("starts").wait().await.expect("ends").success());
    }
}
