//! `macluster man`: the manual, from the same definitions as the help.

use std::path::PathBuf;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use super::file::write_whole;
use crate::app::App;
use crate::cli::Cli;
use crate::exit::{Exit, Failure, Outcome};

/// Options of `macluster man`.
#[derive(Clone, Debug, clap::Args)]
pub struct Opts {
    /// Write a page for macluster and one for each subcommand into this folder, instead of printing the first
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// Prints or writes the pages.
///
/// # Errors
/// Exit 1: the folder cannot be written.
pub fn run(opts: &Opts, app: &App) -> Outcome {
    let mut command = Cli::command();
    command.build();
    let Some(folder) = &opts.out else {
        app.printer.out(&page(&command)?);
        return Ok(Exit::Ok);
    };
    std::fs::create_dir_all(folder)
        .map_err(|e| Failure::new(Exit::Unexpected, format!("cannot make the folder {}: {e}", folder.display())))?;
    let mut pages = Vec::new();
    collect(&command, &mut pages);
    for (name, command) in &pages {
        let path = folder.join(format!("{name}.1"));
        write_whole(&path, &page(command)?)
            .map_err(|e| Failure::new(Exit::Unexpected, format!("cannot write {}: {e}", path.display())))?;
    }
    app.printer.err(&format!("wrote {} pages to {}", pages.len(), folder.display()));
    Ok(Exit::Ok)
}

fn page(command: &Command) -> Result<String, Failure> {
    let mut text = Vec::new();
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    Man::new(command.clone())
        .title(name)
        .render(&mut text)
        .map_err(|e| Failure::new(Exit::Unexpected, format!("the manual page: {e}")))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The command and what it holds, by the name of the page: `macluster-network-apply`.
fn collect(command: &Command, pages: &mut Vec<(String, Command)>) {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    pages.push((name, command.clone()));
    for inner in command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help") {
        collect(inner, pages);
    }
}
