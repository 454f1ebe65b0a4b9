//! `macluster completions SHELL`.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::app::App;
use crate::cli::Cli;
use crate::exit::{Exit, Outcome};

/// Options of `macluster completions`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "bash: macluster completions bash > ~/.local/share/bash-completion/completions/macluster\n\
                        zsh:  macluster completions zsh > a folder of your fpath, as _macluster\n\
                        fish: macluster completions fish > ~/.config/fish/completions/macluster.fish")]
pub struct Opts {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script.
///
/// # Errors
/// None.
pub fn run(opts: &Opts, app: &App) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(opts.shell, &mut Cli::command(), "macluster", &mut script);
    app.printer.out(&String::from_utf8_lossy(&script));
    Ok(Exit::Ok)
}
