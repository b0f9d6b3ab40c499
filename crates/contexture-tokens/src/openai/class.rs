//! The classes of characters that the patterns of both encodings refer to, as
//! bits. The build script uses this file, too.

/// An upper-case or title-case letter, a letter without case, or a mark:
/// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`.
pub(crate) const UPPER: u8 = 1;
/// A lower-case letter, a letter without case, or a mark:
/// `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`.
pub(crate) const LOWER: u8 = 1 << 1;
/// `\p{L}`
pub(crate) const LETTER: u8 = 1 << 2;
/// `\p{N}`
pub(crate) const NUMBER: u8 = 1 << 3;
/// `\s`
pub(crate) const SPACE: u8 = 1 << 4;
/// `[\r\n]`
pub(crate) const LINE_END: u8 = 1 << 5;
/// `[^\s\p{L}\p{N}]`: punctuation, symbols, controls and marks.
pub(crate) const OTHER: u8 = 1 << 6;

/// The number of characters in a block of the table of classes.
pub(crate) const BLOCK: usize = 128;
