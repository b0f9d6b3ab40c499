//! Shared functions of the tests of the engine.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::sync::Arc;

use contexture_core::{
    Anchor, Assembly, Budget, ByScore, Code, Content, Counts, Cut, Error, Fit, Item, Layer, Layout,
    Marker, Path, Place, Role, Share, Text, TokenCounter, Tokens, UnofferedRange, assemble, markup,
    no_loader,
};

/// Counts words, so that a test can be reckoned by hand. A `<context path="x">`
/// block costs three on top of its words, any other block two.
#[derive(Clone)]
pub struct Words;

impl TokenCounter for Words {
    fn name(&self) -> &str {
        "words"
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn count(&self, text: &str) -> Tokens {
        text.split_whitespace().count() as Tokens
    }

    fn sums_are_bounds(&self) -> bool {
        true
    }
}

/// A counter whose sums over lines fall short of the whole: each line end but
/// the last costs one more.
#[derive(Clone)]
pub struct Sticky;

impl TokenCounter for Sticky {
    fn name(&self) -> &str {
        "sticky"
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn count(&self, text: &str) -> Tokens {
        let ends = text.matches('\n').count() as Tokens;
        Words.count(text) + ends.saturating_sub(1)
    }
}

/// Renders a layout as text, without the marks in its tags.
pub fn render(layout: &Layout) -> String {
    markup::render(layout).replace(&format!("-{}", layout.mark), "")
}

pub fn words(counter: impl TokenCounter + 'static) -> Counts {
    Counts::new(Arc::new(counter))
}

/// Assembles what `input` describes and returns the report as text.
///
/// A line of input is one of
///
/// - `budget N [reserve N]`
/// - `layer NAME [share P] [min N] [max N] [window …|path …|by-score]`
/// - `pin|item ID WORDS [at PRIORITY] [score S] [cut HOW] [group G]`
/// - `gone ID [group G]`
///
/// An item has as many words as it says, ten to a line, each in a user block
/// that costs two more.
pub fn run(input: &str) -> Result<Assembly, Error> {
    let mut budget = Budget::new(1, 0, 0)?;
    let mut layers: Vec<Layer> = Vec::new();
    for line in input.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let option = |name: &str| -> Option<&str> {
            let at = words.iter().position(|word| *word == name)?;
            words.get(at + 1).copied()
        };
        let number = |name: &str| option(name).map(|n| n.parse::<f64>().unwrap());
        match words[0] {
            "budget" => {
                let reserve = number("reserve").unwrap_or(0.0) as Tokens;
                budget = Budget::new(words[1].parse().unwrap(), reserve, 0)?;
            }
            "layer" => {
                let mut layer = Layer::new(words[1]);
                layer.place = Place::Current;
                if let Some(percent) = number("share") {
                    layer.share.percent = percent;
                }
                layer.share = Share {
                    min: number("min").unwrap_or(0.0) as Tokens,
                    max: number("max").map(|n| n as Tokens),
                    ..layer.share
                };
                if words.contains(&"by-score") {
                    layer.fit = Fit::ByScore(ByScore::default());
                }
                let unseen = || {
                    number("unseen").map(|count| UnofferedRange {
                        at: number("before").unwrap() as usize,
                        count: count as u64,
                    })
                };
                if words.contains(&"window") {
                    layer.fit = Fit::Path(Path {
                        min_recent: number("recent").unwrap_or(3.0) as usize,
                        anchor: Some(Anchor {
                            start: option("from").map(Into::into),
                            shrink_to: number("shrink").unwrap_or(60.0) / 100.0,
                        }),
                        unseen: unseen(),
                        ..Path::window()
                    });
                }
                if words.contains(&"path") {
                    layer.fit = Fit::Path(Path {
                        min_recent: number("recent").unwrap_or(1.0) as usize,
                        head: number("head").unwrap_or(0.0) / 100.0,
                        marker: option("marker").map(|noun| Marker::new(noun, Role::User)),
                        unseen: unseen(),
                        ..Path::default()
                    });
                }
                layers.push(layer);
            }
            "gone" => {
                let absent = Content::Absent {
                    code: Code::MISSING,
                    reason: "gone".to_owned(),
                };
                let mut item = Item::with_content(words[1], Role::User, absent);
                item.group = option("group").map(Into::into);
                layers.last_mut().unwrap().items.push(item);
            }
            kind => {
                let count: usize = words[2].parse().unwrap();
                let text: Vec<String> = (1..=count)
                    .map(|n| format!("w{n}{}", if n % 10 == 0 { "\n" } else { " " }))
                    .collect();
                let text = text.concat();
                let mut item = Item::new(words[1], Role::User, Text::new(text.trim_end()));
                item.priority = number("at").unwrap_or(0.5);
                item.score = number("score");
                item.group = option("group").map(Into::into);
                item.pinned = kind == "pin";
                item.cut = match option("cut") {
                    Some("start") => Cut::Start,
                    Some("middle") => Cut::Middle,
                    Some("end") => Cut::End,
                    _ => Cut::Never,
                };
                layers.last_mut().unwrap().items.push(item);
            }
        }
    }
    assemble(layers, budget, &words(Words), &mut no_loader)
}

/// Writes an assembly as lines: kept and cut in the order sent, then dropped.
pub fn show(assembly: &Assembly) -> String {
    let report = &assembly.report;
    let mut out = String::new();
    for row in &report.included {
        out += &match row.lines_cut {
            None => format!("keep {} {}\n", row.id, row.tokens),
            Some(lines) => format!(
                "cut  {} {} of {}, lines {}-{}\n",
                row.id, row.tokens, row.original_tokens, lines.first, lines.last
            ),
        };
    }
    for row in &report.excluded {
        let through = row.through.as_deref();
        let through = through.map_or(String::new(), |last| format!("..{last}"));
        let code = row.code.as_str();
        out += &format!("drop {}{through} {}, {code}\n", row.id, row.tokens);
    }
    out + &format!("used {} of {}", report.budget.used, report.budget.effective)
}

/// Asserts the report of [`run`] for `input`.
#[track_caller]
pub fn check(input: &str, expected: &str) {
    let shown = match run(input) {
        Ok(assembly) => show(&assembly),
        Err(error) => format!("error {error}"),
    };
    let expected: Vec<&str> = expected.trim().lines().map(str::trim).collect();
    assert_eq!(shown.trim(), expected.join("\n"), "for {input}");
}
