//! Fits texts into 80 tokens with `contexture-core` and `contexture-tokens` alone.
use contexture_core::{Budget, Counts, Item, Layer, Role, Text, assemble, markup, no_loader};
use contexture_tokens::Models;

#[expect(clippy::print_stdout)]
pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let counter = Models::built_in().resolve("gpt-5.6").tokenizer.load()?;
    let mut notes = Layer::new("notes");
    notes.items = vec![
        Item::new("plan", Role::Context, Text::new("We ship on Friday.")).priority(0.9),
        Item::new("log", Role::Context, Text::new(&"an old line\n".repeat(50))).priority(0.1),
    ];
    let budget = Budget::new(100, 20, 0)?; // the window, and what the answer needs of it
    let assembly = assemble(vec![notes], budget, &Counts::new(counter), &mut no_loader)?;
    println!("{}", markup::render(&assembly.layout));
    for row in &assembly.report.excluded {
        println!("left out: {}, {}", row.id, row.reason);
    }
    Ok(())
}
