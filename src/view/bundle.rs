//! What `macluster bundle` prints.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

use super::ranks::trim;
use crate::model::command::printable;
use crate::phase::bundle::{Built, Inspection, Manifest};

/// A finished bundle, for people.
pub fn built(built: &Built) -> String {
    let Built { dir, manifest, reused } = built;
    let how = if *reused { "is there already" } else { "built" };
    format!("bundle {} {how}\n{}  in {}", manifest.id, contents(manifest), dir.display())
}

/// A finished bundle, for programs.
pub fn built_json(built: &Built) -> String {
    let Built { dir, manifest, reused } = built;
    json!({
        "schema_version": 1, "id": manifest.id, "path": dir, "platform": manifest.platform,
        "python_minor": manifest.python_minor, "bytes": manifest.total_bytes(), "files": manifest.files.len(),
        "reused": reused,
    })
    .to_string()
}

/// An intact bundle, for people.
pub fn verified(manifest: &Manifest) -> String {
    format!("bundle {} is intact\n{}", manifest.id, contents(manifest))
}

/// An intact bundle, for programs.
pub fn verified_json(manifest: &Manifest) -> String {
    json!({
        "schema_version": 1, "id": manifest.id, "platform": manifest.platform, "intact": true,
        "python_minor": manifest.python_minor, "bytes": manifest.total_bytes(), "files": manifest.files.len(),
    })
    .to_string()
}

/// What is in a bundle, for people.
pub fn inspected(found: &Inspection) -> String {
    let Inspection { manifest, agent_version, wheels, notices } = found;
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["PACKAGE", "VERSION", "SIZE", "LICENCE", "TAGS"]);
    for (info, file) in wheels {
        let licence = info.licence.as_ref().map_or("not declared", |l| l.name.as_str());
        table.add_row([&info.name, &info.version, &size(file.size), licence, &info.tags].map(printable));
    }
    if let Some(column) = table.column_mut(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = format!("bundle {}\n{}", manifest.id, contents(manifest));
    let agent = agent_version.as_deref().map_or("of unknown version".to_owned(), printable);
    let _ = writeln!(text, "  agent: macluster {agent}, {}", manifest.platform.architecture());
    let licences = if *notices { "all texts in NOTICES" } else { "no file NOTICES: built by an older macluster" };
    let _ = writeln!(text, "  licences: {licences}\n");
    text.push_str(&trim(&table.to_string()));
    text.push_str("hashes were not compared: `macluster bundle verify` does that\n");
    text
}

/// KiB or MiB, rounded up.
fn size(bytes: u64) -> String {
    if bytes < 1024 * 1024 {
        format!("{} KiB", bytes.div_ceil(1024))
    } else {
        format!("{} MiB", bytes.div_ceil(1024 * 1024))
    }
}

/// What is in a bundle, for programs.
pub fn inspected_json(found: &Inspection) -> String {
    let Inspection { manifest, agent_version, wheels, notices } = found;
    let wheels: Vec<Value> = wheels
        .iter()
        .map(|(info, file)| {
            json!({
                "name": info.name, "version": info.version, "tags": info.tags, "path": file.path, "bytes": file.size,
                "licence": info.licence, "licence_files": info.texts.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "schema_version": 1, "id": manifest.id, "platform": manifest.platform, "python_minor": manifest.python_minor,
        "python": manifest.python, "macluster_version": manifest.macluster_version,
        "agent": {"version": agent_version, "architecture": manifest.platform.architecture()},
        "wheels": wheels, "notices": notices, "files": manifest.files.len(), "bytes": manifest.total_bytes(),
    })
    .to_string()
}

fn contents(manifest: &Manifest) -> String {
    let python = match &manifest.python {
        Some(_) => format!("Python {} inside", manifest.python_minor),
        None => format!("needs Python {} on the nodes (runtime.python)", manifest.python_minor),
    };
    let mib = manifest.total_bytes().div_ceil(1024 * 1024);
    format!(
        "  for {}, {} packages, {} files, {mib} MiB\n  {python}\n",
        manifest.platform,
        manifest.requirements.len(),
        manifest.files.len()
    )
}
