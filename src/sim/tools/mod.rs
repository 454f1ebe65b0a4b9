//! The simulated userland: one function per tool, one file per tool or small family, byte-shaped after the samples.
//!
//! A tool knows only its [`Call`]; whether it runs inside the SSH server or as a process of its own it cannot tell.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use super::store::Node;

mod files;
mod ibv;
mod ifconfig;
mod json;
mod launchctl;
mod neighbours;
mod netstat;
mod networksetup;
mod ping;
mod plutil;
mod profiler;
mod ps;
mod route;
mod settings;
mod small;
mod sudo;
mod system;

/// Everything a tool sees of the world.
pub struct Call<'a> {
    /// The node it runs on.
    pub node: &'a Node,
    /// Name under which it was called.
    pub name: &'a str,
    /// Arguments without the name.
    pub args: &'a [String],
    /// Standard input.
    pub stdin: &'a mut dyn Read,
    /// Standard output.
    pub out: &'a mut dyn Write,
    /// Standard error.
    pub err: &'a mut dyn Write,
    /// 0 for root.
    pub uid: u32,
    /// Working directory, inside the node.
    pub cwd: PathBuf,
    /// Environment.
    pub env: &'a BTreeMap<String, String>,
    /// Nobody listens any more.
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
    /// Set by a tool that becomes another program, as `exec(2)` does.
    pub next: Option<Exec>,
}

impl Call<'_> {
    /// Real tools take their time; a rack can be told to do so too.
    fn pause(&self, milliseconds: u64) {
        let until = std::time::Instant::now() + Duration::from_millis(milliseconds);
        while std::time::Instant::now() < until && !(self.cancelled)() {
            std::thread::sleep(
                Duration::from_millis(5).min(until.saturating_duration_since(std::time::Instant::now())),
            );
        }
    }
}

/// The program a tool becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exec {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// `argv` is the host's shell and a script of the node: nothing is looked up.
    pub script: bool,
    /// As this user.
    pub uid: u32,
}

/// A tool: reads its call, gives its exit status. An I/O error means that the output is closed.
pub type Tool = fn(&mut Call<'_>) -> io::Result<i32>;

/// Where each tool is on macOS.
pub const TABLE: &[(&str, Tool)] = &[
    ("/bin/bash", small::shell),
    ("/bin/cat", files::cat),
    ("/bin/chmod", files::chmod),
    ("/bin/cp", files::cp),
    ("/bin/date", small::date),
    ("/bin/df", files::df),
    ("/bin/echo", small::echo),
    ("/bin/hostname", small::hostname),
    ("/bin/kill", ps::kill),
    ("/bin/launchctl", launchctl::run),
    ("/bin/ln", files::ln),
    ("/bin/ls", files::ls),
    ("/bin/mkdir", files::mkdir),
    ("/bin/mv", files::mv),
    ("/bin/ps", ps::ps),
    ("/bin/pwd", small::pwd),
    ("/bin/rm", files::rm),
    ("/bin/rmdir", files::rmdir),
    ("/bin/sh", small::shell),
    ("/bin/sleep", small::sleep),
    ("/bin/test", files::test),
    ("/bin/zsh", small::shell),
    ("/sbin/ifconfig", ifconfig::run),
    ("/sbin/ping", ping::run),
    ("/sbin/route", route::run),
    ("/usr/bin/defaults", settings::defaults),
    ("/usr/bin/false", small::no),
    ("/usr/bin/fdesetup", settings::fdesetup),
    ("/usr/bin/ibv_devices", ibv::devices),
    ("/usr/bin/ibv_devinfo", ibv::devinfo),
    ("/usr/bin/id", small::id),
    ("/usr/bin/plutil", plutil::run),
    ("/usr/bin/pmset", settings::pmset),
    ("/usr/bin/printenv", small::printenv),
    ("/usr/bin/rdma_ctl", ibv::rdma_ctl),
    ("/usr/bin/readlink", files::readlink),
    ("/usr/bin/shasum", files::shasum),
    ("/usr/bin/stat", files::stat),
    ("/usr/bin/sudo", sudo::run),
    ("/usr/bin/sw_vers", system::sw_vers),
    ("/usr/bin/tail", files::tail),
    ("/usr/bin/tar", files::tar),
    ("/usr/bin/tee", files::tee),
    ("/usr/bin/touch", files::touch),
    ("/usr/bin/true", small::yes),
    ("/usr/bin/uname", small::uname),
    ("/usr/bin/xattr", files::xattr),
    ("/usr/libexec/ApplicationFirewall/socketfilterfw", settings::socketfilterfw),
    ("/usr/sbin/arp", neighbours::arp),
    ("/usr/sbin/chown", files::chown),
    ("/usr/sbin/ioclasscount", settings::ioclasscount),
    ("/usr/sbin/lsof", ps::lsof),
    ("/usr/sbin/ndp", neighbours::ndp),
    ("/usr/sbin/netstat", netstat::run),
    ("/usr/sbin/networksetup", networksetup::run),
    ("/usr/sbin/nvram", settings::nvram),
    ("/usr/sbin/softwareupdate", settings::softwareupdate),
    ("/usr/sbin/sysctl", system::sysctl),
    ("/usr/sbin/system_profiler", profiler::run),
];

/// Is this path missing on the node's system?
pub fn absent(path: &str, state: &super::state::NodeState) -> bool {
    let rdma = ["/usr/bin/rdma_ctl", "/usr/bin/ibv_devices", "/usr/bin/ibv_devinfo"];
    rdma.contains(&path) && !state.os.has_rdma_tools()
}

/// The tool at this macOS path, if the node's system has it.
pub fn find(path: &str) -> Option<Tool> {
    TABLE.iter().find(|(p, _)| *p == path).map(|(_, tool)| *tool)
}

/// Is this the name of a tool at all? Cheap: asked at every start of the product's own binary.
pub fn is_tool_name(name: &str) -> bool {
    TABLE.iter().any(|(path, _)| path.rsplit('/').next() == Some(name))
}

/// `PATH` of a non-interactive SSH session on macOS (samples/ssh/remote-shell.md).
pub const PATH_DIRS: &[&str] = &["/usr/bin", "/bin", "/usr/sbin", "/sbin"];

/// An error as `strerror` of macOS says it.
pub fn errno_text(e: &io::Error) -> &'static str {
    match e.kind() {
        io::ErrorKind::NotFound => "No such file or directory",
        io::ErrorKind::PermissionDenied => "Permission denied",
        io::ErrorKind::AlreadyExists => "File exists",
        io::ErrorKind::NotADirectory => "Not a directory",
        io::ErrorKind::IsADirectory => "Is a directory",
        io::ErrorKind::DirectoryNotEmpty => "Directory not empty",
        io::ErrorKind::StorageFull => "No space left on device",
        io::ErrorKind::InvalidInput => "Invalid argument",
        io::ErrorKind::CrossesDevices => "Cross-device link",
        io::ErrorKind::TooManyLinks => "Too many links",
        io::ErrorKind::InvalidFilename => "File name too long",
        io::ErrorKind::ReadOnlyFilesystem => "Read-only file system",
        _ => "Input/output error",
    }
}
