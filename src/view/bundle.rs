//! What `macluster bundle` prints.

use serde_json::json;

use crate::phase::bundle::{Built, Manifest};

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
