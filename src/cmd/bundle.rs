//! `macluster bundle`: the offline runtime, built once.

use std::path::{Path, PathBuf};

use clap::Subcommand;

use crate::app::App;
use crate::cli::Format;
use crate::exit::{Exit, Failure, Outcome};
use crate::phase::bundle::{Manifest, Platform, Request, build, cache_dir, inspect};
use crate::view;

/// Options of `macluster bundle`.
#[derive(Clone, Debug, clap::Args)]
pub struct Opts {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Build a bundle; the same inputs give the same id
    Build(Build),
    /// Show what is in a bundle: packages with their licences, Python, agent; hashes are not compared
    Inspect {
        /// The bundle's folder
        dir: PathBuf,
        /// Output format
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
    /// Prove that a folder is exactly the bundle that its manifest describes
    Verify {
        /// The bundle's folder
        dir: PathBuf,
        /// Output format
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
}

#[derive(Clone, Debug, clap::Args)]
struct Build {
    /// macos-arm64, linux-x86_64, or host
    #[arg(long, default_value = "host")]
    platform: Platform,
    /// Where bundles are kept; this one goes into a folder named by its id [default: in the cache folder]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// A relocatable Python for the nodes: a tar.gz with one folder that holds bin/python3.N
    #[arg(long, value_name = "ARCHIVE", requires = "python_sha256")]
    python: Option<PathBuf>,
    /// The archive's SHA-256
    #[arg(long, value_name = "HEX", requires = "python")]
    python_sha256: Option<String>,
    /// Python minor of the nodes [default: the archive's; else, for this platform, the local Python's; else 3.12]
    #[arg(long, value_name = "MINOR")]
    python_minor: Option<String>,
    /// macluster for the nodes' platform [default: this program]
    #[arg(long, value_name = "PATH")]
    agent: Option<PathBuf>,
    /// The Python ≥ 3.11 with pip that downloads the packages [default: the first on PATH]
    #[arg(long, value_name = "PATH")]
    pip_python: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Runs it.
pub async fn run(opts: Opts, app: &App) -> Outcome {
    match opts.command {
        Command::Build(opts) => make(opts, app).await,
        Command::Inspect { dir, output } => look(dir, output, app).await,
        Command::Verify { dir, output } => verify(dir, output, app).await,
    }
}

async fn make(opts: Build, app: &App) -> Outcome {
    let cache = cache_dir()?;
    let request = Request {
        platform: opts.platform,
        out: opts.out.unwrap_or_else(|| cache.join("bundles")),
        cache,
        agent: opts.agent,
        python: opts.python.zip(opts.python_sha256),
        minor: opts.python_minor,
        pip_python: opts.pip_python,
    };
    let built = build(&request, &app.events).await?;
    app.printer.out(&match opts.output {
        Format::Human => view::bundle::built(&built),
        Format::Json => view::bundle::built_json(&built),
    });
    Ok(Exit::Ok)
}

async fn look(dir: PathBuf, output: Format, app: &App) -> Outcome {
    let found = on_bundle(dir, inspect).await?;
    app.printer.out(&match output {
        Format::Human => view::bundle::inspected(&found),
        Format::Json => view::bundle::inspected_json(&found),
    });
    Ok(Exit::Ok)
}

async fn verify(dir: PathBuf, output: Format, app: &App) -> Outcome {
    let proof = |dir: &Path| {
        let manifest = Manifest::read(dir)?;
        manifest.verify(dir, &[], &mut |_| {})?;
        Ok(manifest)
    };
    let manifest = on_bundle(dir, proof).await?;
    app.printer.out(&match output {
        Format::Human => view::bundle::verified(&manifest),
        Format::Json => view::bundle::verified_json(&manifest),
    });
    Ok(Exit::Ok)
}

/// Does something with a bundle's folder, off the threads that wait.
async fn on_bundle<T: Send + 'static>(
    dir: PathBuf,
    work: impl FnOnce(&Path) -> Result<T, String> + Send + 'static,
) -> Result<T, Failure> {
    if !dir.is_dir() {
        return Err(Failure::new(Exit::NotFound, format!("there is no folder {}", dir.display())));
    }
    let folder = dir.clone();
    let done = tokio::task::spawn_blocking(move || work(&folder)).await.unwrap_or_else(|e| Err(e.to_string()));
    done.map_err(|why| Failure::new(Exit::ChecksFailed, format!("{} is no intact bundle: {why}", dir.display())))
}
