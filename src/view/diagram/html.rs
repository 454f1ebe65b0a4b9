//! A page to print: the picture on one sheet, the table of cables on the next.

use std::fmt::Write;

use super::layout::table::{Medium, columns, heads, signs};
use super::svg::{escape, stroke, svg};
use super::{Diagram, Look};

/// Paper and type; nothing is loaded from anywhere.
const STYLE: &str = "\
@page { size: A4 portrait; margin: 12mm; }
body { font: 13px/1.4 -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; margin: 2em; color: #000; }
svg { display: block; max-width: 100%; height: auto; }
table { border-collapse: collapse; margin-top: 1em; }
th, td { text-align: left; padding: 4px 10px; border-bottom: 1px solid #ccc; vertical-align: top; }
td.cable { font-weight: bold; white-space: nowrap; }
td.cable svg { display: inline; max-width: none; vertical-align: middle; margin-right: 6px; }
td.cable span { padding: 0 5px; border-radius: 4px; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.flawed { border: 3px solid #000; }
.new { color: #fff; background: #000; }
.moved { background: #ccc; border: 1px solid #000; }
.removed { border: 1px dashed #000; text-decoration: line-through; }
@media print {
  body { margin: 0; }
  svg { max-height: 255mm; margin: 0 auto; }
  .cables { break-before: page; }
  tr { break-inside: avoid; }
}
";

/// The class of a label, as an attribute.
fn class(look: Look) -> &'static str {
    match look {
        Look::Good => "",
        Look::Flawed => " class=\"flawed\"",
        Look::New => " class=\"new\"",
        Look::Moved => " class=\"moved\"",
        Look::Removed => " class=\"removed\"",
    }
}

/// The page.
#[must_use]
pub fn html(diagram: &Diagram) -> String {
    let title = escape(&diagram.title);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n{}",
        svg(diagram, false)
    );
    let _ = writeln!(out, "<section class=\"cables\">\n<h1>{title}: cables</h1>\n<p>{}</p>", escape(&diagram.subtitle));
    if diagram.cables.is_empty() {
        out.push_str("<p>No cables are drawn.</p>\n");
    } else {
        out.push_str("<table>\n<thead><tr><th>cable</th>");
        for head in heads(diagram) {
            let _ = write!(out, "<th>{head}</th>");
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for (index, cable) in diagram.cables.iter().enumerate() {
            // The line as it is drawn: its pattern tells it apart in black and white.
            let _ = write!(
                out,
                "<tr><td class=\"cable\"><svg width=\"44\" height=\"8\" viewBox=\"0 0 44 8\"><path d=\"M0 4H44\" {}/></svg> \
                 <span{}>{}</span></td>",
                stroke(index, cable.look),
                class(cable.look),
                escape(&cable.label)
            );
            for text in columns(diagram, cable) {
                let _ = write!(out, "<td>{}</td>", escape(&text));
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody>\n</table>\n");
    }
    for (class, texts) in [("remarks", diagram.remarks.clone()), ("signs", signs(diagram, Medium::Picture))] {
        if texts.is_empty() {
            continue;
        }
        let _ = writeln!(out, "<ul class=\"{class}\">");
        for text in texts {
            let _ = writeln!(out, "<li>{}</li>", escape(&text));
        }
        out.push_str("</ul>\n");
    }
    out.push_str("</section>\n</body>\n</html>\n");
    out
}
