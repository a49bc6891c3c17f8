//! Columns of text, aligned by spaces; no cell can break the table or the terminal.

use super::escape;
use super::style::Style;

pub struct Table {
    indent: usize,
    rows: Vec<Vec<Cell>>,
}

pub struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub fn new(text: &str, style: Style) -> Self {
        Cell { text: escape::line(text), style }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::new(text, Style::Plain)
    }
}

impl Table {
    pub fn new(indent: usize) -> Self {
        Table { indent, rows: Vec::new() }
    }

    pub fn with_header(names: &[&str]) -> Self {
        let mut table = Table::new(0);
        table.row(names.iter().map(|name| Cell::new(name, Style::Bold)));
        table
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub fn render(&self, colour: bool) -> String {
        let widths = self.widths();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = " ".repeat(self.indent);
            for (cell, width) in row.iter().zip(&widths) {
                let padding = " ".repeat(width + 2 - cell.text.chars().count());
                line.push_str(&cell.style.paint(&cell.text, colour));
                line.push_str(&padding);
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.text.chars().count()).max()
        };
        (0..columns).map(|column| width(column).unwrap_or(0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_cells_are_harmless() {
        let mut table = Table::with_header(&["NAME", "STATE"]);
        table.row(["größe".into(), Cell::new("good", Style::Good)]);
        table.row(["a\u{1b}\n".into(), "".into()]);
        assert_eq!(table.render(false), "NAME       STATE\ngröße      good\na\\u{1b}\\n\n");
        assert!(table.render(true).contains("\u{1b}[32mgood\u{1b}[0m"));
    }
}
