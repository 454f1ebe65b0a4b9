//! `macluster checklist`.

use clap::ValueEnum;

use crate::app::App;
use crate::exit::{Exit, Outcome};
use crate::playbook::checklist;
use crate::view::checklist as view;

/// Options of `macluster checklist`.
#[derive(Clone, Debug, clap::Args)]
pub struct Opts {
    /// Output format; `html` prints one Mac to a page
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Sheet,
}

/// Formats of the sheet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Sheet {
    /// Plain text.
    #[default]
    Text,
    /// Markdown with boxes to tick.
    Markdown,
    /// A page to print.
    Html,
    /// For programs; carries `schema_version`.
    Json,
}

/// Runs it.
pub async fn run(opts: Opts, app: &App) -> Outcome {
    let (playbooks, templates) = (app.playbooks()?, app.templates()?);
    let (inventory, snapshot) = app.facts().await?;
    let sheet = checklist(&inventory, &snapshot, &playbooks)?;
    let text = match opts.output {
        Sheet::Text => view::render(&sheet, &templates, "checklist.txt")?,
        Sheet::Markdown => view::render(&sheet, &templates, "checklist.md")?,
        Sheet::Html => view::render(&sheet, &templates, "checklist.html")?,
        Sheet::Json => serde_json::to_string_pretty(&view::json(&sheet)).unwrap_or_default(),
    };
    app.printer.out(&text);
    Ok(match (snapshot.answered().count(), sheet.unreachable.len()) {
        (_, 0) => Exit::Ok,
        (0, _) => Exit::NoNodeReachable,
        _ => Exit::SomeNodesFailed,
    })
}
