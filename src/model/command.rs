//! A command for a node: argv, never a shell string, declared read or write.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// Whether a command can change the node. The gate refuses `Write` in read-only commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Cannot change the node.
    Read,
    /// May change the node.
    Write,
}

/// What the command reads on its standard input.
#[derive(Clone, Default)]
pub enum Stdin {
    /// Nothing: end of file at once.
    #[default]
    Empty,
    /// These bytes.
    Bytes(Vec<u8>),
    /// These bytes, and no end of file as long as somebody waits for the command: it can tell when the desk is gone.
    Lifeline(Vec<u8>),
    /// The same, and the end of file when this is cancelled: then the command is to stop, and somebody still waits for it.
    Until(Vec<u8>, CancellationToken),
    /// As [`Stdin::Lifeline`], and when this is cancelled, these bytes as well.
    Cued(Vec<u8>, CancellationToken, Vec<u8>),
    /// The content of a local file, streamed.
    File(PathBuf),
    /// A tar archive of these files, streamed.
    Tar(Vec<TarEntry>),
}

/// Where the content of an archive's member comes from.
#[derive(Clone, PartialEq, Eq)]
pub enum TarSource {
    /// A local file.
    File(PathBuf),
    /// These bytes: for what must never lie on the desk's disk, such as keys.
    Bytes(Vec<u8>),
}

impl std::fmt::Debug for TarSource {
    /// Says nothing of the bytes.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TarSource::File(path) => f.debug_tuple("File").field(path).finish(),
            TarSource::Bytes(bytes) => f.debug_tuple("Bytes").field(&bytes.len()).finish(),
        }
    }
}

impl From<PathBuf> for TarSource {
    fn from(path: PathBuf) -> Self {
        TarSource::File(path)
    }
}

/// One member of a streamed archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TarEntry {
    /// Relative path inside the archive, `/` separated.
    pub path: String,
    /// Its content.
    pub source: TarSource,
    /// Unix permission bits, e.g. `0o644`.
    pub mode: u32,
    /// Size in bytes.
    pub size: u64,
}

/// A command to run on a node.
///
/// `program` is an absolute path of the node (as on macOS, e.g. `/sbin/ifconfig`); the remote puts the node's
/// root in front of it. Arguments that are node-side paths must already be rooted (see `Paths`).
#[derive(Clone)]
pub struct Cmd {
    /// Absolute path of the program on macOS.
    pub program: String,
    /// Arguments.
    pub args: Vec<String>,
    /// Read or write.
    pub access: Access,
    /// Run as root through sudo.
    pub sudo: bool,
    /// Standard input.
    pub stdin: Stdin,
    /// After this the command is given up (and its channel closed).
    pub timeout: Duration,
    /// Standard input or arguments must not be shown or logged.
    pub secret: bool,
    /// Bytes kept of each output stream; what is beyond is dropped and `Output::truncated` set.
    pub max_output: usize,
    /// Output as it comes, with whatever the login shell prints before it. Otherwise that is taken off.
    pub raw: bool,
}

/// Default limit of one command.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// Default cap of each output stream.
pub const DEFAULT_MAX_OUTPUT: usize = 64 * 1024 * 1024;

impl Cmd {
    /// A command that only reads.
    pub fn read<S: Into<String>>(program: &str, args: impl IntoIterator<Item = S>) -> Self {
        Self::new(Access::Read, program, args)
    }

    /// A command that may change the node.
    pub fn write<S: Into<String>>(program: &str, args: impl IntoIterator<Item = S>) -> Self {
        Self::new(Access::Write, program, args)
    }

    fn new<S: Into<String>>(access: Access, program: &str, args: impl IntoIterator<Item = S>) -> Self {
        Cmd {
            program: program.to_owned(),
            args: args.into_iter().map(Into::into).collect(),
            access,
            sudo: false,
            stdin: Stdin::Empty,
            timeout: DEFAULT_TIMEOUT,
            secret: false,
            max_output: DEFAULT_MAX_OUTPUT,
            raw: false,
        }
    }

    /// As root.
    #[must_use]
    pub fn sudo(mut self, yes: bool) -> Self {
        self.sudo = yes;
        self
    }

    /// With this standard input.
    #[must_use]
    pub fn stdin(mut self, stdin: Stdin) -> Self {
        self.stdin = stdin;
        self
    }

    /// With another limit.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// With what the login shell prints before.
    #[must_use]
    pub fn raw(mut self) -> Self {
        self.raw = true;
        self
    }

    /// Not to be shown.
    #[must_use]
    pub fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    /// The command line for people and logs: `sudo networksetup -setmanual …`; arguments of a secret command are left out.
    pub fn display(&self) -> String {
        let name = self.program.rsplit('/').next().unwrap_or(&self.program);
        let mut line = String::new();
        if self.sudo {
            line.push_str("sudo ");
        }
        line.push_str(name);
        if self.secret {
            line.push_str(" …");
        } else {
            for arg in &self.args {
                line.push(' ');
                line.push_str(&quote(arg));
            }
        }
        line
    }
}

impl fmt::Debug for Cmd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cmd({:?} {})", self.access, self.display())
    }
}

/// Quotes one word so that zsh, bash, sh and fish all read it as that word. The only place that does.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "%+,-./:@_".contains(c);
    // A leading `=` or `~` is expanded by zsh; both are outside the plain set on purpose.
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    // fish reads `\` inside single quotes as an escape, POSIX shells do not: keep both out of the quotes.
    let mut out = String::from("'");
    for c in word.chars() {
        match c {
            '\'' => out.push_str("'\"'\"'"),
            '\\' => out.push_str("'\"\\\\\"'"),
            _ => out.push(c),
        }
    }
    out.push('\'');
    out
}

/// What came back from a command that ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Exit status; none when a signal ended it.
    pub exit: Option<i32>,
    /// Signal name without `SIG`, e.g. `KILL`.
    pub signal: Option<String>,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// A stream was longer than the cap.
    pub truncated: bool,
}

impl Output {
    /// Exit status 0.
    pub fn ok(&self) -> bool {
        self.exit == Some(0)
    }

    /// Standard output as text; bytes that are not UTF-8 become U+FFFD.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text.
    pub fn err_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// One line that says how it ended and its last words: `exit 1: ifconfig: interface en99 does not exist`.
    pub fn describe(&self) -> String {
        let how = match (self.exit, &self.signal) {
            (Some(code), _) => format!("exit {code}"),
            (None, Some(signal)) => format!("ended by signal {signal}"),
            (None, None) => "ended without a status".to_owned(),
        };
        let stderr = self.err_text();
        let stdout = self.text();
        let words = [&stderr, &stdout].into_iter().find_map(|t| t.lines().rev().find(|l| !decoration(l)));
        match words {
            Some(line) => format!("{how}: {}", printable(line.trim())),
            None => how,
        }
    }
}

/// Blank, the carets by which fish underlines a mistake, or tar's last word, which says only that there were others.
fn decoration(line: &str) -> bool {
    if line.trim_end().ends_with("Error exit delayed from previous errors.") {
        return true;
    }
    line.trim().chars().all(|c| matches!(c, '^' | '~' | ' '))
}

/// What a terminal obeys instead of showing: control characters (escape sequences, bells, carriage returns) and
/// bidirectional overrides. Newlines and tabs are not.
pub fn is_hostile(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

/// Makes text from a node safe for a terminal: what is hostile becomes a visible escape.
pub fn printable(text: &str) -> String {
    if !text.chars().any(is_hostile) {
        return text.to_owned();
    }
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if is_hostile(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_survives_a_posix_shell() {
        for word in ["", "plain", "it's", "a b", "$(touch x)", "a\\b", "*", "~", "=ls", "ü", "a\nb", "!!", "#x"] {
            let line = format!("printf %s {}", quote(word));
            let out = std::process::Command::new("/bin/sh").arg("-c").arg(&line).output().expect("sh runs");
            assert_eq!(String::from_utf8_lossy(&out.stdout), word, "{line}");
        }
    }

    #[test]
    fn display_hides_secrets_and_shows_sudo() {
        let cmd = Cmd::write("/sbin/ifconfig", ["en3", "inet", "10.0.0.1"]).sudo(true);
        assert_eq!(cmd.display(), "sudo ifconfig en3 inet 10.0.0.1");
        assert!(!format!("{:?}", cmd.secret()).contains("10.0.0.1"));
    }

    #[test]
    fn escapes_from_nodes_are_made_visible() {
        assert_eq!(printable("a\u{1b}[31mb"), "a\\u{1b}[31mb");
        assert_eq!(printable("a\u{202e}b\tc\n"), "a\\u{202e}b\tc\n");
    }
}
