//! Where a part of a specification was written.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A text that contributed to a specification: a file, or one `--set` of the command line.
#[derive(Debug)]
pub(super) struct Source {
    /// The file's name as the user gave it, or the whole option.
    pub name: String,
    /// The file's text; empty for what has no lines.
    pub text: String,
}

impl Source {
    pub fn file(name: &str, text: &str) -> Arc<Source> {
        Arc::new(Source { name: name.to_owned(), text: text.to_owned() })
    }

    /// A source without lines: an option, or a value passed by a program.
    pub fn without_lines(name: String) -> Arc<Source> {
        Arc::new(Source { name, text: String::new() })
    }
}

/// A stretch of a source. Displayed as `file:line:column`, or as the option itself.
#[derive(Clone, Debug)]
pub struct Place {
    source: Arc<Source>,
    span: Range<usize>,
}

impl Place {
    pub(super) fn new(source: &Arc<Source>, span: Range<usize>) -> Place {
        Place { source: Arc::clone(source), span }
    }

    /// The name of the file, or the whole `--set` option.
    pub fn file(&self) -> &str {
        &self.source.name
    }

    /// The line, counted from 1; `None` for what was not read from a file.
    pub fn line(&self) -> Option<usize> {
        (!self.source.text.is_empty()).then(|| self.before().matches('\n').count() + 1)
    }

    /// The column in characters, counted from 1.
    pub fn column(&self) -> Option<usize> {
        let line_start = self.before().rfind('\n').map_or(0, |end| end + 1);
        self.line().map(|_| self.before()[line_start..].chars().count() + 1)
    }

    /// The line itself with carets under the place, after the line's number.
    pub(super) fn excerpt(&self) -> Option<String> {
        let (number, column) = (self.line()?.to_string(), self.column()?);
        let line = self.source.text.lines().nth(self.line()? - 1).unwrap_or_default();
        // Tabs are kept, so that the carets are under their text however wide a tab is shown.
        let indent: String =
            line.chars().take(column - 1).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let rest = line.chars().count().saturating_sub(column - 1);
        let marked = self.source.text.get(self.span.clone()).unwrap_or_default();
        let first_line = marked.lines().next().unwrap_or_default().chars().count();
        let carets = "^".repeat(first_line.min(rest).max(1));
        let gutter = " ".repeat(number.len());
        Some(format!("    {number} | {line}\n    {gutter} | {indent}{carets}"))
    }

    fn before(&self) -> &str {
        let end = self.span.start.min(self.source.text.len());
        self.source.text.get(..end).unwrap_or_default()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file())?;
        match (self.line(), self.column()) {
            (Some(line), Some(column)) => write!(f, ":{line}:{column}"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_counts_lines_and_characters_from_one() {
        let text = "a = 1\nb\u{e9} = \"x\"\n";
        let source = Source::file("x.toml", text);
        let start = text.find('"').unwrap();
        let place = Place::new(&source, start..start + 3);
        assert_eq!(place.to_string(), "x.toml:2:6");
        assert_eq!(place.excerpt().unwrap(), "    2 | b\u{e9} = \"x\"\n      |      ^^^");
    }

    #[test]
    fn the_end_of_a_file_is_a_place() {
        let place = Place::new(&Source::file("x.toml", "a = "), 4..4);
        assert_eq!(place.excerpt().unwrap(), "    1 | a = \n      |     ^");
    }

    #[test]
    fn an_option_has_no_lines() {
        let place = Place::new(&Source::without_lines("--set a=1".to_owned()), 0..0);
        assert_eq!(place.to_string(), "--set a=1");
        assert_eq!(place.excerpt(), None);
    }
}
