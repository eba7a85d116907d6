use std::fmt;

/// Columns as wide as their texts need, up to a width that keeps a line readable; a longer text pushes its own line only.
pub(super) struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

const WIDEST: usize = 44;

impl Table {
    pub(super) fn new(head: impl IntoIterator<Item = &'static str>) -> Self {
        Self { head: head.into_iter().collect(), rows: Vec::new() }
    }

    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |text: &str| text.chars().count();
        let width = |at: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| count(cell));
            cells.max().unwrap_or(0).clamp(count(self.head[at]), WIDEST.max(count(self.head[at])))
        };
        // A column in which nobody has anything to say is left out.
        let shown: Vec<(usize, usize)> = (0..self.head.len())
            .filter(|at| self.rows.iter().any(|row| row.get(*at).is_some_and(|cell| !cell.is_empty())))
            .map(|at| (at, width(at)))
            .collect();
        let mut line = |cells: &dyn Fn(usize) -> String| {
            let text: Vec<String> =
                shown.iter().map(|(at, width)| format!("{:width$}", cells(*at))).collect();
            writeln!(f, "  {}", text.join("  ").trim_end())
        };
        line(&|at| self.head[at].to_owned())?;
        for row in &self.rows {
            line(&|at| row.get(at).cloned().unwrap_or_default())?;
        }
        Ok(())
    }
}
