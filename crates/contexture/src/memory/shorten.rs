//! Making texts shorter: by a language model when one is configured, else by
//! their most telling sentences.

use contexture_core::{Counts, Tokens};
use contexture_recall::{query_keywords, shorten};

use crate::engine::Engine;

/// Makes a text shorter: at most so many tokens.
pub(crate) type Shortener<'e> = Box<dyn Fn(&str, Tokens) -> Option<String> + 'e>;

impl Engine {
    /// Returns what asks a language model for summaries, when one is
    /// configured.
    pub(crate) fn shortener(&self) -> Option<Shortener<'_>> {
        let config = &self.config.summariser;
        if config.is_extractive() {
            return None;
        }
        Some(Box::new(|text, most| {
            crate::compaction::shorten_with_model(config, text, most)
        }))
    }

    /// Returns a text in at most so many tokens.
    pub(crate) fn shorten(&self, text: &str, query: &str, most: Tokens, counts: &Counts) -> String {
        let fits = |text: &str| counts.counter().count(text) <= most;
        if fits(text) {
            return text.to_owned();
        }
        let summary = self.shortener().and_then(|shorten| shorten(text, most));
        if let Some(summary) = summary.filter(|summary| fits(summary)) {
            return summary;
        }
        let terms: Vec<u32> = query_keywords(query).iter().map(|k| k.id).collect();
        shorten(text, &terms, &mut |text| fits(text)).unwrap_or_default()
    }
}
