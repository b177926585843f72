//! How finely tokenizers cut the scripts of the world.
//!
//! The weights are what the o200k vocabulary takes for running text of each
//! script, in hundredths of a token a character; `tests/tests/scripts.rs` measures
//! them again. Other vocabularies of its time lie near it or cut finer, and what
//! is left is for the provider's own figures to mend.

/// The weight of a character in hundredths of a token, or none for those that are
/// priced by length: Latin and what goes with it.
pub(crate) fn hundredths(c: char) -> Option<u32> {
    let weight = match u32::from(c) {
        // Latin with its accents, and general punctuation.
        0..=0x24F | 0x2000..=0x206F => return None,
        0x370..=0x3FF | 0x1F00..=0x1FFF => 42, // Greek
        0x400..=0x52F => 28,                   // Cyrillic
        0x530..=0x58F => 34,                   // Armenian
        0x590..=0x5FF => 45,                   // Hebrew
        0x600..=0x77F => 36,                   // Arabic
        0x900..=0x97F => 33,                   // Devanagari
        0xE00..=0xE7F => 42,                   // Thai
        0x10A0..=0x10FF => 32,                 // Georgian
        0x1100..=0x11FF | 0x3130..=0x318F | 0xAC00..=0xD7AF => 70, // Hangul
        0x3040..=0x30FF | 0x31F0..=0x31FF | 0xFF66..=0xFF9F => 68, // Kana
        0x3000..=0x303F | 0xFF00..=0xFF65 => 60, // East Asian punctuation and full-width forms
        0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x3FFFF => 75, // Han
        0x1F000..=0x1FAFF => 150,              // Emoji and pictographs
        _ => 50,
    };
    Some(weight)
}
