//! The plan as one HTML page: nothing but itself is needed to read it, in light and in dark.

use std::path::PathBuf;

use super::Plan;
use super::figures::data::{self, Drawn};
use super::table::{Cell, Column, Table};
use crate::shown;

const STYLE: &str = include_str!("html/style.css");

/// Names in the page's title.
const MAX_NAMES: usize = 4;

/// Refuses the name of a file that nobody would open as a page.
pub fn file(written: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(written);
    let is_page =
        path.extension().is_some_and(|end| end.eq_ignore_ascii_case("html") || end.eq_ignore_ascii_case("htm"));
    // Devices and pipes have whatever name they have.
    let is_special = std::fs::metadata(&path).is_ok_and(|found| !found.is_file());
    if is_page || is_special { Ok(path) } else { Err("the name must end in .html".to_owned()) }
}

pub fn page(plan: &Plan, data: &[PathBuf]) -> String {
    let names = names(data);
    let mut body = format!("<h1>Plan for {}</h1>\n<p>{}</p>\n", escaped(&names), escaped(&plan.report.read()));
    if let Some((_, recommended)) = &plan.of_system {
        let reasons = recommended.reasons().iter().map(|reason| format!("<li>{}</li>\n", escaped(reason)));
        body.push_str(&format!(
            "<section>\n<h2>Recommended</h2>\n<pre><code>{}</code></pre>\n<ul>\n{}</ul>\n</section>\n",
            escaped(&recommended.command()),
            reasons.collect::<String>()
        ));
    }
    let drawn = Drawn { surveyed: &plan.report.surveyed, of_system: plan.of_system.as_ref().map(|(report, _)| report) };
    body.push_str(&section("Your data", &data::of_data(&drawn), &plan.report.tables()));
    if let Some((report, _)) = &plan.of_system {
        body.push_str(&section(plan.system_line, &data::of_system(report), &report.tables()));
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>Plan for {} · Thalweg</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        escaped(&names)
    )
}

/// Names the first few of what was read.
fn names(data: &[PathBuf]) -> String {
    let mut names = data.iter().take(MAX_NAMES).map(|path| shown::local(path)).collect::<Vec<_>>().join(", ");
    if let Some(others @ 1..) = data.len().checked_sub(MAX_NAMES) {
        names.push_str(&format!(" and {others} more"));
    }
    names
}

fn section(title: &str, figures: &[(&str, plot::Page)], tables: &[Table]) -> String {
    let figure = |(text, page): &(&str, plot::Page)| {
        let svg = page.svg().replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{}\" ", escaped(text)), 1);
        format!("<figure tabindex=\"0\">{svg}</figure>\n")
    };
    let figures = figures.iter().map(figure).collect::<String>();
    let tables = tables.iter().map(table).collect::<String>();
    format!("<section>\n<h2>{}</h2>\n{figures}{tables}</section>\n", escaped(title))
}

fn table(table: &Table) -> String {
    let head = |column: &Column| {
        let words = column.head.iter().filter(|word| !word.is_empty()).map(|word| escaped(word));
        format!("<th scope=\"col\">{}</th>", words.collect::<Vec<_>>().join("<br>"))
    };
    let row = |cells: &Vec<Cell>| {
        let cell = |(number, cell): (usize, &Cell)| match (number, cell.is_word()) {
            (0, _) => format!("<th scope=\"row\">{}</th>", escaped(&cell.text())),
            (_, true) => format!("<td class=\"word\">{}</td>", escaped(&cell.text())),
            (_, false) => format!("<td>{}</td>", escaped(&cell.text())),
        };
        format!("<tr>{}</tr>\n", cells.iter().enumerate().map(cell).collect::<String>())
    };
    format!(
        "<div class=\"wide\" tabindex=\"0\"><table>\n<caption>{}</caption>\n<thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody>\n\
         </table></div>\n{}",
        escaped(&table.title),
        table.columns.iter().map(head).collect::<String>(),
        table.rows.iter().map(row).collect::<String>(),
        table.notes.iter().map(|note| format!("<p class=\"note\">{}</p>\n", escaped(note))).collect::<String>()
    )
}

/// Names of files may hold anything.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_names_no_more_than_a_few() {
        let data: Vec<PathBuf> = (0..6).map(|number| PathBuf::from(number.to_string())).collect();
        assert_eq!(names(&data[..4]), "0, 1, 2, 3");
        assert_eq!(names(&data), "0, 1, 2, 3 and 2 more");
    }

    #[test]
    fn names_cannot_become_tags() {
        assert_eq!(escaped("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
    }
}
