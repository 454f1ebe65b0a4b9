//! Graphviz: the same graph for people who lay it out themselves (`dot -Tpdf`).

use std::fmt::Write;

use super::color::color;
use super::svg::escape;
use super::{Diagram, End, Far, Look};
use crate::model::panel::Port;

/// The diagram in Graphviz' language, undirected.
#[must_use]
pub fn dot(diagram: &Diagram) -> String {
    let mut out = String::from("graph rack {\n");
    let title = format!("{}\n{}", diagram.title, diagram.subtitle);
    let _ = writeln!(
        out,
        "  graph [label={}, labelloc=t, fontname=\"monospace\", rankdir=TB, nodesep=0.6, ranksep=1.2, overlap=false, splines=true];",
        quoted(&title)
    );
    out.push_str("  node [shape=plain, fontname=\"monospace\"];\n  edge [fontname=\"monospace\", penwidth=2];\n");
    for (index, mac) in diagram.macs.iter().enumerate() {
        let cells: Vec<String> =
            mac.panel.faces.iter().flat_map(|f| &f.ports).map(|p| port(*p, mac.excluded)).collect();
        let span = cells.len().max(1);
        let row = if cells.is_empty() { String::new() } else { format!("<tr>{}</tr>", cells.concat()) };
        let _ = writeln!(
            out,
            "  mac{index} [label=<<table border=\"0\" cellborder=\"1\" cellspacing=\"0\" cellpadding=\"5\"><tr>\
             <td colspan=\"{span}\"><b>{}</b><br/>{}</td></tr>{row}</table>>];",
            escape(&mac.name),
            escape(&mac.about)
        );
    }
    for (index, cable) in diagram.cables.iter().enumerate() {
        let far = match &cable.far {
            Far::End(end) => place(diagram, *end),
            Far::Outside(what) => {
                let _ = writeln!(out, "  outside{index} [shape=box, style=dashed, label={}];", quoted(what));
                format!("outside{index}")
            }
        };
        let style = match cable.look {
            Look::Good => "solid",
            Look::Flawed | Look::Moved => "dashed",
            Look::New => "solid, penwidth=5",
            Look::Removed => "dotted",
        };
        let network = cable.network.as_ref().map_or_else(String::new, |n| format!("\n{n}"));
        let _ = writeln!(
            out,
            "  {} -- {far} [label={}, color=\"{}\", style={style}, tooltip={}];",
            place(diagram, cable.near),
            quoted(&format!("{}{}{network}", cable.label, cable.look.sign())),
            color(index),
            quoted(&format!("{} – {}, {}", diagram.place(cable.near), diagram.far(cable), cable.state))
        );
    }
    out.push_str("}\n");
    out
}

fn port(port: Port, excluded: Option<u32>) -> String {
    match port {
        Port::Receptacle(number) if excluded == Some(number) => {
            format!("<td port=\"r{number}\" bgcolor=\"#cccccc\">{number}<br/>no RDMA</td>")
        }
        Port::Receptacle(number) => format!("<td port=\"r{number}\">{number}</td>"),
        Port::Other(name) => format!("<td border=\"0\"><font color=\"#777777\">{name}</font></td>"),
    }
}

/// A receptacle as an edge names it; the Mac alone where the receptacle is not drawn.
fn place(diagram: &Diagram, end: End) -> String {
    let drawn = diagram.macs.get(end.mac).is_some_and(|m| m.panel.receptacles().any(|r| r == end.receptacle));
    if drawn { format!("mac{}:r{}", end.mac, end.receptacle) } else { format!("mac{}", end.mac) }
}

/// A quoted string of the language: quotes and backslashes escaped, line breaks as `\n`.
fn quoted(text: &str) -> String {
    let text = crate::model::command::printable(text);
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
