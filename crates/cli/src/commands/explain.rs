//! `thalweg explain`: prints the pages of error codes. The pages are those of `docs/errors.md`, which the program carries.

use std::io::Read;
use std::sync::LazyLock;

use format::ErrorCode;
use lzma_rust2::Lzma2Reader;
use serde_json::{Value, json};

use crate::failure::misuse;
use crate::output::Output;
use crate::shown;

/// Say what an error code means: what happened, why, and what to do
#[derive(clap::Args)]
#[command(after_help = "The code stands at the end of an error, as in `thalweg: a: no such file [TW-203]`.\n\n\
                        Example: thalweg explain TW-203")]
pub struct Arguments {
    /// Codes, as in TW-203 or 203
    #[arg(value_name = "CODE", required_unless_present = "list")]
    codes: Vec<String>,
    /// List all codes with their titles
    #[arg(long, conflicts_with = "codes")]
    list: bool,
}

/// The pages, which the build packs.
static PAGES: LazyLock<String> = LazyLock::new(|| {
    let packed: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/errors.md.lzma2"));
    let mut pages = String::new();
    let unpacked = Lzma2Reader::new(packed, DICTIONARY_BYTES, None).read_to_string(&mut pages);
    unpacked.expect("a test unpacks them");
    pages
});
/// As the build packs them.
const DICTIONARY_BYTES: u32 = 1 << 20;
const PARAGRAPHS: [&str; 3] = ["**What happened.**", "**Why.**", "**What to do.**"];
/// Codes that an unknown one was perhaps meant to be.
const NEAREST: usize = 3;
/// A terminal has 80 columns at least.
const LINE_CHARACTERS: usize = 79;

/// The page of one code.
struct Page {
    code: &'static str,
    title: &'static str,
    /// What happened, why, and what to do.
    paragraphs: [&'static str; 3],
}

pub fn execute(arguments: &Arguments, output: &Output) -> anyhow::Result<()> {
    if arguments.list {
        return list(output);
    }
    let codes: Vec<ErrorCode> = arguments.codes.iter().map(|written| parse(written)).collect::<anyhow::Result<_>>()?;
    let pages: Vec<Page> = codes.into_iter().map(page_of).collect();
    for (at, page) in pages.iter().enumerate() {
        let before = if at == 0 { "" } else { "\n" };
        output.line(format_args!("{before}{}", page.text()))?;
    }
    output.document(&pages.iter().map(Page::fields).collect())
}

fn list(output: &Output) -> anyhow::Result<()> {
    let pages = || pages(&PAGES).filter_map(Result::ok);
    pages().try_for_each(|page| output.line(format_args!("{}  {}", page.code, page.title)))?;
    output.document(&pages().map(|page| json!({ "code": page.code, "title": page.title })).collect())
}

/// Reads a code as people write it, and as they copy it out of a message.
fn parse(written: &str) -> anyhow::Result<ErrorCode> {
    let bare = written.trim().trim_matches(['[', ']']).to_ascii_uppercase();
    let number = bare.strip_prefix("TW-").unwrap_or(&bare);
    let found = ErrorCode::ALL.iter().find(|code| number_of(**code) == number);
    let Some(code) = found else {
        let nearest = nearest(number).join(", ");
        misuse!("{}: no such code; near it are {nearest}; --list lists all", shown::escaped(written.as_bytes()));
    };
    Ok(*code)
}

fn number_of(code: ErrorCode) -> &'static str {
    code.as_str().strip_prefix("TW-").unwrap_or_default()
}

/// Returns the codes whose numbers are nearest, the first ones for what is no number.
fn nearest(number: &str) -> Vec<&'static str> {
    let wanted: u64 = number.parse().unwrap_or(0);
    let distance = |code: &ErrorCode| number_of(*code).parse().unwrap_or(0_u64).abs_diff(wanted);
    let mut codes = ErrorCode::ALL.to_vec();
    codes.sort_by_key(distance);
    codes.truncate(NEAREST);
    codes.into_iter().map(ErrorCode::as_str).collect()
}

fn page_of(code: ErrorCode) -> Page {
    let page = pages(&PAGES).find_map(|page| page.ok().filter(|page| page.code == code.as_str()));
    page.unwrap_or_else(|| unreachable!("a test finds a page for each code"))
}

/// Returns the pages of the document in its order; the heading where one is not as it has to be.
fn pages(document: &'static str) -> impl Iterator<Item = Result<Page, &'static str>> {
    document.split("\n## ").skip(1).map(|section| {
        let (heading, body) = section.split_once('\n').unwrap_or((section, ""));
        let page = heading.split_once(": ").zip(paragraphs(body));
        page.map(|((code, title), paragraphs)| Page { code, title, paragraphs }).ok_or(heading)
    })
}

fn paragraphs(body: &'static str) -> Option<[&'static str; 3]> {
    let mut found = body.trim().split("\n\n");
    let mut next = |name: &str| found.next()?.strip_prefix(name).map(str::trim).filter(|text| !text.is_empty());
    let paragraphs = [next(PARAGRAPHS[0])?, next(PARAGRAPHS[1])?, next(PARAGRAPHS[2])?];
    found.next().is_none().then_some(paragraphs)
}

impl Page {
    fn text(&self) -> String {
        let paragraph = |(name, text): (&str, &&str)| format!("\n\n{}", wrapped(&[name.trim_matches('*'), text]));
        let paragraphs: String = PARAGRAPHS.into_iter().zip(&self.paragraphs).map(paragraph).collect();
        format!("{}: {}{paragraphs}", self.code, self.title)
    }

    fn fields(&self) -> Value {
        let [happened, why, to_do] = self.paragraphs.map(|text| text.replace('\n', " "));
        json!({ "code": self.code, "title": self.title, "what_happened": happened, "why": why, "what_to_do": to_do })
    }
}

/// Breaks the words into lines of a terminal; one in backquotes may be of several words and stays whole.
fn wrapped(texts: &[&str]) -> String {
    let mut lines = vec![String::new()];
    for word in texts.iter().flat_map(|text| unbroken(text)) {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(&word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= LINE_CHARACTERS => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines.join("\n")
}

/// Returns the words; commands in backquotes are single ones, so that a line of the shell can be copied.
fn unbroken(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut is_quoted = false;
    for word in text.split_whitespace() {
        match words.last_mut() {
            Some(last) if is_quoted => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
        is_quoted ^= word.matches('`').count() % 2 == 1;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_one_page_with_all_paragraphs_and_there_are_no_others() {
        let codes: Vec<&str> =
            pages(&PAGES).map(|page| page.unwrap_or_else(|heading| panic!("{heading}")).code).collect();
        let all: Vec<&str> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(codes, all, "docs/errors.md has the codes in order");
    }

    #[test]
    fn codes_are_taken_as_people_write_them() {
        for written in ["TW-203", "tw-203", "203", "[TW-203]", " 203 "] {
            assert_eq!(parse(written).unwrap(), ErrorCode::NoSuchPath, "{written}");
        }
        let refused = parse("TW-207x").unwrap_err().to_string();
        assert!(refused.contains("no such code") && refused.contains("--list"), "{refused}");
        assert!(parse("TW-219").unwrap_err().to_string().contains("near it are TW-218"));
    }

    #[test]
    fn lines_are_those_of_a_terminal_and_commands_stay_whole() {
        let text = page_of(ErrorCode::NoSuchPath).text();
        assert!(text.lines().all(|line| line.chars().count() <= LINE_CHARACTERS), "{text}");
        assert!(text.contains("`thalweg snapshots STORE`"), "{text}");
        assert_eq!(unbroken("a `b  c` d"), ["a", "`b c`", "d"]);
    }

    /// The words behind `thalweg` in backquotes, up to the quote.
    fn command_lines() -> impl Iterator<Item = &'static str> {
        PAGES.split('`').skip(1).step_by(2).filter(|quoted| quoted.starts_with("thalweg "))
    }

    #[test]
    fn the_pages_name_verbs_and_options_that_exist() {
        let mut lines = 0;
        for line in command_lines() {
            let mut words = line.split_whitespace().skip(1).take_while(|word| *word != "--");
            let mut command = crate::definition();
            command.build();
            for word in &mut words {
                if let Some(option) = word.strip_prefix("--") {
                    let option = option.split('=').next().unwrap_or(option);
                    let is_known = command.get_arguments().any(|argument| argument.get_long() == Some(option));
                    assert!(is_known, "{line}: {} has no --{option}", command.get_name());
                } else if let Some(verb) = command.find_subcommand(word) {
                    command = verb.clone();
                } else {
                    assert!(command.get_name() != "thalweg", "{line}: {word} is no verb");
                }
            }
            lines += 1;
        }
        assert!(lines > 100, "{lines}");
    }
}
