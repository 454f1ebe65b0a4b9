//! Columns, wrapping and colour for reports that people read, at 80 columns and without colour too.

use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};

use crate::view::Printer;

/// Colours of words; the words say the same without them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tint {
    Plain,
    Bold,
    Green,
    Yellow,
    Red,
    Cyan,
}

/// The text in that colour, when colours are wanted.
pub(super) fn paint(printer: Printer, tint: Tint, text: &str) -> String {
    let code = match tint {
        Tint::Bold => "1",
        Tint::Green => "32",
        Tint::Yellow => "33",
        Tint::Red => "31",
        Tint::Cyan => "36",
        Tint::Plain => return text.to_owned(),
    };
    if printer.color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// Rows without borders in these column widths; the last column wraps into the rest of the line. Lines end without
/// blanks. The first column is coloured.
pub(super) fn rows(printer: Printer, widths: &[u16], rows: &[(Tint, Vec<String>)]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.force_no_tty();
    let width = u16::try_from(printer.width).unwrap_or(80);
    table.set_width(width);
    for (_, row) in rows {
        table.add_row(row.iter().map(Cell::new));
    }
    // A column's width counts its padding of one blank at each side.
    let fixed: u16 = widths.iter().map(|w| w + 2).sum();
    let rest = width.saturating_sub(fixed).max(24);
    let constraints = widths.iter().map(|w| w + 2).chain([rest]).map(|w| ColumnConstraint::Absolute(Width::Fixed(w)));
    table.set_constraints(constraints);
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Left);
    }
    let mut out = String::new();
    let mut next = rows.iter();
    for line in table.lines() {
        let line = line.trim_end();
        let head = usize::from(widths.first().copied().unwrap_or(0)) + 2;
        // A line that begins with a word begins a row; others continue one.
        let split = line.char_indices().nth(head).map_or(line.len(), |(i, _)| i);
        let (first, rest) = line.split_at(split);
        if first.trim().is_empty() {
            out.push_str(line);
        } else {
            let tint = next.next().map_or(Tint::Plain, |(tint, _)| *tint);
            let word = first.trim();
            out.push_str(&first.replacen(word, &paint(printer, tint, word), 1));
            out.push_str(rest);
        }
        out.push('\n');
    }
    out
}

/// Text in lines of at most `width` columns, the first after `first`, the others after as many blanks.
pub(super) fn hanging(first: &str, text: &str, width: usize) -> String {
    let indent = first.chars().count();
    let room = width.saturating_sub(indent).max(24);
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        let fits = lines.last().is_some_and(|l| l.is_empty() || l.chars().count() + 1 + word.chars().count() <= room);
        if !fits {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    let mut out = String::new();
    for (i, line) in lines.iter().enumerate() {
        if i == 0 {
            out.push_str(first);
        } else {
            out.push_str(&" ".repeat(indent));
        }
        out.push_str(line);
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTER: Printer = Printer { color: false, progress: false, width: 60 };

    #[test]
    fn long_text_wraps_under_itself() {
        let text = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen";
        let out = hanging("  observed  ", text, 60);
        assert_eq!(out.lines().count(), 2);
        assert!(out.lines().all(|l| l.chars().count() <= 60), "{out}");
        assert!(out.lines().nth(1).is_some_and(|l| l.starts_with("            ")), "{out}");
    }

    #[test]
    fn rows_wrap_their_last_column_and_keep_their_colour() {
        let row = (Tint::Red, vec!["FAIL".to_owned(), "studio-1".to_owned(), "a long story ".repeat(6)]);
        let out = rows(PRINTER, &[5, 10], &[row.clone(), row.clone()]);
        assert!(out.lines().count() > 2 && out.lines().all(|l| l.chars().count() <= 60 && !l.ends_with(' ')), "{out}");
        let coloured = rows(Printer { color: true, ..PRINTER }, &[5, 10], &[row]);
        assert!(coloured.starts_with(" \u{1b}[31mFAIL\u{1b}[0m"), "{coloured:?}");
    }
}
