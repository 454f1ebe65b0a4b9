//! `macluster init`: writes a commented inventory.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::app::App;
use crate::exit::{Exit, Failure, Outcome};
use crate::parse::inventory;

/// Options of `macluster init`.
#[derive(Clone, Debug, clap::Args)]
pub struct Opts {
    /// The nodes: host names, addresses or aliases of ~/.ssh/config, separated by commas
    #[arg(long, required = true, value_delimiter = ',', value_name = "HOST,HOST")]
    hosts: Vec<String>,
    /// Login name on the nodes [default: as ~/.ssh/config says]
    #[arg(long)]
    user: Option<String>,
    /// Name of the rack
    #[arg(long, default_value = "rack")]
    rack: String,
    /// File to write [default: -f FILE, else macluster.yaml here]
    #[arg(value_name = "FILE")]
    target: Option<PathBuf>,
}

/// Runs it.
#[expect(clippy::unused_async, reason = "commands share one shape")]
pub async fn run(opts: Opts, app: &App) -> Outcome {
    let hosts: Vec<String> = opts.hosts.iter().map(|h| h.trim().to_owned()).collect();
    let text = inventory::starter(&opts.rack, &hosts, opts.user.as_deref());
    let path = opts.target.or_else(|| app.global.file.clone()).unwrap_or_else(|| PathBuf::from(inventory::FILE_NAME));
    // The file is read back before it is written: an inventory that macluster itself refuses helps nobody.
    if let Err(error) = inventory::read(&text, Some(&path)) {
        let why: Vec<String> = error.problems.into_iter().map(|p| p.message).collect();
        return Err(Failure::new(Exit::Usage, why.join("\n")).hint("nothing was written"));
    }
    write_new(&path, &text)?;
    let count = hosts.len();
    let nodes = if count == 1 { "node" } else { "nodes" };
    let shown = path.display();
    app.printer.err(&format!("wrote {shown} with {count} {nodes}"));
    app.printer.err("next: look it over, set runtime.model, then run `macluster doctor`");
    Ok(Exit::Ok)
}

/// Creates the file whole or not at all, and never over another one or through a symbolic link.
fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    let failed =
        |e: &std::io::Error| Failure::new(Exit::Inventory, format!("{} cannot be written: {e}", path.display()));
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".macluster.")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(folder)
        .map_err(|e| failed(&e))?;
    file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(|e| failed(&e))?;
    // Linking, unlike renaming, fails on whatever is there already, a dangling link included.
    file.persist_noclobber(path).map_err(|e| match e.error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Failure::new(Exit::Inventory, format!("{} exists already and was left alone", path.display()))
                .hint("name another file, or move that one away")
        }
        _ => failed(&e.error),
    })?;
    Ok(())
}
