//! What a node and the operator need beside what the simulator lays out.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use macluster::sim::kernel::{HOST, MARK, Mark};
use macluster::sim::store::{Node, write_json};

use super::rack::address;

/// Where a node sees macluster's binary: its programs are links to it.
pub const PROGRAM: &str = "/.macsim/macluster";

/// What only a node of this rack has: its users, its SSH server, the mark by which its tools know where they are.
pub fn furnish(node: &Node, client: &str) {
    let write = |path: &str, text: &str| {
        let place = node.rooted(path);
        fs::create_dir_all(place.parent().expect("a folder")).expect("a folder");
        fs::write(place, text).expect("written");
    };
    // One user, as far as Linux can tell: which one a command runs as is the simulator's business.
    let passwd = "root:x:0:0::/var/root:/bin/zsh\nadmin:x:0:0::/Users/admin:/bin/zsh\n\
                  sshd:x:74:74::/run/sshd:/usr/bin/false\n";
    write("/private/etc/passwd", passwd);
    write("/private/etc/group", "wheel:x:0:\nsshd:x:74:\n");
    write("/.macsim/authorized_keys", &format!("{client}\n"));
    let config = format!(
        "HostKey /.macsim/rack/state/{}.host_key\nAuthorizedKeysFile /.macsim/authorized_keys\n\
         AuthenticationMethods publickey\nPermitRootLogin yes\nAllowUsers admin\nStrictModes no\nUsePAM no\n\
         UseDNS no\nPidFile none\nPrintMotd no\nPrintLastLog no\nAcceptEnv LANG LC_*\n\
         SetEnv PATH=/usr/bin:/bin:/usr/sbin:/sbin\n",
        node.name
    );
    write("/.macsim/sshd_config", &config);
    symlink(PROGRAM, node.rooted("/sbin/launchd")).expect("a link");
    let sshd = [&format!("{HOST}/usr/sbin/sshd"), "-D", "-e", "-f", "/.macsim/sshd_config"];
    let mark = Mark {
        name: node.name.clone(),
        dir: PathBuf::from("/.macsim/rack"),
        services: vec![sshd.iter().map(|w| (*w).to_owned()).collect()],
    };
    write_json(&node.rooted(MARK), &mark).expect("written");
}

/// The operator's inventory and `known_hosts`.
pub fn write_inventory(dir: &Path, nodes: &[(Node, String)]) {
    let quoted = |name: &str| serde_json::Value::from(dir.join(name).to_string_lossy()).to_string();
    let mut text = format!(
        "rack: network\nssh: {{ user: admin, identity: {}, known_hosts: {}, use_config: false }}\nnodes:\n",
        quoted("id_ed25519"),
        quoted("known_hosts")
    );
    let mut known = String::new();
    for (number, (node, key)) in (1..).zip(nodes) {
        let _ = writeln!(text, "  - {{ name: {}, host: {}, slot: {number} }}", node.name, address(number));
        let _ = writeln!(known, "{} {key}", address(number));
    }
    fs::write(dir.join("macluster.yaml"), text).expect("written");
    fs::write(dir.join("known_hosts"), known).expect("written");
}
