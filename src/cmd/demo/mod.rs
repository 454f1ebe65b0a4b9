//! `macluster demo`: a simulated rack from cables to an answer, by the same commands an operator types.

mod child;
mod model;

use std::path::{Path, PathBuf};

use crate::app::App;
use crate::exit::{Exit, Failure, Outcome};
use child::{Background, Shell};

/// Options of `macluster demo`.
#[derive(Clone, Debug, clap::Args)]
pub struct Opts {
    /// Folder for downloads, the bundle and the model, kept for the next run [default: the platform's cache folder]
    #[arg(long, value_name = "DIR", env = "MACLUSTER_CACHE")]
    cache: Option<PathBuf>,
    /// What to ask the model
    #[arg(long, value_name = "TEXT", default_value = "What is the capital of France? Answer in one sentence.")]
    question: String,
}

/// Runs it.
pub async fn run(opts: Opts, app: &App) -> Outcome {
    let scratch = tempfile::Builder::new()
        .prefix("macluster-demo-")
        .tempdir()
        .map_err(|e| cannot("make a temporary folder", &e))?;
    let rack = Slot::default();
    let outcome = tokio::select! {
        outcome = story(&opts, app, scratch.path(), &rack) => outcome,
        _ = tokio::signal::ctrl_c() => Err(Failure::new(Exit::Interrupted, "interrupted; the simulated rack is gone")),
    };
    // However the story ended: the rack takes its agents and engines down, and only then may its folder go.
    if let Some(sim) = rack.lock().await.take() {
        sim.stop().await;
    }
    let removed = scratch.close().map_err(|e| cannot("remove the temporary folder", &e));
    let exit = outcome?;
    removed?;
    Ok(exit)
}

/// The running rack, kept where it is found when the story breaks off.
type Slot = tokio::sync::Mutex<Option<Background>>;

/// The whole path. Each `shell.run` shows and runs one command of this binary and checks its exit status.
async fn story(opts: &Opts, app: &App, scratch: &Path, slot: &Slot) -> Outcome {
    let cache = match &opts.cache {
        Some(dir) => std::path::absolute(dir).map_err(|e| cannot("use the cache folder", &e))?,
        None => crate::phase::bundle::cache_dir()?,
    };
    std::fs::create_dir_all(&cache).map_err(|e| cannot("make the cache folder", &e))?;
    let shell = Shell::new(app.printer, scratch, &cache)?;

    shell.say("The runtime: every wheel pinned by hash, built once, installed later without internet.");
    let report = shell.capture(&["bundle", "build", "--platform", "host"]).await?;
    let folder = report.lines().find_map(|l| l.strip_prefix("  in "));
    let bundle = PathBuf::from(folder.ok_or_else(|| cannot("find the bundle in", &report))?);
    shell.say("A real model to run: SmolLM2-135M-Instruct, converted to an mlx-lm folder (once).");
    let prepared = model::prepare(&shell, &bundle, &cache).await?;

    shell.say("Three Mac Studios, as they come out of the box and cabled to each other. Simulated: this is not a Mac.");
    let python = prepared.python.display().to_string();
    let folder = prepared.model.display().to_string();
    let rack = scratch.join("rack").display().to_string();
    let args = ["sim", "--nodes", "3", "--dir", &rack, "--python", &python, "--model", &folder];
    let sim = shell.background(&args, &["--exit-with-stdin"])?;
    let inventory = Path::new(&rack).join("macluster.yaml");
    let followed = shell.follow(&sim, &inventory).await;
    *slot.lock().await = Some(sim);
    followed?;
    let shell = shell.in_folder(Path::new(&rack));

    shell.say("What is wrong with it? Doctor looks at everything and changes nothing.");
    shell.run(&["doctor"], &[Exit::Ok, Exit::ChecksFailed]).await?;
    shell.run(&["cabling"], &[Exit::Ok]).await?;
    shell.say(
        "Each cable needs a network of its own. First the plan, then the change, then the proof that nothing is left.",
    );
    shell.run(&["network", "plan"], &[Exit::Ok]).await?;
    shell.run(&["network", "apply", "--yes"], &[Exit::Ok]).await?;
    shell.run(&["network", "plan", "--detailed-exitcode"], &[Exit::Ok]).await?;
    shell.say("What only a person at the machine could do.");
    shell.run(&["checklist"], &[Exit::Ok]).await?;
    shell.run(&["doctor"], &[Exit::Ok]).await?;
    shell.say("Install, start, and wait until a token has been generated.");
    shell.run(&["deploy", "--yes", "--bundle", &bundle.display().to_string()], &[Exit::Ok]).await?;
    shell.run(&["status"], &[Exit::Ok]).await?;

    shell.say("Ask it, from the desk, through SSH.");
    let tunnel = shell.background(&["tunnel", "--listen", "127.0.0.1:0"], &[])?;
    let url = shell.first_url(&tunnel).await?;
    let answer = model::ask(&shell, &url, &opts.question).await?;
    app.printer.out(&format!("\n{answer}\n"));
    tunnel.stop().await;

    shell.run(&["stop"], &[Exit::Ok]).await?;
    Ok(Exit::Ok)
}

fn cannot(what: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Exit::Unexpected, format!("cannot {what}: {error}"))
}
