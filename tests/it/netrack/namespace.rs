//! A network namespace, and a node's first process in it.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use macluster::sim::store::Node;

use crate::support::binary;

/// A network namespace, there as long as this value.
pub struct Namespace(File);

impl Namespace {
    /// A new one, with a loopback that is down and nothing else.
    pub fn new() -> Namespace {
        // The namespace of a process that waits for its input, held before the process ends.
        let mut child = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo && read -r end"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare runs");
        let mut line = String::new();
        BufRead::read_line(&mut BufReader::new(child.stdout.take().expect("piped")), &mut line).expect("a line");
        let held = File::open(format!("/proc/{}/ns/net", child.id())).expect("a namespace");
        drop(child.stdin.take());
        child.wait().expect("ends");
        Namespace(held)
    }

    /// By which other processes of this machine open it.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// A command that will run in it.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path())).arg(program).stdin(Stdio::null());
        command
    }

    /// Runs `ip` on a batch of lines in it.
    pub fn ip(&self, script: &str) {
        let mut child = self.command("ip").args(["-batch", "-"]).stdin(Stdio::piped()).spawn().expect("ip runs");
        child.stdin.take().expect("piped").write_all(script.as_bytes()).expect("written");
        assert!(child.wait().expect("ends").success(), "ip refused one of\n{script}");
    }

    /// Starts a node in it: the process that is given keeps the node's first one, and ends with the calling thread.
    /// Both write into `log`.
    pub fn boot(&self, node: &Node, rack: &Path, python: Option<&Path>, log: File) -> Child {
        Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "nsenter"])
            .arg(format!("--net={}", self.path()))
            .args(["unshare", "--mount", "--propagation", "private", "--pid", "--uts", "--ipc", "--fork"])
            .args(["--kill-child=KILL", "/bin/sh", "-euc", MOUNTS, "boot"])
            .args([&node.root, rack])
            .arg(binary())
            .args(python)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log)
            .spawn()
            .expect("unshare runs")
    }
}

/// What the node's first process does before it is launchd. Arguments: the node's files, the rack's folder, the binary,
/// and the folder of a Python, if nodes have one.
/// `/` becomes the node's own tree; of the host only libraries and, read only and out of the way, its tools are there.
const MOUNTS: &str = r#"
echo boot
root=$1 rack=$2 binary=$3 python=${4-}
mount --bind "$root" "$root"
cd "$root"
mkdir -p .macsim/rack .macsim/host proc dev run/sshd usr/lib
touch .macsim/macluster
mount -t proc proc proc
mount -t tmpfs -o mode=755 tmpfs dev
for device in null zero full random urandom tty; do
  : >"dev/$device"
  mount --bind "/dev/$device" "dev/$device"
done
ln -sfn /proc/self/fd dev/fd
mkdir dev/pts
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -sfn pts/ptmx dev/ptmx
for libraries in usr/lib usr/lib64 lib lib64; do
  if [ -L "/$libraries" ]; then
    ln -sfn "$(readlink "/$libraries")" "$libraries"
  elif [ -d "/$libraries" ]; then
    mkdir -p "$libraries"
    mount --bind "/$libraries" "$libraries"
    mount -o remount,bind,ro "$libraries"
  fi
done
if [ -n "$python" ]; then
  mkdir -p ".$python"
  mount --bind "$python" ".$python"
  mount -o remount,bind,ro ".$python"
fi
mount --bind / .macsim/host
mount -o remount,bind,ro .macsim/host
mount --bind "$rack" .macsim/rack
mount --bind "$binary" .macsim/macluster
mkdir -p .macsim/old
pivot_root . .macsim/old
exec /.macsim/host/usr/sbin/chroot / /.macsim/host/bin/sh -euc '
  /.macsim/host/usr/bin/umount -l /.macsim/old
  export PATH=/usr/bin:/bin:/usr/sbin:/sbin
  exec /sbin/launchd
'
"#;
