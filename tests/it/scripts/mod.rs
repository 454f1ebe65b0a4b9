//! The scripts that run on a node, alone in a folder of their own: what time does to them. The programs they call are
//! small stand-ins; `sleep` counts instead of waiting. Racks on which they run for real: `network_deadman`, `netrack`.

mod links;
mod restore;

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// `/bin/sh` of this machine, and that of macOS: bash in its POSIX mode.
fn shells() -> Vec<Vec<&'static str>> {
    let mut shells = vec![vec!["/bin/sh"]];
    let bash = ["/bin/bash", "/usr/bin/bash"].into_iter().find(|b| Path::new(b).exists());
    shells.extend(bash.map(|bash| vec![bash, "--posix"]));
    shells
}

/// `ifconfig`: shows `shown`, notes every change with the second it came in, and changes nothing.
const IFCONFIG: &str = r#"if [ $# -eq 0 ]; then exec /bin/cat "$R/shown"; fi
if [ $# -eq 1 ]; then exec /usr/bin/grep -q "^$1: " "$R/shown"; fi
echo "$(/bin/cat "$R/seconds") ifconfig $*" >>"$R/did"
"#;

/// `sleep`: the next second (or look) comes, with what the test has planned for it. A script that does not end by then is ended.
const SLEEP: &str = r#"n=$(($(/bin/cat "$R/seconds") + 1))
echo "$n" >"$R/seconds"
if [ -f "$R/at/$n" ]; then . "$R/at/$n"; fi
if [ "$n" -ge "$(/bin/cat "$R/last")" ]; then echo "did not end" >>"$R/did"; kill -9 0; fi
"#;

/// A node's folder with stand-ins for the programs of macOS.
struct Bench {
    dir: TempDir,
}

impl Bench {
    fn new() -> Bench {
        let bench = Bench { dir: tempfile::tempdir().expect("a folder") };
        for folder in ["at", "opt/macluster/network/foreign", "opt/macluster/var/log", "Library/LaunchDaemons"] {
            fs::create_dir_all(bench.path(folder)).expect("a folder");
        }
        bench.program("bin/sleep", SLEEP);
        bench.program("bin/date", "/bin/cat \"$R/date\"\n");
        bench.program("bin/mv", "if [ -f \"$R/before-mv\" ]; then . \"$R/before-mv\"; fi\nexec /bin/mv \"$@\"\n");
        for plain in ["cat", "rm", "cp"] {
            bench.program(&format!("bin/{plain}"), &format!("exec /bin/{plain} \"$@\"\n"));
        }
        bench.program("sbin/ifconfig", IFCONFIG);
        for (path, text) in [("shown", ""), ("did", ""), ("date", "T\n"), ("seconds", "0\n"), ("last", "1000\n")] {
            bench.write(path, text);
        }
        bench
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("written");
    }

    /// What a file says; empty when it is not there.
    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_default()
    }

    fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// A stand-in; `$R` is this folder.
    fn program(&self, path: &str, text: &str) {
        self.write(path, &format!("#!/bin/sh\nR={}\n{text}", self.dir.path().display()));
        fs::set_permissions(self.path(path), PermissionsExt::from_mode(0o755)).expect("changed");
    }

    /// What happens when this many seconds (or looks) are over.
    fn after(&self, seconds: u32, what: &str) {
        self.write(&format!("at/{seconds}"), &format!("{what}\n"));
    }

    /// From then on `ifconfig` shows this.
    fn show_after(&self, seconds: u32, text: &str) {
        self.write(&format!("at/{seconds}.shown"), text);
        self.after(seconds, &format!("/bin/cp \"$R/at/{seconds}.shown\" \"$R/shown\""));
    }

    /// The script with nothing in reach but this folder's programs, to its end. Gives its status and output.
    fn run(&self, shell: &[&str], script: &str) -> (Option<i32>, String) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("templates").join(script);
        // In a group of its own: a stand-in may end all of it.
        let output = Command::new(shell[0])
            .process_group(0)
            .args(&shell[1..])
            .arg(script)
            .arg(self.dir.path())
            .env_clear()
            .env("PATH", "/var/empty")
            .stdin(Stdio::null())
            .output()
            .expect("a shell");
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), text)
    }

    /// Changes of interfaces, as `SECOND ifconfig …`.
    fn did(&self) -> Vec<String> {
        self.read("did").lines().map(str::to_owned).collect()
    }
}

/// An interface as ifconfig(8) of macOS shows it, up and with carrier.
fn interface(name: &str, ether: &str, addresses: &[&str]) -> String {
    let mut text = format!(
        "{name}: flags=8863<UP,BROADCAST,SMART,RUNNING,SIMPLEX,MULTICAST> mtu 1500\n\toptions=460<TSO4,TSO6,CHANNEL_IO>\n\tether {ether}\n"
    );
    for address in addresses {
        let _ = writeln!(text, "\tinet {address} netmask 0xfffffffc broadcast 10.254.0.3");
    }
    text + "\tmedia: autoselect <full-duplex>\n\tstatus: active\n"
}
