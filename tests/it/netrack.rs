//! The second simulated rack: nodes in Linux namespaces of their own, with real cables, packets, SSH servers and daemons.
//!
//! It needs Linux, root, OpenSSH, iproute2 and iputils. Where one of them is missing the tests say by name that they did
//! not run; with `MACLUSTER_REQUIRE_NETRACK=1` (as in `.ci/run`) they fail instead.

mod again;
mod apply;
mod boots;
pub mod clock;
mod cut_off;
mod furnish;
mod launch;
mod namespace;
pub mod rack;
mod seed;
pub mod serve;
mod witness;

use std::process::{Command, Stdio};

/// Why the rack cannot be raised here; none when it can.
fn obstacle() -> Option<String> {
    if !cfg!(target_os = "linux") {
        return Some("namespaces need Linux".to_owned());
    }
    if !rustix::process::geteuid().is_root() {
        return Some("namespaces need root".to_owned());
    }
    for program in ["/usr/sbin/sshd", "/usr/bin/ssh"] {
        if !std::path::Path::new(program).exists() {
            return Some(format!("{program} is not installed"));
        }
    }
    let tools = "command -v unshare nsenter setpriv ip ping && \
                 unshare --net --mount --pid --fork sh -c 'ip link add b0 type bridge && ip link add v0 type veth'";
    let output = Command::new("sh").args(["-c", tools]).stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(format!("no namespaces here: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Some(format!("no shell: {error}")),
    }
}

/// Can this test run? If not it is said by name, or fails where it must run.
pub fn ready(test: &str) -> bool {
    let Some(why) = obstacle() else { return true };
    let must = std::env::var("MACLUSTER_REQUIRE_NETRACK").is_ok_and(|v| v == "1");
    assert!(!must, "netrack::{test} cannot run: {why}");
    crate::support::sshd::say_not_run(&format!("netrack::{test}"), &why);
    false
}
