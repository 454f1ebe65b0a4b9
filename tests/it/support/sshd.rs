//! Real OpenSSH servers on loopback, one process per connection (`sshd -i`), with keys and files of their own.

use std::fmt::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tempfile::TempDir;

/// A server, its folder and its connections. Ends its own processes when dropped.
pub(crate) struct Sshd {
    /// Keys, `known_hosts`, `authorized_keys` and everything else.
    pub(crate) dir: TempDir,
    /// On 127.0.0.1.
    pub(crate) port: u16,
    stop: Arc<AtomicBool>,
    children: Arc<Mutex<Vec<Child>>>,
    acceptor: Option<JoinHandle<()>>,
}

/// The installed server. Without one the calling test cannot run: a failure under CI, else said by name.
pub(crate) fn installed(test: &str) -> Option<PathBuf> {
    let found = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/opt/homebrew/sbin/sshd"].iter().map(PathBuf::from);
    let found = found.into_iter().find(|p| p.is_file());
    if found.is_none() {
        not_run(test, "sshd is not installed");
    }
    found
}

/// Says by name that a test (or a part of one) cannot run here; under CI that is a failure.
pub(crate) fn not_run(test: &str, why: &str) {
    assert!(!std::env::var("CI").is_ok_and(|v| v == "true"), "{test}: {why}");
    say_not_run(test, why);
}

/// Says by name what does not run here. Not by `eprintln`, which the test runner shows of failed tests only.
pub(crate) fn say_not_run(test: &str, why: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("NOT RUN: {test}: {why}\n").as_bytes());
}

/// Makes a key pair with `ssh-keygen`.
pub(crate) fn keygen(path: &Path, kind: &str, passphrase: &str) {
    let status = Command::new("ssh-keygen")
        .args(["-q", "-t", kind, "-N", passphrase, "-C", "test", "-f"])
        .arg(path)
        .stdin(Stdio::null())
        .status()
        .expect("ssh-keygen runs");
    assert!(status.success(), "ssh-keygen made no {kind} key");
}

/// The login user of the tests: whoever runs them, since only root may log in others.
pub(crate) fn me() -> String {
    let output = Command::new("id").arg("-un").output().expect("id runs");
    String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
}

impl Sshd {
    /// Starts a server with host keys of these types and more lines for its configuration.
    pub(crate) fn start(test: &str, host_keys: &[&str], more: &str) -> Option<Self> {
        let sshd = installed(test)?;
        let dir = tempfile::tempdir().expect("a folder");
        // Its privilege separation folder, which packages make at boot.
        let _ = std::fs::create_dir_all("/run/sshd");
        let mut config = String::new();
        for kind in host_keys {
            let path = dir.path().join(format!("host_{kind}"));
            keygen(&path, kind, "");
            let _ = writeln!(config, "HostKey {}", path.display());
        }
        keygen(&dir.path().join("id"), "ed25519", "");
        std::fs::copy(dir.path().join("id.pub"), dir.path().join("authorized_keys")).expect("copied");
        let _ = write!(
            config,
            "{more}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nPidFile none\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nAcceptEnv LC_*\nPrintMotd no\nSetEnv HOME={}\n",
            dir.path().join("authorized_keys").display(),
            // bash reads ~/.bashrc when sshd starts it: what the tester keeps there is no part of the test.
            dir.path().display()
        );
        let config_file = dir.path().join("sshd_config");
        std::fs::write(&config_file, config).expect("written");

        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let stop = Arc::new(AtomicBool::new(false));
        let children = Arc::new(Mutex::new(Vec::new()));
        let acceptor = {
            let (stop, children, log) = (Arc::clone(&stop), Arc::clone(&children), dir.path().join("log"));
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    let child = serve(&sshd, &config_file, &log, stream);
                    children.lock().expect("not poisoned").push(child);
                }
            })
        };
        Some(Sshd { dir, port, stop, children, acceptor: Some(acceptor) })
    }

    /// A path in the server's folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The public key of a host key: `ssh-ed25519 AAAA…`.
    pub(crate) fn host_key(&self, kind: &str) -> String {
        let text = std::fs::read_to_string(self.path(&format!("host_{kind}.pub"))).expect("a public key");
        text.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
    }

    /// What the server said, for failure messages.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.children.lock().expect("not poisoned").len()
    }

    /// Makes every connection's server process hold still, as a node that hangs; the drop ends them.
    pub(crate) fn freeze_connections(&self) {
        for child in self.children.lock().expect("not poisoned").iter() {
            let group = rustix::process::Pid::from_child(child);
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::STOP);
        }
    }

    /// Ends every connection's server process, as a crash would.
    pub(crate) fn kill_connections(&self) {
        for child in self.children.lock().expect("not poisoned").iter_mut() {
            if matches!(child.try_wait(), Ok(None)) {
                let group = rustix::process::Pid::from_child(child);
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            }
            let _ = child.wait();
        }
    }
}

fn serve(sshd: &Path, config: &Path, log: &Path, stream: TcpStream) -> Child {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(log).expect("a log");
    let input = stream.try_clone().expect("a second handle");
    Command::new(sshd)
        .args(["-i", "-e", "-f"])
        .arg(config)
        // A group of its own, so that a test can stop all of one connection's processes; commands leave it.
        .process_group(0)
        .stdin(Stdio::from(OwnedFd::from(input)))
        .stdout(Stdio::from(OwnedFd::from(stream)))
        .stderr(Stdio::from(log))
        .spawn()
        .expect("sshd starts")
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes the acceptor up.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        self.kill_connections();
    }
}
