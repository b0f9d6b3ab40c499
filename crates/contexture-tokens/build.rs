//! Writes the tables that the exact counters read in place: for each encoding
//! its vocabulary as a hash table, and for all of them the classes of
//! characters. Nothing is parsed or allocated for them at run time.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use regex_syntax::hir::{Class, HirKind};

#[path = "src/openai/class.rs"]
mod class;
#[path = "src/openai/hash.rs"]
mod hash;

/// Encodings, with the number of their ordinary tokens as published.
const ENCODINGS: [(&str, usize); 2] = [("o200k_base", 199_998), ("cl100k_base", 100_256)];

/// A rank that no token has, in three bytes.
const NO_RANK: usize = 0xFF_FF_FF;

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Box<dyn Error>> {
    for file in ["build.rs", "src/openai/class.rs", "src/openai/hash.rs"] {
        println!("cargo::rerun-if-changed={file}");
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let mut code = String::new();
    for (number, (name, tokens)) in (1..).zip(ENCODINGS) {
        vocabulary(number, name, tokens, &out, &mut code)?;
    }
    std::fs::write(out.join("vocabularies.rs"), code)?;
    std::fs::write(out.join("classes.rs"), classes()?)?;
    Ok(())
}

/// Writes the tables of one vocabulary to `out` and appends the code that
/// refers to them to `code`.
fn vocabulary(
    number: u8,
    name: &str,
    tokens: usize,
    out: &Path,
    code: &mut String,
) -> Result<(), Box<dyn Error>> {
    let encoding = tiktoken::get_encoding(name).ok_or("the vocabulary is not compiled in")?;
    let mut by_rank = Vec::with_capacity(tokens);
    for rank in 0..tokens {
        let token = encoding.decode(&[u32::try_from(rank)?]);
        if token.is_empty() {
            return Err(format!("{name} has no token of rank {rank}").into());
        }
        by_rank.push((token, rank));
    }
    // Tokens of one length are next to each other, so that the place of a token
    // follows from its index, and common ones, whose rank is low, share pages.
    by_rank.sort_by_key(|(token, rank)| (token.len(), *rank));
    let tokens = by_rank;
    let longest = tokens.last().map_or(0, |(token, _)| token.len());
    if tokens.len() >= 1 << hash::INDEX_BITS {
        return Err(format!("{name} has too many tokens").into());
    }

    let (mut bytes, mut ranks) = (Vec::new(), Vec::new());
    // For each length, the index and the place in `bytes` of the first token
    // that is as long or longer.
    let mut lengths = Vec::new();
    let mut pairs = [NO_RANK; 1 << 16];
    for (index, (token, rank)) in tokens.iter().enumerate() {
        while lengths.len() <= token.len() {
            lengths.push((index, bytes.len()));
        }
        bytes.extend(token);
        ranks.extend(three_bytes(*rank));
        if let [first, second] = token[..] {
            pairs[usize::from(u16::from_be_bytes([first, second]))] = *rank;
        }
    }

    lengths.push((tokens.len(), bytes.len()));

    // A third of the slots stays empty: most lookups of a merge find nothing,
    // and end at the first empty slot.
    let mut slots = vec![hash::EMPTY; tokens.len() * 3 / 2];
    for (index, (token, _)) in tokens.iter().enumerate() {
        let hash = hash::hash(token);
        let mut slot = hash::first_slot(hash, slots.len());
        while slots[slot] != hash::EMPTY {
            slot = (slot + 1) % slots.len();
        }
        slots[slot] = hash::tag(hash) | u32::try_from(index)?;
    }

    let slots: Vec<u8> = slots.into_iter().flat_map(u32::to_le_bytes).collect();
    let pairs: Vec<u8> = pairs.into_iter().flat_map(three_bytes).collect();
    let mut fields = String::new();
    for (field, table, width) in [
        ("slots", slots, 4),
        ("pairs", pairs, 3),
        ("ranks", ranks, 3),
        ("bytes", bytes, 1),
    ] {
        let file = format!("{name}.{field}");
        std::fs::write(out.join(&file), table)?;
        write!(fields, "{field}: include_bytes!(\"{file}\")")?;
        if width > 1 {
            write!(fields, ".as_chunks::<{width}>().0")?;
        }
        fields.push_str(",\n");
    }
    writeln!(
        code,
        "pub(crate) static {}: Vocabulary = Vocabulary {{\nnumber: {number},\n{fields}longest: {longest},\nlengths: &{lengths:?},\n}};",
        name.to_uppercase(),
    )?;
    Ok(())
}

fn three_bytes(rank: usize) -> [u8; 3] {
    let [low, middle, high, ..] = rank.to_le_bytes();
    [low, middle, high]
}

/// Returns the code of the table of classes: the number of its block for each
/// block of characters, and the classes of the different blocks.
fn classes() -> Result<String, Box<dyn Error>> {
    let mut classes = vec![0u8; char::MAX as usize + 1];
    for (pattern, class) in [
        (r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", class::UPPER),
        (r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", class::LOWER),
        (r"\p{L}", class::LETTER),
        (r"\p{N}", class::NUMBER),
        (r"\s", class::SPACE),
        (r"[\r\n]", class::LINE_END),
        (r"[^\s\p{L}\p{N}]", class::OTHER),
    ] {
        let pattern = regex_syntax::parse(pattern)?;
        let HirKind::Class(Class::Unicode(set)) = pattern.kind() else {
            return Err(format!("{pattern} is not a set of characters").into());
        };
        for range in set.ranges() {
            for character in range.start()..=range.end() {
                classes[character as usize] |= class;
            }
        }
    }
    let mut blocks: Vec<&[u8]> = Vec::new();
    let mut block_of = Vec::new();
    for block in classes.chunks(class::BLOCK) {
        let number = blocks.iter().position(|seen| *seen == block);
        block_of.push(u8::try_from(number.unwrap_or(blocks.len()))?);
        if number.is_none() {
            blocks.push(block);
        }
    }
    Ok(format!(
        "static BLOCK_OF: [u8; {}] = {block_of:?};\nstatic BLOCKS: [[u8; {}]; {}] = {blocks:?};\n",
        block_of.len(),
        class::BLOCK,
        blocks.len(),
    ))
}
